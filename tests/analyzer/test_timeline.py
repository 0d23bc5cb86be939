#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""timeline: what a viewer would draw, against the tables and the report.

usage: test_timeline.py TRACEGEN ANALYZE CASES

With NSPY_PERFETTO set to a Python that has the package perfetto, its definitions must read the same.
"""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import perfetto_reader  # noqa: E402

TRACEGEN, ANALYZE, CASES = sys.argv[1:4]

THEIRS = """
import sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
trace = pb.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
event = pb.TrackEvent
kinds = [p.track_event.type for p in trace.packet if p.HasField("track_event")]
flows = sum(len(p.track_event.flow_ids) for p in trace.packet if p.HasField("track_event"))
def unknown(m):
    from google.protobuf import unknown_fields
    own = len(unknown_fields.UnknownFieldSet(m))
    for f, v in m.ListFields():
        if f.message_type and not f.message_type.GetOptions().map_entry:
            own += sum(map(unknown, v)) if hasattr(v, "append") or hasattr(v, "add") else unknown(v)
    return own
print(kinds.count(event.TYPE_SLICE_BEGIN), kinds.count(event.TYPE_SLICE_END),
      kinds.count(event.TYPE_INSTANT), kinds.count(event.TYPE_COUNTER), flows,
      sum(p.HasField("track_descriptor") for p in trace.packet), sum(map(unknown, trace.packet)))
