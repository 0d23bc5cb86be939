# SPDX-License-Identifier: Apache-2.0
"""Every way of reaching NCCL: the calls are seen, the program notices nothing.

Most cases run the same thing without and with the library; what it prints must be equal.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "integration"))
# pylint: disable=wrong-import-position
import harness
import jobs
from harness import BUILD, FAKES, LIBRARY, RUN

HERE = os.path.join(BUILD, "tests/loader")
LOADCASE = os.path.join(HERE, "loadcase")
NCCL_A = os.path.join(FAKES, "libnccl.so.2")
NCCL_B = os.path.join(HERE, "libnccl_b.so.2")
VERSION_A, VERSION_B = 22809, 22703
OTHER = os.path.join(HERE, "libother.so")
EARLY = os.path.join(HERE, "libearly.so")
HOOKER = os.path.join(HERE, "libhooker.so")
PYTHON = os.path.realpath("/proc/self/exe")


def client(name):
    """A library that is linked to NCCL."""
    return os.path.join(HERE, f"libclient_{name}.so")


def preload(scratch, before=(), after=()):
    """The environment that records, with other libraries around ours."""
    env = jobs.preload_env(scratch)
    own = env["LD_PRELOAD"].split(":")
    env["LD_PRELOAD"] = ":".join([*own[:-1], *before, own[-1], *after])
    return env


def without(*libraries):
    """The environment of a run without us. Instrumented stand-ins want their runtime first."""
    return {"LD_PRELOAD": ":".join([lib for lib in (jobs.sanitizer_runtime(), *libraries) if lib])}


def not_sanitized(runtime=""):
    if runtime in jobs.sanitizer_runtime() and jobs.sanitizer_runtime():
        raise harness.Skip("a sanitizer's runtime does not allow it")


def both(scratch, *words, program=LOADCASE, env=None):
    """Runs without and with the library: both well, and alike. Returns the second."""
    harness.need(program, LIBRARY)
    plain = scratch.run([program, *words], {**without(), **(env or {})}).ok()
    ours = scratch.run([program, *words], {**(env or {}), **preload(scratch)}).ok()
    assert plain.out == ours.out, f"{plain}\n{ours}"
    return ours


def facts(scratch):
    """The facts of the only process of the trace."""
    records = [record for record in jobs.dump(scratch) if record["kind"] == "fact"]
    assert len({record["pid"] for record in records}) == 1, records
    return {record["key"]: record["value"] for record in records}


def seen(scratch, *counts, function="ncclAllReduce"):
    found = jobs.count_calls(scratch, function)
    assert found == sorted(counts), f"{function}: {found}, expected {sorted(counts)}"


def nothing_recorded(scratch):
    assert not os.path.exists(scratch.traces), jobs.trace_files(scratch.traces)


def said(result, text):
    """Lines of ours on stderr that hold a text."""
    return [line for line in result.err.splitlines() if line.startswith("ncclspy ")
            and text in line]


# --- one copy ---

def test_linked(scratch):
    jobs.run_caller(scratch, "init", "70", "destroy").ok()
    seen(scratch, 70)


def test_linked_through_a_local_library(scratch):
    """Where Python extensions are: RTLD_NEXT sees nothing of it."""
    both(scratch, f"client:{client('a')}:30")
    seen(scratch, 30)
    assert facts(scratch)["nccl.version"] == str(VERSION_A)


def test_dlopen_and_dlsym(scratch):
    both(scratch, f"dlopen:{NCCL_A}:50")
    seen(scratch, 50)
    assert facts(scratch)["nccl.path"] == NCCL_A


def test_dlvsym(scratch):
    """The CUDA runtime's symbols have versions, and two releases lie side by side."""
    for library, version in (("libcudart.so.13", "libcudart.so.13"),
                             ("cudart12/libcudart.so.12", "libcudart.so.12")):
        scratch.traces = scratch.file("traces-" + version)
        both(scratch, f"dlopen:{NCCL_A}:1", f"cudart:{FAKES}/{library}:{version}:20")
        seen(scratch, 20, function="cudaMalloc")


