# SPDX-License-Identifier: Apache-2.0
"""ncclspy-analyze report BUNDLE.tar.gz: what ncclspy-collect packs, and archives that mean harm."""
import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

ANALYZE = os.path.abspath(sys.argv[1])
MANIFEST = "ncclspy.bundle/1\ntime\t2026-12-02T14:00:00Z\nok\tslurm/nodes.txt\t\n"
DOWN = "NodeName=gpu1 State=DOWN Reason=fan [root@now]\n"
LOG = ("node1:77:91 [0] NCCL INFO Bootstrap : Using eth0:10.0.3.7<0>\n"
       "[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
       "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 "
       "milliseconds before timing out.\n")


def member(name, text="", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(text.encode())
    for key, value in fields.items():
        setattr(info, key, value)
    return info, text.encode()


def archive(*members, packing="gz", form=tarfile.GNU_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:" + packing, format=form) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


GOOD = (member("b/manifest.txt", MANIFEST), member("b/slurm/nodes.txt", DOWN), member("b/logs/ml.p.log", LOG))


class Archive(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.path = self.scratch.name + "/bundle.tar.gz"

    def report(self, data, code=0, path=None):
        if data is not None:
            with open(self.path, "wb") as f:
                f.write(data)
        before = sorted(os.listdir(self.scratch.name))
        result = subprocess.run([ANALYZE, "report", "--json", "--fail-on", "none", path or self.path],
                                capture_output=True, text=True, timeout=250, check=False,
                                cwd=self.scratch.name)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(sorted(os.listdir(self.scratch.name)), before)
        return json.loads(result.stdout) if code == 0 else result.stderr

    def found(self, document):
        return {f["id"] for job in document["jobs"] for f in job["findings"]}

    def test_all_forms_say_what_the_directory_says(self):
        folder = self.scratch.name + "/b"
        for info, data in GOOD:
            os.makedirs(os.path.dirname(self.scratch.name + "/" + info.name), exist_ok=True)
            with open(self.scratch.name + "/" + info.name, "wb") as f:
                f.write(data)
        wanted = self.found(self.report(None, path=folder))
        self.assertLessEqual({"SLURM_NODE_DOWN", "TORCH_WATCHDOG_TIMEOUT"}, wanted)
        inside = [member(info.name.replace("b/", "./", 1), data.decode()) for info, data in GOOD]
        for data in (archive(*GOOD), archive(*GOOD, packing=""), archive(*GOOD, form=tarfile.PAX_FORMAT),
                     archive(*GOOD, form=tarfile.USTAR_FORMAT), archive(*inside), archive(*reversed(GOOD))):
            self.assertEqual(self.found(self.report(data)), wanted)

    def test_the_tar_of_the_system(self):
        os.makedirs(self.scratch.name + "/b/slurm")
        for info, data in GOOD[:2]:
            with open(self.scratch.name + "/" + info.name, "wb") as f:
                f.write(data)
        subprocess.run(["tar", "-czf", self.path, "-C", self.scratch.name, "b"], check=True)
        self.assertIn("SLURM_NODE_DOWN", self.found(self.report(None)))

    def test_long_names(self):
        name = "b/logs/" + "n" * 120 + "." + "p" * 60 + ".log"
        for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            found = self.found(self.report(archive(GOOD[0], member(name, LOG), form=form)))
            self.assertIn("TORCH_WATCHDOG_TIMEOUT", found)

    def test_nothing_leads_out_and_no_link_is_followed(self):
        secret = self.scratch.name + "/secret.txt"
        with open(secret, "w", encoding="utf-8") as f:
            f.write(DOWN)
        for bad, why in (
                (member("b/../../slurm/nodes.txt", DOWN), "leads out"),
                (member("/etc/nodes.txt", DOWN), "absolute"),
                (member("b/slurm/nodes.txt", type=tarfile.SYMTYPE, linkname=secret), "a link"),
                (member("b/slurm/nodes.txt", type=tarfile.LNKTYPE, linkname=secret), "a link"),
                (member("b/slurm/nodes.txt", type=tarfile.CHRTYPE), "neither file nor directory"),
                (member("b/slurm/\x1b[2Jnodes.txt", DOWN), "control characters")):
            document = self.report(archive(GOOD[0], bad))
            self.assertNotIn("SLURM_NODE_DOWN", self.found(document), bad[0].name)
            dark = " ".join(document["jobs"][0]["not_seen"])
            self.assertIn("1 entries refused", dark)
            self.assertIn(why, dark)

    def test_bombs_are_given_up(self):
        huge = member("b/slurm/nodes.txt")[0]
        huge.size = 3 << 30
        out = io.BytesIO(archive(GOOD[0], packing="")[:1024] + huge.tobuf() + b"\0" * 4096)
        self.assertIn("larger than 256 MiB", " ".join(self.report(out.getvalue())["jobs"][0]["not_seen"]))
        with gzip.open(self.path, "wb", compresslevel=1) as f:
            f.write(archive(GOOD[0], packing="")[:1024])
            for i in range(3):
                huge = member(f"b/x{i}.bin")[0]
                huge.size = 90 << 20
                f.write(huge.tobuf())
                for _ in range(90):
                    f.write(bytes(1 << 20))
        dark = " ".join(self.report(None)["jobs"][0]["not_seen"])
        self.assertIn("given up", dark)

    def test_cut_and_damaged(self):
        whole = archive(*GOOD, packing="")
        dark = " ".join(self.report(whole[:2600])["jobs"][0]["not_seen"])
        self.assertIn("cut off", dark)
        damaged = bytearray(whole)
        damaged[1024] ^= 0xff
        self.assertIn("damaged", " ".join(self.report(bytes(damaged))["jobs"][0]["not_seen"]))

    def test_an_archive_of_something_else_is_no_bundle(self):
        self.report(archive(member("x/readme.txt", "hello\n")), code=3)
        self.report(archive(member("x/manifest.txt", "something else\n")), code=3)
        self.report(archive(*GOOD)[:60], code=3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
