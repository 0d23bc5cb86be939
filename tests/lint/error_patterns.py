# SPDX-License-Identifier: Apache-2.0
"""references/error-patterns.md has a line for each text that the log reader knows.

Written with: python3 tests/lint/error_patterns.py --write
"""
import os
import re
import sys

import lintlib

CHECK = "the quick reference of error texts is what analyzer/logs/rules.def knows"

RULES, PAGE = "analyzer/logs/rules.def", "references/error-patterns.md"
MARK = "<!-- made from analyzer/logs/rules.def -->\n"
STRING = r'\s*"((?:[^"\\]|\\.)*)"\s*'
RULE = re.compile(r"^NSPY_LOG_RULE\((\w+),\s*(\w+),\s*(\w+),\s*(\d),((?:" + STRING + r",){5})" + STRING + r"\)",
                  re.MULTILINE)
CLASSES = {"CAUSE": "cause", "SYMPTOM": "symptom", "EFFECT": "effect of trouble elsewhere", "NOISE": "harmless"}
MAKERS = {"N": "NCCL ", "O": "aws-ofi-nccl ", "L": "libfabric "}

_RULE = 'NSPY_LOG_RULE(A, CAUSE, XX, 0, "N2.18", "", "it broke", "", "", "something broke")\n'
_PAGE = (MARK + "\n| text | printed by | what it is | finding |\n|---|---|---|---|\n"
         "| `it broke` | NCCL 2.18 on | cause: something broke | XX |\n")
GOOD = {RULES: _RULE, PAGE: "# Page\n\n" + _PAGE}
BAD = [{RULES: _RULE, PAGE: "# Page\n\n" + MARK}, {RULES: _RULE.replace("something", "all"), PAGE: _PAGE},
       {RULES: _RULE}]


def plain(text):
    return text.replace('\\"', '"').replace("\\\\", "\\").replace("|", "\\|").strip()


def version(text):
    return MAKERS.get(text[:1], "") + text[1:] if re.match(r"[NOL]\d", text) else text


def printed(since, until):
    first, last = version(since), version(until)
    if first and last:
        return f"{first} to {until[1:] if re.match(r'[NOL]', until) else last}"
    if last:
        return f"until {last}"
    return first + (" on" if re.match(r"[NOL]\d", since) else "")


def table(root):
    """The rows, in the order of the rules."""
    rows = ["", "| text | printed by | what it is | finding |", "|---|---|---|---|"]
    for match in RULE.finditer(lintlib.read(root, RULES) or ""):
        kind, finding, meaning = match.group(2), match.group(3), match.group(match.lastindex)
        since, until, fragment, also, _ = re.findall(STRING, match.group(5))
        if kind not in CLASSES:
            continue
        text = f"`{plain(fragment)}`" + (f" with `{plain(also)}`" if also else "")
        rows.append(f"| {text} | {printed(since, until)} | {CLASSES[kind]}: {plain(meaning)} | "
                    f"{'-' if finding == 'NONE' else finding} |")
    return "\n".join(rows) + "\n"


def check(root):
    page = lintlib.read(root, PAGE) or ""
    before, mark, after = page.partition(MARK)
    if not mark or after != table(root):
        yield f"{PAGE}:1: not what {RULES} says; run tests/lint/error_patterns.py --write"


def write(root):
    path = os.path.join(root, PAGE)
    with open(path, encoding="utf-8") as f:
        before = f.read().partition(MARK)[0]
    with open(path, "w", encoding="utf-8") as f:
        f.write(before + MARK + table(root))


if sys.argv[1:] == ["--write"]:
    write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
else:
    lintlib.run(__name__)
