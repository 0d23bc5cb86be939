# SPDX-License-Identifier: Apache-2.0
"""The one-way dependencies of docs/ARCHITECTURE.md."""
import os
import re

import lintlib

CHECK = "includes follow the direction that docs/ARCHITECTURE.md draws"

# Where a folder may include from, besides itself and system headers. A folder's own parts are
# listed longest first, so that interpose/trace is not taken for interpose.
MAY_INCLUDE = {
    "interpose/trace": [],
    "interpose/rules": [],
    "interpose/core": ["interpose/rules", "interpose/trace"],
    "interpose/fabric": ["interpose/core", "interpose/trace"],
    "interpose/profiler": ["interpose/core", "interpose/trace"],
    "interpose/watch": ["interpose/core", "interpose/rules", "interpose/trace", "references"],
    "interpose/wrap": ["interpose/core", "interpose/fabric", "interpose/profiler",
                       "interpose/trace"],
    "interpose/probe": [],
    "interpose/gen": ["interpose"],
    "interpose/api": [],
    "references": [],
    "analyzer": ["interpose/rules", "interpose/trace", "references"],
    "tools": ["interpose/trace", "references"],
    "examples": [],
}
REFERENCES_ALLOWED = {"findings.def"}
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')

BAD = [
    {"interpose/trace/t.c": '#include "record.h"\n', "interpose/core/record.h": ""},
    {"analyzer/a.c": '#include "record.h"\n', "interpose/core/record.h": ""},
    {"interpose/core/c.c": '#include "model.h"\n', "analyzer/model.h": ""},
    {"tools/run/r.c": '#include "../../tests/support/s.h"\n', "tests/support/s.h": ""},
    {"analyzer/a.c": '#include "secret.h"\n', "references/secret.h": ""},
    {"analyzer/a.c": '#include "nowhere.h"\n'},
]
GOOD = {
    "interpose/trace/t.h": "",
    "interpose/core/c.c": '#include "t.h"\n#include <stdio.h>\n',
    "analyzer/a.c": '#include "t.h"\n#include "detect/d.h"\n#include "findings.def"\n',
    "analyzer/detect/d.h": '#include "../model.h"\n',
    "analyzer/model.h": "",
    "references/findings.def": "",
    "tests/x.c": '#include "t.h"\n#include "d.h"\n',
}


def component(path):
    for folder in sorted(MAY_INCLUDE, key=len, reverse=True):
        if path.startswith(folder + "/"):
            return folder
    return None


def targets(path, name, everything):
    """Files that an include of this name may mean: beside the file, else by the path's end."""
    near = os.path.normpath(os.path.join(os.path.dirname(path), name))
    if near in everything:
        return [near]
    name = os.path.normpath(name)
    while name.startswith("../"):
        name = name[3:]
    return [f for f in everything if f == name or f.endswith("/" + name)]


def allowed(home, target):
    if target.startswith(home + "/"):
        return True
    if target.startswith("references/"):
        return "references" in MAY_INCLUDE[home] and os.path.basename(target) in REFERENCES_ALLOWED
    return any(target.startswith(folder + "/") for folder in MAY_INCLUDE[home])


def generated(name, root):
    """Headers the build makes; they are named in a meson.build."""
    return any(os.path.basename(name) in (lintlib.read(root, path) or "")
               for path in lintlib.files(root, "meson.build"))


def check(root):
    everything = lintlib.files(root)
    for path in everything:
        home = component(path)
        if not home or not path.endswith((".c", ".h", ".S", ".in")):
            continue
        for number, line in lintlib.numbered(root, path):
            match = INCLUDE.match(line)
            if not match:
                continue
            found = targets(path, match[1], everything)
            if not found and not generated(match[1], root):
                yield f"{path}:{number}: {match[1]} is nowhere in the tree"
            elif found and not any(allowed(home, target) for target in found):
                yield f"{path}:{number}: {home} must not include {found[0]}"


lintlib.run(__name__)
