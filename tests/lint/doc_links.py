# SPDX-License-Identifier: Apache-2.0
"""Documents point at files and headings that exist."""
import os
import re

import lintlib

CHECK = "links and paths in Markdown lead to files and headings of this tree"

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TICKED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:\.ci|docs|tools|tests|interpose|analyzer|references|examples)/[\w./-]*")

_REST = {"docs/B.md": "# Two words\n", "tools/x.sh": "#!/bin/sh\n"}
GOOD = dict(_REST, **{
    "A.md": "[b](docs/B.md#two-words) `tools/x.sh demo` `tests/*.c` [w](https://example.org/x)\n"})
BAD = [dict(_REST, **{"A.md": text}) for text in
       ("[b](docs/C.md)\n", "[b](docs/B.md#three)\n", "run `tools/y.sh`\n")]


def anchors(text):
    """Headings as GitHub makes anchors of them."""
    for line in text.splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip().lower()
            yield re.sub(r"[^\w\- ]", "", title).replace(" ", "-")


def bad_link(root, path, target):
    if re.match(r"[a-z]+:", target):
        return False
    name, _, anchor = target.partition("#")
    full = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    if not os.path.exists(os.path.join(root, full)):
        return True
    return bool(anchor) and anchor not in anchors(lintlib.read(root, full) or "")


def bad_path(root, path, ticked):
    for word in ticked.split():
        match = PATH.match(word)
        if not match or match.end() != len(word.rstrip(":,;")):
            continue
        if not any(os.path.exists(os.path.join(root, folder, match[0]))
                   for folder in ("", os.path.dirname(path))):
            return True
    return False


def check(root):
    for path in lintlib.files(root, ".md"):
        for number, line in lintlib.numbered(root, path):
            for target in LINK.findall(TICKED.sub("", line)):
                if bad_link(root, path, target):
                    yield f"{path}:{number}: {target} does not lead anywhere"
            for ticked in TICKED.findall(line):
                if bad_path(root, path, ticked):
                    yield f"{path}:{number}: {ticked} does not exist"


lintlib.run(__name__)