def test_libraries_below(scratch):
    """NCCL opens libibverbs and takes its functions by version. Without it, none is there."""
    verbs = os.path.join(harness.BUILD, "tests/fabric/libibverbs.so")
    harness.need(LOADCASE, LIBRARY, verbs)
    names = ["default:ibv_reg_mr", "default:fi_getinfo", "default:fi_no_such_thing"]
    result = both(scratch, *names)
    assert result.out.count("no: undefined symbol") == 3, str(result)
    words = [LOADCASE, f"version:{NCCL_A}", f"verbs:{verbs}", *names]
    plain = scratch.run(words, without()).ok()
    ours = scratch.run(words, preload(scratch)).ok()
    shown = [[re.sub("0x[0-9a-f]+", "address", line) for line in one.out.splitlines()]
             for one in (plain, ours)]
    assert shown[0] == shown[1], f"{plain}\n{ours}"
    memory = [record for record in jobs.dump(scratch) if record["kind"] == "memory"]
    assert (memory[-1]["layer"], memory[-1]["registrations"]) == ("verbs", 2), memory


def test_dlmopen(scratch):
    not_sanitized()
    both(scratch, f"dlmopen:{NCCL_A}:25")
    seen(scratch, 25)


def test_static_with_visible_symbols(scratch):
    both(scratch, f"client:{client('static')}:15")
    seen(scratch, 15)
    assert facts(scratch)["nccl.path"] == client("static")


# --- feature probes ---

def test_probe_without_nccl(scratch):
    """We export every name there ever was, and yet there is no NCCL."""
    result = both(scratch, "default:ncclAllReduce", "program:ncclAllReduce",
                  "default:pncclAllReduce", "default:cudaMalloc")
    lines = result.out.splitlines()
    assert lines == [f"no: undefined symbol: {name}" for name in
                     ("ncclAllReduce", "ncclAllReduce", "pncclAllReduce", "cudaMalloc")], lines
    nothing_recorded(scratch)


def test_probe_of_an_older_nccl(scratch):
    """The library has one function and not the other."""
    result = both(scratch, f"global:{NCCL_A}", "default:ncclCommShrink", "default:ncclCommGrow",
                  "program:ncclCommShrink", "program:ncclCommGrow", f"in:{NCCL_A}:ncclCommShrink",
                  f"in:{NCCL_A}:ncclCommGrow", f"in:{NCCL_A}:pncclCommShrink",
                  f"in:{NCCL_A}:ncclNoSuchThing")
    grow = "no: undefined symbol: ncclCommGrow"
    assert result.out.splitlines() == ["yes", grow, "yes", grow, "yes", grow, "yes",
                                       "no: undefined symbol: ncclNoSuchThing"], str(result)
    nothing_recorded(scratch)


def test_probe_of_a_library_for_others(scratch):
    """Loaded, but with RTLD_LOCAL: the program itself does not see it."""
    result = both(scratch, f"keep:{NCCL_A}", "default:ncclAllReduce", "program:ncclAllReduce")
    assert result.out.count("no: undefined symbol") == 2, str(result)


# --- Python ---

CTYPES = """
import ctypes, sys
nccl = ctypes.CDLL(sys.argv[1])
version = ctypes.c_int()
print(nccl.ncclGetVersion(ctypes.byref(version)), version.value)
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
one, comm = Id(), ctypes.c_void_p()
print(nccl.ncclGetUniqueId(ctypes.byref(one)))
print(nccl.ncclCommInitRank(ctypes.byref(comm), 1, one, 0))
data = (ctypes.c_float * 2)()
for _ in range(12):
    nccl.ncclAllReduce(data, data, ctypes.c_size_t(1), 7, 0, comm, None)
print(nccl.ncclCommDestroy(comm))
for name in ("ncclCommGrow", "ncclNoSuchThing"):
    try:
        getattr(nccl, name)
    except AttributeError as error:
        print(error)
"""


