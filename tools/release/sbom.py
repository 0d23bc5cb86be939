#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: sbom.py TREE VERSION ARCH: what is in a release, as SPDX 2.3 JSON on standard output.

Source of facts: the SPDX specification 2.3. Versions of what is linked in are those of the
distribution's packages that were installed when the release was made."""
import datetime
import hashlib
import json
import os
import subprocess
import sys

# Name, package it was taken from, licence, what it is part of.
PARTS = [
    ("zstd", "libzstd-dev", "BSD-3-Clause", "libncclspy.so, ncclspy-analyze"),
    ("xxHash", "libxxhash-dev", "BSD-2-Clause", "libncclspy.so, the tools"),
    ("zlib", "zlib1g-dev", "Zlib", "ncclspy-analyze"),
    ("cJSON", "libcjson-dev", "MIT", "the tools"),
    ("libunwind", "libunwind-dev", "MIT", "ncclspy-stacks"),
    ("liblzma", "liblzma-dev", "0BSD", "ncclspy-stacks"),
    ("Chart.js", "libjs-chart.js", "MIT", "pages that ncclspy-analyze writes"),
]


def version_of(package):
    return subprocess.run(["dpkg-query", "-W", "-f=${Version}\\n", package], capture_output=True,
                          text=True, check=True).stdout.splitlines()[0]


def package(name, version, licence, comment):
    return {"SPDXID": "SPDXRef-" + name.replace(".", "-"), "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION", "comment": comment}


def files(tree):
    paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(tree) for name in names)
    for number, path in enumerate(paths):
        with open(path, "rb") as f:
            data = f.read()
        yield {"SPDXID": f"SPDXRef-File-{number}", "fileName": "./" + os.path.relpath(path, tree),
               "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
                             {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}],
               "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"}


def main():
    tree, version, arch = sys.argv[1:4]
    made = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    name = f"ncclspy-{version}-linux-{arch}"
    listed = list(files(tree))
    digest = hashlib.sha256("".join(f["checksums"][1]["checksumValue"] for f in listed).encode()).hexdigest()
    own = package("ncclspy", version, "Apache-2.0", "the product")
    own["primaryPackagePurpose"] = "APPLICATION"
    parts = [package(part, version_of(origin), licence, "linked into " + where)
             for part, origin, licence, where in PARTS]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])]
    relations += [(own["SPDXID"], "CONTAINS", f["SPDXID"]) for f in listed]
    relations += [(own["SPDXID"], "DEPENDS_ON", p["SPDXID"]) for p in parts]
    json.dump({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{digest[:32]}",
        "creationInfo": {"created": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Tool: ncclspy-release"]},
        "packages": [own] + parts, "files": listed,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                          for a, kind, b in relations],
    }, sys.stdout, indent=1, sort_keys=True)
    print()


main()
