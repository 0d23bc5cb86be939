# SPDX-License-Identifier: Apache-2.0
"""Sums up a meson testlog.json: "N passed, N failed, N skipped" and the names of the failed."""
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def main(path):
    passed, skipped, failed = 0, 0, []
    with open(path, encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            if test["result"] in PASSED:
                passed += 1
            elif test["result"] in SKIPPED:
                skipped += 1
            else:
                failed.append(test["name"])
    names = ": " + ", ".join(failed) if failed else ""
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped{names}")


main(sys.argv[1])
