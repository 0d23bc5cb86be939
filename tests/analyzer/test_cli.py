#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of ncclspy-analyze as a user meets them: arguments, exit codes, bad input.

usage: test_cli.py TRACEGEN ANALYZE CASES SCHEMA
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TRACEGEN, ANALYZE, CASES, SCHEMA = sys.argv[1:5]
EXIT_OK, EXIT_FINDING, EXIT_USAGE, EXIT_NOTHING = 0, 1, 2, 3


def analyze(*args, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith("NCCLSPY")}
    env.update(variables)
    return subprocess.run([ANALYZE, *map(str, args)], capture_output=True, text=True, env=env,
                          timeout=60, check=False)


def problem_lines(result):
    return [x for x in result.stderr.splitlines() if x.startswith("ncclspy-analyze: ")]


class WithTraces(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = Path(self.scratch.name)

    def make(self, case="clean", job="test", where="traces"):
        text = Path(CASES, case + ".case").read_text("utf-8")
        scenario = self.root / (job + ".scenario")
        scenario.write_text(f"job {job}\n{text}", "utf-8")
        target = self.root / where
        subprocess.run([TRACEGEN, scenario, target], check=True)
        return target

    def files(self, where="traces", suffix=".nspy"):
        return sorted((self.root / where).rglob("*" + suffix))


class Arguments(WithTraces):
    def test_help_and_version(self):
        self.assertEqual(analyze("--version").stdout.split()[0], "ncclspy-analyze")
        for command in ("", "report", "compare", "dump", "check", "explain", "export"):
            result = analyze(*command.split(), "--help")
            self.assertEqual(result.returncode, EXIT_OK, command)
            self.assertTrue(result.stdout.startswith("Usage: ncclspy-analyze"), command)
            self.assertEqual(result.stderr, "")

    def test_misuse(self):
        for args in (["--no-such"], ["report", "--fail-on", "P7"], ["dump", "--rank", "x"],
                     ["check", "--nope"], ["explain", "NO_SUCH_FINDING"],
                     ["report", "--hang-after", "soon"], ["report", "--attempt", "0"]):
            result = analyze(*args)
            self.assertEqual(result.returncode, EXIT_USAGE, args)
            self.assertIn("--help", result.stderr, args)
            self.assertEqual(result.stdout, "", args)

    def test_job_by_name_and_newest_job(self):
        root = self.make(job="first")
        os.utime(next(iter(self.files())), (1, 1))
        for path in self.files():
            os.utime(path, (1, 1))
        self.make(job="second")
        by_name = analyze("report", "first", NCCLSPY_DIR=str(root))
        self.assertIn("job first ", by_name.stdout)
        newest = analyze(NCCLSPY_DIR=str(root))
        self.assertIn("job second ", newest.stdout)
        self.assertNotIn("first", newest.stdout)
        default = analyze("report", TMPDIR=str(self.root))
        self.assertEqual(default.returncode, EXIT_NOTHING)
        self.assertIn(f"{self.root}/ncclspy-{os.getuid()}", default.stderr)

    def test_colour_only_on_request_of_a_terminal(self):
        root = self.make("hang-outside")
        self.assertNotIn("\x1b", analyze(root, TERM="xterm").stdout)

    def test_explain(self):
        lines = [x.split() for x in analyze("explain").stdout.splitlines()]
        listed = [x[1] for x in lines if x[0] != "--"]
        self.assertIn("COLLECTIVE_HANG", listed)
        for name in listed:
            text = analyze("explain", name.lower())
            self.assertEqual(text.returncode, EXIT_OK)
            for part in ("## ", "**Symptom.**", "**How ncclspy knows.**", "**What to check.**",
                         "**When to escalate.**", "*Preconditions:*", "*Blast radius:*",
                         "*Verify:*"):
                self.assertIn(part, text.stdout, name)


    def test_explain_topics(self):
        topics = [x.split()[1] for x in analyze("explain").stdout.splitlines() if x.startswith("-- ")]
        self.assertEqual([x for x in topics if x.startswith("guide.")],
                         [f"guide.{i}" for i in range(1, 22)])
        for page in ("error-patterns", "performance", "operations", "escalation"):
            self.assertIn(page + ".1", topics)
        for name in topics[::7]:
            text = analyze("explain", name.upper())
            self.assertEqual(text.returncode, EXIT_OK, name)
            self.assertEqual(text.stdout.count("\n## "), 1, name)
        self.assertEqual(analyze("explain", "guide").stdout.count("\n## "), 21)
        for wrong in ("guide.99", "gui", "guide.", ""):
            self.assertEqual(analyze("explain", wrong).returncode, EXIT_USAGE, wrong)

    def test_commands_have_names_filled_in(self):
        root = self.make("hang-chain")
        self.assertIn("if it still lives, run yourself, on node2: py-spy dump --pid 1007\n", analyze(root).stdout)
        finding = json.loads(analyze("report", "--json", root).stdout)["jobs"][0]["findings"][0]
        self.assertEqual(finding["commands"], ["if it still lives, run yourself, on node2: py-spy dump --pid 1007"])
        case = Path(CASES, "hang-chain.case").read_text("utf-8")
        (self.root / "pods.case").write_text(case.replace(
            "all init world", "all fact pod train-1\nall fact namespace ml\nall init world"))
        (self.root / "slurm.case").write_text(case.replace(
            "all init world", "all fact env.SLURM_JOB_ID 77\nall init world"))
        (self.root / "odd.case").write_text(case.replace(
            "all init world", "all fact env.SLURM_JOB_ID 7;reboot\nall init world"))
        for name, wanted in (
                ("pods", "in pod ml/train-1 (kubectl exec -it train-1 -n ml -- sh): py-spy dump --pid 1007"),
                ("slurm", "on node2 (srun --overlap --jobid=77 -w node2 --pty bash): py-spy dump"),
                ("odd", "run yourself, on node2: py-spy dump")):
            root = self.make(str(self.root / name), where=name)
            self.assertIn(wanted, analyze(root).stdout)
        died = analyze(self.make("died-killed", where="died")).stdout
        self.assertRegex(died, r'journalctl -k --since "2025-12-01 \d\d:\d\d:\d\d UTC" --until "2025-')
        self.assertNotRegex(died, r"run yourself.*<")
        root = self.make("mismatch-count", where="mismatch")
        self.assertRegex(analyze(root).stdout, "run yourself: ncclspy-analyze dump --rank 2 --comm [0-9a-f]{16} "
                         + str(root / "test").replace(".", "[.]") + r" \| tail")
        # The process has ended: its number may be another's by now.
        self.assertNotIn("/proc/", analyze(self.make("facts-memlock", where="ended")).stdout)


class BadInput(WithTraces):
    def test_no_such_path(self):
        result = analyze(self.root / "nowhere")
        self.assertEqual(result.returncode, EXIT_NOTHING)
        self.assertEqual(len(problem_lines(result)), 1)
        self.assertIn("nowhere", result.stderr)

    def test_directory_without_traces(self):
        (self.root / "notes.txt").write_text("hello")
        for command in ("report", "check", "dump"):
            result = analyze(command, self.root)
            self.assertEqual(result.returncode, EXIT_NOTHING)
            self.assertEqual(len(problem_lines(result)), 1)
            self.assertIn("no ncclspy trace", result.stderr)

    def test_foreign_file_among_traces(self):
        root = self.make()
        (root / "test" / "node1" / "zz.000.nspy").write_bytes(b"\x7fELF" + bytes(500))
        result = analyze(root)
        self.assertEqual(result.returncode, EXIT_OK)
        self.assertIn("8 complete", result.stdout)
        self.assertEqual(len(problem_lines(result)), 1)
        self.assertIn("zz.000.nspy: not an ncclspy trace", result.stderr)
        self.assertEqual(analyze("check", root).returncode, EXIT_FINDING)

    def test_future_version(self):
        root = self.make()
        path = self.files()[3]
        data = bytearray(path.read_bytes())
        data[16] += 1  # version, see docs/TRACE_FORMAT.md
        path.write_bytes(data)
        result = analyze(root)
        self.assertIn("7 complete", result.stdout)
        self.assertEqual(len(problem_lines(result)), 1)
        self.assertIn("newer ncclspy", result.stderr)
        self.assertIn(path.name, result.stderr)
        alone = analyze(path)
        self.assertEqual(alone.returncode, EXIT_NOTHING)

    def test_truncated_file(self):
        root = self.make()
        path = self.files()[2]
        path.write_bytes(path.read_bytes()[:-40])
        result = analyze(root)
        self.assertIn("7 complete, 1 cut (rank 2)", result.stdout)
        self.assertEqual(len(problem_lines(result)), 1)
        self.assertRegex(result.stderr, r"cut off at offset \d+; the rest was read")
        check = analyze("check", "--json", root)
        self.assertEqual(check.returncode, EXIT_FINDING)
        states = {Path(f["path"]).name: f["state"] for f in json.loads(check.stdout)["files"]}
        self.assertEqual(states.pop(path.name), "cut")
        self.assertEqual(set(states.values()), {"ok"})

    def test_two_jobs_in_one_directory(self):
        self.make("clean", job="alpha")
        root = self.make("hang-outside", job="beta")
        result = analyze(root)
        self.assertEqual(result.returncode, EXIT_FINDING)
        self.assertIn("2 jobs in this input", result.stdout.splitlines()[0])
        self.assertIn("job alpha ", result.stdout)
        self.assertIn("job beta ", result.stdout)

    def test_empty_file(self):
        root = self.make()
        (root / "test" / "node1" / "aa.000.nspy").write_bytes(b"")
        result = analyze(root)
        self.assertEqual(result.returncode, EXIT_OK)
        self.assertIn("aa.000.nspy: empty", result.stderr)

    def test_symbolic_links_and_pipes_are_left_alone(self):
        root = self.make()
        folder = root / "test" / "node1"
        (folder / "loop").symlink_to(root)
        (folder / "link.000.nspy").symlink_to("/etc/passwd")
        os.mkfifo(folder / "pipe.000.nspy")
        result = analyze(root)
        self.assertIn("8 complete", result.stdout)
        self.assertEqual(result.stderr, "")


class Reports(WithTraces):
    def validate(self, document):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        jsonschema.validate(document, json.loads(Path(SCHEMA).read_text("utf-8")))

    def test_json_follows_the_schema(self):
        for path in sorted(Path(CASES).glob("*.case")):
            root = self.make(path.stem, where=path.stem)
            result = analyze("report", "--json", root)
            document = json.loads(result.stdout)
            self.validate(document)
            findings = document["jobs"][0]["findings"]
            for finding in findings:
                self.assertNotIn("\n", finding["summary"])
            self.many_ranks_are_one_finding(findings, path.stem)

    def many_ranks_are_one_finding(self, findings, case):
        """Of a kind, nobody is named twice, and at most one finding names several or nobody."""
        named = [(f["id"], c["node"], c["pid"], c["rank"]) for f in findings
                 for c in f["culprits"]]
        self.assertEqual(len(named), len(set(named)), case)
        wide = [f["id"] for f in findings if len(f["culprits"]) != 1]
        self.assertEqual(len(wide), len(set(wide)), case)

    def test_json_schema_rejects_other_documents(self):
        root = self.make()
        document = json.loads(analyze("report", "--json", root).stdout)
        document["jobs"][0]["verdict"].pop("page")
        with self.assertRaises(Exception):
            self.validate(document)

    def test_fail_on(self):
        root = self.make("hang-outside")
        for level, status in (("P0", 1), ("P1", 1), ("P2", 1), ("none", 0)):
            self.assertEqual(analyze("report", "--fail-on", level, root).returncode, status)

    def test_hang_after(self):
        root = self.make("hang-outside")
        result = analyze("report", "--hang-after", "3600", root)
        self.assertNotIn("COLLECTIVE_HANG", result.stdout)
        short = self.make("hang-outside-short", where="short")
        self.assertIn("COLLECTIVE_HANG",
                      analyze("report", "--hang-after", "0.5", short).stdout)

    def test_ignore(self):
        root = self.make("hang-outside")
        rules = self.root / "ignore"
        rules.write_text("# known\nCOLLECTIVE_HANG node=node2 never ticket 17, new loader\n")
        result = analyze("report", "--ignore", rules, root)
        self.assertEqual(result.returncode, EXIT_OK)
        self.assertIn("[SKIP] P0 COLLECTIVE_HANG", result.stdout)
        self.assertIn("ticket 17, new loader", result.stdout)
        rules.write_text("COLLECTIVE_HANG * 2001-01-01 long over\n")
        self.assertEqual(analyze("report", "--ignore", rules, root).returncode, EXIT_FINDING)
        rules.write_text("COLLECTIVE_HANG node=node1 never other node\n")
        self.assertEqual(analyze("report", "--ignore", rules, root).returncode, EXIT_FINDING)
        for bad in ("NOPE * never x", "COLLECTIVE_HANG all never x", "COLLECTIVE_HANG * soon x",
                    "COLLECTIVE_HANG * never"):
            rules.write_text(bad + "\n")
            result = analyze("report", "--ignore", rules, root)
            self.assertEqual(result.returncode, EXIT_USAGE, bad)
            self.assertIn(f"{rules}:1: ", result.stderr)

    def test_verify(self):
        old = self.root / "old.json"
        hang = self.make("hang-outside", where="hang")
        old.write_text(analyze("report", "--json", hang).stdout)
        clean = self.make("clean", where="clean")
        self.assertIn("[GONE] COLLECTIVE_HANG, rank 5 on node2",
                      analyze("report", "--verify", old, clean).stdout)
        self.assertIn("[REMAINS] COLLECTIVE_HANG",
                      analyze("report", "--verify", old, hang).stdout)
        died = self.make("died-killed", where="died")
        self.assertIn("[NEW] RANK_DIED, rank 3",
                      analyze("report", "--verify", old, died).stdout)
        old.write_text("{}")
        self.assertEqual(analyze("report", "--verify", old, hang).returncode, EXIT_USAGE)

    def test_hosts_by_other_clocks(self):
        text = Path(CASES, "hang-outside.case").read_text("utf-8").partition("\n---\n")[0]
        scenario = self.root / "skewed.scenario"
        scenario.write_text("skew node2 -3s\n" + text)
        subprocess.run([TRACEGEN, scenario, self.root / "skewed"], check=True)
        result = analyze(self.root / "skewed")
        self.assertIn("COLLECTIVE_HANG rank 5", result.stdout)
        self.assertIn("the system time of node2 is off", result.stdout)
        self.assertRegex(result.stdout, r"may be apart by up to \d+ ms")


class Structure(WithTraces):
    """What findings can be checked by."""

    def findings(self, case):
        root = self.make(case, where=case)
        document = json.loads(analyze("report", "--json", root).stdout)
        return [f for job in document["jobs"] for f in job["findings"]]

    def run_command(self, command):
        words = shlex.split(command)
        self.assertEqual(words[0], "ncclspy-analyze", command)
        result = analyze(*words[1:], *(["--json"] if words[1] == "dump" else []))
        self.assertEqual(result.returncode, EXIT_OK, command)
        return result.stdout.splitlines()

    def test_evidence_can_be_dumped(self):
        for case in ("hang-chain", "mismatch-count", "p2p-mismatch", "order-queued", "straggler",
                     "died-killed", "oom", "uneven-pairs", "stalled"):
            first = self.findings(case)[0]
            self.assertTrue(first["evidence"], case)
            for item in first["evidence"]:
                calls = [r for r in map(json.loads, self.run_command(item["command"]))
                         if r["kind"] == "call"]
                self.assertTrue(calls, (case, item))
                if "operation" in item:
                    self.assertEqual({(r["comm"], r["seq"]) for r in calls},
                                     {(item["communicator"], item["operation"])}, case)
                if "rank" in item:
                    self.assertEqual({r["rank"] for r in calls}, {item["rank"]}, case)
            self.assertTrue(self.run_command(first["next"]), case)

    def test_text_has_the_structure_of_urgent_findings(self):
        root = self.make("hang-untraced")
        text = analyze(root).stdout
        for part in ("       evidence: ", "       not seen: ", "       or else: ", "       next: "):
            self.assertIn(part, text)
        self.assertRegex(text, r"not seen: .*without a trace|not seen: .*left no trace")

    def test_paths_are_words_for_a_shell(self):
        root = self.make("hang-outside", where="it's a; directory")
        first = json.loads(analyze("report", "--json", root).stdout)["jobs"][0]["findings"][0]
        self.assertTrue(self.run_command(first["next"]))

    def test_the_dead_have_no_stacks_to_look_at(self):
        for finding in self.findings("hang-outside"):
            self.assertNotIn("ncclspy-stacks", finding["next"])


class DumpAndCheck(WithTraces):
    def costs(self, case):
        root = self.make(case, job=case, where=case)
        return json.loads(analyze("--json", root).stdout)["jobs"][0]["costs"]

    def test_costs_add_up(self):
        for case in ("costs-chain", "costs-near", "io-rank", "straggler", "threads-straggler"):
            costs = self.costs(case)
            self.assertGreater(costs["lost_seconds"], 0.1, case)
            for part in ("by_rank", "by_node", "by_communicator", "by_call", "by_link"):
                self.assertAlmostEqual(sum(x["seconds"] for x in costs[part]) /
                                       costs["lost_seconds"], 1, delta=0.001, msg=(case, part))
            self.assertLess(costs["lost_seconds"], costs["rank_seconds"], case)

    def test_times_add_up(self):
        for case in ("costs-chain", "costs-untraced", "io-rank", "straggler", "threads-straggler",
                     "hang-chain", "bandwidth-factors", "died-killed", "losses", "attempts"):
            costs = self.costs(case)
            total = sum(costs["time"]["total"].values())
            self.assertAlmostEqual(total / costs["rank_seconds"], 1, delta=0.001, msg=case)
            for part, seconds in costs["time"]["total"].items():
                self.assertAlmostEqual(sum(r[part] for r in costs["time"]["ranks"]), seconds,
                                       delta=0.001 * costs["rank_seconds"], msg=(case, part))
            self.assertLessEqual(costs["time"]["total"]["late_peer"],
                                 costs["lost_seconds"] * 1.001, case)

    def test_times_are_what_was_made(self):
        # 20 steps of 2 s: rank 0 alone computes, in between it allocates memory
        scenario = self.root / "parts.scenario"
        scenario.write_text(
            "ranks 4\ncomm world all\nall init world\nall sync 10us\nrepeat 20\n"
            "0 sleep 60ms\n0 call cudaMalloc 40ms\n"
            "all coll ncclAllReduce world 1000000 f32 sum\nall meet 10ms\n"
            "all sleep 20ms\ndone\nall end\n", "utf-8")
        subprocess.run([TRACEGEN, scenario, self.root / "parts"], check=True)
        report = analyze("--json", self.root / "parts")
        costs = json.loads(report.stdout)["jobs"][0]["costs"]
        ranks = {r["rank"]: r for r in costs["time"]["ranks"]}
        self.assertAlmostEqual(ranks[1]["late_peer"], 20 * 0.1, delta=0.25)
        self.assertAlmostEqual(ranks[1]["transfer_at_most"], 20 * 0.01, delta=0.03)
        self.assertAlmostEqual(ranks[1]["outside"], 20 * 0.02, delta=0.05)
        self.assertAlmostEqual(ranks[0]["late_peer"], 0, delta=0.02)
        self.assertAlmostEqual(ranks[0]["cuda_calls"], 20 * 0.04, delta=0.05)
        self.assertAlmostEqual(ranks[0]["outside"], 20 * 0.08, delta=0.05)
        doing = {a["doing"]: a["seconds"] for a in costs["by_activity"] if a["rank"] == 0}
        self.assertAlmostEqual(sum(doing.values()) / costs["lost_seconds"], 1, delta=0.001)
        self.assertAlmostEqual(doing["cudaMalloc"] / costs["lost_seconds"], 0.4, delta=0.02)
        self.assertIn("rank 0 meanwhile: outside NCCL and CUDA 60 %, cudaMalloc 40 %",
                      analyze(self.root / "parts").stdout)

    def test_activities_add_up(self):
        for case in ("costs-chain", "io-rank", "straggler", "threads-straggler"):
            costs = self.costs(case)
            for charge in costs["by_rank"]:
                doing = [a["seconds"] for a in costs["by_activity"]
                         if a["rank"] == charge["rank"]]
                if charge["seconds"] > 0.011 * costs["lost_seconds"]:
                    self.assertTrue(doing, case)
                # What was charged on to it through another communicator is no time of its own.
                self.assertLessEqual(sum(doing), charge["seconds"] * 1.001, case)

    def test_costs_are_what_was_made(self):
        # 30 times 60 ms, on one rank in each of three pairs; all of it goes back to rank 0.
        costs = self.costs("costs-chain")
        self.assertAlmostEqual(costs["lost_seconds"], 30 * 3 * 0.06, delta=0.4)
        self.assertEqual(costs["by_rank"][0]["rank"], 0)
        self.assertAlmostEqual(costs["passed_on_seconds"], 30 * 2 * 0.06, delta=0.3)
        # It was late to the operation of its own pair, whatever the others waited at.
        self.assertEqual(costs["by_call"][0]["function"], "ncclAllReduce")
        self.assertEqual(costs["by_call"][0]["ranks"], 2)
        self.assertAlmostEqual(costs["by_call"][0]["seconds"] / costs["lost_seconds"], 1, delta=0.1)
        # 4 times 3 s, on each of three other ranks
        costs = self.costs("io-rank")
        self.assertAlmostEqual(costs["lost_seconds"], 4 * 3 * 3, delta=0.5)

    def test_costs_tell_who_waited_for_whom(self):
        # 40 times 50 ms; two ranks on node 1, of which one is late, and two each on nodes 2 and 3
        scenario = self.root / "links.scenario"
        scenario.write_text(
            "ranks 6 per-node 2\ncomm world all\nall init world\nrepeat 40\nall sleep 10ms\n"
            "1 sleep 50ms\nall coll ncclAllReduce world 1000 f32 sum\nall meet 100us\ndone\n"
            "all end\n", "utf-8")
        subprocess.run([TRACEGEN, scenario, self.root / "links"], check=True)
        report = analyze("--json", self.root / "links")
        costs = json.loads(report.stdout)["jobs"][0]["costs"]
        links = {(x["node"], x["waiting_node"]): x["seconds"] for x in costs["by_link"]}
        for waiting, ranks in (("node1", 1), ("node2", 2), ("node3", 2)):
            self.assertAlmostEqual(links["node1", waiting], 39 * 0.05 * ranks, delta=0.2)
        self.assertAlmostEqual(sum(links.values()) / costs["lost_seconds"], 1, delta=0.001)
        operation = costs["by_call"][0]["operation"]
        self.assertIn(f"late to ncclAllReduce of 6 ranks ({operation}) 100 %",
                      analyze(self.root / "links").stdout)

    def test_dump_lines_are_json(self):
        root = self.make("error-no-gpu")
        lines = analyze("dump", "--json", root).stdout.splitlines()
        records = [json.loads(x) for x in lines]
        calls = [r for r in records if r["kind"] == "call"]
        self.assertEqual({r["function"] for r in calls}, {"ncclCommInitRank"})
        self.assertEqual({r["result"] for r in calls}, {1})
        self.assertEqual({r["rank"] for r in records}, {0, 1})

    def test_dump_filters(self):
        root = self.make("hang-chain")
        one = [json.loads(x) for x in analyze("dump", "--json", "--rank", 6, root).stdout
               .splitlines()]
        self.assertEqual({r["rank"] for r in one}, {6})
        pair = next(r["key"] for r in one if r["kind"] == "comm" and r["origin"] == "split")
        only = [json.loads(x) for x in analyze("dump", "--json", "--comm", pair, root).stdout
                .splitlines()]
        self.assertEqual({r["rank"] for r in only}, {6, 7})
        self.assertEqual({r.get("function") for r in only if r["kind"] == "call"},
                         {"ncclCommSplit", "ncclAllGather"})

    def test_dump_shows_live_pages_and_open_calls(self):
        root = self.make("hang-outside")
        result = analyze("dump", "--json", "--rank", 0, root)
        calls = [json.loads(x) for x in result.stdout.splitlines() if '"call"' in x]
        self.assertTrue(calls[-1].get("open"))
        self.assertEqual(calls[-1]["function"], "cudaStreamSynchronize")
        self.assertEqual(max(c.get("seq", 0) for c in calls), 21)

    def test_check_tells_what_live_pages_saved(self):
        root = self.make("hang-outside")
        result = analyze("check", root)
        self.assertEqual(result.returncode, EXIT_OK)
        self.assertIn("5 records saved from live pages", result.stdout)
        for path in self.files(suffix=".live"):
            path.unlink()
        result = analyze("check", root)
        self.assertIn("no live pages: its last moments are missing", result.stdout)

    def test_single_files(self):
        self.make()
        path = self.files()[0]
        copy = self.root / "somewhere.bin"
        shutil.copy(path, copy)
        result = analyze(copy)
        self.assertEqual(result.returncode, EXIT_OK)
        self.assertIn("1 of 8 rank", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
