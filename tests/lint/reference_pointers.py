# SPDX-License-Identifier: Apache-2.0
"""What a finding points at is there to be read at 3 a.m."""
import re

import lintlib

CHECK = "every finding of findings.def has a written section and allowed attributes"

LIST = "references/findings.def"
STRING = r'\s*"((?:[^"\\]|\\.)*)"\s*'
FINDING = re.compile(
    r"^NSPY_FINDING\(\s*(\w+)\s*,\s*(\d+)\s*," + STRING + "," + STRING + r",\s*(\d+)\s*," +
    STRING + "," + STRING + "," + STRING + r"\)", re.MULTILINE)
OWNERS = {"node", "fabric", "storage", "scheduler", "job-config", "application", "unknown"}
RESTARTS = {"helps", "helps-elsewhere", "useless"}
SECTION_LINES_MIN = 8

_ENTRY = 'NSPY_FINDING({}, 0, "title", "{}", {}, "{}", "helps", "do this")\n'
_PAGE = "# Page\n\n## 1. Section\n" + "text\n" * SECTION_LINES_MIN
GOOD = {LIST: _ENTRY.format("A", "a.md", 1, "node"), "references/a.md": _PAGE}
BAD = [
    {LIST: _ENTRY.format("A", "b.md", 1, "node"), "references/a.md": _PAGE},
    {LIST: _ENTRY.format("A", "a.md", 2, "node"), "references/a.md": _PAGE},
    {LIST: _ENTRY.format("A", "a.md", 1, "nobody"), "references/a.md": _PAGE},
    {LIST: _ENTRY.format("A", "a.md", 1, "node") * 2, "references/a.md": _PAGE},
    {LIST: _ENTRY.format("A", "a.md", 1, "node"), "references/a.md": "## 1. Section\nshort\n"},
    {LIST: "NSPY_FINDING(A, nonsense)\n", "references/a.md": _PAGE},
]


def section_lines(text, number):
    """Lines that are not empty in section `number`; -1 if it is not there."""
    match = re.search(rf"^## {number}\. \S.*$", text, re.MULTILINE)
    if not match:
        return -1
    body = re.split(r"^## ", text[match.end():], maxsplit=1, flags=re.MULTILINE)[0]
    return sum(1 for line in body.splitlines() if line.strip())


def check(root):
    text = lintlib.read(root, LIST) or ""
    found = FINDING.findall(text)
    written = len(re.findall(r"^NSPY_FINDING\(", text, re.MULTILINE))
    if not found or len(found) != written:
        yield f"{LIST}:1: {written} entries, {len(found)} of them well formed"
    seen = set()
    for name, priority, _, page, section, owner, restart, _ in found:
        if name in seen:
            yield f"{LIST}:1: {name} is there twice"
        seen.add(name)
        if int(priority) > 2 or owner not in OWNERS or restart not in RESTARTS:
            yield f"{LIST}:1: {name}: priority {priority}, owner {owner}, restart {restart}"
        lines = section_lines(lintlib.read(root, f"references/{page}") or "", section)
        if lines < 0:
            yield f"references/{page}:1: no section {section} for {name}"
        elif lines < SECTION_LINES_MIN:
            yield f"references/{page}:1: section {section} ({name}) says next to nothing"


lintlib.run(__name__)
