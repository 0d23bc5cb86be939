#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the page's style sheet and scripts into a C file.

usage: embed_page.py OUTPUT.c CHART_JS|'' STYLE.css SCRIPT.js...

The page's content security policy names the hashes of exactly these scripts and this style sheet:
whatever else gets into a page, it does not run. CHART_JS is Chart.js as distributions ship it; its
banner, which names its authors and license, stays in the page.
"""

import base64
import hashlib
import re
import sys
from pathlib import Path

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<style>{style}</style>
<title>"""


def hashed(text):
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "'sha256-" + base64.b64encode(digest).decode("ascii") + "'"


def read(path):
    text = Path(path).read_text(encoding="utf-8").replace("\r\n", "\n")
    if re.search(r"</(script|style)|<!--", text, re.IGNORECASE):
        sys.exit(f"{path}: would end the element that it is put into")
    return text


def array(name, text):
    data = text.encode("utf-8")
    yield f"const unsigned char {name}[] = {{"
    for at in range(0, len(data), 32):
        yield "\t" + ",".join(str(byte) for byte in data[at:at + 32]) + ","
    yield "};"
    yield f"const unsigned int {name}_bytes = {len(data)};"


def main():
    output, chart, style, *ours = sys.argv[1:]
    style = read(style)
    scripts = ["\n".join(read(path) for path in ours)]
    charts = ""
    if chart:
        scripts.insert(0, read(chart))
        version = re.search(r"Chart\.js v([\d.]+)", scripts[0])
        if not version or not version.group(1).startswith("3."):
            sys.exit(f"{chart}: is no Chart.js 3")
        charts = "Chart.js " + version.group(1)
    policy = ("default-src 'none'; base-uri 'none'; form-action 'none'; script-src "
              + " ".join(map(hashed, scripts)) + "; style-src " + hashed(style))
    tail = "".join(f"<script>{text}</script>\n" for text in scripts) + "</body>\n</html>\n"
    out = ["/* Made by embed_page.py. */", '#include "html/page.h"', "",
           f'const char nspy_page_charts[] = "{charts}";',
           *array("nspy_page_head", HEAD.format(policy=policy, style=style)),
           *array("nspy_page_tail", tail)]
    Path(output).write_text("\n".join(out) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
