#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export: every table in both formats, against what the report and the dump say.

usage: test_tables.py TRACEGEN ANALYZE CASES FLEET
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

TRACEGEN, ANALYZE, CASES, FLEET = sys.argv[1:5]


def analyze(*args):
    return subprocess.run([ANALYZE, *map(str, args)], capture_output=True, text=True, timeout=120,
                          check=False)


def table(name, *targets):
    """The rows, from CSV; the same as from JSON lines."""
    result = analyze("export", "--table", name, *targets)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout, newline="")))
    lines = analyze("export", "--table", name, "--format", "jsonl", *targets).stdout.splitlines()
    objects = [json.loads(line) for line in lines]
    assert len(objects) == len(rows), (len(objects), len(rows))
    for row, one in zip(rows, objects):
        assert list(row) == list(one), (row, one)
        for column, value in one.items():
            text = "" if value is None else str(value).lower() if isinstance(value, bool) \
                else str(value)
            assert row[column] in (text, "'" + text), (column, row[column], value)
    return objects


class Tables(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = Path(self.scratch.name)

    def make(self, case, job="test"):
        scenario = self.root / (job + ".scenario")
        scenario.write_text(f"job {job}\n" + Path(CASES, case + ".case").read_text("utf-8"), "utf-8")
        target = self.root / job
        subprocess.run([TRACEGEN, scenario, target], check=True)
        return target

    def test_operations(self):
        rows = table("operations", self.make("died-killed"))
        # five rounds of all eight, and one that rank 3 never came to
        self.assertEqual([row["seq"] for row in rows], [1, 2, 3, 4, 5, 6])
        self.assertEqual([row["arrived"] for row in rows], [8] * 5 + [7])
        for row in rows:
            self.assertEqual((row["function"], row["elements"], row["bytes"], row["datatype"]),
                             ("ncclAllReduce", 1000, 4000, "float32"))
            self.assertEqual(row["spread_ns"], row["last_ns"] - row["first_ns"])
            self.assertTrue(row["agrees"])

    def test_operations_that_differ(self):
        rows = table("operations", self.make("mismatch-count"))
        self.assertIn(False, [row["agrees"] for row in rows])

    def test_who_came_last(self):
        rows = table("operations", self.make("straggler"))
        report = json.loads(analyze("report", "--json", self.root / "test").stdout)["jobs"][0]
        culprit = report["findings"][0]["culprits"][0]["rank"]
        last = [row["last_rank"] for row in rows]
        self.assertEqual(max(set(last), key=last.count), culprit)

    def test_calls(self):
        target = self.make("hang-outside")
        rows = table("calls", target)
        dumped = [json.loads(line) for line in analyze("dump", "--json", target).stdout.splitlines()]
        calls = [row for row in dumped if row["kind"] == "call"]
        self.assertEqual(len([r for r in rows if r["leave_ns"] is not None]),
                         len([c for c in calls if "duration_ns" in c or "result" in c]))
        waiting = {row["rank"] for row in rows if row["leave_ns"] is None}
        self.assertTrue(waiting)
        for row in rows:
            if row["leave_ns"] is not None:
                self.assertEqual(row["duration_ns"], row["leave_ns"] - row["enter_ns"])
            else:
                self.assertIsNone(row["result"])

    def test_no_call_twice(self):
        """Live pages hold calls that segments hold too."""
        for case in ("died-killed", "hang-outside", "threads-hang"):
            target = self.make(case, case)
            rows = table("calls", target)
            calls = [(r["node"], r["pid"], r["thread"], r["enter_ns"], r["function"]) for r in rows]
            self.assertEqual(len(calls), len(set(calls)), case)

    def test_ranks(self):
        rows = table("ranks", self.make("died-killed"))
        self.assertEqual(sorted(row["rank"] for row in rows), list(range(8)))
        self.assertEqual({row["rank"]: row["signal"] for row in rows}[3], 9)
        self.assertEqual({row["node"] for row in rows}, {"node1", "node2"})

    def test_findings(self):
        target = self.make("died-killed")
        report = json.loads(analyze("report", "--json", target).stdout)["jobs"][0]
        rows = table("findings", target)
        self.assertEqual(list(dict.fromkeys(row["id"] for row in rows)),
                         [finding["id"] for finding in report["findings"]])
        self.assertEqual((rows[0]["rank"], rows[0]["node"]), (3, "node1"))

    def test_several_jobs_are_one_table(self):
        rows = table("ranks", self.make("clean", "one"), self.make("died-killed", "two"))
        self.assertEqual({row["job"] for row in rows}, {"one", "two"})

    def test_misuse_and_bad_input(self):
        for args in (["--table", "x"], ["--format", "xml"], ["--no-such"]):
            self.assertEqual(analyze("export", *args).returncode, 2, args)
        gone = analyze("export", self.root / "gone")
        self.assertEqual((gone.returncode, gone.stdout), (3, ""))
        self.assertIn("gone", gone.stderr)

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        result = analyze("export", "-o", "/dev/full", self.make("clean"))
        self.assertEqual(result.returncode, 3)
        self.assertIn("/dev/full: No space left on device", result.stderr)

    def test_fleet_example(self):
        try:
            import duckdb  # noqa: F401
        except ImportError:
            self.skipTest("the Python package duckdb is not installed")
        jobs = [self.make("straggler", "slow"), self.make("died-killed", "dead"),
                self.make("clean", "clean")]
        result = subprocess.run([sys.executable, FLEET, "--analyze", ANALYZE, "--out",
                                 self.root / "fleet", *jobs], capture_output=True, text=True,
                                timeout=120, check=True)
        self.assertIn("RANK_DIED\tP0\t1\t1", result.stdout)
        self.assertIn("STRAGGLER_RANK", result.stdout)
        culprit = table("findings", jobs[0])[0]["node"]
        first = result.stdout.splitlines()[2].split("\t")[0]
        self.assertEqual(first, culprit)
        self.assertTrue((self.root / "fleet" / "operations.parquet").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
