# SPDX-License-Identifier: Apache-2.0
"""Whole logs, dumps and tables through `ncclspy-analyze logs` and `report`: what must be said, about
whom, and where nothing may be said. All of it is made up here; the lines are as components print them.

Usage: test_logs_cli.py ncclspy-analyze"""
import gzip
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

ANALYZE = ""
TRACES = Path(__file__).parent.parent / "golden" / "v1"


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


class Logs(unittest.TestCase):
    def first(self, lines, finding, *words):
        found, _ = read("\n".join(lines) + "\n")
        self.assertTrue(found, "nothing found")
        self.assertEqual(found[0]["id"], finding, found[0]["summary"])
        for word in words:
            self.assertIn(word, found[0]["summary"])
        return found

    def silent(self, lines):
        found, _ = read("\n".join(lines) + "\n")
        self.assertEqual([f["id"] for f in found if f["priority"] != "P2"], [])

    # --- nothing wrong ---

    def test_healthy_logs_are_silent(self):
        self.silent(healthy())
        self.assertEqual(run("logs", "-", stdin="\n".join(healthy()).encode()).returncode, 0)

    def test_plain_tcp_cluster_is_silent(self):
        lines = [nccl(r, t) for r in range(8) for t in (
            "NET/IB : No device found.", "NET/Socket : Using [0]eth0:10.0.0.1<0>",
            "Failed to initialize NET plugin IB", "Using network Socket")]
        self.silent(lines)

    def test_names_that_resolve_later_are_silent(self):
        self.silent(["[W socket.cpp:601] [c10d] The IPv6 network addresses of (head, 29500) cannot be "
                     "retrieved (gai error: -2 - Name or service not known)."] + list(healthy()))

    def test_normal_end_is_silent(self):
        self.silent([*healthy(), '[W TCPStore.cpp:115] Failed to check the "should dump" flag on TCPStore, '
                     "(maybe TCPStore server has shut down too early)",
                     "[W TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=3): Broken pipe"])

    # --- who is it ---

    def blames(self, lines, finding, *ranks):
        found = self.first(lines, finding)
        self.assertEqual(sorted(c["rank"] for c in found[0]["culprits"]), sorted(ranks),
                         found[0]["summary"])
        return found

    def mismatch(self, one, other):
        print_of = "CollectiveFingerPrint(SequenceNumber=7, OpType={}, TensorShape=[{}])"
        return f"RuntimeError: Detected mismatch between collectives on ranks. Rank {one} is running " \
               f"collective: {print_of.format('ALLREDUCE', 4)}, but Rank {other} is running collective: " \
               f"{print_of.format('BROADCAST', 4)}."

    def test_pairs_of_ranks(self):
        self.blames([self.mismatch(1, 2)], "COLLECTIVE_MISMATCH", 1, 2)
        # The one that all the others name, and that itself names one of them.
        self.blames([self.mismatch(0, 3), self.mismatch(1, 3), self.mismatch(2, 3),
                     self.mismatch(3, 0)], "COLLECTIVE_MISMATCH", 3)
        self.blames(["DDP expects same model across all ranks, but Rank 1 has 212 params, while rank 0 "
                     "has inconsistent 0 params."], "COLLECTIVE_MISMATCH", 0, 1)
        self.blames(["ncclInvalidUsage: ... Last error:", "Duplicate GPU detected : rank 1 and rank 0 "
                     "both on CUDA device 10"], "GPU_VISIBILITY", 0, 1)

    def test_rank_without_any_line_of_its_own(self):
        lines = [f"[E ProcessGroupNCCL.cpp:821] [Rank {r}] Watchdog caught collective operation timeout: "
                 "WorkNCCL(SeqNum=8, OpType=ALLREDUCE, Timeout(ms)=1) ran for 9 milliseconds before "
                 "timing out." for r in (1, 2, 3)]
        self.blames(lines, "TORCH_WATCHDOG_TIMEOUT", 0)

    def test_the_earlier_operation_without_counters(self):
        def line(rank, seq):
            return f"[E ProcessGroupNCCL.cpp:458] [Rank {rank}] Watchdog caught collective operation " \
                   f"timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, Timeout(ms)=1) ran for 9 " \
                   "milliseconds before timing out."
        self.blames([line(0, 96120), line(0, 96117), line(1, 64088)], "TORCH_WATCHDOG_TIMEOUT", 1)
        self.blames([line(0, 96120), line(1, 96120)], "TORCH_WATCHDOG_TIMEOUT")

    def table(self, *rows):
        for rank, code, head in rows:
            yield head
            yield f"  rank      : {rank} (local_rank: {rank})"
            yield f"  exitcode  : {code} (pid: {100 + rank})"

    def test_what_torchrun_saw_first(self):
        self.blames(list(self.table((3, 1, "[1]:"), (0, -9, "[2]:"),
                                    (1, 1, "Root Cause (first observed failure):"))), "RANK_DIED", 1)
        self.blames(["failed (exitcode: -9) local_rank: 3 (pid: 812917) of binary: python"],
                    "RANK_DIED", 3)
        # A pid that NCCL's lines know tells the rank of the job, not only of the node.
        self.blames([*healthy(), "failed (exitcode: -11) local_rank: 2 (pid: 1006) of binary: python"],
                    "RANK_DIED", 6)
        self.blames(["srun: error: n7: task 12: Out Of Memory"], "RANK_DIED", 12)

    def test_gpus_are_named(self):
        self.first(["[ 18.3] NVRM: The NVIDIA GPU 0000:b3:00.0",
                    "       NVRM: (PCI ID: 10de:26b5) installed in this system has",
                    "       NVRM: fallen off the bus and is not responding to commands."],
                   "CUDA_DEVICE_FAULT", "0000:b3:00.0")
        self.first(["NVRM: Xid (PCI:0001:6c:00): 119, pid=1, Timeout", "NVRM: Xid (PCI:0001:96:00): 119, "
                    "pid=1, Timeout"], "GPU_XID", "GPUs 0001:6c:00, 0001:96:00")

    def test_peers_are_named(self):
        def line(rank, peer):
            return nccl(rank, f"socketStartConnect: Connect to {peer}<45763> failed : No route to host",
                        warn="misc/socket.cc:483 NCCL WARN")
        found = self.first(["RuntimeError: Socket Timeout", line(0, "10.0.0.9"), line(1, "10.0.0.9")],
                           "BOOTSTRAP_CONNECT_FAILED", "10.0.0.9")
        self.assertEqual([c["node"] for c in found[0]["culprits"]], ["10.0.0.9"])

    def test_cause_before_consequences(self):
        lines = list(healthy())
        lines += [nccl(r, "socketProgress: Connection closed by remote peer node0<51159>",
                       warn="misc/socket.cc:49 NCCL WARN") for r in (1, 5, 6)]
        lines += [nccl(3, "Cuda failure 'out of memory'", warn="include/alloc.h:178 NCCL WARN")]
        lines += [nccl(r, "Socket recv failed while polling for opId=0x1",
                       warn="proxy.cc:1143 NCCL WARN") for r in (0, 2)]
        found = self.first(lines, "CUDA_OOM", "rank 3")
        self.assertEqual([c["rank"] for c in found[0]["culprits"]], [3])
        self.assertTrue(found[0]["consequences"])
        self.assertEqual(len([f for f in found if f["priority"] == "P0"]), 1)

    def test_effects_alone_name_the_peer(self):
        lines = [nccl(r, f"socketProgress: Connection closed by remote peer 10.0.0.{p}<5{r}>",
                      warn="misc/socket.cc:49 NCCL WARN") for r, p in ((0, 7), (1, 7), (2, 9), (4, 7))]
        self.first(lines, "RANK_DIED", "10.0.0.7", "3 of 4")

    def test_late_rank_has_the_lowest_counter(self):
        lines = list(healthy())
        for rank in (0, 1, 2, 3, 4, 5, 7):
            lines += watchdog(rank, enqueued=315)
        lines += list(watchdog(6, seq=240, enqueued=239))
        found = self.first(lines, "TORCH_WATCHDOG_TIMEOUT", "rank 6", "239")
        self.assertEqual([c["rank"] for c in found[0]["culprits"]], [6])

    def test_rank_that_says_nothing_is_told(self):
        lines = list(healthy())
        for rank in (0, 1, 2, 3, 4, 6, 7):
            lines += watchdog(rank)
        found = self.first(lines, "TORCH_WATCHDOG_TIMEOUT", "no such line from ranks 5")
        self.assertEqual([c["rank"] for c in found[0]["culprits"]], [5])

    def test_equal_counters_blame_nobody(self):
        lines = [line for rank in range(4) for line in watchdog(rank)]
        found = self.first(lines, "TORCH_WATCHDOG_TIMEOUT", "nobody is late")
        self.assertEqual(found[0]["culprits"], [])

    def test_sizes_of_the_same_operation_differ(self):
        lines = [line for r in range(4) for line in watchdog(r, numel=8 if r == 2 else 6)]
        self.first(lines, "COLLECTIVE_MISMATCH", "rank 2", "8 elements")
        # Groups count on their own: the same numbers in two groups say nothing.
        lines = [line for r in range(4) for line in watchdog(r, numel=6 + r // 2, pg=r // 2)]
        self.first(lines, "TORCH_WATCHDOG_TIMEOUT")

    def test_rank_that_was_killed_before_the_timeout(self):
        lines = list(healthy()) + ["(Actor pid=7, ip=10.0.0.4) Worker exit type: SYSTEM_ERROR"]
        for rank in (0, 1, 2, 3):
            lines += watchdog(rank)
        self.first(lines, "RANK_DIED")

    def test_init_that_does_not_end(self):
        lines = [x for r in range(8) for x in init(r, done=r != 5)]
        self.first(lines, "INIT_TIMEOUT", "ranks 5", "7 finished")
        lines = [x for r in (0, 1, 2, 4, 5, 6, 7) for x in init(r, done=False)]
        self.first(lines, "RANKS_MISSING", "no word from ranks 3")
        # One rank's log, cut off: nobody knows.
        self.silent(list(init(0, done=False)))

    def test_networks_and_nics_differ(self):
        lines = [nccl(r, "Using network " + ("Socket" if r == 6 else "IB")) for r in range(8)]
        found = self.first(lines, "NETWORK_MIXED", "pid 1006 on node1")
        self.assertEqual([c["pid"] for c in found[0]["culprits"]], [1006])
        lines = [nccl(r, "NET/OFI Selected provider is efa, fabric is efa (found "
                      f"{31 if r == 4 else 32} nics)") for r in range(8)]
        self.first(lines, "NIC_COUNT_LOW", "31", "32")

    def test_versions_differ_in_one_communicator(self):
        lines = [x for r in range(4) for x in [nccl(r, f"NCCL version 2.2{8 if r else 7}.3+cuda12.9"),
                                               *init(r, 4)]]
        self.first(lines, "VERSION_MISMATCH", "2.27.3", "2.28.3")
        # Two jobs in one file may.
        self.silent([x for r in range(2) for x in [nccl(r, f"NCCL version 2.2{8 - r}.3+cuda12.9"),
                                                   *init(0, 1, comm=f"0x{r + 1}")]])

    def test_gpudirect_at_one_end(self):
        self.first(["9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA",
                    "9[1a000] -> 2[6b000] [receive] via NET/IB/1"], "NO_GPUDIRECT_RDMA", "rank 2")

    def test_tcp_instead_of_efa(self):
        lines = [nccl(r, t) for r in range(8) for t in (
            "NET/OFI No eligible providers were found", "NET/IB : No device found.",
            "Using network Socket")]
        self.first(lines, "TCP_FALLBACK")
        lines = [nccl(r, "NET/OFI Only EFA provider is supported") for r in range(2)] + [
            nccl(0, "NET/OFI aws-ofi-nccl initialization failed"), nccl(0, "Using network Socket")]
        self.silent(lines)

    def test_prefixes_and_interleaving(self):
        oom = "include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'"
        for line in (f"[1,3]<stderr>:n1:10:11 [3] {oom}", f" 3: n1:10:11 [3] {oom}",
                     f"2026-01-02T03:04:05Z [rank3]: n1:10:11 [3] {oom}",
                     f"\x1b[31m[rank3]:\x1b[0m n1:10:11 [3] {oom}",
                     json.dumps({"log": f"[rank3]: n1:10:11 [3] {oom}\n", "stream": "stderr"}),
                     f"10%|#  |\r[rank3]: n1:10:11 [3] {oom}",
                     f"[rank1]: n9:1:2 [0] NCCL INFO half a li[rank3]: n1:10:11 [3] {oom}"):
            with self.subTest(line=line):
                self.first([line], "CUDA_OOM", "rank 3")
        self.first([f"[pod/trainer-7/main] {oom}"], "CUDA_OOM", "trainer-7")

    def test_xids(self):
        self.first(["NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."], "GPU_XID",
                   "0000:3b:00")
        found, _ = read("NVRM: Xid (PCI:0000:3b:00): 43, pid=1\nrank3: Fatal Python error: "
                        "Segmentation fault\n")
        self.assertEqual(found[0]["id"], "RANK_DIED")

    def test_exceptions_of_the_program(self):
        self.first(["[rank3]: Traceback (most recent call last):",
                    "[rank3]:   File \"t.py\", line 3, in main",
                    "[rank3]: ValueError: bad shape"], "RANK_DIED", "ValueError: bad shape")

    def test_settings_that_break(self):
        lines = [nccl(0, "NCCL_CHUNK_SIZE set by environment to 1048576."),
                 "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python"]
        self.first(lines, "ENV_HARMFUL", "NCCL_CHUNK_SIZE")
        self.first([nccl(0, "NCCL_PROTO set by environment to Simple"),
                    nccl(5, "NCCL_PROTO set by environment to LL128")], "STACK_DRIFT", "NCCL_PROTO")


def table(busbw, wrong=0, hosts=("a", "b")):
    yield "# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5"
    for rank, host in enumerate(hosts):
        yield f"#  Rank  {rank} Group  0 Pid   47{rank} on  {host} device  0 [0x3b] NVIDIA H100"
    yield "#       size         count      type   redop    root     time   algbw   busbw #wrong     " \
          "time   algbw   busbw #wrong"
    yield f"  1073741824     268435456     float     sum      -1   4100.1  {busbw / 1.9:.2f}  {busbw:.2f}" \
          f"      {wrong}   4099.9  {busbw / 1.9:.2f}  {busbw:.2f}    N/A"
    yield f"# Avg bus bandwidth    : {busbw}"


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def write(self, name, text):
        (self.path / name).write_text(text if isinstance(text, str) else "\n".join(text) + "\n",
                                      encoding="utf-8")
        return self.path / name


class Tables(InFolder):
    def test_wrong_results(self):
        found, _ = read("\n".join(table(300, wrong=17)))
        self.assertEqual(found[0]["id"], "DATA_CORRUPTION")
        self.assertIn("17", found[0]["summary"])
        found, _ = read("\n".join(table(300)))
        self.assertEqual(found, [])

    def test_slow_node_from_its_pairs(self):
        names = "abcd"
        for i, x in enumerate(names):
            for y in names[i + 1:]:
                self.write(f"{x}{y}.log", table(290 if "c" not in (x, y) else 200, hosts=(x, y)))
        found, _ = read(files=[self.path])
        self.assertEqual(found[0]["id"], "UNEVEN_NODE_BANDWIDTH")
        self.assertEqual(found[0]["priority"], "P1")
        self.assertTrue(found[0]["summary"].startswith("c is slow"), found[0]["summary"])

    def test_several_slow_nodes_and_their_partners(self):
        names = "abcdef"
        for i, x in enumerate(names):
            for y in names[i + 1:]:
                slow = "c" in (x, y) or "e" in (x, y)
                self.write(f"{x}{y}.log", table(200 if slow else 290, hosts=(x, y)))
        found, _ = read(files=[self.path])
        self.assertEqual(sorted(c["node"] for c in found[0]["culprits"]), ["c", "e"])

    def test_a_slow_pair_is_no_slow_node(self):
        names = "abcd"
        for i, x in enumerate(names):
            for y in names[i + 1:]:
                self.write(f"{x}{y}.log", table(200 if x + y == "bd" else 290, hosts=(x, y)))
        found, _ = read(files=[self.path])
        self.assertEqual((found[0]["priority"], found[0]["culprits"]), ("P1", []))
        self.assertIn("b-d 69 %", found[0]["summary"])

    def test_small_differences_are_notes_or_nothing(self):
        for i, busbw in enumerate((300, 298, 301, 280)):
            self.write(f"{i}.log", table(busbw))
        found, _ = read(files=[self.path])
        self.assertEqual([f["priority"] for f in found], ["P2"])
        self.write("3.log", table(291))
        self.assertEqual(read(files=[self.path])[0], [])

    def test_json_of_nccl_tests(self):
        def half(wrong):
            return {"time": 1.0, "alg_bw": 1.0, "bus_bw": 300.0, "nwrong": wrong}
        text = json.dumps({"version": "2.17.8", "config": {"devices": []}, "results": [
            {"size": 8, "out_of_place": half(0), "in_place": half(3)}]})
        self.assertEqual(read(text)[0][0]["id"], "DATA_CORRUPTION")

    def test_ras(self):
        def rank(n, count):
            return {"rank": n, "host": "10.0.0.1", "pid": n, "status": {"init_state": 0,
                    "async_error": 0}, "collective_counts": {"AllReduce": count}}
        comm = {"hash": "0xae", "size": 3, "ranks": [rank(0, 7), rank(1, 7)], "missing_ranks": [
            {"rank": 2, "host": "10.0.0.2", "pid": 9, "status": {"considered_dead": True}}]}
        found, _ = read(json.dumps({"nccl_version": "2.29.2", "communicators": [comm]}))
        self.assertEqual((found[0]["id"], found[0]["culprits"][0]["rank"]), ("RANK_DIED", 2))
        comm = {"hash": "0xae", "ranks": [rank(0, 7), rank(1, 6)], "missing_ranks": []}
        found, _ = read(json.dumps({"nccl_version": "2.29.2", "communicators": [comm]}))
        self.assertEqual((found[0]["id"], found[0]["culprits"][0]["rank"]), ("COLLECTIVE_HANG", 1))
        comm["ranks"][1] = rank(1, 7)
        self.assertEqual(read(json.dumps({"communicators": [comm]}))[0], [])

    def ras(self, *lines):
        head = ["NCCL version 2.28.9 compiled with CUDA 12.9", "Job summary", "===========",
                "Communicators... (0.00s)", "=============", "", "Warnings", "========", ""]
        return read("\n".join([*head, *lines]) + "\n")[0]

    def test_ras_text(self):
        self.assertEqual(self.ras("No errors"), [])
        counts = ["#0-0 (27a079b828ff1a75) MISMATCH",
                  "  Communicator ranks have different AllReduce operation counts",
                  "  7 ranks have launched up to operation 12",
                  "  Rank 3 has launched up to operation 11 -- GPU 3 managed by process 40 on node 10.0.0.7"]
        found = self.ras(*counts)
        self.assertEqual((found[0]["id"], [(c["rank"], c["node"]) for c in found[0]["culprits"]]),
                         ("COLLECTIVE_HANG", [(3, "10.0.0.7")]))
        self.assertIn("11 against 12", found[0]["summary"])
        # A group of two that is listed below its heading.
        found = self.ras(*counts[:3], "  2 ranks have launched up to operation 10",
                         "  Rank 1 -- GPU 1 managed by process 41 on node 10.0.0.7",
                         "  Rank 2 -- GPU 2 managed by process 42 on node 10.0.0.7", *counts[3:])
        self.assertEqual(sorted(c["rank"] for c in found[0]["culprits"]), [1, 2])
        # The one that is listed is ahead: it is not to blame.
        found = self.ras(*counts[:2], "  7 ranks have launched up to operation 11",
                         counts[3].replace("11", "12"))
        self.assertEqual((found[0]["id"], found[0]["culprits"]), ("COLLECTIVE_HANG", []))
        self.assertIn("most of the ranks", found[0]["summary"])

    def test_ras_text_names_processes(self):
        found = self.ras("DEAD", "  1 job process is considered dead (unreachable via the RAS network)",
                         "  Process 40 on node 10.0.0.7 managing GPU 3", "",
                         "#0-0 (27a079b828ff1a75) INCOMPLETE",
                         "  Missing communicator data from 1 rank",
                         "  Rank 3 -- GPU 3 managed by process 40 on node 10.0.0.7")
        self.assertEqual((found[0]["id"], [c["node"] for c in found[0]["culprits"]]),
                         ("RANK_DIED", ["10.0.0.7"]))
        found = self.ras("#0-0 (27a079b828ff1a75) ERROR", "  Asynchronous error on 1 rank",
                         "  Rank 5 reported ncclRemoteError -- GPU 1 managed by process 44 on node 10.0.0.8")
        self.assertIn(5, [c["rank"] for c in found[0]["culprits"]])
        found = self.ras("#0-0 (27a079b828ff1a75) MISMATCH", "  Communicator ranks have different status",
                         "  3 ranks have status RUNNING",
                         "  Rank 2 has status INIT -- GPU 2 managed by process 43 on node 10.0.0.8")
        self.assertEqual((found[0]["id"], [c["rank"] for c in found[0]["culprits"]]),
                         ("INIT_TIMEOUT", [2]))

    def inspector(self, late, compact):
        paths = []
        for rank in range(4):
            head = {"header": {"id": "0xabc", "rank": rank, "n_ranks": 4, "nnodes": 1},
                    "metadata": {"inspector_output_format_version": "v4.0", "hostname": "n", "pid": rank}}
            lines = [json.dumps(head)] if compact else []
            for sn in range(60):
                us = 400 if (late if late is not None else sn % 4) == rank else 900
                perf = {"coll_perf": {"coll": "AllReduce", "coll_sn": sn, "coll_exec_time_us": us}}
                lines.append(json.dumps(perf if compact else {**head, **perf}))
            paths.append(self.path / f"i{rank}.json.gz")
            paths[-1].write_bytes(gzip.compress("\n".join(lines).encode()))
        return paths

    def test_inspector(self):
        for compact in (False, True):
            found, _ = read(files=self.inspector(2, compact))
            self.assertEqual((found[0]["id"], found[0]["summary"][:6]), ("STRAGGLER_RANK", "rank 2"))
        self.assertEqual(read(files=self.inspector(None, False))[0], [])


def entry(seq, name="all_reduce", size=16, dtype="Float", state="completed", pg="0"):
    return {"frames": [{"name": "main", "filename": "t.py", "line": 3}], "record_id": seq - 1, "pg_id": 0,
            "process_group": [pg, "default_pg"], "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq,
            "profiling_name": f"nccl:{name}", "time_created_ns": 1, "input_sizes": [[size]],
            "input_dtypes": [dtype], "output_sizes": [[size]], "output_dtypes": [dtype], "state": state,
            "is_p2p": False}


def message(what, number=1, size=4, dtype="Float", state="completed", batch=1):
    return {**entry(8, what, size, dtype, state), "record_id": number - 1, "p2p_seq_id": batch,
            "is_p2p": True}


def dump(entries, ranks=4, groups=None):
    config = {"0": list(range(ranks)), **(groups or {})}
    return {"version": "2.10", "entries": entries, "pg_config": {
        name: {"name": name, "desc": "default_pg", "ranks": str(members)}
        for name, members in config.items()}, "pg_status": {}}


class Flight(InFolder):
    def dumps(self, per_rank, as_json=False, protocol=2, groups=None):
        paths = []
        for rank, entries in per_rank.items():
            path = self.path / f"nccl_trace_rank_{rank}"
            tree = dump(entries, groups=groups)
            path.write_bytes(json.dumps(tree).encode() if as_json else pickle.dumps(tree, protocol))
            paths.append(path)
        return read(files=paths)

    def test_all_is_well(self):
        for protocol in range(2, 6):
            found, errors = self.dumps({r: [entry(s) for s in range(1, 20)] for r in range(4)},
                                       protocol=protocol)
            self.assertEqual((found, errors), ([], ""))

    def test_rank_that_did_not_come(self):
        waiting = [entry(s) for s in range(1, 9)] + [entry(9, state="started")]
        for as_json in (False, True):
            found, _ = self.dumps({0: waiting, 1: waiting, 2: waiting[:-1], 3: waiting}, as_json)
            self.assertEqual(found[0]["id"], "COLLECTIVE_HANG")
            self.assertEqual([c["rank"] for c in found[0]["culprits"]], [2])
            self.assertIn("#9", found[0]["summary"])

    def test_mismatches(self):
        good = [entry(s) for s in range(1, 9)]
        for bad, word in ((entry(9, name="broadcast"), "operation"), (entry(9, size=8), "size"),
                          (entry(9, dtype="Half"), "data type")):
            end = entry(9, state="scheduled")
            found, _ = self.dumps({0: good + [end], 1: good + [bad], 2: good + [end], 3: good + [end]})
            self.assertEqual(found[0]["id"], "COLLECTIVE_MISMATCH")
            self.assertEqual([c["rank"] for c in found[0]["culprits"]], [1])
            self.assertIn(word, found[0]["summary"])

    def test_progress_is_no_mismatch(self):
        good = [entry(s) for s in range(1, 9)]
        found, _ = self.dumps({r: good + [entry(9, state="completed" if r else "started")]
                               for r in range(4)})
        self.assertTrue(all(f["culprits"] == [] for f in found), found)
        # Where sizes may differ nothing is compared.
        found, _ = self.dumps({r: good + [entry(9, name="all_to_all", size=r)] for r in range(4)})
        self.assertEqual(found, [])

    def test_rank_without_a_dump(self):
        waiting = [entry(s) for s in range(1, 9)] + [entry(9, state="started")]
        found, _ = self.dumps({0: waiting, 1: waiting, 3: waiting})
        self.assertEqual(found[0]["id"], "COLLECTIVE_HANG")
        self.assertIn("no dump from rank 2", found[0]["summary"])

    def test_dumps_of_different_moments(self):
        found, _ = self.dumps({r: [entry(s) for s in range(1, 20 + r)] for r in range(4)})
        self.assertEqual(found, [])

    def test_gloo_is_retired_and_never_completed(self):
        def gloo(seq, retired=True):
            return {**entry(seq, state="scheduled"), "profiling_name": "gloo:all_reduce",
                    "retired": retired}
        done = [gloo(s) for s in range(1, 9)]
        self.assertEqual(self.dumps({r: done for r in range(4)})[0], [])
        found, _ = self.dumps({r: done + ([gloo(9, False)] if r != 1 else []) for r in range(4)})
        self.assertEqual((found[0]["id"], found[0]["culprits"][0]["rank"]), ("COLLECTIVE_HANG", 1))

    def test_rings_that_begin_late(self):
        long = [entry(s, size=s) for s in range(1, 2001)]
        found, _ = self.dumps({0: long, 1: long[1500:], 2: long[200:], 3: long})
        self.assertEqual(found, [])

    def test_stalled_with_operations_queued_ahead(self):
        def ahead(count):
            return [entry(1)] + [entry(s, state="scheduled") for s in range(2, 2 + count)]
        found, _ = self.dumps({0: ahead(9), 1: ahead(7), 2: ahead(9), 3: ahead(8)})
        self.assertEqual((found[0]["id"], found[0]["culprits"]), ("COLLECTIVE_HANG", []))

    def first(self, per_rank, finding, culprits, *words, **more):
        found, _ = self.dumps(per_rank, **more)
        self.assertTrue(found, "nothing found")
        self.assertEqual((found[0]["id"], [c["rank"] for c in found[0]["culprits"]]),
                         (finding, culprits), found[0]["summary"])
        for word in words:
            self.assertIn(word, found[0]["summary"])

    def test_the_first_rank_may_be_the_odd_one(self):
        good = [entry(s) for s in range(1, 9)]
        end = good + [entry(9, state="scheduled")]
        self.first({0: good + [entry(9, name="broadcast")], 1: end, 2: end, 3: end},
                   "COLLECTIVE_MISMATCH", [0])

    def test_sizes_of_all_to_all_must_add_up(self):
        def last(out):
            return [{**entry(1, name="all_to_all", state="started"), "output_sizes": [[out]]}]
        self.first({r: last(24 if r == 3 else 16) for r in range(4)}, "COLLECTIVE_MISMATCH", [],
                   "64 elements go in, 72 come out")
        uneven = {r: last(8 + 16 * (r % 2)) for r in range(4)}
        self.assertEqual(self.dumps(uneven)[0][0]["id"], "COLLECTIVE_HANG")

    def test_gathered_sizes(self):
        def last(out):
            return [{**entry(1, name="_all_gather_base", state="started"), "output_sizes": [[out]]}]
        self.first({r: last(32 if r == 2 else 64) for r in range(4)}, "COLLECTIVE_MISMATCH", [2])
        self.first({r: last(48) for r in range(4)}, "COLLECTIVE_MISMATCH", [])
        lists = {r: [{**entry(1, name="all_gather", size=12 + r), "output_sizes": [[12], [13], [14],
                                                                                  [15]]}]
                 for r in range(4)}
        self.assertEqual(self.dumps(lists)[0], [])

    def batch(self, sizes, state):
        return [entry(9, size=s, state="scheduled") for s in sizes] + \
               [entry(9, name="coalesced", state=state)]

    def test_coalesced_operations(self):
        good = {r: self.batch((4, 5, 6), "completed") for r in range(4)}
        self.assertEqual(self.dumps(good)[0], [])
        waiting = self.batch((4, 5, 6), "started")
        for odd in ((4, 5), (4, 5, 7)):
            self.first({0: waiting, 1: self.batch(odd, "started"), 2: waiting, 3: waiting},
                       "COLLECTIVE_MISMATCH", [1], "batch")

    def test_messages(self):
        def pair(send=4, receive=4, state="completed"):
            return {0: [message("send 0->1", size=send, state=state)],
                    1: [message("recv 1<-0", size=receive, state=state)] if receive else [],
                    2: [], 3: []}
        self.assertEqual(self.dumps(pair())[0], [])
        self.first(pair(4, 8, "started"), "P2P_MISMATCH", [0, 1], "sends 4", "expects 8")
        self.first(pair(4, 0, "started"), "COLLECTIVE_HANG", [1], "did not receive from rank 0")
        # Rank 1 takes the first of two, so the second is the one nobody takes.
        more = pair()
        more[0].append(message("send 0->1", 2, state="started"))
        self.first(more, "COLLECTIVE_HANG", [1])

    def ring(self, lacks=None, state="completed"):
        """Batches whose members stay scheduled for ever, as PyTorch writes them."""
        per_rank = {}
        for r in range(4):
            calls = [message(f"send {r}->{(r + 1) % 4}", 1, state="scheduled")]
            if r != lacks:
                calls.append(message(f"recv {r}<-{(r - 1) % 4}", 2, state="scheduled"))
            per_rank[r] = calls + [message("coalesced", 3, state=state)]
        return per_rank

    def test_batches_of_messages(self):
        self.assertEqual(self.dumps(self.ring())[0], [])
        self.first(self.ring(2, "started"), "COLLECTIVE_HANG", [2])

    def test_pipeline_is_followed_to_its_end(self):
        chain = {0: [message("recv 0<-1", state="started")],
                 1: [message("recv 1<-2", state="started")],
                 2: [message("recv 2<-3", state="started")], 3: []}
        self.first(chain, "COLLECTIVE_HANG", [3], "ranks 0-2 wait for it")

    def test_ranks_that_wait_for_each_other(self):
        both = {0: [message("recv 0<-1", state="started")],
                1: [message("recv 1<-0", state="started")], 2: [], 3: []}
        self.first(both, "P2P_MISMATCH", [0, 1], "wait for each other")

    def test_who_is_late_because_of_another_group(self):
        good = [entry(s) for s in range(1, 9)]
        waiting = good + [entry(9, state="started")]
        inner = {**entry(1, state="started", pg="1"), "record_id": 8}
        self.first({0: waiting, 1: good + [inner], 2: waiting, 3: good}, "COLLECTIVE_HANG", [3],
                   groups={"1": [1, 3]})

    def test_dumps_written_by_pytorch(self):
        """See make_dumps.py: PyTorch 2.8, Gloo, four processes."""
        folder = Path(__file__).parent / "logs" / "torch"
        self.assertEqual(read(files=[folder / "clean"])[0], [])
        for what, finding, rank in (("skip", "COLLECTIVE_HANG", 2),
                                    ("mismatch", "COLLECTIVE_MISMATCH", 1)):
            found, errors = read(files=sorted((folder / what).glob("nccl_trace*")))
            self.assertEqual((found[0]["id"], [c["rank"] for c in found[0]["culprits"]], errors),
                             (finding, [rank], ""))
        self.assertEqual(read(files=[folder / "skip" / "json_rank_0.json"])[1], "")

    def test_hostile_and_broken(self):
        path = self.path / "nccl_trace_rank_0"
        path.write_bytes(b"\x80\x02cposix\nsystem\nU\x04true\x85R.")
        done = run("logs", path)
        self.assertIn(b"refused, at offset", done.stderr)
        path.write_bytes(pickle.dumps(dump([entry(1)]), 2)[:-20])
        done = run("logs", path)
        self.assertIn(b"cut off, at offset", done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1)
        self.assertEqual((done.returncode, done.stdout), (3, b""))
        self.assertIn(str(path).encode(), done.stderr)


class Files(InFolder):
    def test_packed_mixed_and_report(self):
        path = self.path / "all.log.gz"
        oom = nccl(3, "Cuda failure 'out of memory'", warn="include/alloc.h:178 NCCL WARN")
        path.write_bytes(gzip.compress("\n".join([*healthy(), oom]).encode()))
        for command in ("logs", "report"):
            found, _ = read(files=[path], command=command)
            self.assertEqual(found[0]["id"], "CUDA_OOM")
        done = run("logs", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"VERDICT: NCCL got no more GPU memory", done.stdout)
        self.assertEqual(run("logs", "--fail-on", "none", path).returncode, 0)

    def test_traces_and_logs_are_one_report(self):
        oom = nccl(3, "Cuda failure 'out of memory'", warn="include/alloc.h:178 NCCL WARN")
        path = self.path / "all.log"
        path.write_text(oom + "\n", encoding="utf-8")
        done = run("report", "--json", TRACES, path)
        jobs = json.loads(done.stdout)["jobs"]
        self.assertEqual(len(jobs), 1)
        self.assertGreater(jobs[0]["totals"]["operations"], 0)
        found = [f for f in jobs[0]["findings"] if f["id"] == "CUDA_OOM"]
        self.assertIn("from the logs, not from traces", found[0]["details"])
        self.assertIn(b"CUDA_OOM", run("report", TRACES, path).stdout)

    def test_nothing_readable(self):
        self.assertEqual(run("logs").returncode, 2)
        self.assertEqual(run("logs", self.path / "missing").returncode, 3)
        self.assertEqual(run("logs", self.path).returncode, 3)
        (self.path / "x").write_bytes(bytes(5000))
        self.assertEqual(run("logs", self.path / "x").returncode, 3)

    def refused(self, path, *words):
        """Read without more memory than its size justifies; MiB, with room for a sanitizer."""
        with subprocess.Popen([ANALYZE, "logs", str(path)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
            errors = process.stderr.read().decode()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertIn(process.returncode, (0, 1, 3))
        self.assertLess(usage.ru_maxrss, 600 << 10)
        for word in words:
            self.assertIn(word, errors)

    def packed(self, head, fill, mib, level=1):
        path = self.path / "packed"
        packer = zlib.compressobj(level, zlib.DEFLATED, 31)
        block = fill * ((1 << 20) // len(fill))
        path.write_bytes(packer.compress(head) + b"".join(packer.compress(block) for _ in range(mib))
                         + packer.flush())
        return path

    def test_bombs(self):
        head = b'{"version": "2.10", "pg_config": {}, "entries": ['
        self.refused(self.packed(b"", b"a", 256, 9))
        self.refused(self.packed(head, b" ", 200, 9), "offset")
        self.refused(self.packed(head, b"0,", 24), "more values")
        self.refused(self.packed(head, b"[", 4), "nested too deeply")
        self.refused(self.packed(head, b'"\xff\xfe\x00', 1), "JSON")
        self.refused(self.packed(b"\x80\x02]q\x00(", b"K\x01", 24), "offset")
        self.refused(self.packed(b"\x80\x02", b"]", 4), "offset")

    def test_a_line_of_a_gigabyte(self):
        """Members of one gzip file, so that making it takes no time."""
        member = gzip.compress(b"x" * (64 << 20), 1)
        path = self.path / "line.gz"
        end = gzip.compress(b"\n" + nccl(3, "Cuda failure 'out of memory'",
                                         warn="a.h:1 NCCL WARN").encode() + b"\n")
        path.write_bytes(member * 16 + end)
        self.refused(path)
        self.assertEqual(read(files=[path])[0][0]["id"], "CUDA_OOM")

    def test_bad_bytes(self):
        text = "".join(chr(0xdc80 + i % 128) for i in range(500)) + "\nrank3: " \
            "NCCL WARN Cuda failure 'out of memory' \x1b]0;x\x07\udcff\n"
        found, _ = read(text)
        self.assertEqual(found[0]["id"], "CUDA_OOM")
        self.assertNotIn("\x1b", json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    ANALYZE = sys.argv.pop(1)
    unittest.main()
