# SPDX-License-Identifier: Apache-2.0
"""Output of other tools through `ncclspy-analyze logs`: tables of nccl-tests, RAS, Inspector, and
dumps of PyTorch's flight recorder.

Usage: test_dumps_cli.py ncclspy-analyze"""
import gzip
import json
import pickle
from pathlib import Path

import logs_lib
from logs_lib import InFolder, read, run, watchdog


def table(busbw, wrong=0, hosts=("a", "b")):
    yield "# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5"
    for rank, host in enumerate(hosts):
        yield f"#  Rank  {rank} Group  0 Pid   47{rank} on  {host} device  0 [0x3b] NVIDIA H100"
    yield "#       size         count      type   redop    root     time   algbw   busbw #wrong     " \
          "time   algbw   busbw #wrong"
    yield f"  1073741824     268435456     float     sum      -1   4100.1  {busbw / 1.9:.2f}  {busbw:.2f}" \
          f"      {wrong}   4099.9  {busbw / 1.9:.2f}  {busbw:.2f}    N/A"
    yield f"# Avg bus bandwidth    : {busbw}"


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

    def test_dumps_and_logs_together(self):
        good = [entry(s) for s in range(1, 9)]
        waiting = good + [entry(9, state="started")]
        for rank in range(4):
            self.write(f"nccl_trace_rank_{rank}", json.dumps(dump(good if rank == 2 else waiting)))
        for rank in (0, 1, 3):
            self.write(f"rank{rank}.log", watchdog(rank, seq=9))
        found, _ = read(files=[self.path])
        self.assertEqual([f["id"] for f in found if f["priority"] == "P0"],
                         ["COLLECTIVE_HANG", "TORCH_WATCHDOG_TIMEOUT"])
        self.assertEqual([c["rank"] for c in found[0]["culprits"]], [2])
        # The reason, in the log of the rank that did not come.
        self.write("rank2.log", ["[rank2]: NCCL WARN Cuda failure 'out of memory'"])
        found, _ = read(files=[self.path])
        self.assertEqual((found[0]["id"], [c["rank"] for c in found[0]["culprits"]]), ("CUDA_OOM", [2]))

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


if __name__ == "__main__":
    logs_lib.main()
