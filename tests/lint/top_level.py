# SPDX-License-Identifier: Apache-2.0
"""The top of the tree is the first thing a newcomer sees."""
import lintlib

CHECK = "the top level holds what docs/ARCHITECTURE.md lists and nothing else"

FOLDERS = {"interpose", "analyzer", "tools", "references", "tests", "examples", "docs"}
FILES = {"meson.build", "meson_options.txt", "build-dev.ini", "README.md", "CHANGELOG.md",
         "CONTRIBUTING.md", "LICENSE"}

BAD = [{"src/a.c": ""}, {"notes.txt": ""}]
GOOD = {"interpose/a.c": "", "meson.build": "", ".ci/run": "", ".clang-format": ""}


def check(root):
    for path in lintlib.files(root):
        first, _, rest = path.partition("/")
        if first.startswith("."):
            continue
        if first not in (FOLDERS if rest else FILES):
            yield f"{path}:1: not a place for this"


lintlib.run(__name__)