def test_ctypes_by_path(scratch):
    result = both(scratch, "-c", CTYPES, NCCL_A, program=PYTHON)
    assert f"{NCCL_A}: undefined symbol: ncclCommGrow" in result.out, str(result)
    seen(scratch, 12)


def test_ctypes_by_soname(scratch):
    both(scratch, "-c", CTYPES, "libnccl.so.2", program=PYTHON, env={"LD_LIBRARY_PATH": FAKES})
    seen(scratch, 12)


# --- several copies ---

def check_copies(scratch, result):
    known = facts(scratch)
    assert known["nccl.copies"] == "2", known
    found = {os.path.realpath(known[f"nccl.copy.{n}.path"]): known[f"nccl.copy.{n}.version"] for n in (1, 2)}
    assert found == {NCCL_A: str(VERSION_A), NCCL_B: str(VERSION_B)}, found
    assert known["nccl.copy.1.build_id"] != known["nccl.copy.2.build_id"], known
    assert len(said(result, "copies of NCCL")) == 1, str(result)


def test_two_copies_by_handle(scratch):
    result = both(scratch, f"version:{NCCL_A}", f"version:{NCCL_B}", f"dlopen:{NCCL_B}:7",
                  f"dlopen:{NCCL_A}:5", f"version:{NCCL_A}", f"version:{NCCL_B}")
    assert result.out.split() == [str(VERSION_A), str(VERSION_B)] * 2, str(result)
    seen(scratch, 12)
    check_copies(scratch, result)


def test_two_copies_linked(scratch):
    """Each library's calls end in the copy it is linked to, also when the second comes late."""
    result = both(scratch, f"clients:{client('a')}:{client('b')}")
    assert result.out.split() == [str(VERSION_A), str(VERSION_B)], str(result)
    seen(scratch, 40)
    check_copies(scratch, result)


def test_two_copies_mixed_routes(scratch):
    """One is linked, as a framework has it; the other is opened by path, as some packages do."""
    result = both(scratch, f"client:{client('a')}:3", f"dlopen:{NCCL_B}:4", f"version:{NCCL_B}",
                  f"client:{client('a')}:5")
    assert result.out.split() == [str(VERSION_B)], str(result)
    seen(scratch, 12)
    check_copies(scratch, result)


def test_communicator_of_the_other_copy(scratch):
    """It belongs to the copy that made it; that somebody mixes them is said."""
    harness.need(LOADCASE, LIBRARY)
    result = scratch.run([LOADCASE, f"mixed:{NCCL_A}:{NCCL_B}"], preload(scratch)).ok()
    seen(scratch, 5)
    assert facts(scratch)["nccl.mixed"] == "1 through 2", facts(scratch)
    assert len(said(result, "was used through")) == 1, str(result)


def test_race(scratch):
    """Threads open, look up, call and close two copies all at once."""
    not_sanitized("libtsan")  # it does not know the loader's locks
    rounds = 100 if jobs.sanitizer_runtime() else 1000
    # The first call begins the recording; what comes meanwhile is only passed on.
    both(scratch, f"version:{NCCL_A}", f"race:{NCCL_A}:{NCCL_B}:8:{rounds}")
    seen(scratch, 8 * rounds + 1, function="ncclGetVersion")


def test_unloaded_and_loaded_again(scratch):
    """A library that is gone leaves no idea behind of whom its addresses belong to."""
    result = both(scratch, f"reload:{client('a')}:{client('b')}:20")
    assert result.out.split() == [str(VERSION_A), str(VERSION_B)] * 20, str(result)
    seen(scratch, 40, function="ncclGetVersion")


def test_forked_children(scratch):
    """Forked at any time: the child looks up, calls, and records on its own."""
    not_sanitized()
    both(scratch, f"fork:{NCCL_A}:{NCCL_B}:10")
    assert len(jobs.count_calls(scratch, "ncclGetVersion")) == 11, \
        jobs.count_calls(scratch, "ncclGetVersion")


def test_signal_handler(scratch):
    not_sanitized()
    both(scratch, f"signal:{NCCL_A}:300")
    assert jobs.count_calls(scratch, "ncclGetVersion")[0] >= 300


