# SPDX-License-Identifier: Apache-2.0
"""Stacks: read from outside at a hang, told, merged in the report; ncclspy-stacks by hand."""
import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import harness
import live

TOOL = os.path.join(harness.BUILD, "tools/stacks/ncclspy-stacks")
HELPER = os.path.join(harness.BUILD, "interpose/ncclspy-stack-helper")
HANG = "rank=5,op=all_reduce,nth=41,do=hang"
RAS_TEXT = "NCCL version 2.28.9\nJob summary\n  Nodes 1, processes 8\nWarnings\n"


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def files(scratch):
    return glob.glob(os.path.join(scratch.traces, "*", "*", "*.stacks"))


def need_ptrace(scratch):
    """Skips where this process may not look into its own children."""
    child = scratch.start(["sleep", "60"])
    result = scratch.run([TOOL, str(child.pid)])
    if result.status == 1:
        raise harness.Skip("ptrace is refused, or there is no libunwind: " + result.out)
    child.kill()


def test_hang(scratch):
    """The line after the block says where the culprit stands; the report has all, merged."""
    need_ptrace(scratch)
    result = live.run_until(scratch, r"stands in ", fault=HANG)
    said = re.search(r"\[INFO\] COLLECTIVE_HANG: rank 5 \(node \S+ pid \d+\) stands in (.*)",
                     result.err)
    assert said, str(result)
    assert " < " in said[1], str(result)
    assert result.err.count("stands in") == 1, str(result)
    report = scratch.run([harness.ANALYZE, "report", "--fail-on", "none", "--hang-after", "0.5",
                          scratch.traces])
    assert re.search(r"rank 5\b.* stands in ", report.out), str(report)
    tree = report.out[report.out.index("stacks of "):]
    # Two branches at least: the one who is elsewhere, and those who wait.
    assert re.search(r"^ +5  \S", tree, re.MULTILINE), tree
    assert re.search(r"^ +0-4,6-7  \S", tree, re.MULTILINE), tree
    again = scratch.run([harness.ANALYZE, "report", "--json", "--fail-on", "none", scratch.traces])
    stacks = json.loads(again.out)["jobs"][0]["stacks"]
    assert stacks["processes"] == len(files(scratch)) and stacks["tree"], stacks


def test_stopped(scratch):
    """A rank that is stopped cannot have itself read: whoever tells of it does that."""
    need_ptrace(scratch)
    # Late enough for its status page to be there: of a rank never seen nobody can tell.
    result = live.run_until(scratch, r"stands in ", "--steps", "500", "--compute-ms", "20",
                            fault="rank=2,op=all_reduce,nth=400,do=stop")
    assert re.search(r"COLLECTIVE_HANG: rank 2 .* stands in ", result.err), str(result)


def test_off(scratch):
    """NCCLSPY_STACKS=0 reads none."""
    result = live.run_until(scratch, r"-> references/", fault=HANG, env={"NCCLSPY_STACKS": "0"})
    assert "stands in" not in result.err and not files(scratch), str(result)


def test_tool(scratch):
    """Processes that never heard of ncclspy."""
    need_ptrace(scratch)
    children = [scratch.start([sys.executable, "-c", "import time; time.sleep(100)"])
                for _ in range(3)]
    pids = [str(child.pid) for child in children]
    harness.wait_for(lambda: all("nanosleep" in scratch.run([TOOL, pid]).out for pid in pids),
                     "sleeping interpreters")
    result = scratch.run([TOOL, *pids]).ok()
    for pid in pids:
        assert pid in result.out or "-" in result.out, str(result)
    found = json.loads(scratch.run([TOOL, "--json", "--all-threads", *pids]).ok().out)
    assert [str(one["pid"]) for one in found["processes"]] == pids, found
    assert sum(line["count"] for line in found["tree"] if line["depth"] == 0) == 3, found
    for child in children:
        assert child.poll() is None and state_of(child.pid) == "S"
    assert scratch.run([TOOL, "999999999"]).status == 3
    assert scratch.run([TOOL]).status == 2
    assert scratch.run([TOOL, "x"]).status == 2


