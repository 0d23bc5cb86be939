# SPDX-License-Identifier: Apache-2.0
"""Shell scripts parse, and shellcheck has nothing to say where it is installed."""
import os
import shutil
import subprocess

import lintlib

CHECK = "shell scripts pass sh -n (or bash -n) and shellcheck"

BAD = {"a.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\nif true; then\n"}
GOOD = {"a.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\nif true; then :; fi\n",
        "b": "no script\n"}


def shell_of(text):
    first = text.split("\n", 1)[0]
    if not first.startswith("#!"):
        return None
    words = first[2:].replace("/usr/bin/env", "").split()
    name = os.path.basename(words[0]) if words else ""
    return name if name in ("sh", "bash", "dash") else None


def complaints(command, path):
    result = subprocess.run(command + [path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False)
    return result.stdout.strip() if result.returncode else ""


def check(root):
    checker = shutil.which("shellcheck")
    for path in lintlib.files(root):
        text = lintlib.read(root, path)
        shell = shell_of(text) if text else None
        if not shell and path.endswith((".sh", ".bash")):
            shell = "bash" if path.endswith(".bash") else "sh"
        if not shell:
            continue
        full = os.path.join(root, path)
        problem = complaints([shell, "-n"], full)
        if not problem and checker:
            problem = complaints([checker, "--shell", shell, "--format=gcc"], full)
        if problem:
            yield f"{path}:1: {problem}"


lintlib.run(__name__)
