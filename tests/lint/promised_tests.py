# SPDX-License-Identifier: Apache-2.0
"""A promise that names a test which does not exist is no promise."""
import fnmatch
import json
import os
import re

import lintlib

CHECK = "every test that README.md and docs/DO_NO_HARM.md name (as `suite / name`) exists"

NAMED = re.compile(r"`([a-z]+) / ([^`]+)`")
HEADING = re.compile(r"\|-|\| (rule|harm) \|")
TESTS = "meson-info/intro-tests.json"

_TESTS = '[{"name": "inert programs", "suite": ["ncclspy:integration"]}]'
_ROWS = "| rule | tests |\n|---|---|\n| x | `integration / inert *` |\n"
GOOD = {"README.md": "| x | `integration / inert *` |\n", "docs/DO_NO_HARM.md": _ROWS,
        "build/" + TESTS: _TESTS}
BAD = [{"README.md": "| x | `integration / gone` |\n", "build/" + TESTS: _TESTS},
       {"README.md": "| x | `unit / inert *` |\n", "build/" + TESTS: _TESTS},
       {"README.md": "no promise\n", "build/" + TESTS: _TESTS},
       {**GOOD, "docs/DO_NO_HARM.md": _ROWS + "| y | `integration / gone` |\n"},
       {**GOOD, "docs/DO_NO_HARM.md": _ROWS + "| a rule without a test | |\n"}]


def known_tests(root):
    """suite -> names, as meson lists them; None without a build directory."""
    text = lintlib.read(os.environ.get("NSPY_BUILD") or os.path.join(root, "build"), TESTS)
    if text is None:
        return None
    known = {}
    for test in json.loads(text):
        for suite in test["suite"]:
            known.setdefault(suite.rpartition(":")[2], []).append(test["name"])
    return known


def check(root):
    known = known_tests(root)
    if known is None:
        return
    for path in ("README.md", "docs/DO_NO_HARM.md"):
        named = 0
        for number, line in lintlib.numbered(root, path):
            for suite, pattern in NAMED.findall(line):
                named += 1
                if not fnmatch.filter(known.get(suite, []), pattern):
                    yield f"{path}:{number}: no test {suite} / {pattern}"
        if not named:
            yield f"{path}:1: no promise names a test"
    for number, line in lintlib.numbered(root, "docs/DO_NO_HARM.md"):
        if line.startswith("|") and not HEADING.match(line) and not NAMED.search(line):
            yield f"docs/DO_NO_HARM.md:{number}: a row without a test"


lintlib.run(__name__)
