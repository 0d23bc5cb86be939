# SPDX-License-Identifier: Apache-2.0
"""interpose/profiler/profiler_abi.h against NCCL's plugin headers: compiling is the test.

The headers are part of NCCL's source, not of its packages: NSPY_NCCL_SOURCE names a tree.
"""
import os
import shlex
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
# Where releases keep them.
FOLDERS = ("plugins/profiler/example/nccl", "ext-profiler/example/nccl")
SKIP = 77


def main():
    trees = [os.environ.get("NSPY_NCCL_SOURCE", ""), "/usr/src/nccl", "/usr/local/src/nccl"]
    found = [Path(tree, folder) for tree in trees if tree for folder in FOLDERS
             if Path(tree, folder, "profiler_v6.h").exists()]
    if not found:
        print("no source tree of NCCL with plugin headers (NSPY_NCCL_SOURCE)")
        return SKIP
    command = [*shlex.split(os.environ.get("CC", "cc")), "-std=gnu11", "-fsyntax-only",
               f"-I{found[0]}", f"-I{SOURCE / 'interpose/profiler'}"]
    status = subprocess.run([*command, SOURCE / "tests/profiler/layout.c"], check=False).returncode
    # That it can fail: another layout must not compile.
    spoilt = subprocess.run([*command, "-Dwarps=warps,unknown", "-x", "c",
                             SOURCE / "tests/profiler/layout.c"], check=False,
                            stderr=subprocess.DEVNULL).returncode
    assert spoilt != 0, "a wrong layout went unnoticed"
    return status


if __name__ == "__main__":
    sys.exit(main())
