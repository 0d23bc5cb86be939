# SPDX-License-Identifier: Apache-2.0
"""ncclspy-run is invisible: exit status, signals, environment, descriptors."""
import os
import signal
import stat
import subprocess
import time

import harness
import jobs
from harness import RUN

PYTHON = os.path.realpath("/proc/self/exe")
# With sanitizers the launcher is instrumented and the commands here are not: they cannot load the
# library, and what they notice of the launcher does not depend on it.
LAUNCH = [RUN, "--quiet"] + (["--lib", "/nonexistent"] if jobs.sanitizer_runtime() else [])
# Counts the signals it gets; SIGTERM ends it.
COUNTER = """
import os, signal, sys
counts = {}
def count(number, frame):
    counts[number] = counts.get(number, 0) + 1
    print("got", number, flush=True)
watched = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT,
           signal.SIGALRM, signal.SIGRTMIN + 1, signal.SIGTERM]
for number in watched:
    signal.signal(number, count)
print("ready", os.getpid(), flush=True)
while not counts.get(signal.SIGTERM):
    signal.pause()
print("counts", *(counts.get(n, 0) for n in watched), flush=True)
"""


def start_counter(scratch):
    harness.need(RUN)
    child = scratch.start([*LAUNCH, "--", PYTHON, "-c", COUNTER])
    word, pid = child.stdout.readline().split()
    assert word == "ready"
    return child, int(pid)


def expect(child, number):
    line = child.stdout.readline()
    assert line == f"got {int(number)}\n", line


def final_counts(scratch, child):
    out = scratch.finish(child).ok().out
    return [int(n) for n in out.splitlines()[-1].split()[1:]]


def test_exit_status(scratch):
    harness.need(RUN)
    for status in (0, 1, 7, 255):
        assert scratch.run([*LAUNCH, "--", "sh", "-c", f"exit {status}"]).status == status


def test_own_troubles(scratch):
    harness.need(RUN)
    assert scratch.run([RUN, "--", "./nothing-there"]).status == 127
    assert scratch.run([RUN, "--", scratch.file("plain", "no program\n", 0o644)]).status == 126
    assert scratch.run([RUN, "--no-such-option", "true"]).status == 125
    result = scratch.run([RUN])
    assert result.status == 125 and "--help" in result.err, result


def test_script_without_interpreter_line(scratch):
    """As execvp and the shell do, not as execve does."""
    harness.need(RUN)
    script = scratch.file("script", "exit 9\n", 0o755)
    assert scratch.run([*LAUNCH, "--", script]).status == 9


def test_dies_by_the_signal_of_the_command(scratch):
    harness.need(RUN)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGPIPE):
        result = scratch.run([*LAUNCH, "--", "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$"])
        assert result.status == -number, result


def test_signal_to_the_launcher_arrives_once(scratch):
    child, _ = start_counter(scratch)
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT,
                   signal.SIGALRM, signal.SIGRTMIN + 1):
        os.kill(child.pid, number)
        expect(child, number)
    os.kill(child.pid, signal.SIGTERM)
    assert final_counts(scratch, child) == [1, 1, 1, 1, 1, 1, 1, 1]


def test_signal_to_the_group_arrives_once(scratch):
    """As a terminal or kill -PGID does it: the command gets it directly."""
    child, _ = start_counter(scratch)
    for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR1):
        os.killpg(child.pid, number)
        expect(child, number)
    os.kill(child.pid, signal.SIGTERM)
    assert final_counts(scratch, child) == [2, 0, 1, 0, 0, 0, 0, 1]


def test_signal_to_each_process_arrives_once(scratch):
    """As slurmstepd does it: one kill per process of the step."""
    child, _ = start_counter(scratch)
    for _ in range(3):
        for member in list(harness.session_members(child.pid)):
            os.kill(member, signal.SIGUSR2)
        expect(child, signal.SIGUSR2)
    os.kill(child.pid, signal.SIGTERM)
    assert final_counts(scratch, child) == [0, 3, 0, 0, 0, 0, 0, 1]


def test_group_then_launcher(scratch):
    """What was seen of one signal must not swallow the next of the same number."""
    child, _ = start_counter(scratch)
    os.killpg(child.pid, signal.SIGUSR1)
    expect(child, signal.SIGUSR1)
    time.sleep(0.3)  # beyond what counts as one signal
    os.kill(child.pid, signal.SIGUSR1)
    expect(child, signal.SIGUSR1)
    os.kill(child.pid, signal.SIGTERM)
    assert final_counts(scratch, child) == [2, 0, 0, 0, 0, 0, 0, 1]


def test_stop_and_continue(scratch):
    """As under a shell with job control: a process group whose parent is in the same session."""
    harness.need(RUN)
    shell = ("import os, subprocess, sys;"
             "sys.exit(subprocess.Popen(sys.argv[1:], preexec_fn=os.setpgrp).wait())")
    child = scratch.start([PYTHON, "-c", shell, *LAUNCH, "--", "sleep", "1000"])
    pid = harness.wait_for(lambda: named(child.pid, "sleep"), "the command")
    launcher = named(child.pid, "ncclspy-run")
    os.kill(launcher, signal.SIGTSTP)
    harness.wait_for(lambda: state(pid) == "T" and state(launcher) == "T", "both stopped")
    os.kill(launcher, signal.SIGCONT)
    harness.wait_for(lambda: state(pid) == "S" and state(launcher) == "S", "both running")
    os.killpg(launcher, signal.SIGTSTP)
    harness.wait_for(lambda: state(pid) == "T" and state(launcher) == "T", "the group stopped")
    os.killpg(launcher, signal.SIGCONT)
    harness.wait_for(lambda: state(pid) == "S" and state(launcher) == "S", "the group running")
    os.kill(launcher, signal.SIGTERM)
    harness.wait_for(lambda: harness.is_zombie(pid), "the end")


