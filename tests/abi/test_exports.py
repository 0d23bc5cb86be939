#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libncclspy.so as the loader sees it: what it exports, needs and imports.

Usage: test_exports.py READELF INTERPOSE_DIR IMPORTS_FILE LIBRARY
"""

import re
import sys
from pathlib import Path

import abilib

# The oldest C library that a job may run on. Its aarch64 symbols begin with 2.17, so the same
# limit holds there.
GLIBC_MAX = (2, 28)
NEEDED = re.compile(r"libc\.so\.6|ld-linux-[\w-]+\.so\.[0-9]+")
# Written by hand, because they are no calls to record: _exit and _Exit end a process without
# running any exit handler, and the trace should know; dlsym and dlvsym lead past our wrappers. Of
# the others only failures are looked at, of fwrite and vfprintf only what NCCL writes.
BY_HAND = {"_exit", "_Exit", "dlsym", "dlvsym", "connect", "bind", "getsockopt", "getaddrinfo",
           "fallocate", "fallocate64", "posix_fallocate", "posix_fallocate64", "ftruncate",
           "ftruncate64", "fork", "fwrite", "vfprintf"}
# The tables of the profiler plugin are data.
PROFILER_TABLES = {f"ncclProfiler_v{version}" for version in range(1, 7)}
# What the linker itself puts into some libraries.
LINKER_SYMBOLS = {"_init", "_fini", "_edata", "_end", "__bss_start"}


def versioned_by_hand(interpose):
    """{(name, version)} of the network libraries' functions, and the versions themselves."""
    fabric = Path(interpose, "fabric")
    text = (fabric / "fabric.def").read_text(encoding="utf-8")
    found = {(name, f"FABRIC_1.{minor}") for name, minor in
             re.findall(r"^NSPY_SYMBOL(?:_NEWEST)?\((\w+), (\d+)\)", text, re.M)}
    text = (fabric / "verbs.c").read_text(encoding="utf-8")
    found |= {(name, version) for name, version in
              re.findall(r'\.symver \w+,(\w+)@@?([A-Z0-9_.]+)"', text)}
    return found, {version for _, version in found}


def versioned_exports(symbols, expected, versions):
    """Functions with versions are exactly those, and every version is a node of the map."""
    found = {(symbol.name, symbol.version) for symbol in symbols
             if symbol.defined and symbol.version and symbol.kind == "FUNC"}
    for name, version in sorted(found ^ expected):
        yield f"{name}@{version} is {'not ' if (name, version) in expected else ''}exported"
    nodes = {symbol.name for symbol in symbols if symbol.defined and symbol.kind == "OBJECT"}
    nodes -= PROFILER_TABLES
    for version in sorted(nodes ^ versions):
        yield f"version {version} is {'not ' if version in versions else ''}defined"


def exports(symbols, tables, versions):
    """Exported names against the tables."""
    wrapped = {one.name for one in tables.functions}
    found = {symbol.name for symbol in symbols
             if symbol.defined and not (symbol.version and symbol.kind == "FUNC")}
    found -= LINKER_SYMBOLS | versions
    for name in sorted(found - wrapped - BY_HAND - PROFILER_TABLES):
        yield f"exports {name}, which is in no table"
    for name in sorted((wrapped | PROFILER_TABLES) - found):
        yield f"does not export {name}"
    for symbol in symbols:
        if symbol.defined and symbol.name in wrapped | BY_HAND and \
                (symbol.kind, symbol.binding, symbol.version) != ("FUNC", "GLOBAL", ""):
            yield f"{symbol.name} is {symbol.kind} {symbol.binding} {symbol.version}"
        if symbol.defined and symbol.name in PROFILER_TABLES and \
                (symbol.kind, symbol.binding, symbol.version) != ("OBJECT", "GLOBAL", ""):
            yield f"{symbol.name} is {symbol.kind} {symbol.binding} {symbol.version}"


def imports(symbols, allowed):
    """Undefined names against the list, and their versions against the oldest C library."""
    for symbol in symbols:
        if symbol.defined:
            continue
        version = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?: \(\d+\))?", symbol.version)
        if version and tuple(map(int, version.groups())) > GLIBC_MAX:
            yield f"needs {symbol.name} of {symbol.version}"
        elif not version and symbol.binding != "WEAK":
            yield f"imports {symbol.name} without a GLIBC version ('{symbol.version}')"
        if symbol.name not in allowed:
            yield f"imports {symbol.name}, which is not on the list"


# An object that is opened late finds no more static TLS than that for certain.
TLS_MAX = 256


def properties(readelf, library):
    """Never unloaded, bound when it is loaded, and small in every thread."""
    flags = re.findall(r"\(FLAGS(?:_1)?\)\s+(.*)", abilib.readelf(readelf, library, "-d"))
    for wanted in ("NODELETE", "NOW", "STATIC_TLS"):
        if not any(re.search(rf"\b{wanted}\b", line) for line in flags):
            yield f"is not marked {wanted}"
    tls = re.findall(r"^\s*TLS(?:\s+0x[0-9a-f]+){4}\s+(0x[0-9a-f]+)",
                     abilib.readelf(readelf, library, "-lW"), re.M)
    if len(tls) != 1 or int(tls[0], 16) > TLS_MAX:
        yield f"takes {tls} bytes of every thread, more than {TLS_MAX}"


def main(readelf, interpose, imports_file, library):
    """Prints each finding; returns the exit status."""
    with open(imports_file, encoding="utf-8") as file:
        allowed = {line.split()[0] for line in file if line.strip() and not line.startswith("#")}
    symbols = abilib.dynamic_symbols(readelf, library)
    by_hand, versions = versioned_by_hand(interpose)
    wrong = list(exports(symbols, abilib.load_tables(interpose), versions))
    wrong += versioned_exports(symbols, by_hand, versions)
    wrong += imports(symbols, allowed)
    wrong += properties(readelf, library)
    wrong += [f"needs {name}" for name in abilib.needed(readelf, library)
              if not NEEDED.fullmatch(name)]
    versions = abilib.readelf(readelf, library, "-V")
    wrong += [f"needs version {name}" for name in
              sorted(set(re.findall(r"Name: (GLIBC_[\d.]+)", versions)))
              if tuple(map(int, re.findall(r"\d+", name)))[:2] > GLIBC_MAX]
    defined = sum(symbol.defined for symbol in symbols)
    print(f"{library}: {defined} exported, {len(symbols) - defined} imported symbols")
    print("\n".join(wrong))
    return 1 if wrong or not symbols else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
