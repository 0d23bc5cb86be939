# SPDX-License-Identifier: Apache-2.0
"""Whole logs and tables through `ncclspy-analyze logs` and `report`: what must be said, about
whom, and where nothing may be said. All of it is made up here; the lines are as components print them.

Usage: test_logs_cli.py ncclspy-analyze"""
import gzip
import json
import os
import subprocess
import unittest
import zlib
from pathlib import Path

import logs_lib
from logs_lib import InFolder, healthy, init, nccl, read, run, watchdog

TRACES = Path(__file__).parent.parent / "golden" / "v1"


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
        """Read without more memory than its size justifies; with room for a sanitizer, of which
        ThreadSanitizer keeps several bytes for each."""
        tsan = b"__tsan_init" in Path(logs_lib.ANALYZE).read_bytes()
        limit_kib = (2400 if tsan else 600) << 10
        with subprocess.Popen([logs_lib.ANALYZE, "logs", str(path)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:
            errors = process.stderr.read().decode()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertIn(process.returncode, (0, 1, 3))
        self.assertLess(usage.ru_maxrss, limit_kib)
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
    logs_lib.main()
