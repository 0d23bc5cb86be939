#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ncclspy-analyze beside PyTorch's analyzer of flight-recorder dumps, on the same synthetic job.

usage: compare_flight.py SIM ANALYZE [--torch DIR] [--ranks N] [--ops N] [--runs N]

The job is simulated; its traces are converted record by record into the dumps that PyTorch would
have written of it. Timed in turn, whole processes: ncclspy's report on the traces, PyTorch's on
the dumps, ncclspy's on the same dumps. --torch is a folder with torch/distributed/flight_recorder,
as unpacked from the wheel (none of the rest is needed); without it the installed torch is used.
One JSON object a line. Exit status: 0, 77 if there is no PyTorch, 1 if a report failed.
"""

import argparse
import json
import os
import pickle
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

NAMES = {"ncclAllReduce": "all_reduce", "ncclAllGather": "_all_gather_base",
         "ncclReduceScatter": "_reduce_scatter_base"}
# Its parent packages would load all of PyTorch.
RUNNER = """
import sys, types
folder = sys.argv.pop(1)
for name in ("torch", "torch.distributed"):
    module = types.ModuleType(name)
    module.__path__ = [folder + "/" + name.replace(".", "/")]
    sys.modules[name] = module
from torch.distributed.flight_recorder import fr_trace
fr_trace.main()
"""


def find_torch(folder):
    """The folder that holds torch/distributed/flight_recorder, or None."""
    for base in [folder] if folder else sys.path:
        if Path(base, "torch/distributed/flight_recorder/fr_trace.py").is_file():
            return base
    return None


def entry_of(call, number, size, pid):
    count = call["count"]
    ins = count * (size if call["function"] == "ncclReduceScatter" else 1)
    outs = count * (size if call["function"] == "ncclAllGather" else 1)
    return {"frames": [], "record_id": number, "pg_id": pid, "process_group": (str(pid), str(pid)),
            "collective_seq_id": call["seq"], "p2p_seq_id": 0, "op_id": call["seq"],
            "profiling_name": "nccl:" + NAMES[call["function"]], "time_created_ns": number,
            "input_sizes": [[ins]], "input_dtypes": ["Float"], "output_sizes": [[outs]],
            "output_dtypes": ["Float"], "state": "completed", "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None, "retired": True, "timeout_ms": 600000,
            "is_p2p": False}


def read_traces(analyze, job):
    """Collectives by rank, and the members of each communicator."""
    calls, members = defaultdict(list), defaultdict(dict)
    with subprocess.Popen([analyze, "dump", "--json", job], stdout=subprocess.PIPE,
                          text=True) as dump:
        for line in dump.stdout:
            if line.startswith('{"kind":"comm"'):
                record = json.loads(line)
                if record["ready"]:
                    members[record["key"]][record["comm_rank"]] = record["rank"]
            elif '"function":"nccl' in line and '"seq"' in line:
                record = json.loads(line)
                calls[record["rank"]].append(record)
    return calls, members


def write_dumps(analyze, job, folder):
    """Returns how many operations the dumps have."""
    calls, members = read_traces(analyze, job)
    ids = {key: i for i, key in enumerate(members)}
    groups = {str(i): {"name": str(i), "desc": str(i), "ranks": str(sorted(members[key].values()))}
              for key, i in ids.items()}
    for rank, mine in calls.items():
        entries = [entry_of(c, n, len(members[c["comm"]]), ids[c["comm"]])
                   for n, c in enumerate(mine)]
        here = {str(i): groups[str(i)] for key, i in ids.items() if rank in members[key].values()}
        dump = {"version": "2.10", "entries": entries, "pg_config": here, "pg_status": {},
                "nccl_version": "2.28.9"}
        Path(folder, f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))
    return sum(map(len, calls.values()))


def time_once(command):
    """Wall and processor seconds of a command that must succeed, and what it said."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.returncode}\n{done.stderr[-2000:]}")
    return wall, sum(getattr(after, k) - getattr(before, k) for k in ("ru_utime", "ru_stime")), \
        done.stdout + done.stderr


def measure(commands, runs):
    times = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            wall, cpu, said = time_once(command)
            if re.search(r"mismatch|COLLECTIVE_", said, re.I):
                sys.exit(f"{name} finds fault with a clean job:\n{said[:2000]}")
            times[name].append((wall, cpu))
    return {name: [statistics.median(t[i] for t in list_) for i in (0, 1)]
            for name, list_ in times.items()}


def tell(metric, value, unit, note):
    print(json.dumps({"bench": "compare_flight", "metric": metric, "value": round(value, 4),
                      "unit": unit, "note": note}), flush=True)


def compare(options, torch, scratch):
    env = {k: v for k, v in os.environ.items() if not k.startswith("NCCLSPY")}
    dumps, job = scratch + "/dumps", scratch + "/sim"
    os.mkdir(dumps)
    subprocess.run([options.sim, "bulk", scratch, str(options.ranks), str(options.ops)], check=True,
                   env=env)
    ops = write_dumps(options.analyze, job, dumps)
    result = measure({
        "traces": [options.analyze, "report", "--json", job],
        "torch": [sys.executable, "-c", RUNNER, torch, "-p", "nccl_trace_rank_", dumps],
        "dumps": [options.analyze, "logs", "--json", dumps],
    }, options.runs)
    note = f"{options.ranks} ranks, {ops} operations, median of {options.runs}"
    for name, (wall, cpu) in result.items():
        tell(f"{name}_s", wall, "s", note)
        tell(f"{name}_cpu_s", cpu, "s", note)
        tell(f"{name}_ops_per_s", ops / wall, "1/s", note)
    tell("faster_than_torch", result["torch"][0] / result["traces"][0], "times",
         "on traces, wall; at least 30")
    tell("faster_than_torch_cpu", result["torch"][1] / result["traces"][1], "times",
         "on traces, processor time")
    tell("faster_than_torch_same_dumps", result["torch"][0] / result["dumps"][0], "times",
         "on the very same dumps, wall")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sim")
    parser.add_argument("analyze")
    parser.add_argument("--torch")
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--ops", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    torch = find_torch(options.torch)
    if not torch:
        print("no torch/distributed/flight_recorder: give --torch", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        compare(options, torch, scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
