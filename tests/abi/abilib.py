# SPDX-License-Identifier: Apache-2.0
"""What the abi tests share: reading ELF files and finding an installed NCCL."""

import glob
import os
import re
import subprocess
import sys

SKIP = 77

NCCL_PLACES = (
    "/usr/local/cuda/lib64/libnccl.so.2",
    "/usr/local/cuda/lib/libnccl.so.2",
    "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
    "/usr/lib/aarch64-linux-gnu/libnccl.so.2",
    "/usr/lib64/libnccl.so.2",
)


def skip(reason):
    """Ends the test as skipped."""
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def readelf(readelf_path, library, *options):
    """Output of readelf in the C locale."""
    done = subprocess.run([readelf_path, "-W", *options, library], stdout=subprocess.PIPE,
                          env={**os.environ, "LC_ALL": "C"}, text=True, check=True)
    return done.stdout


class Symbol:
    """One dynamic symbol: name and version as text, kind, binding, defined or not."""

    def __init__(self, fields):
        self.kind, self.binding = fields[3], fields[4]
        self.visibility, self.defined = fields[5], fields[6] != "UND"
        self.name, _, self.version = fields[7].replace("@@", "@").partition("@")


def dynamic_symbols(readelf_path, library):
    """The dynamic symbol table, without the empty first entry."""
    symbols = []
    for line in readelf(readelf_path, library, "--dyn-syms").splitlines():
        fields = line.split()
        if len(fields) >= 8 and re.fullmatch(r"\d+:", fields[0]):
            symbols.append(Symbol(fields))
    return symbols


def needed(readelf_path, library):
    """DT_NEEDED entries."""
    text = readelf(readelf_path, library, "-d")
    return re.findall(r"\(NEEDED\)\s+Shared library: \[([^]]+)\]", text)


def installed_nccl():
    """Path of a real libnccl.so.2, or None. NSPY_TEST_NCCL names one."""
    named = os.environ.get("NSPY_TEST_NCCL")
    if named:
        return named
    wheels = [path for folder in sys.path
              for path in glob.glob(os.path.join(folder, "nvidia", "nccl", "lib", "libnccl.so.2"))]
    for path in list(NCCL_PLACES) + wheels:
        if os.path.exists(path):
            return path
    return None


def load_tables(interpose):
    """The checked call tables."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(interpose, "gen"))
    import apitable  # pylint: disable=import-outside-toplevel
    return apitable.Tables(interpose)
