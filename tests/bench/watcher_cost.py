#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU of ncclspy's threads and memory of the library in the ranks of a stand-in job, as JSON lines.

watcher_cost.py TRAINJOB LIBRARY [RANKS [SECONDS]]: the job at default settings, each thread's time
from /proc/PID/task/TID/schedstat; the same job without the library for the memory."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

BAR_WATCHER, BAR_MIB = 0.2, 8


def threads(pid):
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as f:
            name = f.read().strip()
        if name.startswith("ncclspy-"):
            with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="utf-8") as f:
                found[name] = int(f.read().split()[0])
    return found


def rss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Rss:"))


def ranks_of(child, count):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="utf-8") as f:
            pids = [int(pid) for pid in f.read().split()]
        if len(pids) == count:
            return pids
        time.sleep(0.1)
    sys.exit("watcher_cost: the job has no ranks")


def run(trainjob, library, count, seconds):
    with tempfile.TemporaryDirectory(prefix="ncclspy-bench-") as path:
        env = {k: v for k, v in os.environ.items() if not k.startswith("NCCLSPY")}
        env.update({"NCCLSPY_DIR": path, "NCCLSPY_QUIET": "1", "NCCLSPY_JOB": f"b{os.getpid()}"})
        if library:
            env["LD_PRELOAD"] = library
        child = subprocess.Popen(
            [trainjob, "-n", str(count), "--steps", "1000000", "--compute-ms", "60", "--no-verify",
             "--quiet", "--timeout", "600"], env=env)
        try:
            pids = ranks_of(child, count)
            time.sleep(5)
            before = {pid: threads(pid) for pid in pids}
            begin = time.monotonic()
            time.sleep(seconds)
            lasted = time.monotonic() - begin
            after = {pid: threads(pid) for pid in pids}
            memory = statistics.mean(rss_kib(pid) for pid in pids) / 1024
            share = {name: statistics.mean(
                (after[pid][name] - before[pid][name]) / 1e7 / lasted for pid in pids)
                for name in after[pids[0]]}
        finally:
            child.terminate()
            child.wait()
    return share, memory


def main():
    trainjob, library = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 20
    share, memory = run(trainjob, library, count, seconds)
    _, without = run(trainjob, "", count, 1)
    for name, value in sorted(share.items()):
        print(json.dumps({"bench": "watcher", "metric": f"{name}_cpu", "value": round(value, 3),
                          "unit": "% of a core a rank", "against": BAR_WATCHER}))
    print(json.dumps({"bench": "watcher", "metric": "library_rss", "unit": "MiB a rank",
                      "value": round(memory - without, 2), "against": BAR_MIB}))


if __name__ == "__main__":
    main()
