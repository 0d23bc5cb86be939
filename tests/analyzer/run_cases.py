#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs scenario files: makes their traces, reports on them, compares with what they expect.

usage: run_cases.py TRACEGEN ANALYZE CASE...
Exit status: 0 all as expected, 1 differences (each on a line), 2 usage.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def parse_ranks(word):
    """'-' or '0-3,7' as a list of numbers."""
    ranks = []
    for part in word.split(",") if word != "-" else []:
        first, _, last = part.partition("-")
        ranks.extend(range(int(first), int(last or first) + 1))
    return ranks


def run(*command):
    env = {k: v for k, v in os.environ.items() if not k.startswith("NCCLSPY")}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60,
                          check=False)


class Outcome:
    """The two reports of a case."""

    def __init__(self, analyze, directory, options):
        text = run(analyze, "report", *options, directory)
        as_json = run(analyze, "report", "--json", *options, directory)
        self.status, self.text, self.errors = text.returncode, text.stdout, text.stderr
        document = json.loads(as_json.stdout)
        self.findings = [f for job in document["jobs"] for f in job["findings"]]
        self.same_status = text.returncode == as_json.returncode


def matches(finding, words):
    """'ID Pn RANKS' against a finding; extra words must be in its summary."""
    ranks = [rank for c in finding["culprits"] for rank in c.get("ranks", [c["rank"]])]
    return (finding["id"] == words[0] and finding["priority"] == words[1]
            and sorted(ranks) == parse_ranks(words[2])
            and all(w in finding["summary"] for w in words[3:]))


def check_line(outcome, line):
    """What is wrong with one expectation, or None."""
    verb, _, rest = line.partition(" ")
    rest = rest.strip().strip('"')
    words = rest.split()
    found = "; ".join(f"{f['id']} {f['priority']} {[c['rank'] for c in f['culprits']]}"
                      f" {f['summary']}" for f in outcome.findings)
    if verb == "first":
        good = bool(outcome.findings) and matches(outcome.findings[0], words)
    elif verb == "also":
        good = any(matches(f, words) for f in outcome.findings)
    elif verb == "none":
        good = all(f["id"] != words[0] for f in outcome.findings)
    elif verb == "clean":
        good = all(f["priority"] == "P2" for f in outcome.findings)
    elif verb == "exit":
        good = outcome.status == int(words[0])
    elif verb in ("text", "no-text"):
        good = (rest in outcome.text + outcome.errors) == (verb == "text")
    else:
        return f"unknown expectation '{line}'"
    return None if good else f"expected '{line}', found: {found or 'nothing'}"


def first_lines_complain(outcome):
    """The first ten lines of every report hold verdict, owner and action."""
    head = "\n".join(outcome.text.splitlines()[:10])
    missing = [w for w in ("VERDICT: ", "page: ", "do: ", "restart: ") if w not in head]
    return f"first ten lines lack {missing}" if missing else None


def check_case(tracegen, analyze, case):
    text = case.read_text(encoding="utf-8")
    scenario, separator, expected = text.partition("\n---\n")
    lines = [x.strip() for x in expected.splitlines() if x.strip() and not x.startswith("#")]
    if not separator or not lines:
        return ["expects nothing"]
    options = [w for x in lines if x.startswith("options ") for w in x.split()[1:]]
    lines = [x for x in lines if not x.startswith("options ")]
    with tempfile.TemporaryDirectory() as scratch:
        made = run(tracegen, str(case), scratch)
        if made.returncode:
            return [made.stderr.strip()]
        outcome = Outcome(analyze, scratch, options)
    wrong = [check_line(outcome, x) for x in lines] + [first_lines_complain(outcome)]
    if not any(x.startswith("exit ") for x in lines):
        status = int(any(f["priority"] == "P0" and "ignored" not in f for f in outcome.findings))
        if outcome.status != status:
            wrong.append(f"exit status {outcome.status}, expected {status}")
    if not outcome.same_status:
        wrong.append("text and JSON reports differ in exit status")
    if any(x for x in wrong):
        wrong.append("report:\n" + outcome.text + outcome.errors)
    return [x for x in wrong if x]


def main():
    if len(sys.argv) < 4:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    bad = 0
    for name in sys.argv[3:]:
        for problem in check_case(sys.argv[1], sys.argv[2], Path(name)):
            print(f"{name}: {problem}")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
