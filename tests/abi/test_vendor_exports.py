#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An installed NCCL and the call tables agree about what there is.

Usage: test_vendor_exports.py READELF INTERPOSE_DIR
"""

import mmap
import re
import sys

import abilib


def version_of(path):
    """The release written into the library, as a tuple, or None."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        match = re.search(rb"NCCL version (\d+)\.(\d+)\.(\d+)", data)
        return tuple(int(part) for part in match.groups()) if match else None


def main(readelf, interpose):
    """Prints each disagreement; returns the exit status."""
    path = abilib.installed_nccl()
    if path is None:
        abilib.skip("no libnccl.so.2 is installed")
    tables = abilib.load_tables(interpose)
    exported = {symbol.name for symbol in abilib.dynamic_symbols(readelf, path) if symbol.defined}
    version = version_of(path)
    known = {one.name for one in tables.functions + tables.ignored if one.library.name == "nccl"}
    wrong = [f"{name} is exported and in no table"
             for name in sorted(exported) if re.match("nccl[A-Z]", name) and name not in known]
    if version is None:
        wrong.append("no version text in the library")
    checked = 0
    for one in tables.functions:
        if version is None or one.library.name != "nccl":
            continue
        checked += 1
        if (one.since <= version) != (one.name in exported):
            wrong.append(f"{one.place}: since={one.since_text}, but {one.name} is "
                         f"{'' if one.name in exported else 'not '}in {version}")
        alias = one.library.alias + one.name
        if one.name in exported and alias not in exported:
            wrong.append(f"{one.place}: {alias} is not exported")
    print(f"{path}: version {version}, {len(exported & known)} known functions, {checked} compared")
    print("\n".join(wrong))
    return 1 if wrong or not exported & known else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
