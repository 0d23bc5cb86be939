# SPDX-License-Identifier: Apache-2.0
"""ncclspy-top on jobs that run, hang and have ended, as text, as JSON and on a terminal."""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios

import harness
import jobs

TOP = os.path.join(harness.BUILD, "tools/top/ncclspy-top")
# Longer than any test; the rank that hangs never gives up.
JOB = ["-n", "4", "--steps", "12", "--compute-ms", "2", "--no-verify", "--timeout", "600",
       "--grace", "600"]
HANG = "rank=2,op=all_reduce,nth=41,do=hang"


def start_job(scratch, fault=HANG):
    harness.need(harness.TRAINJOB, harness.LIBRARY, harness.RUN, TOP)
    return scratch.start([harness.RUN, "-o", scratch.traces, "--", harness.TRAINJOB, *JOB],
                         {"NSPY_FAKE": fault, "NCCLSPY_QUIET": "1", "NCCLSPY_HANG_S": "1",
                          "NCCLSPY_HANG_START_S": "1",
                          "LD_PRELOAD": jobs.sanitizer_runtime()})


def look(scratch, *options, where=None):
    result = scratch.run([TOP, "--json", *options, where or scratch.traces])
    return json.loads(result.out) if result.status == 0 else None


def hung(scratch):
    """The first view in which rank 2 has been told to hold up all others."""
    def seen():
        view = look(scratch)
        return view if view and view["states"]["behind"] == 1 and \
            view["states"]["waiting"] == 3 and view["events"] else None
    return harness.wait_for(seen, "a view of the hang")


def test_names_the_late_rank(scratch):
    start_job(scratch)
    view = hung(scratch)
    assert view["job"] == scratch.env["NCCLSPY_JOB"] and view["nodes"] == 1, view
    assert [rank["rank"] for rank in view["ranks"]][0] == 2, view["ranks"]
    assert view["ranks"][0]["behind"] > 0 and "outside NCCL" in view["ranks"][0]["doing"]
    world = next(comm for comm in view["communicators"] if comm["world"])
    assert (world["nranks"], world["seen"], world["waiting"]) == (4, 4, 3), world
    assert world["ops_per_s"] > 0 and world["bus_bytes_per_s"] > 0, world
    assert view["events"][0]["id"] == "COLLECTIVE_HANG", view["events"]
    text = scratch.run([TOP, "--once", scratch.traces]).ok().out
    assert "\033" not in text and "COLLECTIVE_HANG" in text, text
    row = next(line.split() for line in text.splitlines() if " behind " in line and "PID" not in
               line and line.split()[0] == "2")
    assert row[3] == "behind", row
    # By the name of the job, too.
    result = scratch.run([TOP, "--json", view["job"]], {"NCCLSPY_DIR": scratch.traces}).ok()
    assert json.loads(result.out)["states"]["behind"] == 1


def test_a_dead_rank(scratch):
    start_job(scratch, "rank=1,op=all_reduce,nth=41,do=kill")

    def seen():
        view = look(scratch)
        return view if view and view["states"]["dead"] else None
    view = harness.wait_for(seen, "a view of the death")
    assert view["ranks"][0]["rank"] == 1 and view["ranks"][0]["state"] == "dead", view["ranks"]


def test_hostile_files(scratch):
    """Garbage, links, pipes and giants on the board and in shared memory change nothing."""
    start_job(scratch)
    job = os.path.dirname(os.path.realpath(hung(scratch)["directory"])) + "/" + \
        scratch.env["NCCLSPY_JOB"]
    board = os.path.join(job, "board")
    os.makedirs(board, exist_ok=True)
    with open(os.path.join(board, "garbage.1.node"), "wb") as f:
        f.write(os.urandom(65536))
    os.symlink("/dev/zero", os.path.join(board, "link.1.node"))
    os.mkfifo(os.path.join(board, "pipe.1.node"))
    with open(os.path.join(board, "giant.1.node"), "wb") as f:
        f.truncate(1 << 40)
    with open(os.path.join(job, "events.jsonl"), "ab") as f:
        f.write(b'\x00\xff{"event":\n{"event":"finding","id":"EVIL\\u001b[2J"}\n')
    page = f"/dev/shm/ncclspy.{os.getuid()}.{os.getpid()}.1.1.1.status"
    try:
        with open(page, "wb") as f:
            f.write(os.urandom(40000))
        view = look(scratch)
        assert view["damaged"] == 2 and len(view["ranks"]) == 4, view
        assert view["events"][0]["id"] == "EVIL?[2J", view["events"]
    finally:
        os.unlink(page)


def test_nothing_there(scratch):
    harness.need(TOP)
    os.makedirs(scratch.file("empty"))
    for where in (scratch.file("empty"), scratch.file("missing"), "no-such-job"):
        result = scratch.run([TOP, "--once", where])
        assert result.status == 3 and "no job" in result.err, str(result)
    os.makedirs(scratch.file("job/board"))
    assert scratch.run([TOP, "--json", scratch.file("job")]).status == 3
    for wrong in (["--interval", "0"], ["--sort", "x"], ["a", "b"], ["--what"], ["--once", "--follow"]):
        assert scratch.run([TOP, *wrong]).status == 2, wrong


def test_ended_ranks(scratch):
    """Ranks of this host that have ended are no dead ones, while another still runs."""
    scratch.start([harness.RUN, "-o", scratch.traces, "--", harness.TRAINJOB, *JOB],
                  {"NSPY_FAKE": "rank=1,op=sync,step=11,do=exit:0;rank=0,op=sync,step=11,do=hang",
                   "NCCLSPY_QUIET": "1", "LD_PRELOAD": jobs.sanitizer_runtime()})

    def seen():
        view = look(scratch)
        return view if view and view["states"]["ended"] else None
    view = harness.wait_for(seen, "a view of the end")
    rank = next(rank for rank in view["ranks"] if rank["rank"] == 1)
    assert rank["state"] == "ended" and rank["doing"] == "exit code 0", rank
    assert not view["states"]["dead"], view["states"]


