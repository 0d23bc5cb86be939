# SPDX-License-Identifier: Apache-2.0
"""usage: test_slurm.py EXAMPLES ANALYZE TRACEGEN CASES: prolog and epilog do what they say, and never fail."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER, ANALYZE, TRACEGEN, CASES = sys.argv[1] + "/slurm/", *sys.argv[2:5]


class Slurm(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        os.makedirs(self.root + "/opt/lib")
        os.makedirs(self.root + "/opt/bin")
        os.symlink(os.path.abspath(ANALYZE), self.root + "/opt/bin/ncclspy-analyze")
        with open(self.root + "/opt/lib/libncclspy.so", "w", encoding="utf-8"):
            pass

    def run_script(self, name, **env):
        with open(FOLDER + name, encoding="utf-8") as f:
            text = f.read()
        for there, here in (("traces=/tmp", f"traces={self.root}/tmp"), ("/opt/ncclspy", self.root + "/opt"),
                            ("=/shared", f"={self.root}/shared")):
            text = text.replace(there, here)
        result = subprocess.run(["sh", "-c", text], env=dict({"PATH": "/usr/bin:/bin"}, **env), capture_output=True,
                                text=True, check=False)
        of_script = [line for line in result.stderr.splitlines() if "ld.so" not in line]
        self.assertEqual((result.returncode, of_script), (0, []))
        return result.stdout

    def test_prolog(self):
        library = self.root + "/opt/lib/libncclspy.so"
        self.assertEqual(self.run_script("task-prolog.sh", SLURM_JOB_USER="ann"),
                         f"export LD_PRELOAD={library}\nexport NCCLSPY_DIR={self.root}/shared/ncclspy/ann\n")
        self.assertEqual(self.run_script("task-prolog.sh", NCCLSPY="0"), "")
        self.assertEqual(self.run_script("task-prolog.sh", LD_PRELOAD="/x/libncclspy.so"), "")
        self.assertEqual(self.run_script("task-prolog.sh", LD_PRELOAD="/x/libjemalloc.so", NCCLSPY_DIR="/y"),
                         f"export LD_PRELOAD={library}:/x/libjemalloc.so\n")
        os.remove(library)
        self.assertEqual(self.run_script("task-prolog.sh"), "")

    def test_epilog(self):
        env = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(os.getuid())}
        self.assertEqual(self.run_script("epilog.sh"), "")
        self.assertEqual(self.run_script("epilog.sh", **env), "")
        traces = f"{self.root}/tmp/ncclspy-{os.getuid()}/7"
        os.makedirs(os.path.dirname(traces))
        subprocess.run([TRACEGEN, CASES + "/died-killed.case", traces], check=True)
        self.run_script("epilog.sh", **env)
        left = os.listdir(self.root + "/shared/ncclspy/left/7")
        self.assertEqual(len(left), 1, left)
        report = subprocess.run([ANALYZE, "report", "--fail-on", "none", self.root + "/shared/ncclspy/left/7"],
                                capture_output=True, text=True, check=True).stdout
        self.assertIn("VERDICT: ", report)
        # A shared directory that cannot be made does not drain the node.
        shutil.rmtree(self.root + "/shared")
        with open(self.root + "/shared", "w", encoding="utf-8"):
            pass
        self.run_script("epilog.sh", **env)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
