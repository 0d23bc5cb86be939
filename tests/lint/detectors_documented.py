# SPDX-License-Identifier: Apache-2.0
"""Whoever reads a finding can judge its method: docs/DETECTORS.md has it, with false positives."""
import os
import re

import lintlib

CHECK = "every finding of a detector or rule has its method and false positives in docs/DETECTORS.md"

CATALOGUE = "references/findings.def"
PAGE = "docs/DETECTORS.md"
DETECTORS = "analyzer/detect/"
RULES = "interpose/rules/"
ID = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
# What a section says, in this or another form.
PARTS = ["Question:", "Evidence", "Threshold", "False positives:"]

_PAGE = """## A_A

Question: is it?
Evidence: calls. Threshold: none.
False positives: none known.

| finding | evidence | false positives |
|---|---|---|
| B_B, C_C | a fact | none known |
"""
_TREE = {
    CATALOGUE: 'NSPY_FINDING(A_A, 0, "x")\nNSPY_FINDING(B_B, 0, "x")\nNSPY_FINDING(C_C, 0, "x")\n',
    DETECTORS + "d_a.c": "nspy_findings_add(out, NSPY_FINDING_A_A);\n",
    RULES + "rules_b.c": 'say("B_B"); say("C_C"); say("NOT_ONE");\n',
    PAGE: _PAGE,
}
GOOD = _TREE
BAD = [dict(_TREE, **{PAGE: text}) for text in (
    "", _PAGE.replace("## A_A", "## A"), _PAGE.replace("False positives:", "Also:"),
    _PAGE.replace("Threshold", "Limit"), _PAGE.replace("B_B, C_C", "B_B"),
    _PAGE.replace("| none known |", "| |"))] + [
    dict(_TREE, **{PAGE: _PAGE + "\n## D_D\n\nQuestion: Evidence Threshold False positives:\n"})]


def catalogue(root):
    return set(re.findall(r"NSPY_FINDING\((\w+),", lintlib.read(root, CATALOGUE) or ""))


def emitted(root):
    """id -> the file that concludes it."""
    known, found = catalogue(root), {}
    for path in lintlib.files(root, ".c"):
        text = lintlib.read(root, path) or ""
        folder = os.path.dirname(path) + "/"
        if folder == DETECTORS:
            ids = re.findall(r"\bNSPY_FINDING_([A-Z][A-Z0-9_]+)\b", text)
        elif folder == RULES:
            ids = re.findall(r'"([A-Z][A-Z0-9_]+)"', text)
        else:
            continue
        for name in ids:
            if name in known:
                found.setdefault(name, path)
    return found


def documented(page):
    """id -> what its section or table row lacks."""
    missing = {}
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        heading, _, text = section.partition("\n")
        for name in ID.findall(heading):
            missing[name] = [part for part in PARTS if part not in text]
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| ") or len(cells) < 3:
            continue
        for name in ID.findall(cells[0]):
            missing.setdefault(name, [] if all(cells) else ["an empty cell"])
    return missing


def check(root):
    page, known = documented(lintlib.read(root, PAGE) or ""), catalogue(root)
    for name, path in sorted(emitted(root).items()):
        if name not in page:
            yield f"{PAGE}:1: {name} of {path} has neither a section nor a row"
        elif page[name]:
            yield f"{PAGE}:1: {name} lacks {', '.join(page[name])}"
    for name in sorted(set(page) - known):
        yield f"{PAGE}:1: {name} is no finding"


lintlib.run(__name__)
