# SPDX-License-Identifier: Apache-2.0
"""usage: test_parts.py SOURCE LIBRARY ANALYZE: the checks that a release must pass can fail."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, LIBRARY, ANALYZE = sys.argv[1:4]
PARTS = SOURCE + "/tools/release/"


class Parts(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.tree)

    def put(self, path):
        shutil.copy(path, self.tree)

    def floor(self):
        return subprocess.run([sys.executable, PARTS + "floor.py", self.tree], capture_output=True,
                              text=True, check=False)

    def test_the_library_is_old_enough(self):
        self.put(LIBRARY)
        self.assertEqual((self.floor().returncode, self.floor().stderr), (0, ""))

    def test_a_program_that_needs_more(self):
        self.put(ANALYZE)
        result = self.floor()
        self.assertEqual(result.returncode, 1)
        self.assertIn("needs libcjson.so.1", result.stderr)

    def test_nothing_in_it(self):
        self.assertEqual(self.floor().returncode, 1)

    def test_bill_of_materials(self):
        self.put(LIBRARY)
        result = subprocess.run(
            [sys.executable, PARTS + "sbom.py", self.tree, "1.2.3", "x86_64"], capture_output=True, text=True,
            env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"), check=False)
        if result.returncode and "dpkg-query" in result.stderr:
            self.skipTest("not all that is linked in comes from packages here")
        document = json.loads(result.stdout)
        self.assertEqual(document["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        ids = {item["SPDXID"] for kind in ("packages", "files") for item in document[kind]}
        self.assertEqual(len(ids), len(document["packages"]) + len(document["files"]))
        for relation in document["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]},
                                 ids | {"SPDXRef-DOCUMENT"})
        self.assertEqual([f["fileName"] for f in document["files"]], ["./libncclspy.so"])

    def test_usage(self):
        for arguments, words in (([], "no OUTDIR"), (["--arch", "m68k", "x"], "--arch wants"), (["--no"], "unknown"),
                                 ([self.tree + "/out"], "run first: tools/release.sh deps")):
            result = subprocess.run(["sh", SOURCE + "/tools/release.sh", *arguments], capture_output=True, text=True,
                                    env=dict(os.environ, NSPY_RELEASE_CACHE=self.tree + "/none"), check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
