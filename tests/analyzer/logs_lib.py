# SPDX-License-Identifier: Apache-2.0
"""What the tests of `ncclspy-analyze logs` share: running it, and lines as components print them."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ANALYZE = ""


def run(*args, stdin=None):
    return subprocess.run([ANALYZE, *map(str, args)], input=stdin, capture_output=True, check=False,
                          timeout=120)


def read(text=None, files=(), command="logs"):
    """The findings, and problems."""
    done = run(command, "--json", *(files or ["-"]),
               stdin=text.encode("utf-8", "surrogateescape") if text is not None else b"")
    document = json.loads(done.stdout)
    return document["jobs"][0]["findings"], done.stderr.decode()


def nccl(rank, text, host=None, warn=""):
    host = host or f"node{rank // 4}"
    return f"{host}:{1000 + rank}:{2000 + rank} [{rank % 4}] {warn or 'NCCL INFO'} {text}"


def init(rank, nranks=8, done=True, comm="0xabc123"):
    head = f"ncclCommInitRank comm 0x55 rank {rank} nranks {nranks} cudaDev {rank % 4} nvmlDev 0 " \
           f"busId 3b000 commId {comm}"
    yield nccl(rank, f"{head} - Init START")
    if done:
        yield nccl(rank, f"{head} - Init COMPLETE")


def healthy(ranks=8):
    for rank in range(ranks):
        yield nccl(rank, "NCCL version 2.28.9+cuda12.9")
        yield nccl(rank, "NET/Plugin: Could not find: libnccl-net.so")
        yield nccl(rank, "Bootstrap: Using eth0:10.0.0.1<0>")
        yield nccl(rank, "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>")
        yield nccl(rank, "socketPollConnect: connect to 10.0.0.2<4711> returned Connection refused, "
                         "retrying (1/34) after sleep for 100 msec")
        yield nccl(rank, "Using network IB")
        yield from init(rank, ranks)
        yield nccl(rank, "comm 0x55 rank 0 nranks 8 cudaDev 0 busId 1 - Destroy COMPLETE")
    yield "step 100 loss 2.3 | no Error in sight"


def watchdog(rank, seq=241, op="ALLREDUCE", numel=6, enqueued=None, pg=0):
    tag = f"[rank{rank}]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:616] [PG ID {pg} PG GUID {pg} Rank {rank}]"
    yield f"{tag} Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, " \
          f"NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600086 milliseconds " \
          "before timing out."
    yield f"{tag} failure detected by watchdog at work sequence id: {seq} PG status: last enqueued " \
          f"work: {seq if enqueued is None else enqueued}, last completed work: {seq - 1}"


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def write(self, name, text):
        (self.path / name).write_text(text if isinstance(text, str) else "\n".join(text) + "\n",
                                      encoding="utf-8")
        return self.path / name


def main():
    """The program under test is the first argument."""
    global ANALYZE
    ANALYZE = sys.argv.pop(1)
    unittest.main(module="__main__")