# --- other tools ---

def other_counts(result):
    return [line for line in result.out.splitlines() if line.startswith("other:")]


def test_another_interposer(scratch):
    """Before us or after us: both see every call once."""
    not_sanitized()
    harness.need(OTHER, jobs.CALLER)
    for name, around in (("before", {"before": [OTHER]}), ("after", {"after": [OTHER]})):
        scratch.traces = scratch.file("traces-" + name)
        result = scratch.run([jobs.CALLER, "init", "40", "destroy"],
                             preload(scratch, **around)).ok()
        assert other_counts(result) == ["other: 40 reduced, 1 opened, resized yes"], str(result)
        seen(scratch, 40)


def test_another_interposer_and_a_local_library(scratch):
    """After us and blind, as it is without us: its RTLD_NEXT does not see the library."""
    not_sanitized()
    harness.need(OTHER)
    words = [LOADCASE, f"client:{client('a')}:3"]
    plain = scratch.run(words, without(OTHER))
    ours = scratch.run(words, preload(scratch, after=[OTHER]))
    assert plain.status == ours.status == 1, f"{plain}\n{ours}"
    assert plain.out == ours.out, f"{plain}\n{ours}"
    # Through a handle both pass it by.
    scratch.traces = scratch.file("traces-handle")
    result = scratch.run([LOADCASE, f"dlopen:{NCCL_A}:6"], preload(scratch, after=[OTHER])).ok()
    assert other_counts(result) == ["other: 0 reduced, 0 opened, resized yes"], str(result)
    seen(scratch, 6)


def test_another_dlsym(scratch):
    """A tool that wraps dlsym in C keeps its place, before us and after us."""
    not_sanitized("libtsan")  # it is instrumented, and called before the runtime is ready
    harness.need(HOOKER)
    for around in ({"before": [HOOKER]}, {"after": [HOOKER]}):
        result = scratch.run([LOADCASE, f"version:{NCCL_A}"], preload(scratch, **around)).ok()
        assert result.out.splitlines() == [str(VERSION_A), "hooker: asked"], str(result)


def test_before_our_constructor(scratch):
    """All is found and seen although the recorder has not been initialised yet."""
    not_sanitized()
    harness.need(EARLY)
    env = {"NSPY_EARLY_NCCL": NCCL_A}
    words = [LOADCASE, f"version:{NCCL_A}"]
    plain = scratch.run(words, dict(env, **without(EARLY))).ok()
    ours = scratch.run(words, dict(env, **preload(scratch, after=[EARLY]))).ok()
    assert plain.out == ours.out, f"{plain}\n{ours}"
    assert ours.out.splitlines()[:2] == ["early: not there", f"early: {VERSION_A}"], str(ours)
    seen(scratch, 2, function="ncclGetVersion")


# --- sanitizers ---

def sanitized(scratch, name):
    program = os.path.join(HERE, "loadcase_" + name)
    if not os.path.exists(program):
        raise harness.Skip(f"no {name} sanitizer here")
    libraries = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True,
                               check=True).stdout
    runtime = [line.split()[2] for line in libraries.splitlines()
               if line.strip().startswith(("libasan", "libtsan"))]
    env = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0",
           "TSAN_OPTIONS": "report_bugs=0"}
    words = [f"dlopen:{NCCL_A}:10", "default:ncclCommGrow"]
    scratch.run([program, *words], env).ok()
    for number, before in enumerate(([], runtime)):
        scratch.traces = scratch.file(f"traces-{number}")
        result = scratch.run([program, *words], dict(env, **preload(scratch, before=before))).ok()
        assert result.out == "no: undefined symbol: ncclCommGrow\n", str(result)
        seen(scratch, 10)


def test_address_sanitizer(scratch):
    sanitized(scratch, "address")


def test_thread_sanitizer(scratch):
    sanitized(scratch, "thread")


# --- what passes us by ---

