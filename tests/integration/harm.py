# SPDX-License-Identifier: Apache-2.0
"""What the library must not do to its host, as seen from outside: docs/DO_NO_HARM.md."""
import glob
import os
import shutil

import harness
import jobs

FATAL = {"SIGKILL": 9, "SIGSTOP": 19}


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8", errors="replace") as f:
        return f.read()


def fields(path):
    return dict(line.split(":", 1) for line in read(path, "status").splitlines() if ":" in line)


def recording(scratch):
    child = jobs.start_caller(scratch, "init", "300", "say:here", "sleep:60000")
    assert child.stdout.readline() == "here\n"
    harness.wait_for(lambda: len(own_threads(child)) == 2, "writer and watcher")
    return child


def own_threads(child):
    """By name: the stand-ins have threads too."""
    return [task for task in glob.glob(f"/proc/{child.pid}/task/*")
            if read(task, "comm").startswith("ncclspy-")]


def test_own_threads(scratch):
    """Named, deaf to every signal, and on the CPUs that the process may use."""
    child = recording(scratch)
    main = fields(f"/proc/{child.pid}")
    ours = own_threads(child)
    deaf = ((1 << 64) - 1) & ~sum(1 << (number - 1) for number in FATAL.values())
    for task in ours:
        its = fields(task)
        # The C library keeps two signals for itself, which cannot be blocked.
        open_signals = deaf & ~int(its["SigBlk"], 16) & ~(3 << 31)
        assert open_signals == 0, (read(task, "comm"), its["SigBlk"])
        assert its["Cpus_allowed_list"] == main["Cpus_allowed_list"], its


def test_no_signal_handler(scratch):
    """Dispositions are those of the program without us."""
    plain = scratch.start([jobs.CALLER, "init", "300", "say:here", "sleep:60000"])
    assert plain.stdout.readline() == "here\n"
    before, after = fields(f"/proc/{plain.pid}"), fields(f"/proc/{recording(scratch).pid}")
    for name in ("SigCgt", "SigIgn", "SigBlk"):
        assert before[name] == after[name], (name, before[name], after[name])


def test_without_rights(scratch):
    """Nobody, with no capability, no new privileges and no way to write but the traces."""
    harness.need(harness.TRAINJOB, harness.LIBRARY)
    if os.getuid() != 0 or not shutil.which("setpriv"):
        raise harness.Skip("takes root to give up rights")
    os.chmod(scratch.path, 0o755)
    os.mkdir(scratch.traces)
    os.chown(scratch.traces, 65534, 65534)
    env = dict(jobs.preload_env(scratch), NSPY_FAKE_GPUS="8")
    result = scratch.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                          "--no-new-privs", "--bounding-set=-all", harness.TRAINJOB, "-n", "2",
                          "--steps", "3"], env)
    assert result.status == 0 and "done" in result.err, str(result)
    assert "[FAIL]" not in result.err, str(result)
    assert len(jobs.count_calls(scratch)) == 2


if __name__ == "__main__":
    harness.main(globals())
