# SPDX-License-Identifier: Apache-2.0
"""Long files and functions hide structure."""
import re

import lintlib

CHECK = "sources have at most 600 lines, their functions at most 70"
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

ENDINGS = (".c", ".h", ".S", ".py", ".sh", ".api", ".in", ".build")
BAD = [
    {"a.c": "int x;\n" * 601},
    {"a.c": "int f(void)\n{\n" + "\tx++;\n" * 70 + "}\n"},
]
GOOD = {"a.c": "int f(void)\n{\n" + "\tx++;\n" * 68 + "}\n", "b.h": "int x;\n" * 600}


def functions(lines):
    """(line number, length) of each function body: kernel style, braces in column one."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{" and start is None:
            start = number
        elif re.match(r"}\s*(;|,)?$", line) and start is not None:
            yield start, number - start + 1
            start = None


def check(root):
    for path in lintlib.files(root, *ENDINGS):
        lines = (lintlib.read(root, path) or "").splitlines()
        if len(lines) > FILE_LINES_MAX:
            yield f"{path}:1: {len(lines)} lines"
        if path.endswith(".c"):
            for number, length in functions(lines):
                if length > FUNCTION_LINES_MAX:
                    yield f"{path}:{number}: function of {length} lines"


lintlib.run(__name__)
