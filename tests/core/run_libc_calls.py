#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C library's calls that ncclspy looks at have the same outcome with and without it.

Usage: run_libc_calls.py PROGRAM LIBRARY
"""
import os
import subprocess
import sys


def run(program, **more):
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    env.update(more)
    return subprocess.run([program], env=env, capture_output=True, text=True, timeout=60, check=True)


def main(program, library):
    plain, ours = run(program), run(program, LD_PRELOAD=library)
    if not plain.stdout.splitlines()[-1:] == ["fork: 1, status 17"]:
        print("the program did not run through:", plain.stdout, plain.stderr)
        return 1
    if plain.stdout == ours.stdout and plain.stderr == ours.stderr:
        print(f"{len(plain.stdout.splitlines())} lines are alike")
        return 0
    for one, other in zip(plain.stdout.splitlines(), ours.stdout.splitlines()):
        if one != other:
            print(f"without: {one}\n   with: {other}")
    print(ours.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
