# SPDX-License-Identifier: Apache-2.0
"""A promise that names a test which does not exist is no promise."""
import fnmatch
import json
import os
import re

import lintlib

CHECK = "every test that README.md names (as `suite / name`) exists in the build"

NAMED = re.compile(r"`([a-z]+) / ([^`]+)`")
TESTS = "meson-info/intro-tests.json"

_TESTS = '[{"name": "inert programs", "suite": ["ncclspy:integration"]}]'
GOOD = {"README.md": "| x | `integration / inert *` |\n", "build/" + TESTS: _TESTS}
BAD = [{"README.md": "| x | `integration / gone` |\n", "build/" + TESTS: _TESTS},
       {"README.md": "| x | `unit / inert *` |\n", "build/" + TESTS: _TESTS},
       {"README.md": "no promise\n", "build/" + TESTS: _TESTS}]


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
    named = 0
    for number, line in lintlib.numbered(root, "README.md"):
        for suite, pattern in NAMED.findall(line):
            named += 1
            if not fnmatch.filter(known.get(suite, []), pattern):
                yield f"README.md:{number}: no test {suite} / {pattern}"
    if not named:
        yield "README.md:1: no promise names a test"


lintlib.run(__name__)