def passes_by(scratch, word, path):
    """Nothing is seen, the program is well, and one line says so."""
    result = both(scratch, word)
    lines = said(result, "")
    assert len(lines) == 1 and "no call of it reached ncclspy" in lines[0], str(result)
    assert result.err.strip() == lines[0], str(result)
    unseen = facts(scratch)["nccl.unseen"]
    assert path == (os.path.realpath(unseen) if "/" in unseen else unseen), unseen
    seen(scratch, function="ncclCommInitAll")


def test_deepbind(scratch):
    not_sanitized()
    passes_by(scratch, f"deepbind:{client('a')}", NCCL_A)


def test_static_with_hidden_symbols(scratch):
    passes_by(scratch, f"hidden:{client('hidden')}", "?")


def test_loaded_and_not_used(scratch):
    """No reason to say anything, though not a call was seen."""
    not_sanitized()
    for word in (f"deepload:{client('a')}", f"keep:{NCCL_A}", f"keep:{client('hidden')}"):
        assert both(scratch, word).err == "", word
        nothing_recorded(scratch)


def test_musl(scratch):
    """A program that glibc's loader does not start is named before it fails."""
    harness.need(RUN, LIBRARY)
    source, program = scratch.file("a.c", "int main(void) { return 0; }\n"), scratch.file("a")
    machine = os.uname().machine
    made = scratch.run(["cc", "-o", program, source,
                        f"-Wl,--dynamic-linker=/lib/ld-musl-{machine}.so.1"])
    if made.status != 0:
        raise harness.Skip("no compiler")
    result = scratch.run([RUN, "-o", scratch.traces, "--check", "--", program])
    line = [text for text in result.out.splitlines() if "] program:" in text]
    assert result.status == 1 and len(line) == 1, str(result)
    assert line[0].startswith("[FAIL]") and "musl" in line[0], str(result)


def static_program(scratch, flag):
    """A program without a loader that becomes its arguments, or ends with status 5."""
    source = scratch.file("s.c", """
        #include <stdio.h>
        #include <unistd.h>
        int main(int argc, char **argv)
        {
            if (argc > 1)
                execv(argv[1], argv + 1);
            puts("without a loader");
            return 5;
        }
        """)
    program = scratch.file("s" + flag)
    if scratch.run(["cc", flag, "-o", program, source]).status != 0:
        raise harness.Skip(f"no compiler for {flag}")
    return program


def check_static(scratch, flag):
    """Nothing of it can be seen: it runs as without us, the launcher knows, children are seen."""
    harness.need(RUN, LIBRARY, jobs.CALLER)
    program = static_program(scratch, flag)
    launch = [RUN, "-v", "-o", scratch.traces, "--"]
    result = scratch.run([*launch, program])
    assert (result.status, result.out) == (5, "without a loader\n"), str(result)
    assert "no NCCL call seen: " in result.err and "statically" in result.err, str(result)
    nothing_recorded(scratch)
    checked = scratch.run([RUN, "-o", scratch.traces, "--check", "--", program])
    line = [text for text in checked.out.splitlines() if "] program:" in text]
    assert line and line[0].startswith("[FAIL]") and "statically" in line[0], str(checked)
    scratch.run([*launch, program, jobs.CALLER, "init", "7", "destroy"], without()).ok()
    seen(scratch, 7)


def test_static_program(scratch):
    check_static(scratch, "-static")


def test_static_pie_program(scratch):
    check_static(scratch, "-static-pie")


def test_switched_off(scratch):
    """NCCLSPY=0: calls are passed on to the right copy, and probes are answered rightly."""
    env = dict(preload(scratch), NCCLSPY="0")
    words = [f"dlopen:{NCCL_A}:5", "default:ncclAllReduce", f"in:{NCCL_A}:ncclCommGrow",
             f"version:{NCCL_B}", f"client:{client('b')}:2"]
    plain = scratch.run([LOADCASE, *words], without()).ok()
    ours = scratch.run([LOADCASE, *words], env).ok()
    assert (plain.out, plain.err) == (ours.out, ours.err), f"{plain}\n{ours}"
    nothing_recorded(scratch)


harness.main(globals())
