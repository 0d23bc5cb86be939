# SPDX-License-Identifier: Apache-2.0
"""Help, man page and shell completions know the same options as the program."""
import re

import lintlib

CHECK = "every long option is in help, man page and completions; every command has completions for bash, zsh and fish"

# Sources with the option tables -> man page. The completions are named after the program.
PROGRAMS = {
    "ncclspy-run": ("tools/run/", "docs/man/ncclspy-run.1.scd"),
    "ncclspy-snapshot": ("tools/snapshot/", "docs/man/ncclspy-snapshot.1.scd"),
    "ncclspy-stacks": ("tools/stacks/", "docs/man/ncclspy-stacks.1.scd"),
    "ncclspy-top": ("tools/top/", "docs/man/ncclspy-top.1.scd"),
    "ncclspy-analyze": ("analyzer/", "docs/man/ncclspy-analyze.1.scd"),
    "ncclspy-clean": ("tools/clean/ncclspy-clean", "docs/man/ncclspy-clean.1.scd"),
    "ncclspy-collect": ("tools/collect/ncclspy-collect", "docs/man/ncclspy-collect.1.scd"),
}
COMPLETIONS = ["tools/completions/bash/{}", "tools/completions/zsh/_{}",
               "tools/completions/fish/{}.fish"]
# Used by the program on itself.
HIDDEN = {"probe"}
TABLE_LINE = re.compile(r'\{[\s\\]*"([a-z][a-z0-9-]+)",\s*(?:no|required|optional)_argument\b')
# Of a shell script: the branches of its parser.
BRANCH = re.compile(r"(?<![\w'\"-])--([a-z][a-z0-9-]+)(?= \||\))")
# Bold is this project's; examples show other programs' options in plain text.
DESCRIBED = re.compile(r"\*--([a-z][a-z0-9-]+)\*")

_FULL = {
    "tools/run/main.c": '{"output", required_argument, NULL, \'o\'},\n"--output DIR"\n',
    "docs/man/ncclspy-run.1.scd": "*-o*, *--output* _DIR_\n",
    "tools/completions/bash/ncclspy-run": "--output\n",
    "tools/completions/zsh/_ncclspy-run": "--output\n",
    "tools/completions/fish/ncclspy-run.fish": "complete -l output\n",
}
_SHELL = {
    "tools/collect/ncclspy-collect": "    --tar         pack it\n    case $1 in\n    -t | --tar) TAR=1 ;;\n",
    "docs/man/ncclspy-collect.1.scd": "*--tar*\n",
    "tools/completions/bash/ncclspy-collect": "--tar\n",
    "tools/completions/zsh/_ncclspy-collect": "--tar\n",
    "tools/completions/fish/ncclspy-collect.fish": "complete -l tar\n",
}
# A command without a table of options.
_PLAIN = dict({"docs/man/ncclspy-plain.1.scd": "*ncclspy-plain*\n"},
              **{pattern.format("ncclspy-plain"): "ncclspy-plain\n" for pattern in COMPLETIONS})
GOOD = dict(_FULL, **_SHELL, **_PLAIN)
BAD = [dict(_FULL, **{path: "nothing\n"}) for path in _FULL if path != "tools/run/main.c"] + [
    dict(_SHELL, **{path: "nothing\n"}) for path in _SHELL if path != "tools/collect/ncclspy-collect"] + [
    {path: text for path, text in _PLAIN.items() if path != pattern.format("ncclspy-plain")}
    for pattern in COMPLETIONS] + [
    dict(_FULL, **{"tools/run/main.c": '{"output", required_argument, NULL, 0},\n'}),
    dict(_FULL, **{"docs/man/ncclspy-run.1.scd": "*--output* *--gone*\n"}),
]


def table(root, folder):
    """Options of the tables and the text of all the program's sources."""
    options, text = set(), ""
    if not folder.endswith("/"):
        text = lintlib.read(root, folder) or ""
        return set(BRANCH.findall(text)), text
    for path in lintlib.files(root, ".c", ".h"):
        if path.startswith(folder):
            text += lintlib.read(root, path) or ""
    options.update(TABLE_LINE.findall(text))
    return options - HIDDEN, text


def mentions(text, option):
    return re.search(r"(?<![\w-])--" + re.escape(option) + r"(?![\w-])", text) or \
        re.search(r"-l\s+" + re.escape(option) + r"(?![\w-])", text)


def without_completions(root):
    for man in lintlib.files(root, ".1.scd"):
        command = man.rpartition("/")[2][:-len(".1.scd")]
        for pattern in COMPLETIONS:
            if lintlib.read(root, pattern.format(command)) is None:
                yield f"{pattern.format(command)}: missing, though there is {man}"


def check(root):
    yield from without_completions(root)
    every = set()
    for folder, _ in PROGRAMS.values():
        every |= table(root, folder)[0]
    for program, (folder, man) in PROGRAMS.items():
        options, sources = table(root, folder)
        if not options:
            continue
        places = {folder + " (help)": sources, man: lintlib.read(root, man) or ""}
        for pattern in COMPLETIONS:
            path = pattern.format(program)
            places[path] = lintlib.read(root, path) or ""
        for option in sorted(options):
            for place, text in places.items():
                if not mentions(text, option):
                    yield f"{place}: --{option} of {program} is missing"
        for option in sorted(set(DESCRIBED.findall(places[man])) - every):
            yield f"{man}: there is no --{option}"


lintlib.run(__name__)
