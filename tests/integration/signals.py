# SPDX-License-Identifier: Apache-2.0
"""Handlers that are asked for (NCCLSPY_CRASH, NCCLSPY_TERM) note a signal and change nothing."""
import json
import os
import re
import re
import signal
import sys
import time

import harness
import jobs
import live

HOST = os.path.join(harness.BUILD, "tests/integration/sighost")
ASKED = {"NCCLSPY_CRASH": "1", "NCCLSPY_TERM": "1"}
HOWS = ("none", "plain", "info", "nodefer", "resethand", "mask", "onstack", "late", "ignore")
ENDS = ("segv", "bus", "fpe", "ill", "abort", "thread", "overflow", "raise:11", "kill:15", "kill:6")


def wait_status(scratch, command, env):
    """Everything the parent can see: output, and the wait status with its core-dump flag."""
    child = scratch.start(command, env, stderr=None)
    out = child.stdout.read()
    _, status = os.waitpid(child.pid, 0)
    child.returncode = status
    for name in os.listdir(scratch.path):
        if name.startswith("core"):
            os.unlink(scratch.file(name))
    return out, status


def compare(scratch, how, end):
    """In a process with the library, without and with its handlers."""
    harness.need(HOST, harness.LIBRARY)
    env = dict(jobs.preload_env(scratch), NCCLSPY_QUIET="1")
    plain = wait_status(scratch, [HOST, how, end], env)
    asked = wait_status(scratch, [HOST, how, end], dict(env, **ASKED))
    assert plain == asked, (how, end, plain, asked)
    return asked


def test_same_end(scratch):
    """Handlers of every kind see what they would see; the wait status is the same to the bit."""
    dumped = False
    for how in HOWS:
        for end in ("segv", "abort", "kill:15"):
            _, status = compare(scratch, how, end)
            dumped |= os.WCOREDUMP(status)
    for end in ENDS:
        compare(scratch, "none", end)
    if not dumped:
        print("no core was dumped here, with or without handlers")


def test_more_same_end(scratch):
    """All pairs, several times: handlers are installed while threads of ours start."""
    for _ in range(5):
        for how in HOWS:
            for end in ENDS:
                if not (how == "ignore" and end in ("raise:11", "kill:6")):
                    compare(scratch, how, end)


def test_noted(scratch):
    """What the handler knew is in the trace, and in one line."""
    harness.need(HOST, harness.RUN)
    result = scratch.run([harness.RUN, "-o", scratch.traces, "--", HOST, "none", "segv"],
                         dict(ASKED, RANK="3", WORLD_SIZE="4"))
    assert result.status == -signal.SIGSEGV, str(result)
    said = re.findall(r"\[WARN\] rank 3 .*got SIGSEGV at address 0x0 \(nothing is mapped there\) "
                      r"in thread \d+, last call cudaStreamSynchronize", result.err)
    assert len(said) == 1, str(result)
    found = jobs.report(scratch)["findings"]
    crash = [one for one in found if one["id"] == "RANK_CRASHED"]
    assert crash and "0x0" in str(crash), found


def test_json_line(scratch):
    result = scratch.run([HOST, "none", "abort"],
                         dict(jobs.preload_env(scratch), NCCLSPY_LOG_FORMAT="json", **ASKED))
    line = next(one for one in result.err.splitlines() if "got SIGABRT" in one)
    assert json.loads(line)["tag"] == "WARN", line


def test_faulthandler(scratch):
    """Python's own, enabled before and after us, still prints its traceback, once."""
    nccl = os.path.join(harness.FAKES, "libnccl.so.2")
    harness.need(nccl, harness.LIBRARY)
    text = ("import ctypes, faulthandler\n{before}\n"
            f"nccl = ctypes.CDLL('{nccl}', ctypes.RTLD_GLOBAL)\n"
            "number = ctypes.c_int()\nassert nccl.ncclGetVersion(ctypes.byref(number)) == 0\n"
            "{after}\nctypes.string_at(0)\n")
    for place in ("before", "after"):
        code = text.format(**dict({"before": "", "after": ""}, **{place: "faulthandler.enable()"}))
        results = [scratch.run([sys.executable, "-c", code], dict(jobs.preload_env(scratch), **env))
                   for env in ({"NCCLSPY_QUIET": "1"}, dict(ASKED))]
        for result in results:
            assert result.status == -signal.SIGSEGV, str(result)
            # Python writes that line in parts, and a line of ours may come between them.
            of_python = re.sub(r"ncclspy \d{4}-[^\n]*\n", "", result.err)
            assert of_python.count("Fatal Python error: Segmentation fault") == 1, str(result)
        assert results[1].err.count("got SIGSEGV") == 1, str(results[1])
        assert "got SIGSEGV" not in results[0].err, str(results[0])


def test_ignored_stays_ignored(scratch):
    """Dispositions: a caught or ignored signal stays so, and children after exec have the default."""
    env = dict(jobs.preload_env(scratch), **ASKED)
    for how in ("none", "ignore"):
        child = scratch.start([HOST, how, "wait"], env)
        assert child.stdout.readline() == "ready\n"
        with open(f"/proc/{child.pid}/status", encoding="utf-8") as f:
            lines = dict(line.split(":", 1) for line in f if ":" in line)
        wanted = sum(1 << (n - 1) for n in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE,
                                            signal.SIGILL, signal.SIGABRT, signal.SIGTERM))
        caught, ignored = int(lines["SigCgt"], 16) & wanted, int(lines["SigIgn"], 16) & wanted
        assert (caught, ignored) == ((wanted, 0) if how == "none" else (0, wanted)), lines
        # Blocked as in the program.
        assert int(lines["SigBlk"], 16) & wanted == 0, lines


def test_crash_is_told(scratch):
    """A survivor says RANK_CRASHED and how; without handlers RANK_DIED."""
    fault = "rank=3,op=all_reduce,nth=41,do=segv"
    result = live.run_until(scratch, r"-> references/", fault=fault, env=ASKED)
    found = [one[2] for one in live.told(result)]
    assert found[:1] == ["RANK_CRASHED"], str(result)
    lines = live.block(result, "RANK_CRASHED")
    assert live.named(live.verdict(lines)) == [3], lines
    assert any("SIGSEGV" in line and "in thread" in line for line in lines), lines


def test_terminated(scratch):
    """The launcher is asked to end: nobody is to blame. Its workers are not its own children."""
    harness.need(harness.RUN, harness.TRAINJOB)
    child = scratch.start([harness.RUN, "-o", scratch.traces, "--", harness.TRAINJOB, "-n", "4",
                           "--steps", "100000", "--compute-ms", "2", "--no-verify"])
    harness.wait_for(lambda: len([n for n in jobs.trace_files(scratch.traces)
                                  if n.endswith(".nspy")]) >= 4, "traces")
    time.sleep(0.5)
    os.killpg(child.pid, signal.SIGTERM)
    result = scratch.finish(child)
    report = jobs.analyze(scratch, "report", "--fail-on", "none", scratch.traces)
    assert "JOB_TERMINATED" in report.out, str(result) + str(report)
    assert "[FAIL]" not in report.out, str(report)


if __name__ == "__main__":
    harness.main(globals())
