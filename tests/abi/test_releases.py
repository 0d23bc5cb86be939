#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real NCCLs, any number of them, behave the same with and without the recorder. By hand.

Usage: test_releases.py LIBNCCLSPY ANALYZE READELF INTERPOSE_DIR REALNCCL [LIBNCCL...]

LIBNCCL: paths of libnccl.so.2, also in NSPY_TEST_NCCLS, separated by colons. They come out of the
packages nvidia-nccl-cu11, -cu12 and -cu13. Needs no GPU. For each:

- every exported function is in the call tables;
- every wrapped one, and its second name, is looked up to the recorder's, all others to the
  library's own;
- each is called twice in a process of its own, with nothing and with empty memory, and gives the
  same code and errno, or dies by the same signal; and the recorder has seen it;
- the program of the test real-nccl prints the same, where the library has what it calls.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
import abilib

TIMEOUT_S = 300
CALL_S = 20
# Opens a socket and starts a thread: errno is whatever that left.
REAL_WORK = {"ncclGetUniqueId", "ncclCommInitAll", "ncclCommInitRank", "ncclMemAlloc"}
BUFFER_BYTES = 4096


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def value_of(kind, round_number, buffers):
    """An argument of a call: nothing, or empty memory. A communicator is always none."""
    if kind == "bytes":
        return Id()
    if kind == "comm" or (kind == "pointer" and round_number == 0):
        return ctypes.c_void_p()
    if kind == "pointer":
        buffers.append(ctypes.create_string_buffer(BUFFER_BYTES))
        return ctypes.cast(buffers[-1], ctypes.c_void_p)
    return ctypes.c_size_t(0) if kind == "wide" else ctypes.c_int(0)


