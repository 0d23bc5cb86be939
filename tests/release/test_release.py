# SPDX-License-Identifier: Apache-2.0
"""usage: test_release.py SOURCE BUILD

A release made twice, from clones in different places, has the same bytes; it holds what it should; and
in the roots of other systems (NSPY_ROOTS="DIR:DIR", with the real library NSPY_LIBNCCL) it works.
Exit status 77 if tools/release.sh deps was never run here, or this is no clone."""
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE, BUILD = sys.argv[1:3]
CACHE = os.environ.get("NSPY_RELEASE_CACHE", os.path.expanduser("~/.cache/ncclspy-release"))


def release(source, out):
    subprocess.run(["sh", source + "/tools/release.sh", out], check=True)
    return {name: open(os.path.join(out, name), "rb").read() for name in sorted(os.listdir(out))}


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        clone = cls.scratch + "/a longer way/to it"
        subprocess.run(["git", "clone", "-q", SOURCE, clone.replace(" ", "-")], check=True)
        cls.first = release(SOURCE, cls.scratch + "/one")
        cls.second = release(clone.replace(" ", "-"), cls.scratch + "/two")

    def test_same_bytes(self):
        self.assertEqual(list(self.first), list(self.second))
        for name, data in self.first.items():
            self.assertTrue(data == self.second[name], name)

    def test_what_is_in_it(self):
        kinds = sorted(re.sub(r"^ncclspy[-_][\d.]+(-1)?", "", name) for name in self.first)
        self.assertEqual(kinds, sorted(
            ["SHA256SUMS", ".aarch64.rpm", ".x86_64.rpm", "_amd64.deb", "_arm64.deb"] +
            [f"-linux-{arch}{end}" for arch in ("aarch64", "x86_64") for end in (".tar.gz", ".spdx.json")]))
        for name in self.first:
            if not name.endswith(".tar.gz"):
                continue
            with tarfile.open(self.scratch + "/one/" + name) as tar:
                inside = {member.name.split("/", 1)[-1] for member in tar}
                self.assertTrue(all(member.uid == 0 and not member.mode & 0o022 for member in tar))
            self.assertLessEqual({"lib/libncclspy.so", "bin/ncclspy-run", "bin/ncclspy-analyze",
                                  "share/man/man1/ncclspy-run.1", "share/doc/ncclspy/LICENSE",
                                  "share/doc/ncclspy/third-party/cJSON",
                                  "share/ncclspy/references/hangs.md"}, inside)
        subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=self.scratch + "/one", check=True)

    def test_in_other_systems(self):
        roots = [root for root in os.environ.get("NSPY_ROOTS", "").split(":") if root]
        if not roots or os.geteuid() != 0:
            self.skipTest("NSPY_ROOTS names none, or not root")
        tarball = [name for name in self.first if name.endswith("x86_64.tar.gz")][0]
        for root in roots:
            subprocess.run(["sh", os.path.dirname(os.path.abspath(__file__)) + "/root.sh", root,
                            f"{self.scratch}/one/{tarball}", os.environ["NSPY_LIBNCCL"]], check=True)

    def test_the_other_architecture(self):
        """Its tools run under the emulator."""
        if not shutil.which("qemu-aarch64"):
            self.skipTest("no qemu-aarch64")
        tarball = [name for name in self.first if name.endswith("aarch64.tar.gz")][0]
        # Not tarfile's extractall: without its filter it is deprecated, and Python 3.11.2 has none.
        os.mkdir(self.scratch + "/arm")
        subprocess.run(["tar", "-xzf", f"{self.scratch}/one/{tarball}", "-C", self.scratch + "/arm"], check=True)
        folder = self.scratch + "/arm/" + tarball[:-len(".tar.gz")]
        for tool in ("analyze", "run", "snapshot", "top", "ctl"):
            result = subprocess.run(["qemu-aarch64", f"{folder}/bin/ncclspy-{tool}", "--version"], text=True,
                                    capture_output=True, check=False)
            self.assertRegex(result.stdout, r"^ncclspy-\w+ \d+\.\d+\.\d+", (tool, result.stderr))
        result = subprocess.run(["qemu-aarch64", folder + "/bin/ncclspy-analyze", "explain", "RANK_DIED"], text=True,
                                capture_output=True, check=True)
        self.assertIn("How ncclspy knows", result.stdout)


if __name__ == "__main__":
    if not os.path.exists(CACHE + "/ready") or not os.path.exists(SOURCE + "/.git"):
        print("tools/release.sh deps was never run here, or this is no clone")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
