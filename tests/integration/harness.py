# SPDX-License-Identifier: Apache-2.0
"""Running commands in tests: with a timeout, killed as a whole, in a scratch directory.

A test file defines functions named test_*, each taking a Scratch, and ends with
harness.main(globals()). `FILE` runs them all, `FILE NAME...` some, `FILE --list` names them.
A test fails by AssertionError, is skipped by Skip. The scratch directory of a failed test is kept
and named.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

SKIP_STATUS = 77
SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("NSPY_BUILD", os.path.join(SOURCE, "build"))

RUN = os.path.join(BUILD, "tools/run/ncclspy-run")
ANALYZE = os.path.join(BUILD, "analyzer/ncclspy-analyze")
LIBRARY = os.path.join(BUILD, "interpose/libncclspy.so")
FAKES = os.path.join(BUILD, "tests/fakes")
TRAINJOB = os.path.join(BUILD, "tests/trainjob/trainjob")
# Long enough for a loaded two-core machine; only a hang reaches it.
TIMEOUT_S = 120
# What a test must not inherit: ours, the schedulers' and the frameworks' ideas of a job.
FOREIGN = ("NCCL", "SLURM", "OMPI_", "PMI", "PMIX", "TORCHELASTIC", "NSPY_FAKE", "LD_PRELOAD")
FOREIGN_NAMES = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                 "MASTER_PORT", "NODE_NAME", "POD_NAME", "NAMESPACE", "TMPDIR"}


class Skip(Exception):
    """The machine lacks what the test needs; the text says what."""


class Result:
    """How a command ended. status is negative for a signal, as subprocess has it."""

    def __init__(self, command, status, out, err, timed_out):
        self.command, self.status, self.out, self.err = command, status, out, err
        self.timed_out = timed_out

    def __str__(self):
        return (f"{' '.join(map(str, self.command))}\nstatus {self.status}"
                f"{' (timed out)' if self.timed_out else ''}\n--- stdout\n{self.out}"
                f"--- stderr\n{self.err}---")

    def ok(self):
        assert self.status == 0 and not self.timed_out, str(self)
        return self


class Scratch:
    """A test's own directory, environment and processes."""

    def __init__(self, path):
        self.path = path
        self.traces = os.path.join(path, "traces")
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(FOREIGN) and k not in FOREIGN_NAMES}
        self.env["TMPDIR"] = path
        # Names in /dev/shm hold a hash of the job, so tests that run side by side stay apart.
        self.env["NCCLSPY_JOB"] = f"test{os.getpid()}x{time.monotonic_ns()}"
        self.started = []

    def file(self, name, text=None, mode=None):
        """Path of a file of the scratch directory; written if there is text."""
        path = os.path.join(self.path, name)
        if text is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        if mode is not None:
            os.chmod(path, mode)
        return path

    def start(self, command, env=None, **more):
        """A process in a session of its own, ended with the test at the latest."""
        settings = {"cwd": self.path, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                    "stderr": subprocess.PIPE, "text": True, "errors": "replace",
                    "start_new_session": True}
        settings.update(more)
        child = subprocess.Popen([str(part) for part in command],
                                 env=dict(self.env, **(env or {})), **settings)
        self.started.append(child)
        return child

    def finish(self, child, timeout=TIMEOUT_S):
        """Waits for a process of start(); on timeout its whole session is killed."""
        timed_out = False
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            kill_session(child)
            out, err = child.communicate()
        return Result(child.args, child.returncode, out or "", err or "", timed_out)

    def run(self, command, env=None, timeout=TIMEOUT_S, **more):
        return self.finish(self.start(command, env, **more), timeout)

    def end(self):
        for child in self.started:
            kill_session(child)
            child.wait()
            for stream in (child.stdout, child.stderr):
                if stream:
                    stream.close()
        remove_live_files(self.path)


def remove_live_files(path):
    """Live pages in shared memory that belong to traces below path: of killed processes."""
    for name in os.listdir("/dev/shm"):
        full = os.path.join("/dev/shm", name)
        if name.startswith("ncclspy.") and \
                name.endswith((".live", ".status", ".told", ".control")):
            try:
                with open(full, "rb") as f:
                    ours = path.encode() + b"/" in f.read(64 * 1024)
                if ours:
                    os.unlink(full)
            except OSError:
                pass


def session_members(session):
    """Processes of a session. Ours only: each test process starts its own sessions."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getsid(int(name)) == session:
                    yield int(name)
            except OSError:
                pass


def kill_session(child):
    """A job's ranks may sit in process groups of their own; the session holds them all."""
    for _ in range(50):
        members = [pid for pid in session_members(child.pid) if not is_zombie(pid)]
        if not members:
            return
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def wait_for(condition, what, timeout=TIMEOUT_S):
    """Polls until condition() is true; its value is returned."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {timeout} s for {what}")


def need(*paths):
    """Skips the test if a part it drives was not built."""
    for path in paths:
        if not os.path.exists(path):
            raise Skip(f"{os.path.relpath(path, BUILD)} is not built")


def run_test(name, function):
    path = tempfile.mkdtemp(prefix=f"ncclspy-{name}-", dir=os.environ.get("NSPY_SCRATCH"))
    scratch = Scratch(path)
    outcome = "ok"
    try:
        function(scratch)
    except Skip as reason:
        outcome = f"skipped: {reason}"
    except Exception:  # pylint: disable=broad-except
        outcome = "FAILED"
        traceback.print_exc()
        print(f"scratch directory kept: {path}", file=sys.stderr)
    scratch.end()
    if outcome != "FAILED":
        shutil.rmtree(path, ignore_errors=True)
    print(f"{name}: {outcome}", flush=True)
    return outcome


def main(names):
    tests = {name[len("test_"):]: value for name, value in names.items()
             if name.startswith("test_") and callable(value)}
    wanted = sys.argv[1:]
    if wanted == ["--list"]:
        print("\n".join(tests))
        return
    outcomes = [run_test(name, tests[name]) for name in (wanted or tests)]
    if "FAILED" in outcomes:
        sys.exit(1)
    sys.exit(0 if "ok" in outcomes else SKIP_STATUS)