def test_follow(scratch):
    """Into a file, as into the log of a job: each change once, and its end."""
    job = start_job(scratch)
    hung(scratch)
    with open(scratch.file("out"), "w", encoding="utf-8") as out:
        child = scratch.start([TOP, "--follow", "--interval", "1", scratch.traces], stdout=out,
                              stdin=subprocess.DEVNULL)

    def lines():
        with open(scratch.file("out"), encoding="utf-8") as f:
            return f.read().splitlines()
    # It begins with what is so.
    harness.wait_for(lambda: any("COLLECTIVE_HANG" in line for line in lines()), "the event")
    assert sum(" behind" in line for line in lines()) == 1, lines()
    pids = [rank["pid"] for rank in look(scratch)["ranks"] if rank["rank"] == 3]
    os.kill(pids[0], signal.SIGSTOP)
    harness.wait_for(lambda: any("rank 3 (" in line and " stopped" in line for line in lines()),
                     "the stop")
    said = len(lines())
    os.kill(pids[0], signal.SIGCONT)
    harness.wait_for(lambda: len(lines()) > said, "what comes after it")
    harness.kill_session(job)
    harness.wait_for(lambda: child.poll() is not None, "the end")
    assert child.returncode == 0 and "no process of it runs any more" in lines()[-1], lines()
    assert all(line.startswith("20") and "\033" not in line for line in lines()), lines()


def test_follow_into_a_closed_pipe(scratch):
    """Whoever reads goes away (head): it ends, and does not go on for nobody."""
    start_job(scratch)
    hung(scratch)
    result = scratch.run(["sh", "-c", f"'{TOP}' --follow --json --interval 1 '{scratch.traces}' | "
                          "head -n 1"]).ok()
    assert json.loads(result.out)["what"] == "ranks", result.out


class Terminal:
    def __init__(self, scratch, rows, columns, env=None):
        self.master, side = pty.openpty()
        self.resize(rows, columns)
        self.child = scratch.start([TOP, "--interval", "1", scratch.traces], env, stdin=side,
                                   stdout=side, text=False,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(side)
        self.seen = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0.05)[0]:
            try:
                more = os.read(self.master, 65536)
            except OSError:  # the other side is closed
                return
            if not more:
                return
            self.seen += more

    def pictures(self):
        """The whole ones; the last may still be coming."""
        self.read()
        return [picture.partition(b"\033[J")[0] for picture in self.seen.split(b"\033[H")[1:]
                if b"\033[J" in picture]

    def until(self, condition, what):
        harness.wait_for(lambda: any(condition(p) for p in self.pictures()), what)


def test_on_a_terminal(scratch):
    start_job(scratch)
    hung(scratch)
    terminal = Terminal(scratch, 24, 100)
    terminal.until(lambda p: b"behind" in p and b"COLLECTIVE_HANG" in p, "the first picture")
    assert b"\033[33m" in terminal.seen and b"\033[?1049h" in terminal.seen
    terminal.seen = b""
    os.write(terminal.master, b"s")
    terminal.until(lambda p: b"by rank" in p, "the other order")
    terminal.seen = b""
    terminal.resize(8, 30)
    terminal.until(lambda p: p.count(b"\r\n") == 7 and b"ranks more" in p, "the small picture")
    os.write(terminal.master, b"q")
    harness.wait_for(lambda: terminal.read() or terminal.child.poll() is not None, "the end")
    terminal.read()
    assert terminal.child.returncode == 0
    assert terminal.seen.rstrip().endswith(b"\033[?1049l"), terminal.seen[-100:]
    assert termios.tcgetattr(terminal.master)[3] & termios.ICANON
    os.close(terminal.master)


def test_interrupted(scratch):
    """^C from the keyboard, and a signal from elsewhere: the terminal is as it was before."""
    start_job(scratch)
    hung(scratch)
    for end in (lambda t: os.write(t.master, b"\x03"), lambda t: t.child.terminate()):
        terminal = Terminal(scratch, 24, 100)
        before = termios.tcgetattr(terminal.master)[:4]
        terminal.until(lambda p: b"behind" in p, "the first picture")
        assert not termios.tcgetattr(terminal.master)[3] & (termios.ICANON | termios.ECHO)
        end(terminal)
        harness.wait_for(lambda t=terminal: t.read() or t.child.poll() is not None, "the end")
        terminal.read()
        assert terminal.seen.rstrip().endswith(b"\033[?25h\033[?1049l"), terminal.seen[-100:]
        assert termios.tcgetattr(terminal.master)[3] & (termios.ICANON | termios.ECHO)
        assert terminal.child.returncode == 0 and before[0] == \
            termios.tcgetattr(terminal.master)[0], terminal.child.returncode
        os.close(terminal.master)


def test_without_colour(scratch):
    start_job(scratch)
    hung(scratch)
    terminal = Terminal(scratch, 24, 100, {"NO_COLOR": "1"})
    terminal.until(lambda p: b"behind" in p, "the first picture")
    assert b"\033[33m" not in terminal.seen and b"\033[0m" not in terminal.seen
    # A terminal that goes away ends it.
    os.close(terminal.master)
    harness.wait_for(lambda: terminal.child.poll() is not None, "the end")


if __name__ == "__main__":
    harness.main(globals())
