#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the flight-recorder dumps of tests/analyzer/logs/torch with a real PyTorch (2.8 or later,
no GPU needed: Gloo). Not run by the tests; they read what it wrote.

    torchrun --nproc_per_node 4 make_dumps.py DIRECTORY clean|skip|mismatch"""
import importlib
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

os.environ["TORCH_FR_BUFFER_SIZE"] = "100"

torch = importlib.import_module("torch")
dist = importlib.import_module("torch.distributed")
c10d = importlib.import_module("torch._C._distributed_c10d")


def fail(rank, what):
    tensor = torch.ones(16)
    try:
        if what == "skip" and rank == 2:
            time.sleep(3)
        elif what == "mismatch" and rank == 1:
            dist.broadcast(tensor, 1)
        else:
            dist.all_reduce(tensor)
    except RuntimeError as error:
        print(rank, str(error)[:60])


def main():
    folder, what = Path(sys.argv[1]), sys.argv[2]
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    tensor = torch.ones(16)
    for _ in range(3):
        dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    pair = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(tensor, group=pair)
    fail(rank, what)
    folder.mkdir(parents=True, exist_ok=True)
    dump = c10d._dump_fr_trace(includeCollectives=True, includeStackTraces=False, onlyActive=False)
    (folder / f"nccl_trace_rank_{rank}").write_bytes(dump)
    if rank == 0:
        (folder / "json_rank_0.json").write_bytes(c10d._dump_fr_trace_json(True, False))
    os._exit(0)


if __name__ == "__main__":
    main()
