#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: floor.py TREE: every program and library in TREE runs with glibc 2.28 and nothing else.

Nothing newer is imported, and no library but the C library's is needed. The names of what does not
hold are printed; exit status 1 then."""
import os
import re
import subprocess
import sys

FLOOR = (2, 28)
# Of the C library itself; all are part of it today.
LIBRARIES = re.compile(r"(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|"
                       r"ld-linux-(x86-64\.so\.2|aarch64\.so\.1))$")


def problems(path):
    text = subprocess.run(["readelf", "-W", "-d", "-V", path], capture_output=True, text=True,
                          check=True).stdout
    for version in sorted(set(re.findall(r"Name: (GLIBC_[\d.]+)", text))):
        if tuple(int(n) for n in re.findall(r"\d+", version))[:2] > FLOOR:
            yield f"needs {version}"
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", text):
        if not LIBRARIES.match(library):
            yield f"needs {library}"
    if re.search(r"\((RPATH|RUNPATH)\)", text):
        yield "has a run path"


def main():
    looked_at = failed = 0
    for folder, _, names in os.walk(sys.argv[1]):
        for path in (os.path.join(folder, name) for name in names):
            with open(path, "rb") as f:
                if f.read(4) != b"\x7fELF":
                    continue
            looked_at += 1
            for problem in problems(path):
                print(f"{path}: {problem}", file=sys.stderr)
                failed += 1
    if not looked_at:
        print(f"{sys.argv[1]}: no programs in it", file=sys.stderr)
    return 0 if looked_at and not failed else 1


sys.exit(main())
