#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of every format version stay readable, and say what they said when they were written.

A version's folder holds the traces of a two-rank job whose rank 1 was killed with SIGKILL in step 2
(segments and saved live pages), and what `ncclspy-analyze dump --json` printed of them. A later
ncclspy may print more fields in a line; those that were there must be there, unchanged.
"""
import json
import subprocess
import sys
from pathlib import Path


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def check_version(analyze, folder):
    expected = lines((folder / "dump.jsonl").read_text(encoding="utf-8"))
    run = subprocess.run([analyze, "dump", "--json", folder / "golden"], capture_output=True,
                         text=True, timeout=60, check=False)
    if run.returncode != 0:
        return [f"dump ended with {run.returncode}: {run.stderr.strip()}"]
    got = lines(run.stdout)
    problems = [f"{len(expected)} lines were written, {len(got)} are read"] \
        if len(got) != len(expected) else []
    for old, new in zip(expected, got):
        changed = {key for key in old if new.get(key) != old[key]}
        if changed:
            problems.append(f"{sorted(changed)} changed: {old} is now {new}")
    report = subprocess.run([analyze, "report", "--json", folder / "golden"], capture_output=True,
                            text=True, timeout=60, check=False)
    if report.returncode != 1 or "RANK_DIED" not in report.stdout:
        problems.append(f"the report does not find the rank that died ({report.returncode})")
    return problems


def main():
    analyze, root = sys.argv[1], Path(sys.argv[2])
    versions = sorted(path for path in root.iterdir() if (path / "dump.jsonl").exists())
    failed = 0 if versions else 1
    for folder in versions:
        for problem in check_version(analyze, folder)[:5]:
            print(f"{folder.name}: {problem}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