def test_helper_killed(scratch):
    """Whenever the helper is killed, the process goes on."""
    child = scratch.start([sys.executable, "-c", "import time\nwhile True: time.sleep(0.001)"])
    for i in range(40):
        helper = subprocess.Popen([HELPER, scratch.file("out.stacks"), str(child.pid)])
        time.sleep(i * 0.0005)
        helper.kill()
        helper.wait()

        def goes_on():
            with open(f"/proc/{child.pid}/status", encoding="utf-8") as f:
                text = f.read()
            return "TracerPid:\t0\n" in text and state_of(child.pid) in "SR"

        harness.wait_for(goes_on, "a process that nobody holds")
    assert child.poll() is None


def test_still_stopped(scratch):
    """A process that is stopped stays so, and can be continued."""
    need_ptrace(scratch)
    child = scratch.start(["sleep", "100"])
    child.send_signal(signal.SIGSTOP)
    harness.wait_for(lambda: state_of(child.pid) == "T", "a stopped process")
    scratch.run([TOOL, str(child.pid)]).ok()
    # It passes through the kernel's hands once more.
    harness.wait_for(lambda: state_of(child.pid) == "T", "a process that is stopped again")
    child.send_signal(signal.SIGCONT)
    harness.wait_for(lambda: state_of(child.pid) == "S", "a process that goes on")


class Ras:
    """Stands in for NCCL's RAS service; mute: takes the connection and says nothing."""

    def __init__(self, mute=False):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"localhost:{self.socket.getsockname()[1]}"
        self.mute, self.heard, self.held = mute, [], []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.socket.accept()
            self.held.append(client)
            if self.mute:
                continue
            with client.makefile("rw", encoding="ascii", newline="\n") as lines:
                for answer in ("SERVER PROTOCOL 2\n", "OK\n", RAS_TEXT):
                    self.heard.append(lines.readline())
                    lines.write(answer)
                    lines.flush()
            self.held.remove(client)
            client.close()


def test_ras(scratch):
    """Asked for, NCCL's own view stands below; a service that does not answer costs seconds."""
    child = scratch.start(["sleep", "100"])
    ras = Ras()
    plain = scratch.run([TOOL, str(child.pid)])
    assert "RAS" not in plain.out and not ras.heard, str(plain)
    result = scratch.run([TOOL, f"--ras={ras.address}", str(child.pid)])
    for line in RAS_TEXT.splitlines():
        assert f"RAS: {line}" in result.out, str(result)
    assert ras.heard[0] == "CLIENT PROTOCOL 2\n" and ras.heard[2] == "STATUS\n", ras.heard
    by_variable = scratch.run([TOOL, "--ras", str(child.pid)], env={"NCCL_RAS_ADDR": ras.address})
    assert "RAS: Job summary" in by_variable.out, str(by_variable)
    mute = scratch.run([TOOL, f"--ras={Ras(mute=True).address}", str(child.pid)])
    assert "RAS: no answer" in mute.out, str(mute)
    nobody = scratch.run([TOOL, "--ras=localhost:1", str(child.pid)])
    assert "Connection refused" in nobody.out, str(nobody)


def test_ras_at_a_hang(scratch):
    """NCCLSPY_RAS=1 asks once, from the helper; by default nobody does."""
    ras = Ras()
    live.run_until(scratch, r"-> references/", fault=HANG, env={"NCCL_RAS_ADDR": ras.address})
    assert not ras.heard, ras.heard
    live.run_until(scratch, r"stands in|there is no such line", fault=HANG,
                   env={"NCCL_RAS_ADDR": ras.address, "NCCLSPY_RAS": "1"})
    assert ras.heard.count("STATUS\n") == 1, ras.heard


if __name__ == "__main__":
    harness.main(globals())
