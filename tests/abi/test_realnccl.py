#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real NCCL behaves the same with and without the recorder, and the calls are in the trace.

Usage: test_realnccl.py REALNCCL_PROGRAM LIBNCCLSPY ANALYZE
Needs no GPU: what fails without one must fail alike.
"""

import json
import os
import subprocess
import sys
import tempfile

import abilib

TIMEOUT_S = 60

# (function, result) of some of the program's calls; all must be in the trace. Not in the list:
# what the library answers differently where there is a GPU.
EXPECTED = (
    ("ncclGetVersion", 0), ("ncclGetVersion", 4), ("ncclGetErrorString", 0),
    ("ncclGetLastError", 0), ("ncclGroupStart", 0), ("ncclGroupEnd", 0), ("ncclGroupEnd", 4),
    ("ncclGroupEnd", 5), ("ncclAllReduce", 4), ("ncclBcast", 4), ("ncclSend", 4),
    ("ncclCommCount", 4), ("ncclGetUniqueId", 0), ("ncclCommFinalize", 0), ("ncclCommDestroy", 0),
    ("ncclCommAbort", 0),
)


def run(program, nccl, *arguments, **more):
    """The program with the real library: (exit status, stdout). Its stderr goes to ours."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("NCCL_", "NCCLSPY"))}
    environment["LD_LIBRARY_PATH"] = os.path.dirname(nccl)
    environment.update(more)
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, env=environment,
                          timeout=TIMEOUT_S, check=False)
    return done.returncode, done.stdout


def recorded(analyze, directory):
    """[(function, result)] of every call in the trace."""
    done = subprocess.run([analyze, "dump", "--json", directory], stdout=subprocess.PIPE,
                          text=True, timeout=TIMEOUT_S, check=False)
    calls = []
    for line in done.stdout.splitlines():
        entry = json.loads(line)
        if entry["kind"] == "call":
            calls.append((entry["function"], entry.get("result")))
    return calls


def report_says_why(program, library, analyze, nccl):
    """Where CUDA finds no device, the report says so in words. True also where there is one."""
    with tempfile.TemporaryDirectory() as directory:
        _, text = run(program, nccl, "init", LD_PRELOAD=os.path.abspath(library),
                      NCCLSPY_DIR=directory)
        if b"CUDA driver" not in text and b"no CUDA-capable device" not in text:
            return True
        done = subprocess.run([analyze, "report", directory], stdout=subprocess.PIPE, text=True,
                              timeout=TIMEOUT_S, check=False)
    said = "ncclCommInitRank" in done.stdout and "CUDA found no" in done.stdout
    if not said:
        print(f"the report does not say that CUDA found no device:\n{done.stdout}")
    return said


def main(program, library, analyze):
    """Compares and looks up; returns the exit status."""
    nccl = abilib.installed_nccl()
    if nccl is None:
        abilib.skip("no libnccl.so.2 is installed")
    plain = run(program, nccl)
    if plain[0] != 0:
        print(f"without the recorder: status {plain[0]}\n{plain[1].decode(errors='replace')}")
        return 1
    with tempfile.TemporaryDirectory() as directory:
        preloaded = run(program, nccl, LD_PRELOAD=os.path.abspath(library), NCCLSPY_DIR=directory)
        if preloaded != plain:
            print(f"without: {plain}\nwith:    {preloaded}")
            return 1
        off = run(program, nccl, LD_PRELOAD=os.path.abspath(library), NCCLSPY_DIR=directory + "/no",
                  NCCLSPY="0")
        if off != plain or os.path.exists(directory + "/no"):
            print(f"without:     {plain}\nswitched off: {off}")
            return 1
        calls = recorded(analyze, directory)
    missing = [call for call in EXPECTED if call not in calls]
    print(f"{nccl}: {len(plain[1].splitlines())} lines alike, {len(calls)} calls recorded")
    for name, result in missing:
        print(f"not in the trace: {name} with result {result}")
    return 0 if report_says_why(program, library, analyze, nccl) and not missing else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
