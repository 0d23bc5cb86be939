# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at any instant: every call that was entered before it is in the trace.

NSPY_KILLS sets how many instants are tried (a few by default, 50 in the suite soak).
"""
import json
import os
import random
import signal
import struct
import time

import harness
import jobs

KILLS = int(os.environ.get("NSPY_KILLS", "6"))
SEED = int(os.environ.get("NSPY_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
THREADS_MAX = 16
PROCESSES = 3


def counters(path):
    """(calls entered, calls returned) summed over the threads of a looping caller."""
    try:
        with open(path, "rb") as f:
            numbers = struct.unpack(f"<{2 * THREADS_MAX}Q", f.read(16 * THREADS_MAX))
    except (OSError, struct.error):
        return 0, 0
    return sum(numbers[:THREADS_MAX]), sum(numbers[THREADS_MAX:])


def start_loops(scratch, directory, threads, env=None, pace=20):
    """Callers under one launcher, thousands of calls a second each, or as fast as they can."""
    harness.need(jobs.CALLER, harness.RUN, harness.LIBRARY)
    files = [os.path.join(directory, f"counters{i}") for i in range(PROCESSES)]
    os.makedirs(directory, exist_ok=True)
    script = " ".join(f"{jobs.CALLER} init pace:{pace} loop:{path}:{threads} & echo $!;" for path in files)
    child = scratch.start([harness.RUN, "--quiet", "-o", os.path.join(directory, "traces"), "--",
                           "sh", "-c", script + " wait"],
                          dict(env or {}, LD_PRELOAD=jobs.sanitizer_runtime()))
    pids = [int(child.stdout.readline()) for _ in files]
    harness.wait_for(lambda: all(counters(path)[1] for path in files), "the callers to call")
    return child, pids, files


def expect_all(directory, scratch, pids, files):
    """Each process: returned <= recorded <= entered, and nothing counted as lost."""
    records = jobs.dump(scratch, os.path.join(directory, "traces"))
    recorded = jobs.calls(records)
    assert not any(record.get("losses") for record in records)
    for pid, path in zip(pids, files):
        entered, returned = counters(path)
        have = len(recorded.get(pid, ()))
        assert returned <= have <= entered, (pid, returned, have, entered)


def test_killed_one_by_one(scratch):
    """Several kills per job; siblings and launcher save what is left."""
    dice = random.Random(SEED)
    print("seed", SEED)
    for number in range(KILLS):
        directory = scratch.file(f"round{number}")
        child, pids, files = start_loops(scratch, directory, dice.choice((1, 2)))
        for pid in dice.sample(pids, len(pids)):
            time.sleep(dice.random() * 0.3)
            os.kill(pid, signal.SIGKILL)
        scratch.finish(child)
        expect_all(directory, scratch, pids, files)
        assert not any(jobs.live_files(pid) for pid in pids)


def test_killed_together(scratch):
    """The launcher dies with them: whoever reads on this host finds the pages in shared memory."""
    dice = random.Random(SEED + 1)
    print("seed", SEED + 1)
    for number in range(KILLS):
        directory = scratch.file(f"round{number}")
        child, pids, files = start_loops(scratch, directory, 1)
        time.sleep(0.5 + dice.random() * 0.3)
        for pid in [child.pid, *pids]:
            os.kill(pid, signal.SIGKILL)
        scratch.finish(child)
        for pid in pids:
            harness.wait_for(lambda pid=pid: harness.is_zombie(pid), "the end of a process")
        expect_all(directory, scratch, pids, files)


def test_killed_at_full_speed(scratch):
    """Calls come faster than they can be written: how many are not there is known."""
    directory = scratch.file("full-speed")
    child, pids, files = start_loops(scratch, directory, 1, pace=0)
    time.sleep(0.5)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    scratch.finish(child)
    result = jobs.analyze(scratch, "check", "--json", os.path.join(directory, "traces"))
    processes = {p["pid"]: p for p in json.loads(result.out)["processes"]}
    for pid, path in zip(pids, files):
        assert processes[pid]["calls"] >= counters(path)[1], (processes[pid], counters(path))


def test_without_live_pages(scratch):
    """All but the newest: what was called well before the kill is on disk."""
    directory = scratch.file("no-live-pages")
    child, pids, files = start_loops(scratch, directory, 1, {"NCCLSPY_LIVE": "0"})
    time.sleep(0.5)
    before = [counters(path)[1] for path in files]
    time.sleep(2.0)  # ten times what the writer takes at most
    assert not any(jobs.live_files(pid) for pid in pids)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    scratch.finish(child)
    recorded = jobs.calls(jobs.dump(scratch, os.path.join(directory, "traces")))
    for pid, path, least in zip(pids, files, before):
        have = len(recorded.get(pid, ()))
        assert least <= have <= counters(path)[0], (pid, least, have, counters(path))


harness.main(globals())
