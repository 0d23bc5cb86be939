# SPDX-License-Identifier: Apache-2.0
"""Processes that do not call NCCL notice nothing of the preload, and NCCLSPY=0 ends it all."""
import json
import os
import shutil

import harness
import jobs
from harness import LIBRARY, RUN, TRAINJOB

PYTHON = os.path.realpath("/proc/self/exe")
# What a job script starts besides its ranks.
COMMANDS = [
    ["true"],
    ["false"],
    ["ls", "-l", "/proc/self/"],
    ["sh", "-c", "echo out; echo err >&2; (echo in a subshell); exit 4"],
    ["bash", "-c", "cat < /dev/null | wc -c; printenv HOME"],
    ["git", "--version"],
    ["gcc", "-dumpversion"],
    ["nvcc", "--version"],
    ["env", "-u", "LD_PRELOAD", "-u", "NCCLSPY_DIR", "sort", "/proc/self/environ"],
    [PYTHON, "-c", "import subprocess; print(subprocess.run(['echo', 'hello']).returncode)"],
    [PYTHON, "-c", "import multiprocessing as m\n"
                   "if __name__ == '__main__':\n"
                   "    with m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))"],
    [PYTHON, "-c", "import threading; t = threading.Thread(target=print, args=('x',));"
                   " t.start(); t.join()"],
]


def nothing_written(scratch):
    assert not os.path.exists(scratch.traces), jobs.trace_files(scratch.traces)


def comparable(text):
    """Output without what differs from run to run anyway."""
    return [line for line in text.splitlines() if not line.startswith(("total ", "lr-x", "lrwx",
                                                                      "dr-x", "-r"))]


def test_ordinary_programs(scratch):
    harness.need(LIBRARY)
    for command in COMMANDS:
        if not shutil.which(command[0]):
            continue
        plain = scratch.run(command)
        ours = scratch.run(command, jobs.preload_env(scratch))
        assert plain.status == ours.status, (plain, ours)
        assert comparable(plain.out) == comparable(ours.out), (str(plain), str(ours))
        assert plain.err == ours.err, (str(plain), str(ours))
        nothing_written(scratch)


def test_no_thread_no_descriptor(scratch):
    harness.need(LIBRARY)
    show = ("import os; print(len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd')),"
            " sum('ncclspy' in name for name in os.listdir('/dev/shm') if f'.{os.getpid()}.' in name),"
            " 'libncclspy.so' in open('/proc/self/maps').read())")
    plain = scratch.run([PYTHON, "-c", show]).ok().out.split()
    ours = scratch.run([PYTHON, "-c", show], jobs.preload_env(scratch)).ok().out.split()
    assert plain == ["1", plain[1], "0", "False"], plain
    assert ours == ["1", plain[1], "0", "True"], ours


def test_environment_is_not_changed(scratch):
    """The library never calls setenv: children inherit what the job script set."""
    harness.need(LIBRARY)
    env = jobs.preload_env(scratch)
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    got = json.loads(scratch.run([PYTHON, "-c", show], env).ok().out)
    expected = {**scratch.env, **env}
    for name, value in expected.items():
        assert got[name] == value, name
    assert not set(got) - set(expected) - {"LC_CTYPE"}, set(got) - set(expected)


def test_environment_of_a_recording_process(scratch):
    """The same for a process that records."""
    result = jobs.run_caller(scratch, "init", "10", "spawn:env", "return").ok()
    got = {line.split("=", 1)[0] for line in result.out.splitlines() if "=" in line}
    assert got - {"_"} <= set(scratch.env) | set(jobs.preload_env(scratch)), \
        got - set(scratch.env)


def test_loaded_but_not_called(scratch):
    """Having NCCL in the process is not calling it."""
    jobs.run_caller(scratch, "say:hello", "return").ok()
    nothing_written(scratch)


def test_switched_off(scratch):
    """NCCLSPY=0: the job runs, nothing is written, nothing is said."""
    harness.need(TRAINJOB, LIBRARY)
    command = [TRAINJOB, "-n", "4", "--steps", "3", "--quiet"]
    plain = scratch.run(command).ok()
    ours = scratch.run(command, dict(jobs.preload_env(scratch), NCCLSPY="0")).ok()
    assert (plain.out, plain.err) == (ours.out, ours.err), str(ours)
    nothing_written(scratch)


def test_switched_off_launcher(scratch):
    """ncclspy-run becomes the command: same process, no preload."""
    harness.need(RUN)
    show = "import os; print(os.getpid(), os.environ.get('LD_PRELOAD'))"
    child = scratch.start([RUN, "-o", scratch.traces, "--", PYTHON, "-c", show],
                          {"NCCLSPY": "0"})
    result = scratch.finish(child).ok()
    assert result.out.split() == [str(child.pid), "None"], str(result)
    nothing_written(scratch)


def test_quiet(scratch):
    """NCCLSPY_QUIET=1: files, but no word on stderr."""
    result = jobs.run_caller(scratch, "init", "10", "destroy", env={"NCCLSPY_QUIET": "1"}).ok()
    assert result.err == "", result.err
    assert jobs.trace_files(scratch.traces)


harness.main(globals())
