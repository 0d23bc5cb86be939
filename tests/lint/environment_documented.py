# SPDX-License-Identifier: Apache-2.0
"""The environment variables: one list, and documents that agree with it."""
import re

import lintlib

CHECK = "every variable of ours is documented, and no document names one that does not exist"

LIST = "interpose/core/env.def"
DOCUMENTS = ["docs/ENVIRONMENT.md", "docs/man/ncclspy.7.scd"]
# The programs read some of their own.
READ = re.compile(r'getenv\("(NCCLSPY\w*)"\)')
DECLARED = re.compile(r"^NSPY_ENV\((NCCLSPY\w*)", re.MULTILINE)
USED = re.compile(r"(?<![\w$])NCCLSPY(?:_[A-Z0-9_]*[A-Z0-9])?(?![\w.-])")
READERS = (".md", ".scd", ".sh", ".yaml", ".sbatch")

_FULL = {
    LIST: 'NSPY_ENV(NCCLSPY, switch, 1, 0, 1, "x")\nNSPY_ENV(NCCLSPY_DIR, text, "", 0, 0, "y")\n',
    "docs/ENVIRONMENT.md": "NCCLSPY NCCLSPY_DIR\n",
    "docs/man/ncclspy.7.scd": "*NCCLSPY*\n*NCCLSPY_DIR*\n",
}
GOOD = dict(_FULL, **{"README.md": "NCCLSPY=0 and NCCLSPY_DIR, NCCLSPY_* in general\n"})
BAD = [
    dict(_FULL, **{"docs/ENVIRONMENT.md": "NCCLSPY\n"}),
    dict(_FULL, **{"docs/man/ncclspy.7.scd": "*NCCLSPY*\n*NCCLSPY_DIRS*\n"}),
    dict(_FULL, **{"README.md": "set NCCLSPY_GONE=1\n"}),
    dict(_FULL, **{"analyzer/a.c": 'getenv("NCCLSPY_NEW")'}),
]


def check(root):
    declared = DECLARED.findall(lintlib.read(root, LIST) or "")
    if not declared:
        yield f"{LIST}:1: no NSPY_ENV line"
    for path in lintlib.files(root, ".c"):
        if path.startswith(("analyzer/", "tools/")):
            declared += READ.findall(lintlib.read(root, path) or "")
    for document in DOCUMENTS:
        named = set(USED.findall(lintlib.read(root, document) or ""))
        for name in sorted(set(declared)):
            if name not in named:
                yield f"{document}:1: {name} is missing"
    for path in lintlib.files(root, *READERS):
        if path.startswith("interpose/") or path.startswith("tests/"):
            continue
        for number, line in lintlib.numbered(root, path):
            for name in USED.findall(line):
                if name not in declared:
                    yield f"{path}:{number}: {name} is read by nobody"


lintlib.run(__name__)
