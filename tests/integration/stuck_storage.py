# SPDX-License-Identifier: Apache-2.0
"""A directory of traces that stops answering: said so, hangs still named, and the job ends."""
import ctypes
import glob
import os
import re
import signal

import harness
import jobs
import live

FUSE_TREE = os.path.join(harness.BUILD, "tests/integration/fuse_tree")
STUCK_CALLS = os.path.join(harness.BUILD, "tests/integration/libstuckcalls.so")
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
JOB = ["-n", "4", "--steps", "100000", "--compute-ms", "20", "--no-verify", "--timeout", "60",
       "--grace", "60"]
SLOW = re.compile(r"\[FAIL\] P1 SHARED_DIR_SLOW (.*) does not answer since (\d+) s")


def own_mounts():
    """This process gets a mount namespace of its own, so that the mount goes with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        raise harness.Skip("no right to mount")


def stuck_threads(child):
    """(process, thread, state, where in the kernel) of all that is left of the job."""
    for pid in harness.session_members(child.pid):
        for task in glob.glob(f"/proc/{pid}/task/*"):
            facts = []
            for name in ("comm", "stat", "wchan"):
                try:
                    with open(os.path.join(task, name), encoding="utf-8", errors="replace") as f:
                        facts.append(f.read().strip())
                except OSError:
                    facts.append("?")
            yield pid, facts[0], facts[1].rpartition(") ")[2][:1], facts[2]


class Watched:
    """A job whose stderr is read while it runs."""

    def __init__(self, scratch, *options, fault=None, env=None):
        harness.need(harness.TRAINJOB, harness.LIBRARY, harness.RUN)
        self.path = scratch.file("stderr", "")
        settings = dict(live.SETTINGS, NCCLSPY_HANG_S="8", LD_PRELOAD=jobs.sanitizer_runtime())
        settings.update(env or {})
        if fault:
            settings["NSPY_FAKE"] = fault
        with open(self.path, "w", encoding="utf-8") as err:
            self.child = scratch.start([harness.RUN, "-o", scratch.traces, "--", harness.TRAINJOB,
                                        *JOB, *options], settings, stderr=err)

    def err(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def says(self, pattern):
        return harness.wait_for(lambda: re.search(pattern, self.err()), f"{pattern}")

    def ends(self):
        try:
            harness.wait_for(lambda: self.child.poll() is not None, "the end of the job")
        except AssertionError as late:
            raise AssertionError(f"{late}: {list(stuck_threads(self.child))}") from late


def wait_for_traces(scratch):
    harness.wait_for(lambda: [n for n in jobs.trace_files(scratch.traces) if n.endswith(".nspy")],
                     "traces")


def start_tree(scratch):
    harness.need(FUSE_TREE)
    own_mounts()
    os.mkdir(scratch.traces)
    tree = scratch.start([FUSE_TREE, scratch.traces])
    if tree.stdout.readline() != "mounted\n":
        raise harness.Skip("no FUSE file system can be mounted")
    return tree


def test_fuse(scratch):
    """A mount that stops answering, and a rank that hangs then: both are said, and the job ends."""
    tree = start_tree(scratch)
    job = Watched(scratch, fault="rank=2,op=all_reduce,nth=900,do=hang")
    wait_for_traces(scratch)
    os.kill(tree.pid, signal.SIGUSR1)
    try:
        job.says(SLOW)
        job.says(r"P0 COLLECTIVE_HANG .*rank 2 never arrived")
        # The launcher ends its ranks, each of which has a thread that is stuck in the mount.
        os.kill(job.child.pid, signal.SIGTERM)
        job.ends()
    finally:
        os.kill(tree.pid, signal.SIGUSR2)
        harness.kill_session(job.child)
        harness.kill_session(tree)


def test_fuse_returns(scratch):
    """Its end is said too, and the trace is whole afterwards."""
    tree = start_tree(scratch)
    job = Watched(scratch, "--steps", "1500")
    wait_for_traces(scratch)
    os.kill(tree.pid, signal.SIGUSR1)
    try:
        job.says(SLOW)
    finally:
        os.kill(tree.pid, signal.SIGUSR2)
    job.says(r"SHARED_DIR_SLOW: the directory answered after \d+ s")
    job.ends()
    assert job.child.returncode == 0, job.err()
    assert not re.search("COLLECTIVE_HANG", job.err()), job.err()
    checked = jobs.analyze(scratch, "check", scratch.traces)
    assert checked.status == 0, str(checked)
    harness.kill_session(tree)


def test_calls(scratch):
    """Without any right: writes that do not come back. The job itself goes on to its end."""
    harness.need(STUCK_CALLS)
    flag = scratch.file("stuck")
    job = Watched(scratch, "--steps", "600", env={
        "STUCK_WHILE": flag,
        "LD_PRELOAD": ":".join(p for p in (jobs.sanitizer_runtime(), STUCK_CALLS) if p)})
    wait_for_traces(scratch)
    scratch.file("stuck", "")
    job.says(SLOW)
    job.ends()
    assert job.child.returncode == 0, job.err()
    assert len(SLOW.findall(job.err())) == 1, job.err()


def test_answers(scratch):
    """Storage that answers is not accused."""
    job = Watched(scratch, "--steps", "350")
    job.ends()
    assert job.child.returncode == 0 and "SHARED_DIR_SLOW" not in job.err(), job.err()


if __name__ == "__main__":
    harness.main(globals())
