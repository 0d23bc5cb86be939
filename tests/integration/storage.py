# SPDX-License-Identifier: Apache-2.0
"""Storage that is full, read-only, missing or gone: the job runs on, one line says why."""
import os
import shutil
import time

import harness
import jobs
from harness import LIBRARY, TRAINJOB

WARNING = "[WARN]"


def in_own_mounts(scratch, script, env):
    """Runs a script as root of a mount namespace of its own."""
    harness.need(jobs.CALLER, LIBRARY, harness.ANALYZE)
    enter = ["unshare", "--mount", "--propagation", "private"]
    if scratch.run(enter + ["sh", "-c", "mount -t tmpfs none /mnt"]).status != 0:
        raise harness.Skip("no right to mount")
    return scratch.run(enter + ["sh", "-euc", script], env)


def one_warning(result, *words):
    lines = [line for line in result.err.splitlines() if WARNING in line]
    assert len(lines) == 1, str(result)
    for word in words:
        assert word in lines[0], lines[0]


def test_full_disk(scratch):
    """A tmpfs of 64 KiB: what fits is there and is read, the rest is counted."""
    directory = scratch.file("small")
    os.mkdir(directory)
    words = "init 3000 sleep:300 20000 sleep:300 20000 sleep:300 20000 destroy say:done"
    env = dict(jobs.preload_env(scratch, directory), NCCLSPY_JOB="j")
    result = in_own_mounts(scratch, f"""
        unset LD_PRELOAD
        mount -t tmpfs -o size=64k none {directory}
        dd if=/dev/zero of={directory}/filler bs=1024 count=40 2>/dev/null
        LD_PRELOAD={env['LD_PRELOAD']} {jobs.CALLER} {words}
        cp -r {directory}/j {scratch.path}/copy
        """, env).ok()
    assert "done" in result.out, str(result)
    one_warning(result, "No space left")
    copy = scratch.file("copy")
    kept = jobs.count_calls(scratch, directory=copy)
    assert kept and kept[0] >= 255, kept
    checked = jobs.analyze(scratch, "check", copy)
    assert checked.status in (0, 1), str(checked)


def test_file_size_limit(scratch):
    """ulimit -f is the host's: our writes must not get it killed by SIGXFSZ."""
    harness.need(jobs.CALLER, LIBRARY)
    env = jobs.preload_env(scratch)
    words = "init 20000 sleep:300 20000 sleep:300 20000 destroy say:done"
    result = scratch.run(["sh", "-c", f"ulimit -f 8; exec {jobs.CALLER} {words}"], env).ok()
    assert "done" in result.out, str(result)
    one_warning(result, "File too large")


def test_read_only_directory(scratch):
    """Root may write anywhere but on a read-only file system."""
    directory = scratch.file("fixed")
    os.mkdir(directory)
    env = jobs.preload_env(scratch, directory)
    result = in_own_mounts(scratch, f"""
        mount -t tmpfs -o ro none {directory}
        exec {jobs.CALLER} init 1000 destroy say:done
        """, env).ok()
    assert "done" in result.out, str(result)
    one_warning(result, "Read-only file system")


def test_no_directory(scratch):
    """The path leads through a file."""
    scratch.file("file", "content\n")
    result = jobs.run_caller(scratch, "init", "1000", "destroy", "say:done",
                             env={"NCCLSPY_DIR": scratch.file("file/traces")}).ok()
    assert "done" in result.out, str(result)
    one_warning(result, "Not a directory")
    with open(scratch.file("file"), encoding="utf-8") as f:
        assert f.read() == "content\n"


def test_read_only_job(scratch):
    """A whole job whose traces cannot be written ends as without us."""
    harness.need(TRAINJOB, LIBRARY)
    scratch.file("file", "content\n")
    env = jobs.preload_env(scratch, scratch.file("file/traces"))
    result = scratch.run([TRAINJOB, "-n", "4", "--steps", "3"], env).ok()
    assert "done" in result.err, str(result)


def test_directory_removed(scratch):
    """Somebody cleans up while the job runs."""
    child = jobs.start_caller(scratch, "init", "3000", "sleep:500", "say:written", "sleep:1500",
                              "3000", "sleep:500", "3000", "destroy", "say:done")
    assert child.stdout.readline() == "written\n"
    harness.wait_for(lambda: jobs.trace_files(scratch.traces), "a trace")
    shutil.rmtree(scratch.traces)
    result = scratch.finish(child).ok()
    assert "done" in result.out, str(result)


def test_file_replaced(scratch):
    """A segment that is not ours any more is not written to."""
    child = jobs.start_caller(scratch, "init", "3000", "sleep:500", "say:written", "sleep:1500",
                              "3000", "sleep:500", "3000", "destroy", "say:done")
    assert child.stdout.readline() == "written\n"
    segments = harness.wait_for(
        lambda: [n for n in jobs.trace_files(scratch.traces) if n.endswith(".nspy")], "a trace")
    target = scratch.file("precious", "content\n")
    os.unlink(segments[0])
    os.symlink(target, segments[0])
    scratch.finish(child).ok()
    with open(target, encoding="utf-8") as f:
        assert f.read() == "content\n"


def test_shared_memory_full(scratch):
    """No SIGBUS: without room for live pages there are none, and the trace is whole."""
    env = jobs.preload_env(scratch)
    result = in_own_mounts(scratch, f"""
        mount -t tmpfs -o size=128k none /dev/shm
        dd if=/dev/zero of=/dev/shm/filler bs=1024 count=120 2>/dev/null || :
        {jobs.CALLER} init 30000 destroy say:done
        ls /dev/shm
        """, env).ok()
    assert result.out.split() == ["done", "filler"], str(result)
    assert jobs.count_calls(scratch) == [30000]


def test_shared_memory_filled_later(scratch):
    """Live pages are reserved: what others do to /dev/shm afterwards cannot hurt."""
    env = jobs.preload_env(scratch)
    result = in_own_mounts(scratch, f"""
        mount -t tmpfs -o size=20m none /dev/shm
        {jobs.CALLER} init 10 say:running sleep:700 30000 sleep:200 30000 destroy say:done &
        sleep 0.3
        dd if=/dev/zero of=/dev/shm/filler bs=1M count=40 2>/dev/null || :
        wait $!
        """, env).ok()
    assert "done" in result.out, str(result)
    found, lost = jobs.count_calls(scratch)[0], jobs.lost_calls(result)
    assert found <= 60010 <= found + lost, (found, lost)


def test_shared_memory_on_disk(scratch):
    """/dev/shm that is no tmpfs: a shared mapping there would stall the job, so there is none."""
    os.mkdir(scratch.file("disk"))
    env = jobs.preload_env(scratch)
    result = in_own_mounts(scratch, f"""
        mount --bind {scratch.file("disk")} /dev/shm
        {jobs.CALLER} init 3000 destroy say:done
        ls /dev/shm
        """, env).ok()
    assert result.out == "done\n", str(result)
    assert jobs.count_calls(scratch) == [3000]


def test_planted_files_are_not_followed(scratch):
    """The directory of the node is a link to elsewhere that another job made: files stay ours."""
    start = time.time()
    result = jobs.run_caller(scratch, "init", "100", "destroy").ok()
    for name in jobs.trace_files(scratch.traces):
        status = os.lstat(name)
        assert status.st_mode & 0o7777 == 0o600, oct(status.st_mode)
        assert status.st_mtime >= start - 1
    assert "[WARN]" not in result.err, result.err


harness.main(globals())
