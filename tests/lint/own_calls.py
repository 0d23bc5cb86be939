# SPDX-License-Identifier: Apache-2.0
"""What the library asks of CUDA and NCCL on its own behalf: a few questions, and nothing else."""
import re

import lintlib

CHECK = "the library looks up no function of CUDA or NCCL for itself but the questions listed here"

# None takes a stream's time, allocates, waits, or changes the state of a thread or an error.
QUESTIONS = {"cuDriverGetVersion", "cuCtxGetDevice", "cuDeviceGetPCIBusId", "cuDeviceGetUuid",
             "cuStreamIsCapturing"}
LOOKED_UP = re.compile(r'dlv?sym\([^;"]*"((?:cu|nccl|pnccl|nv)\w+)"', re.DOTALL)
ANY = re.compile(r"\bnspy_sys_dlv?sym\b")

GOOD = {"interpose/a.c": 'x = nspy_sys_dlsym(driver, "cuStreamIsCapturing");\n'
                         'y = nspy_sys_dlsym(RTLD_NEXT, "open");\n'}
BAD = [{"interpose/a.c": 'x = nspy_sys_dlsym(driver,\n\t"cuEventRecord");\n'},
       {"interpose/a.c": 'x = nspy_sys_dlsym(copy, "ncclCommGetAsyncError");\n'},
       {"interpose/a.c": "no look-up at all\n"}]


def check(root):
    seen = False
    for path in lintlib.files(root, ".c", ".h"):
        if not path.startswith("interpose/"):
            continue
        text = lintlib.read(root, path) or ""
        seen = seen or ANY.search(text)
        for match in LOOKED_UP.finditer(text):
            if match[1] not in QUESTIONS:
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path}:{line}: looks up {match[1]}"
    if not seen:
        yield "interpose:1: no look-up was found, so this check checks nothing"


lintlib.run(__name__)
