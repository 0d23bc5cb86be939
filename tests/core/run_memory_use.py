#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library's own mappings stay within 8 MiB, also with 256 threads coming and going."""
import os
import subprocess
import sys
import tempfile

LIMIT_KIB = 8 * 1024


def run(program, threads, **extra):
    out = subprocess.run([program, str(threads)], env=dict(os.environ, **extra), timeout=60,
                         check=True, stdout=subprocess.PIPE).stdout
    return [int(word) for word in out.split()]


def main():
    program, library = sys.argv[1:]
    failed = 0
    for threads in (1, 256):
        with tempfile.TemporaryDirectory() as scratch:
            without = run(program, threads)
            with_us = run(program, threads, LD_PRELOAD=library, NCCLSPY_DIR=scratch,
                          NCCLSPY_QUIET="1")
            files = [name for _, _, names in os.walk(scratch) for name in names]
        mapped, resident = with_us[0] - without[0], with_us[1] - without[1]
        print(f"{threads} threads: {mapped} KiB mapped, {resident} KiB resident")
        # Recording must have happened, and must have cost something, or nothing was measured.
        if not files or mapped < 512 or mapped > LIMIT_KIB or resident > LIMIT_KIB:
            print(f"outside 512 to {LIMIT_KIB} KiB, or nothing was recorded ({files})")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
