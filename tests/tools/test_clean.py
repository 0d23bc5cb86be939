# SPDX-License-Identifier: Apache-2.0
"""usage: test_clean.py CLEAN TRACEGEN CASES: old traces go, everything else stays."""
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

CLEAN, TRACEGEN, CASES = sys.argv[1:4]
DAY = 86400


class Clean(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)

    def job(self, name, days):
        path = f"{self.root}/{name}"
        subprocess.run([TRACEGEN, CASES + "/died-killed.case", path + ".made"], check=True)
        shutil.move(path + ".made/test", path)
        os.rmdir(path + ".made")
        self.age(path, days)
        return path

    @staticmethod
    def age(path, days):
        then = time.time() - days * DAY
        for folder, _, names in os.walk(path):
            for name in names:
                os.utime(os.path.join(folder, name), (then, then), follow_symlinks=False)

    def clean(self, *arguments, code=0):
        result = subprocess.run(["sh", CLEAN, *arguments], capture_output=True, text=True, check=False,
                                env={"PATH": os.environ["PATH"], "NCCLSPY_DIR": self.root})
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout + result.stderr

    def test_only_old_ones_and_only_when_told(self):
        old, new = self.job("old", 15), self.job("new", 13)
        self.assertIn(f"would remove {old} (", self.clean())
        self.assertTrue(os.listdir(old))
        out = self.clean("--yes", self.root)
        self.assertIn(f"removed {old} (", out)
        self.assertFalse(os.path.exists(old))
        self.assertTrue(os.path.exists(new))
        self.assertIn("nothing below", self.clean("--yes"))
        self.assertIn("removed", self.clean("--yes", "--older-than=48h"))
        self.assertFalse(os.path.exists(new))

    def test_what_is_not_ours_stays(self):
        job, elsewhere = self.job("old", 20), self.job("away", 20)
        os.makedirs(self.root + "/results/run")
        for path in (job + "/node1/notes.txt", self.root + "/results/run/model.pt"):
            with open(path, "w", encoding="utf-8") as f:
                f.write("mine")
        shutil.move(elsewhere, self.root + "-away")
        self.addCleanup(shutil.rmtree, self.root + "-away")
        os.symlink(self.root + "-away", self.root + "/link")
        os.symlink(self.root + "-away", job + "/node1/link")
        self.age(self.root, 20)
        before = sum(len(names) for _, _, names in os.walk(self.root + "-away"))
        out = self.clean("--yes")
        self.assertIn("what is left in it is not of ncclspy", out)
        self.assertEqual(sorted(os.listdir(job + "/node1")), ["link", "notes.txt"])
        self.assertTrue(os.path.exists(self.root + "/results/run/model.pt"))
        self.assertEqual(sum(len(names) for _, _, names in os.walk(self.root + "-away")), before)

    def test_a_job_that_still_writes(self):
        job = self.job("running", 20)
        trace = next(os.path.join(folder, name) for folder, _, names in os.walk(job) for name in names)
        os.utime(trace)
        self.assertIn("nothing below", self.clean("--yes"))
        self.assertTrue(os.path.exists(trace))

    def test_usage(self):
        for bad in (["--older-than", "x"], ["--older-than", "3"], ["--older-than"], ["--older-than=-1d"], ["--no"], ["a", "b"],
                    ["--older-than", "d"]):
            self.clean(*bad, code=2)
        self.clean(self.root + "/none", code=3)
        self.assertIn("Usage:", self.clean("--help"))
        self.assertRegex(self.clean("--version"), r"ncclspy-clean \d+\.\d+")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
