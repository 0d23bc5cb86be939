#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library takes no more than 8 MiB of memory, also with 256 threads coming and going. What it
maps may be a little more: pages that nobody touches cost nothing but addresses."""
import os
import subprocess
import sys
import tempfile

RESIDENT_KIB = 8 * 1024
MAPPED_KIB = 12 * 1024


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
        if not files or mapped < 512 or mapped > MAPPED_KIB or resident > RESIDENT_KIB:
            print(f"mapped outside 512 to {MAPPED_KIB} KiB, more than {RESIDENT_KIB} resident, or "
                  f"nothing was recorded ({files})")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
