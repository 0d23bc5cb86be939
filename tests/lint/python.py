# SPDX-License-Identifier: Apache-2.0
"""Python here needs the standard library only: clusters are offline."""
import ast
import os
import sys

import lintlib

CHECK = "Python files parse on 3.8 and later and import the standard library or their neighbours"

# Used by one test, or an example, if it is installed; the test says otherwise that it is skipped.
OPTIONAL = {"jsonschema", "kubernetes_validate", "yaml", "duckdb"}
# sys.stdlib_module_names is of 3.10; before that the check is left to a newer Python.
STANDARD = getattr(sys, "stdlib_module_names", None)

BAD = [{"a.py": "import numpy\n"}, {"a.py": "def f(:\n"}]
GOOD = {"a.py": "import os, json\nimport b\nfrom . import c\n", "b.py": "", "c.py": ""}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module.partition(".")[0]


def check(root):
    everything = lintlib.files(root, ".py")
    own = {os.path.splitext(os.path.basename(path))[0] for path in everything}
    own |= {part for path in everything for part in path.split("/")[:-1]}
    for path in everything:
        try:
            tree = ast.parse(lintlib.read(root, path) or "", path, feature_version=(3, 8))
        except SyntaxError as error:
            yield f"{path}:{error.lineno}: {error.msg}"
            continue
        for line, name in imported(tree):
            if STANDARD and name not in STANDARD and name not in own | OPTIONAL:
                yield f"{path}:{line}: {name} is not in the standard library"


lintlib.run(__name__)
