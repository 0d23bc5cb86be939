#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A report on a simulated job of 1,024 ranks with 10,000 operations each: time and memory.

usage: bench_scale.py SIM ANALYZE [--ranks N] [--ops N] [--runs N] [--size NAME] [--bar SECONDS]

At most 256 files are open at a time, or the report fails. Reads through the page cache. One JSON
object a line."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time


def limit_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


def run_once(command):
    """Seconds and peak MiB of a command that must succeed."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL,
                          preexec_fn=limit_files) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command}: {process.returncode}")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def size_of(directory):
    return sum(os.path.getsize(os.path.join(place, name))
               for place, _, names in os.walk(directory) for name in names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sim")
    parser.add_argument("analyze")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--ops", type=int, default=10000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--size", default="10m")
    parser.add_argument("--bar", default="3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([options.sim, "bulk", scratch, str(options.ranks), str(options.ops)],
                       check=True)
        os.mkdir(scratch + "/summaries")
        for node in sorted(os.listdir(scratch + "/sim")):
            run_once([options.analyze, "summarize", "--host", node, "-o", scratch + "/summaries",
                      scratch + "/sim"])
        runs, merges = [], []
        for _ in range(options.runs):
            runs.append(run_once([options.analyze, "report", "--json", scratch + "/sim"]))
            merges.append(run_once([options.analyze, "report", "--json", scratch + "/summaries"]))
        ratio = size_of(scratch + "/summaries") / size_of(scratch + "/sim")
    note = f"{options.ranks} ranks x {options.ops} operations"
    for metric, unit, against, values in (
            (f"report_{options.size}_s", "s", "at most " + options.bar, [r[0] for r in runs]),
            (f"report_{options.size}_rss_mib", "MiB", "at most 512", [r[1] for r in runs]),
            (f"merge_{options.size}_ratio", "of the report on traces", "at most 1",
             [m[0] / r[0] for m, r in zip(merges, runs)]),
            (f"merge_{options.size}_rss_mib", "MiB", "at most 512", [m[1] for m in merges]),
            ("summary_size_ratio", "of the traces", "below 1", [ratio])):
        print(json.dumps({"bench": "scale", "metric": metric,
                          "value": round(statistics.median(values), 3), "unit": unit,
                          "against": against, "note": note}), flush=True)


if __name__ == "__main__":
    main()
