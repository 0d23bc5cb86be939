# SPDX-License-Identifier: Apache-2.0
"""usage: test_gpu_time.py SIM ANALYZE SCHEMA

What the report says of the GPUs' time in simulated jobs, against the truth: a slow GPU, a slow host,
slow links and nothing at all."""
import json
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

SIM, ANALYZE, SCHEMA = sys.argv[1:4]
SEED, RANKS, MIB = "7", "16", 1 << 20


def run(kind):
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([SIM, SEED, scratch, kind, RANKS, "--gpu"], check=True, capture_output=True)
        with open(scratch + "/truth.json", encoding="utf-8") as file:
            truth = json.load(file)
        text, form = (subprocess.run([ANALYZE, "report", scratch + "/sim", *more], check=False, text=True,
                                     capture_output=True) for more in ([], ["--json"]))
    assert text.returncode in (0, 1) and form.returncode in (0, 1), text.stderr + form.stderr
    report = json.loads(form.stdout)
    if jsonschema:
        with open(SCHEMA, encoding="utf-8") as file:
            jsonschema.validate(report, json.load(file))
    return truth, text.stdout, report["jobs"][0]["gpu_time"]


class GpuTime(unittest.TestCase):
    def large(self, series):
        found = [s for s in series if (s["bytes"] or 0) >= MIB]
        self.assertTrue(found)
        return found

    def test_slow_gpu(self):
        truth, text, series = run("slow-gpu")
        top = series[0]
        self.assertEqual([top["last_rank"]], truth["culprits"])
        self.assertGreater(top["last_in"], 0.9 * top["operations"])
        self.assertEqual(top["last_gpu_busy_in"], top["last_in"])
        self.assertGreater(top["wait_ns"], top["kernel_ns"] / 2)
        self.assertIn("GPU time of collectives, exact", text)
        self.assertRegex(text, r"in \d+ for rank %d, whose GPU was still busy" % truth["culprits"][0])

    def test_slow_host(self):
        """Its GPU waits for work: the kernel runs as soon as it is called."""
        truth, text, series = run("slow-rank")
        self.assertEqual([series[0]["last_rank"]], truth["culprits"])
        self.assertEqual(series[0]["last_gpu_busy_in"], 0)
        self.assertRegex(text, r"for rank %d, which had called it only then" % truth["culprits"][0])

    def test_clean(self):
        _, text, series = run("clean")
        self.assertEqual([s["last_rank"] for s in series if s["last_rank"] is not None], [])
        self.assertNotIn("the transfer itself was slow", text)
        for s in self.large(series):
            self.assertEqual((s["partial"], s["slow"]), (0, 0))
            self.assertGreater(s["busbw_bytes_per_s"], 0)

    def test_transfer_is_not_lateness(self):
        """The same job on slow links: operations between nodes take longer, nobody is late for it."""
        clean, slow = ({(s["comm"], s["function"], s["bytes"]): s for s in run(kind)[2]}
                       for kind in ("clean", "slow-link"))
        self.assertEqual(set(clean), set(slow))
        longer = [key for key in clean if slow[key]["transfer_median_ns"] > 1.1 * clean[key]["transfer_median_ns"]]
        self.assertTrue(longer)
        for key in longer:
            self.assertIsNone(slow[key]["last_rank"])
            self.assertGreater(slow[key]["ranks"], 4, "of several nodes")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