"""


def analyze(*args):
    return subprocess.run([ANALYZE, *map(str, args)], capture_output=True, text=True, timeout=120,
                          check=False)


def rows(name, target):
    return list(csv.DictReader(io.StringIO(analyze("export", "--table", name, target).stdout)))


class Timeline(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = Path(self.scratch.name)

    def make(self, case, rounds=None):
        scenario = self.root / (case + ".scenario")
        text = "job test\n" + Path(CASES, case + ".case").read_text("utf-8")
        if rounds:
            self.assertIn("repeat 100\n", text)
            text = text.replace("repeat 100\n", f"repeat {rounds}\n")
        scenario.write_text(text, "utf-8")
        target = self.root / case
        subprocess.run([TRACEGEN, scenario, target], check=True)
        return target

    def draw(self, target, *options):
        out = self.root / "out.pftrace"
        result = analyze("timeline", "-o", out, *options, target)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.said = result.stderr
        trace = perfetto_reader.Trace(out.read_bytes())
        if os.environ.get("NSPY_PERFETTO"):
            theirs = subprocess.run([os.environ["NSPY_PERFETTO"], "-c", THEIRS, out], check=True,
                                    capture_output=True, text=True).stdout.split()
            ours = [len(trace.slices), len(trace.slices), len(trace.instants),
                    sum(map(len, trace.counters.values())),
                    sum(1 for one in trace.slices if one.flow), len(trace.tracks), 0]
            self.assertEqual([int(x) for x in theirs], ours)
        return trace

    def test_all_calls_and_operations_once(self):
        for case in ("clean", "died-killed", "hang-outside", "hang-p2p", "threads-hang",
                     "straggler-clock", "mismatch-count"):
            target = self.make(case)
            trace = self.draw(target)
            calls, operations = rows("calls", target), rows("operations", target)
            self.assertEqual(len(trace.calls()), len(calls), case)
            times = sorted((int(r["enter_ns"]), r["function"]) for r in calls)
            self.assertEqual(sorted((one.begin, one.name) for one in trace.calls()), times, case)
            self.assertEqual(
                sorted((one.begin, one.end, one.args["seq"], one.name)
                       for one in trace.of("arrival")),
                sorted((int(r["first_ns"]), int(r["last_ns"]), int(r["seq"]), r["function"])
                       for r in operations),
                case)
            self.assertNotIn("left out", self.said)

    def test_arrows_join_the_ranks_of_an_operation(self):
        trace = self.draw(self.make("clean"))
        flows = trace.flows()
        self.assertTrue(flows)
        for ends in flows.values():
            self.assertEqual(len({trace.process_of(one.track) for one in ends}), len(ends))
            self.assertEqual(len({(one.name, one.args["seq"]) for one in ends}), 1)
            self.assertEqual(len(ends), 8)

    def test_arrows_join_the_ends_of_a_message(self):
        flows = self.draw(self.make("p2p-both")).flows()
        names = [sorted(one.name for one in ends) for ends in flows.values() if len(ends) == 2]
        self.assertIn(["ncclRecv", "ncclSend"], names)
        self.assertLessEqual(max(len(ends) for ends in flows.values()
                                 if ends[0].name in ("ncclSend", "ncclRecv")), 2)

    def test_findings_are_marks(self):
        target = self.make("died-killed")
        trace = self.draw(target)
        report = json.loads(analyze("report", "--json", target).stdout)["jobs"][0]
        marks = [one for one in trace.instants if trace.tracks[one.track]["name"] == "findings"]
        self.assertEqual([one.name for one in marks], [f["id"] for f in report["findings"]])
        self.assertEqual(marks[0].args["summary"], report["findings"][0]["summary"])
        culprits = [trace.tracks[one.track]["name"] for one in trace.instants
                    if one.name == "RANK_DIED" and one not in marks]
        self.assertEqual(len(culprits), 1)
        self.assertIn("rank 3", culprits[0])
        self.assertTrue(any(one.args.get("never_returned") for one in trace.calls()))

    def test_clocks_are_said(self):
        trace = self.draw(self.make("straggler-clock"))
        said = [t["description"] for t in trace.tracks.values() if "pid" in t]
        self.assertTrue(said and all(text.startswith("clock: ") for text in said), said)

    def test_network_rates(self):
        trace = self.draw(self.make("uneven-card"))
        self.assertTrue(trace.counters)
        for track, values in trace.counters.items():
            self.assertIn("network", trace.tracks[track]["name"])
            self.assertEqual(values[-1][1], 0)
            self.assertTrue(any(value > 0 for _, value in values))

    def test_selections(self):
        target = self.make("died-killed")
        whole = self.draw(target)
        two = self.draw(target, "--ranks", "0,3-3")
        names = sorted(t["name"][:7] for t in two.tracks.values() if "pid" in t)
        self.assertEqual(names, ["rank 0 ", "rank 3 "])
        operations = rows("operations", target)
        first = operations[0]
        near = self.draw(target, "--around", f"{first['communicator']}#{first['seq']}",
                         "--window", "0")
        self.assertTrue(0 < len(near.calls()) < len(whole.calls()))
        for one in near.calls():
            self.assertTrue(one.end >= int(first["first_ns"]) and one.begin <= int(first["last_ns"]))
        self.assertTrue(0 < len(self.draw(target, "--finding", "1").calls()))
        start = min(one.begin for one in whole.calls())
        job = min(int(row["start_ns"]) for row in rows("ranks", target))
        middle = (int(operations[2]["first_ns"]) - job) / 1e9
        early = self.draw(target, "--to", f"{middle:.6f}").calls()
        late = self.draw(target, "--from", f"{middle:.6f}s").calls()
        self.assertTrue(0 < len(early) < len(whole.calls()) and 0 < len(late) < len(whole.calls()))
        self.assertEqual(min(one.begin for one in early), start)
        self.assertLessEqual(len(self.draw(target, "--from", "23:59:59.5").calls()), 8)
        none = self.draw(target, "--comm", "1")
        self.assertFalse(none.of("operation") or none.of("arrival"))

    def test_a_bound_is_kept_and_said(self):
        target = self.make("clean", rounds=700)
        trace = self.draw(target, "--max-size", "1")
        self.assertIn("left out", self.said)
        self.assertLess((self.root / "out.pftrace").stat().st_size, 1 << 20)
        self.assertTrue(all(any(trace.process_of(one.track) == pid for one in trace.calls())
                            for pid, t in trace.tracks.items() if "pid" in t))
        last = max(one.end for one in self.draw(target).calls())
        self.assertGreater(max(one.end for one in trace.calls()), last - 10**9)

    def test_hostile_text(self):
        self.assertTrue(self.draw(self.make("hostile-text")).calls())

    def test_misuse_and_bad_input(self):
        target = self.make("clean")
        out = self.root / "x"
        for args in (["-o", out, "--ranks", "3-1"], ["-o", out, "--ranks", "a"],
                     ["-o", out, "--from", "25:00:00"], ["-o", out, "--around", "zz#1"],
                     ["-o", out, "--max-size", "2048"], ["-o", out, "--max-size", "0"],
                     ["-o", out, "--around", "1#1"], ["-o", out, "--finding", "99"], []):
            self.assertEqual(analyze("timeline", *args, target).returncode, 2, args)
        self.assertFalse(out.exists())
        self.assertEqual(analyze("timeline", "-o", out, self.root / "gone").returncode, 3)
        if os.path.exists("/dev/full"):
            full = analyze("timeline", "-o", "/dev/full", target)
            self.assertEqual(full.returncode, 3)
            self.assertIn("/dev/full: No space left on device", full.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