def call_in_child(library, name, result, kinds, round_number):
    """What one call comes to, as text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(CALL_S)
        buffers = []
        function = getattr(library, name)
        function.restype = {"code": ctypes.c_int, "text": ctypes.c_char_p, "nothing": None}[result]
        values = [value_of(kind, round_number, buffers) for kind in kinds]
        os.dup2(write, 3)
        devnull = os.open("/dev/null", os.O_WRONLY)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        ctypes.set_errno(77)
        got = function(*values)
        errno = ctypes.get_errno()
        written = [any(buffer.raw) for buffer in buffers]
        os.write(3, f"{got} errno {0 if name in REAL_WORK else errno} written {written}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    status = os.waitpid(pid, 0)[1]
    return f"{text} {'signal ' + str(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else ''}"


def child(path, functions, others):
    """In a process with or without the recorder: what is looked up, what calls come to."""
    library = ctypes.CDLL(path, use_errno=True)
    libc = ctypes.CDLL(None)
    libc.dladdr.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

    class Info(ctypes.Structure):
        _fields_ = [("path", ctypes.c_char_p), ("base", ctypes.c_void_p),
                    ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]

    def owner(name):
        info = Info()
        libc.dladdr(ctypes.cast(getattr(library, name), ctypes.c_void_p), ctypes.byref(info))
        return os.path.basename((info.path or b"").decode())

    owners = {name: owner(name) for name in [one[0] for one in functions] + others}
    calls = {f"{name} {number}": call_in_child(library, name, result, kinds, number)
             for name, result, kinds in functions for number in (0, 1)
             if not name.startswith("p")}
    print(json.dumps({"owners": owners, "calls": calls}))


def describe(tables, function):
    """(name, kind of result, kinds of arguments) for child()."""
    def kind(ctype):
        known = tables.types.get(ctype.base)
        if (ctype.base, ctype.stars) == ("ncclComm_t", 0):
            return "comm"
        if ctype.stars or (known and known.kind == "handle"):
            return "pointer"
        if known and known.kind == "bytes":
            return "bytes"
        return "wide" if ctype.base in ("size_t", "uint64_t") else "int"

    result = "code"
    if function.result.text != function.library.result:
        result = "nothing" if function.result.text == "void" else "text"
    return [function.name, result, [kind(ctype) for ctype, _ in function.arguments]]


def environment(more):
    return dict({name: value for name, value in os.environ.items()
                 if not name.startswith(("NCCL_", "NCCLSPY", "LD_PRELOAD"))}, **more)


def run_child(path, functions, others, more):
    done = subprocess.run([sys.executable, os.path.realpath(__file__), "--child", path],
                          input=json.dumps([functions, others]), stdout=subprocess.PIPE,
                          env=environment(more), timeout=TIMEOUT_S, text=True, check=False)
    if done.returncode != 0:
        return {"owners": {}, "calls": {}, "status": done.returncode}
    return json.loads(done.stdout)


def recorded(analyze, directory):
    """Names of the functions in the traces below a directory."""
    done = subprocess.run([analyze, "dump", "--json", directory], stdout=subprocess.PIPE,
                          text=True, timeout=TIMEOUT_S, check=False)
    return {entry["function"] for entry in map(json.loads, done.stdout.splitlines())
            if entry["kind"] in ("call", "open")}


def run_program(program, path, more):
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=environment({"LD_LIBRARY_PATH": os.path.dirname(path), **more}),
                          timeout=TIMEOUT_S, check=False)
    return done.returncode, done.stdout


def compare(plain, again, ours, recorder):
    """Mistakes in what the child saw with the recorder."""
    if "status" in ours:
        yield f"with the recorder the process ended with {ours['status']}"
        return
    for name, value in plain["owners"].items():
        expected = recorder if name in ours["wrapped"] else value
        if ours["owners"][name] != expected:
            yield f"{name} is looked up in {ours['owners'][name]}"
    for name, value in plain["calls"].items():
        if value == again["calls"][name] and ours["calls"][name] != value:
            yield f"{name}: {value!r} without, {ours['calls'][name]!r} with"


def check(path, library, analyze, readelf, tables, program):
    """Mistakes with one NCCL."""
    exported = {symbol.name for symbol in abilib.dynamic_symbols(readelf, path) if symbol.defined
                and re.match("p?nccl[A-Z]", symbol.name)}
    known = {one.name: one for one in tables.functions if one.library.name == "nccl"}
    ignored = {one.name for one in tables.ignored}
    names = sorted(name for name in exported if name.removeprefix("p") in known)
    functions = [[name] + describe(tables, known[name.removeprefix("p")])[1:] for name in names]
    others = sorted(name for name in exported if name.removeprefix("p") not in known)
    wrong = [f"{name} is in no table" for name in others if name.removeprefix("p") not in ignored]
    plain, again = (run_child(path, functions, others, {}) for _ in range(2))
    with tempfile.TemporaryDirectory() as traces:
        more = {"LD_PRELOAD": os.path.abspath(library), "NCCLSPY_DIR": traces,
                "NCCLSPY_QUIET": "1"}
        ours = dict(run_child(path, functions, others, more), wrapped=set(names))
        wrong += list(compare(plain, again, ours, os.path.basename(library)))
        unseen = set(known) & exported - recorded(analyze, traces)
        wrong += [f"{name} was called and not seen" for name in sorted(unseen)]
        same = run_program(program, path, {}), run_program(program, path, more)
    if same[0][0] == 0 and same[0] != same[1]:
        wrong.append(f"the program prints something else: {same}")
    stable = sum(value == again["calls"][name] for name, value in plain["calls"].items())
    print(f"{path}: {len(exported)} exported, {len(names)} wrapped, {stable} of "
          f"{len(plain['calls'])} calls comparable, program {'compared' if same[0][0] == 0 else 'not'}"
          f" run, {len(wrong)} wrong", flush=True)
    for text in wrong:
        print(f"  {text}", flush=True)
    return wrong


def main(library, analyze, readelf, interpose, program, *paths):
    paths = list(paths) + [one for one in os.environ.get("NSPY_TEST_NCCLS", "").split(":") if one]
    if not paths:
        abilib.skip("no libnccl.so.2 is given")
    tables = abilib.load_tables(interpose)
    wrong = [check(os.path.realpath(path), library, analyze, readelf, tables, program)
             for path in paths]
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], *json.load(sys.stdin))
    else:
        sys.exit(main(*sys.argv[1:]))
