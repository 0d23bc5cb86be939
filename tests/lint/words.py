# SPDX-License-Identifier: Apache-2.0
"""Notes to oneself, names of a working place, and words that hurt do not belong in the tree."""
import re

import lintlib

CHECK = "no unfinished work is marked and no word stands where it has no place"

# Written in pieces, so that this file does not find itself.
UNFINISHED = ["TO" "DO", "FIX" "ME", "X" "XX", "place" "holder", "not " "implemented yet", "T" "BD",
              "lorem " "ipsum", "HA" "CK"]
PLACES = [r"(?<![\w}])/wo" "rk/", r"\.\./sha" "red", "/ho" "me/[a-z]", "/ro" "ot/"]
HURTFUL = ["black" "list", "white" "list", r"\bsla" "ve", "dum" "my", "san" "ity check", "cr" "azy",
           "stu" "pid"]
CASE_MATTERS = {"TO" "DO", "FIX" "ME", "X" "XX", "T" "BD", "HA" "CK"}

BAD = [{"a.c": f"/* {word}: later */\n"} for word in UNFINISHED] + [
    {"docs/A.md": "see /wo" "rk/x\n"},
    {"README.md": "the white" "list\n"},
]
GOOD = {"a.c": "/* remember the xxhash of tbdata */\n", "LICENSE": "hacking is fine\n"}


def patterns():
    for word in UNFINISHED:
        flags = 0 if word in CASE_MATTERS else re.IGNORECASE
        yield word, re.compile(r"\b" + word + r"\b", flags)
    for word in PLACES:
        yield word, re.compile(word)
    for word in HURTFUL:
        yield word, re.compile(word, re.IGNORECASE)


def check(root):
    wanted = list(patterns())
    for path in lintlib.files(root):
        if path == "LICENSE":
            continue
        for number, line in lintlib.numbered(root, path):
            for word, pattern in wanted:
                if pattern.search(line):
                    yield f"{path}:{number}: {word}"


lintlib.run(__name__)
