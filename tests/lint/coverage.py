# SPDX-License-Identifier: Apache-2.0
"""docs/COVERAGE.md tells the truth: findings exist, and are made where it says."""
import re

import lintlib

CHECK = "every row of docs/COVERAGE.md names a finding that its source can make, or a reason"

PAGE, LIST = "docs/COVERAGE.md", "references/findings.def"
# Rows of each group in the two skills.
ROWS = {"A": 27, "B": 30, "C": 10, "D": 12, "E": 21, "F": 15, "G": 16, "H": 12, "I": 4, "J": 20}
ADVICE = "advice only"
# Where the code of a source makes findings: the id stands there in one form or another.
SOURCES = {
    "in-process": ("interpose/", "analyzer/detect/"),
    "cross-rank": ("analyzer/detect/", "interpose/watch/"),
    "logs": ("analyzer/logs/", "analyzer/foreign/"),
    "host": ("tools/snapshot/",),
    "bundle": ("analyzer/bundle/",),
}
ROW = re.compile(r"^\| ([A-Z])(\d+) \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)


def _page(first="| A1 | x | XX | host |"):
    rows = [f"| {letter}{n} | x | advice only | because it is so |"
            for letter, count in ROWS.items() for n in range(1, count + 1)]
    rows[0] = first
    return "\n".join(rows) + "\n"


_TREE = {LIST: 'NSPY_FINDING(XX, 0, "t", "a.md", 1, "node", "helps", "do")\n',
         "tools/snapshot/a.c": '"XX"\n', PAGE: _page()}
GOOD = _TREE
BAD = [dict(_TREE, **{PAGE: _page(row)}) for row in (
    "| A1 | x | YY | host |", "| A1 | x | XX | logs |", "| A1 | x | advice only | |",
    "| A1 | x | XX | somewhere |", "| A9 | x | XX | host |")] + [{LIST: _TREE[LIST]}]


def check(root):
    known = set(re.findall(r"^NSPY_FINDING\(\s*(\w+)", lintlib.read(root, LIST) or "", re.MULTILINE))
    made = {source: "".join(lintlib.read(root, path) or "" for path in lintlib.files(root, ".c", ".h", ".def")
                            if path.startswith(folders))
            for source, folders in SOURCES.items()}
    rows = ROW.findall(lintlib.read(root, PAGE) or "")
    wanted = [(letter, n) for letter, count in ROWS.items() for n in range(1, count + 1)]
    if [(letter, int(n)) for letter, n, *_ in rows] != wanted:
        yield f"{PAGE}:1: rows are missing, twice there, or out of order"
    for letter, number, _, finding, source in rows:
        where = f"{PAGE}:1: {letter}{number}"
        if finding == ADVICE:
            if len(source.split()) < 3:
                yield f"{where}: no reason"
        elif finding not in known:
            yield f"{where}: there is no {finding}"
        elif source not in SOURCES:
            yield f"{where}: there is no source '{source}'"
        elif not re.search(rf"(?<![A-Z]){finding}(?![A-Z_])", made[source]):
            yield f"{where}: {source} never says {finding}"


lintlib.run(__name__)
