#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the reference section of each finding into a C file.

usage: embed_references.py FINDINGS_DEF OUTPUT.c

Fails if a finding points at a page or heading that does not exist: a finding without an
explanation must not ship.
"""

import re
import sys
from pathlib import Path

ENTRY = re.compile(r'NSPY_FINDING\(\s*(\w+)\s*,\s*(\d)\s*,((?:\s*"[^"]*")+)\s*,\s*"([^"]+)"\s*,'
                   r'\s*(\d+)\s*,')
HEADING = re.compile(r"^## (\d+)\. ")
# Pages that are no finding's: each of their sections can be asked for as PAGE.NUMBER.
TOPICS = ["guide", "error-patterns", "performance", "operations", "escalation"]


def findings(text):
    """(id, page, section) of each catalogue entry."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = [(m.group(1), m.group(4), int(m.group(5))) for m in ENTRY.finditer(code)]
    if len(found) != code.count("NSPY_FINDING("):
        sys.exit("findings.def: an entry cannot be read")
    return found


def section(page, number):
    """The text of '## number. ...' in the page, heading included, or None."""
    lines, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        heading = HEADING.match(line)
        if heading or line.startswith("# "):
            inside = bool(heading) and int(heading.group(1)) == number
        if inside:
            lines.append(line)
    return "\n".join(lines).strip() if lines else None


def quoted(text):
    """text as C string literals, one per line."""
    for line in text.splitlines():
        escaped = line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
        yield f'\t\t"{escaped}\\n"'


def command(text):
    """The suggested command of a section: the first indented block behind its heading."""
    lines = []
    for line in text.partition("**Suggested command**")[2].splitlines()[1:]:
        if line.startswith("    "):
            lines.append(line.strip())
        elif lines:
            break
    return "\n".join(lines)


def topics(folder):
    """The table of sections, in C."""
    yield "const struct nspy_topic nspy_topics[] = {"
    for name in TOPICS:
        page = folder / (name + ".md")
        for line in page.read_text(encoding="utf-8").splitlines():
            heading = HEADING.match(line)
            if heading:
                number = int(heading.group(1))
                title = line[heading.end():].replace("\\", "\\\\").replace('"', '\\"')
                yield f'\t{{"{name}.{number}", "{title}",'
                yield from quoted(section(page, number))
                yield "\t},"
    yield "\t{0},"
    yield "};"


def main():
    definition, output = Path(sys.argv[1]), Path(sys.argv[2])
    out = ["/* Made by embed_references.py. */", '#include "explain.h"', "",
           "const char *const nspy_explain_text[NSPY_FINDING_COUNT] = {"]
    for name, page, number in findings(definition.read_text(encoding="utf-8")):
        path = definition.parent / page
        text = section(path, number) if path.exists() else None
        if text is None:
            sys.exit(f"findings.def: {name} points at {page} § {number}, which does not exist")
        out.append(f"\t[NSPY_FINDING_{name}] =")
        out.extend(quoted(text))
        out[-1] += ","
    out.append("};")
    out.append("const char *const nspy_explain_command[NSPY_FINDING_COUNT] = {")
    for name, page, number in findings(definition.read_text(encoding="utf-8")):
        out.append(f"\t[NSPY_FINDING_{name}] =")
        out.extend(list(quoted(command(section(definition.parent / page, number)))) or ['\t\t""'])
        out[-1] += ","
    out.append("};")
    out.extend(topics(definition.parent))
    output.write_text("\n".join(out) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
