#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ncclspy-analyze compare on traces of simulated runs: verdict, exit code, files, bad input.

usage: test_compare_cli.py SIM TRACEGEN ANALYZE CASES SCHEMA
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SIM, TRACEGEN, ANALYZE, CASES, SCHEMA = sys.argv[1:6]
EXIT_OK, EXIT_FINDING, EXIT_USAGE, EXIT_NOTHING = 0, 1, 2, 3


def compare(*args):
    return subprocess.run([ANALYZE, "compare", *map(str, args)], capture_output=True, text=True,
                          timeout=120, check=False)


def bases(paths):
    return [word for path in paths for word in ("--base", path)]


class Compare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.root = Path(cls.scratch.name)
        cls.base = [cls.run_job(f"base{i}", i) for i in range(4)]
        cls.same = [cls.run_job(f"same{i}", 10 + i) for i in range(4)]
        cls.slower = [cls.run_job(f"slower{i}", 20 + i, percent=5) for i in range(4)]
        cls.node = [cls.run_job(f"node{i}", 30 + i, kind="slow-host") for i in range(3)]

    @classmethod
    def run_job(cls, name, run, kind="clean", percent=0, ranks=16):
        path = cls.root / name
        subprocess.run([SIM, "again", "1", path, kind, str(ranks), str(run), str(percent)],
                       check=True)
        return path

    def test_equal_runs(self):
        result = compare(*bases(self.base), *self.same)
        self.assertEqual(result.returncode, EXIT_OK, result.stdout)
        self.assertIn("VERDICT: no regression is seen", result.stdout)
        self.assertIn("[PASS] step time", result.stdout)
        self.assertNotIn("PERF_REGRESSION", result.stdout)
        self.assertEqual(result.stderr, "")

    def test_slower_runs(self):
        result = compare(*bases(self.base), *self.slower)
        self.assertEqual(result.returncode, EXIT_FINDING, result.stdout)
        lines = result.stdout.splitlines()
        self.assertRegex(lines[2], r"^VERDICT: steps take [45]\.\d % longer than before\.")
        self.assertIn("P1 PERF_REGRESSION step time", lines[3])
        self.assertNotIn("holds up", result.stdout)
        self.assertEqual(compare("--fail-on", "none", *bases(self.base), *self.slower).returncode,
                         EXIT_OK)
        self.assertEqual(compare("--min-effect", "50", *bases(self.base), *self.slower).returncode,
                         EXIT_OK)

    def test_faster_runs(self):
        result = compare(*bases(self.slower), *self.base)
        self.assertEqual(result.returncode, EXIT_OK, result.stdout)
        self.assertIn(", better", result.stdout)

    def test_node_is_named(self):
        culprit = json.loads((self.node[0] / "truth.json").read_text("utf-8"))["culprits"][0]
        truth = f"node{culprit // 8 + 1}"
        result = compare(*bases(self.base), *self.node)
        self.assertEqual(result.returncode, EXIT_FINDING, result.stdout)
        self.assertIn(f"node {truth} holds up the others", result.stdout.splitlines()[2])
        document = json.loads(compare("--json", *bases(self.base), *self.node).stdout)
        self.assertEqual(document["node"]["name"], truth)

    def test_one_run_a_side(self):
        result = compare(self.base[0], self.slower[0])
        self.assertEqual(result.returncode, EXIT_OK, result.stdout)
        self.assertIn("P2 PERF_REGRESSION", result.stdout)
        self.assertIn("one run a side", result.stdout)
        self.assertEqual(compare("--fail-on", "P2", self.base[0], self.slower[0]).returncode,
                         EXIT_FINDING)

    def test_one_run_on_both_sides(self):
        words = "a run compared with itself"
        self.assertIn(words, compare(self.base[0], self.base[0]).stdout)
        self.assertIn(words, compare("--base", self.base[0], "--base", self.base[1],
                                     self.same[0], self.base[1]).stdout)
        saved = self.root / "itself.nspyb"
        compare("--save-baseline", saved, self.base[0])
        self.assertIn(words, compare(saved, self.base[0]).stdout)
        self.assertNotIn(words, compare(*bases(self.base), *self.same).stdout)

    def test_advice(self):
        """It names what there is to do, not a thing that is not there."""
        def finding(*args):
            return json.loads(compare("--json", *args).stdout)["findings"][0]
        self.assertIn("run the earlier version again", finding(*bases(self.base), *self.slower)["action"])
        self.assertIn("of that node", finding(*bases(self.base), *self.node)["action"])
        changed = self.root / "changed.nspyb"
        compare("--save-baseline", changed, *self.slower)
        document = json.loads(changed.read_text("utf-8"))
        for run in document["runs"]:
            run["facts"]["env.NCCL_ALGO"] = "Ring"
        changed.write_text(json.dumps(document), "utf-8")
        self.assertIn("undo what changed", finding(*bases(self.base), changed)["action"])

    def test_other_world_size(self):
        large = self.run_job("large", 1, ranks=32)
        result = compare(self.base[0], large)
        self.assertEqual(result.returncode, EXIT_NOTHING, result.stdout)
        self.assertIn("VERDICT: not comparable", result.stdout)
        self.assertIn("ran on 16 ranks", result.stdout)

    def test_baseline_file(self):
        saved = self.root / "good.nspyb"
        result = compare("--save-baseline", saved, *self.base)
        self.assertEqual(result.returncode, EXIT_OK, result.stderr)
        self.assertIn("4 runs saved", result.stderr)
        self.assertLess(saved.stat().st_size, 64 * 1024)
        self.assertEqual(json.loads(saved.read_text("utf-8"))["schema"], "ncclspy.baseline/1")
        direct = json.loads(compare("--json", *bases(self.base), *self.slower).stdout)
        read = json.loads(compare("--json", saved, *self.slower[:1]).stdout)
        self.assertEqual(len(read["base"]), 4)
        by_file = json.loads(compare("--json", "--base", saved, *self.slower).stdout)
        for one, other in zip(direct["rows"], by_file["rows"]):
            self.assertEqual(one["key"], other["key"])
            self.assertEqual(one["verdict"], other["verdict"])
            self.assertAlmostEqual(one["change"], other["change"], places=6)
        # Saving and comparing at once.
        both = compare("--save-baseline", self.root / "new.nspyb", *bases(self.base), *self.slower)
        self.assertEqual(both.returncode, EXIT_FINDING)
        self.assertTrue((self.root / "new.nspyb").exists())

    def test_directory_of_several_jobs(self):
        together = self.root / "together"
        for i, path in enumerate(self.base):
            shutil.copytree(path, together / str(i))
        result = compare("--json", together, self.same[0])
        # The same job name below one directory is one job in several attempts or several runs;
        # whatever it is, nothing may be called a regression.
        self.assertEqual(result.returncode, EXIT_OK, result.stdout)

    def test_json_follows_the_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        schema = json.loads(Path(SCHEMA).read_text("utf-8"))
        for args in ([*bases(self.base), *self.slower], [self.base[0], self.node[0]]):
            document = json.loads(compare("--json", *args).stdout)
            jsonschema.validate(document, schema)
        document["rows"][0]["verdict"] = "perhaps"
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(document, schema)

    def test_operations_and_network_cards(self):
        """Times of operations and of network cards are kept, with what bus bandwidth counts."""
        runs = []
        for case in ("bandwidth-factors", "uneven-near"):
            scenario = self.root / (case + ".scenario")
            text = Path(CASES, case + ".case").read_text("utf-8")
            # A job is compared by its largest communicator.
            text = text.replace("\nrepeat", "\nall coll ncclAllReduce world 1 f32 sum\nrepeat", 1)
            scenario.write_text("job one\n" + text, "utf-8")
            subprocess.run([TRACEGEN, scenario, self.root / case], check=True)
            document = json.loads(compare("--json", self.root / case, self.root / case).stdout)
            runs.append({m["key"]: m for m in document["base"][0]["metrics"]})
            for row in document["rows"]:
                if row["metric"] in ("time", "network"):
                    self.assertEqual((row["change"], row["verdict"]), (0, "unknown"), row)
        times = [m for m in runs[0].values() if m["metric"] == "time"]
        self.assertTrue(times)
        reported = json.loads(subprocess.run(
            [ANALYZE, "report", "--json", self.root / "bandwidth-factors"], capture_output=True,
            text=True, check=True).stdout)["jobs"][0]["bandwidth"]["communicators"]
        known = {round(r["busbw_at_least"]["median"] * r["seconds_at_most"]["median"])
                 for r in reported if r["stream_seen_empty"]}
        self.assertTrue(any("bus_bytes" in metric for metric in times), times)
        for metric in times:
            if "bus_bytes" in metric:
                self.assertTrue(any(abs(metric["bus_bytes"] - k) <= 1e-3 * k + 1 for k in known),
                                metric)
        cards = [m for m in runs[1].values() if m["metric"] == "network"]
        self.assertTrue(cards)
        self.assertTrue(all(m["center_ns"] > 0 and m["samples"] > 0 for m in cards))

    def fleet(self, *jobs):
        """A directory of all jobs: (name, run to copy) in the order in which they were written."""
        fleet = Path(tempfile.mkdtemp(dir=self.root))
        for when, (name, source) in enumerate(jobs):
            shutil.copytree(source / "sim", fleet / name)
            os.utime(fleet / name, (1000 + when, 1000 + when))
        return fleet

    def test_earlier_runs_are_found(self):
        hung = self.run_job("hung", 50, kind="hang")
        large = self.run_job("larger", 51, ranks=32)
        fleet = self.fleet(("a", self.base[0]), ("hung", hung), ("b", self.base[1]),
                           ("large", large), ("c", self.base[2]), ("new", self.slower[0]))
        (fleet / "notes").mkdir()
        result = compare("--baseline", "auto", "--json", fleet / "new")
        self.assertEqual(result.returncode, EXIT_FINDING, result.stdout + result.stderr)
        self.assertEqual(len(json.loads(result.stdout)["base"]), 3)
        self.assertIn("baseline: 3 earlier runs beside it in " + str(fleet), result.stderr)
        self.assertRegex(result.stderr, r"[12] passed over as another job")
        self.assertIn("without NCCLSPY_TAG", result.stderr)

    def test_the_newest_five_are_taken(self):
        fleet = self.fleet(*((f"old{i}", run) for i, run in enumerate(self.slower)),
                           *((f"good{i}", run) for i, run in enumerate(self.base)),
                           ("good4", self.same[0]), ("new", self.same[1]))
        result = compare("--baseline", "auto", fleet / "new")
        self.assertEqual(result.returncode, EXIT_OK, result.stdout)
        self.assertIn("base: 5 runs", result.stdout)
        self.assertIn("VERDICT: no regression is seen", result.stdout)

    def test_nothing_beside_it(self):
        fleet = self.fleet(("new", self.base[0]))
        result = compare("--baseline", "auto", fleet / "new")
        self.assertEqual((result.returncode, result.stdout), (EXIT_NOTHING, ""))
        self.assertIn("baseline: 0 earlier runs", result.stderr)
        self.assertIn("no run to compare with", result.stderr)

    def test_report_says_how_steps_compare(self):
        fleet = self.fleet(("a", self.base[0]), ("b", self.base[1]), ("c", self.base[2]),
                           ("new", self.slower[0]))

        def report(*args):
            return subprocess.run([ANALYZE, "report", *map(str, args)], capture_output=True,
                                  text=True, check=False)
        plain = report(fleet / "new")
        compared = report("--baseline", "auto", fleet / "new")
        self.assertEqual(compared.returncode, plain.returncode)
        last = compared.stdout.splitlines()[-1]
        self.assertRegex(last, r"^vs baseline: step time .* \(\+[45]\.\d %.*, a regression; 3 runs$")
        self.assertEqual(compared.stdout, plain.stdout + last + "\n")
        job = json.loads(report("--json", "--baseline", "auto", fleet / "new").stdout)["jobs"][0]
        self.assertEqual(job["baseline"], last)
        saved = self.root / "earlier.nspyb"
        compare("--save-baseline", saved, self.base[0], self.base[1], self.base[2])
        self.assertIn(last.split(";")[0], report("--baseline", saved, fleet / "new").stdout)
        alone = report("--baseline", "auto", self.fleet(("new", self.base[0])) / "new")
        self.assertIn("vs baseline: no run to compare with", alone.stdout)

    def test_few_runs_that_differ_much(self):
        """What the interval excludes is not called fine because it is not proven."""
        slow = self.run_job("slow", 60, percent=20)
        result = compare("--base", self.base[0], "--base", self.base[1], slow)
        self.assertEqual(result.returncode, EXIT_OK, result.stdout)
        self.assertIn("VERDICT: steps are likely slower, which so few runs do not prove",
                      result.stdout)
        self.assertIn("[WARN] step time", result.stdout)
        self.assertNotIn("[PASS] step time", result.stdout)

    def test_only_files_are_replaced(self):
        pipe, link, there = (self.root / name for name in ("pipe", "link", "there"))
        os.mkfifo(pipe)
        there.write_text("old", "utf-8")
        link.symlink_to(there)
        result = compare("--save-baseline", pipe, self.base[0])
        self.assertEqual(result.returncode, EXIT_NOTHING)
        self.assertTrue(pipe.is_fifo())
        self.assertEqual(compare("--save-baseline", link, self.base[0]).returncode, EXIT_OK)
        self.assertTrue(link.is_symlink())
        self.assertIn("ncclspy.baseline", there.read_text("utf-8"))
        self.assertEqual(compare("--save-baseline", self.root, self.base[0]).returncode,
                         EXIT_NOTHING)

    def test_baselines_that_cannot_be(self):
        whole = self.root / "whole.nspyb"
        compare("--save-baseline", whole, self.base[0])
        for change in (lambda r: r.update(ranks=2.5), lambda r: r.update(ranks=-1),
                       lambda r: r.update(nodes=-3), lambda r: r.update(steps=1.5),
                       lambda r: r["metrics"][0].update(center_ns=-5e8),
                       lambda r: r["metrics"][0].update(error_ns=-1)):
            document = json.loads(whole.read_text("utf-8"))
            change(document["runs"][0])
            wrong = self.root / "wrong.nspyb"
            wrong.write_text(json.dumps(document), "utf-8")
            result = compare(wrong, self.base[1])
            self.assertEqual((result.returncode, result.stdout), (EXIT_NOTHING, ""))
            self.assertIn("is missing or out of range", result.stderr)

    def test_standard_output_that_is_full(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        for args in (["compare", self.base[0], self.base[1]], ["report", self.base[0]],
                     ["report", "--json", self.base[0]], ["dump", self.base[0]]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([ANALYZE, *map(str, args)], stdout=full, text=True,
                                        stderr=subprocess.PIPE, check=False)
            self.assertEqual(result.returncode, EXIT_NOTHING, args)
            self.assertIn("standard output: No space left on device", result.stderr)

    def test_misuse(self):
        for args in ([], [self.base[0]], [self.base[0], self.base[1], self.base[2]],
                     ["--min-effect", "x", self.base[0], self.base[1]], ["--no-such"],
                     ["--base", self.base[0]],
                     ["--save-baseline", self.root / "x", "--html", self.root / "y", self.base[0]],
                     ["--save-baseline", self.root / "x", "--json", self.base[0]]):
            result = compare(*args)
            self.assertEqual(result.returncode, EXIT_USAGE, args)
            self.assertIn("--help", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_bad_input(self):
        cut = self.root / "cut.nspyb"
        compare("--save-baseline", cut, *self.base)
        cut.write_bytes(cut.read_bytes()[:-100])
        newer = self.root / "newer.nspyb"
        newer.write_text('{"schema": "ncclspy.baseline/9", "runs": []}', "utf-8")
        text = self.root / "notes.txt"
        text.write_text("nothing of ours\n", "utf-8")
        empty = self.root / "empty"
        empty.mkdir(exist_ok=True)
        for path in (cut, newer, text, empty, self.root / "absent"):
            for args in ([path, self.base[0]], [self.base[0], path]):
                result = compare(*args)
                self.assertEqual(result.returncode, EXIT_NOTHING, (path, result.stdout))
                self.assertIn(str(path), result.stderr)
                self.assertEqual(result.stdout, "")

    def test_baseline_cannot_be_written(self):
        result = compare("--save-baseline", self.root / "no" / "such" / "x", self.base[0])
        self.assertEqual(result.returncode, EXIT_NOTHING)
        self.assertIn("No such file or directory", result.stderr)

    def test_job_without_steps(self):
        """A short job has no pattern: that is said, and nothing is judged by it."""
        scenario = self.root / "short.scenario"
        scenario.write_text("job short\n" + Path(CASES, "oom.case").read_text("utf-8"),
                            "utf-8")
        subprocess.run([TRACEGEN, scenario, self.root / "short"], check=True)
        result = compare(self.root / "short", self.root / "short")
        self.assertEqual(result.returncode, EXIT_OK, result.stdout + result.stderr)
        self.assertIn("no repeating pattern", result.stdout)

    def test_nothing_is_written(self):
        before = sorted(p for p in self.root.rglob("*") if "base" in str(p))
        compare(self.base[0], self.base[1])
        self.assertEqual(before, sorted(p for p in self.root.rglob("*") if "base" in str(p)))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
