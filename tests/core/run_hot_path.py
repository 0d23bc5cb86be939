#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs hot_path under the library: clean in both clock modes, and caught when it cheats."""
import os
import signal
import subprocess
import sys
import tempfile

SKIP = 77
MEANING = {3: "memory was allocated", 4: "a mutex was locked", 5: "errno was changed",
           -signal.SIGSYS: "a system call was made"}


def run(program, library, clock, *args):
    with tempfile.TemporaryDirectory() as scratch:
        env = dict(os.environ, LD_PRELOAD=library, NCCLSPY_DIR=scratch, NCCLSPY_CLOCK=clock,
                   NCCLSPY_QUIET="1", LD_BIND_NOW="1")
        status = subprocess.run([program, *args], env=env, timeout=60, check=False).returncode
        written = any(name.endswith(".nspy") for _, _, names in os.walk(scratch) for name in names)
    return status, written


def main():
    program, library = sys.argv[1:]
    for clock in ("auto", "monotonic"):
        status, written = run(program, library, clock)
        if status == SKIP:
            return SKIP
        if status != 0:
            print(f"clock {clock}: {MEANING.get(status, f'exit status {status}')}")
            return 1
        if not written:
            print("nothing was recorded, so nothing was proved")
            return 1
    status, _ = run(program, library, "auto", "break")
    if status != -signal.SIGSYS:
        print(f"a forbidden system call went unnoticed (status {status})")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
