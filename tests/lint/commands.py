# SPDX-License-Identifier: Apache-2.0
"""Suggested commands of the references can be run by a tired person."""
import re
import shutil
import subprocess

import lintlib

CHECK = "every suggested command parses, uses verbs that exist, and says what it needs and touches"

HEAD = re.compile(r"^\*\*Suggested command\*\*", re.MULTILINE)
PARTS = ("*Preconditions:*", "*Blast radius:*", "*Verify:*")
# Verbs that only read, as the tools' own manuals list them; a reference that needs another one
# says so in its blast radius, in words.
VERBS = {
    "kubectl": {"get", "describe", "logs", "exec", "top", "auth", "cp", "debug", "events"},
    "scontrol": {"show", "ping", "listpids"},
    "systemctl": {"status", "is-active", "show", "cat"},
    "timedatectl": {"status", "show"},
    "aws": {"sagemaker", "ec2", "fsx", "cloudwatch", "sts", "ecr", "logs"},
}
AWS_READS = ("describe-", "list-", "get-", "filter-")
PLACE = re.compile(r"<[A-Za-z][^<>|&;]*>")

_GOOD = ("## 1. XY: z\n\n**Suggested command** (run it)\n\n    kubectl get pods -n <ns>\n\n"
         "- *Preconditions:* none\n- *Blast radius:* none\n- *Verify:* it works\n")
GOOD = {"references/a.md": _GOOD}
BAD = [{"references/a.md": _GOOD.replace("kubectl get pods -n <ns>", line)} for line in (
    "kubectl get 'pods", "kubectl fetch pods", "scontrol update x", "aws ec2 delete-vpc",
    "aws nothing describe-x", "systemctl restart munge", "if true")] + [
    {"references/a.md": _GOOD.replace(part, "*Other:*")} for part in PARTS] + [
    {"references/a.md": _GOOD.replace("    kubectl get pods -n <ns>\n", "")},
    {"references/a.md": "## 1. XY: z\n\nno command\n"},
    {"references/a.md": _GOOD.replace("XY: z", "a guide").replace("get pods", "delete pods")}]


def words_of(command):
    """First words of each simple command in a line, quotes ignored."""
    for part in re.split(r"[|;&\n]+|\$\(", command):
        words = [w for w in part.split() if not re.match(r"^\w+=", w)]
        while words and words[0] in ("timeout", "sudo", "watch") or words and words[0].isdigit():
            words = words[1:]
        if words:
            yield words


def complaints(command):
    shell = shutil.which("sh")
    text = PLACE.sub("x", command)
    result = subprocess.run([shell, "-n", "-c", text], capture_output=True, text=True, check=False)
    if result.returncode:
        yield f"does not parse: {command}"
    for words in words_of(text):
        tool, verbs = words[0], VERBS.get(words[0])
        rest = [w for w in words[1:] if not w.startswith("-")]
        if verbs and not (rest and rest[0] in verbs):
            yield f"{tool}: no such verb, or not one that only reads: {command}"
        if tool == "aws" and not (len(rest) > 1 and rest[1].startswith(AWS_READS)):
            yield f"aws: not an operation that only reads: {command}"


def block(text):
    """Indented lines of the first code block."""
    lines = []
    for line in text.splitlines()[1:]:
        if line.startswith("    "):
            lines.append(line.strip())
        elif lines and line.strip():
            break
        elif line.startswith(("- ", "**")):
            break
    return lines


def check(root):
    for path in lintlib.files(root, ".md"):
        if not path.startswith("references/"):
            continue
        text = lintlib.read(root, path) or ""
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
            title = section.split("\n", 1)[0]
            found = HEAD.search(section)
            # Sections of findings have one; others may.
            if not found and not re.match(r"\d+\. [A-Z][A-Z0-9_]+:", title):
                continue
            lines = block(section[found.start():]) if found else []
            if not lines:
                yield f"{path}:1: '{title}' suggests no command"
            for part in PARTS:
                if part not in section:
                    yield f"{path}:1: '{title}' lacks {part}"
            for problem in complaints("\n".join(lines)):
                yield f"{path}:1: '{title}': {problem}"


lintlib.run(__name__)