def test_stop_without_job_control(scratch):
    """Nobody would wake the launcher: it stays awake for the command's end."""
    harness.need(RUN)
    child = scratch.start([*LAUNCH, "--", "sleep", "1000"])
    pid = harness.wait_for(lambda: named(child.pid, "sleep"), "the command")
    os.kill(pid, signal.SIGSTOP)
    harness.wait_for(lambda: state(pid) == "T", "the command stopped")
    os.kill(child.pid, signal.SIGTSTP)  # the kernel ignores it for a group of this kind
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGTERM)
    assert scratch.finish(child).status == -signal.SIGTERM


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return f.read().rpartition(")")[2].split()[0]


def named(session, name):
    for pid in harness.session_members(session):
        with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
            if f.read() == name + "\n":
                return pid
    return None


def test_killed_launcher_takes_the_command_along(scratch):
    child, pid = start_counter(scratch)
    os.kill(child.pid, signal.SIGKILL)
    harness.wait_for(lambda: harness.is_zombie(pid), "the command to end")
    harness.wait_for(lambda: all(harness.is_zombie(p) for p in
                                 harness.session_members(child.pid)), "everybody to end")


def test_inherited_dispositions(scratch):
    """Ignored and blocked signals reach the command as the launcher found them."""
    harness.need(RUN)
    show = ("import signal; print(signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGCHLD),"
            " signal.pthread_sigmask(signal.SIG_BLOCK, []))")
    wrap = ("import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]);"
            "os.execv(sys.argv[1], sys.argv[1:])")
    plain = scratch.run([PYTHON, "-c", wrap, PYTHON, "-c", show]).ok()
    ours = scratch.run([PYTHON, "-c", wrap, *LAUNCH, "--", PYTHON, "-c", show]).ok()
    assert plain.out == ours.out, (plain.out, ours.out)


def test_descriptors_and_arguments(scratch):
    harness.need(RUN)
    show = "import os, sys; print(sorted(os.listdir('/proc/self/fd'), key=int), sys.argv[1:])"
    arguments = ["a b", "", "--output", "--"]
    plain = scratch.run([PYTHON, "-c", show] + arguments).ok()
    ours = scratch.run([*LAUNCH, "--", PYTHON, "-c", show] + arguments).ok()
    assert plain.out == ours.out, (plain.out, ours.out)


def test_no_pipe_kept_open(scratch):
    """The reader of the command's output sees its end although the launcher still works."""
    harness.need(RUN)
    child = scratch.start([*LAUNCH, "--", "sh", "-c", "exec >&- 2>&-; exec sleep 1000"],
                          stderr=subprocess.DEVNULL)
    harness.wait_for(lambda: named(child.pid, "sleep"), "the command")
    witness = harness.wait_for(lambda: named(child.pid, "ncclspy-signals"), "the witness")
    harness.wait_for(lambda: len(os.listdir(f"/proc/{witness}/fd")) == 1, "the witness to let go")
    os.kill(child.pid, signal.SIGTERM)
    scratch.finish(child)


def test_as_pid_1(scratch):
    """Collects orphans and turns a signal into 128+n, since pid 1 cannot kill itself."""
    harness.need(RUN)
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if scratch.run(unshare + ["true"]).status != 0:
        raise harness.Skip("no right to make a pid namespace")
    orphans = ("import os, sys, time\n"
               "if os.fork() == 0:\n    os.fork() or os._exit(0)\n    os._exit(0)\n"
               "os.wait()\n"
               "end = time.monotonic() + 60\n"
               "def stat(p):\n"
               "    try:\n        return open(f'/proc/{p}/stat').read()\n"
               "    except OSError:\n        return ') gone'\n"
               "def zombies():\n"
               "    return [p for p in os.listdir('/proc') if p.isdigit() and\n"
               "            stat(p).rpartition(')')[2].split()[0] == 'Z']\n"
               "while zombies() and time.monotonic() < end:\n    time.sleep(0.02)\n"
               "sys.exit(3 if not zombies() and os.getppid() == 1 else 4)\n")
    result = scratch.run(unshare + [*LAUNCH, "--", PYTHON, "-c", orphans])
    assert result.status == 3, result
    result = scratch.run(unshare + [*LAUNCH, "--", "sh", "-c", "kill -TERM $$"])
    assert result.status == 128 + signal.SIGTERM, result


def test_core_limit_and_files_untouched(scratch):
    """The launcher leaves nothing behind for a command that never calls NCCL."""
    harness.need(RUN)
    scratch.run([*LAUNCH, "-o", scratch.traces, "--", "true"]).ok()
    assert not os.path.exists(scratch.traces)
    assert os.listdir(scratch.path) == []
    assert stat.S_ISDIR(os.stat(scratch.path).st_mode)


harness.main(globals())
