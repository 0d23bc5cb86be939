# SPDX-License-Identifier: Apache-2.0
"""ncclspy-analyze support-bundle: what is in it, what never is, how large it gets."""
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ANALYZE, REDACT, TRACEGEN = (os.path.abspath(path) for path in sys.argv[1:4])
ROOT = "ncclspy-support/"
SECRET = "hunter2"
KEY_LINE = "MIIEowIBAAKCAQEA" + "hunter2x" * 6
JOB = """job test
ranks 4 per-node 2
comm world all
all fact env.NCCL_DEBUG INFO
all fact env.NCCL_AUTH_TOKEN hunter2
all fact env.MY_SETTING hunter2
all fact cmdline train.py --pin hunter2
all fact nccl.build_id 00112233445566778899aabbccddeeff00112233
all init world
repeat 30
all coll ncclAllReduce world 1000 f32 sum
all sync 2ms
done
0-2 coll ncclAllReduce world 1000 f32 sum
0-2 stuck cudaStreamSynchronize
all until 15s
all die-live 3
"""
POD = {"metadata": {"name": "p", "namespace": "ml", "annotations": {"x/notes": SECRET}},
       "spec": {"containers": [{"name": "c", "command": ["run", SECRET],
                                "env": [{"name": "DB", "value": SECRET}, {"name": "RANK", "value": "1"}]}]},
       "status": {"phase": "Running", "containerStatuses": [
           {"name": "c", "restartCount": 1, "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled",
                                         "message": "PASSWORD=" + SECRET}}}]}}
LOG = (f"export HF_TOKEN={SECRET}\nAuthorization: Bearer {SECRET}\n"
       "node1:77:91 [0] NCCL INFO Bootstrap : Using eth0:10.0.3.7<0>\n")


class Support(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name
        self.out = self.root + "/out.tar.gz"
        with open(self.root + "/scenario", "w", encoding="utf-8") as f:
            f.write(JOB)

    def traces(self):
        subprocess.run([TRACEGEN, self.root + "/scenario", self.root + "/traces"], check=True)
        return self.root + "/traces/test"

    def write(self, name, text):
        path = f"{self.root}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def bundle(self):
        """One that nobody has cleaned."""
        self.write("b/manifest.txt", "ncclspy.bundle/1\nok\tk8s/pods.json\t\nfailed\tx\ttoken=" + SECRET + "\n")
        self.write("b/k8s/pods.json", json.dumps({"items": [POD]}))
        self.write("b/aws/cluster.json", json.dumps({"ClusterName": "c", "ClusterArn": "arn:aws:x", "ClusterStatus":
                                                     "InService", "LifeCycleConfig": {"S": SECRET}}))
        self.write("b/slurm/jobs.txt", "JobId=7 password=" + SECRET + "\n")
        self.write("b/snapshots/node0.json", json.dumps({"schema": "ncclspy.snapshot/1", "host": "node0",
                                                         "facts": {"stable": {}}, "checks": []}))
        self.write("b/logs/ml.p.log", LOG)
        self.write("b/logs/packed.log.gz", gzip.compress(LOG.encode()))
        self.write("b/k8s/odd.json", '{"a": "' + SECRET)
        self.write("b/extra/.netrc", "password " + SECRET)
        return self.root + "/b"

    def run_it(self, *arguments, code=0, path=ANALYZE, **variables):
        env = {k: v for k, v in os.environ.items() if not k.startswith("NCCLSPY")}
        result = subprocess.run([path, "support-bundle", *arguments], capture_output=True, text=True,
                                timeout=250, check=False, cwd=self.root, env={**env, **variables})
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertNotIn(SECRET, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def members(self):
        self.assertEqual(os.stat(self.out).st_mode & 0o777, 0o600)
        with tarfile.open(self.out) as tar:
            found = {}
            for info in tar.getmembers():
                self.assertTrue(info.isfile() and info.name.startswith(ROOT), info.name)
                found[info.name[len(ROOT):]] = tar.extractfile(info).read().decode()
        for name, text in found.items():
            self.assertNotIn(SECRET, name + text)
        return found

    def digest(self):
        total = hashlib.sha256()
        for folder, _, names in sorted(os.walk(self.root)):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if path != self.out:
                    with open(path, "rb") as f:
                        total.update(path.encode() + f.read())
        return total.hexdigest()

    def test_everything_without_secrets(self):
        log = self.write("extra.log", LOG + "rank 3: password: " + SECRET + "\n")
        inputs = [self.traces(), self.bundle(), log]
        self.write("traces/test/events.jsonl", json.dumps({"text": "token=" + SECRET, "id": "X"}) + "\n")
        before = self.digest()
        out = self.run_it("-o", self.out, "--for", "aws", *inputs)
        self.assertIn("COVER.txt", out)
        self.assertEqual(self.digest(), before)
        found = self.members()
        self.assertEqual(list(found)[:2], ["COVER.txt", "manifest.txt"])
        self.assertLessEqual({"report.txt", "report.json", "check.txt", "facts.txt", "records/rank-3.txt",
                              "records/rank-0.txt", "bundle/k8s/pods.json", "bundle/manifest.txt",
                              "bundle/snapshots/node0.json", "bundle/logs/001-ml.p.log"}, set(found))
        self.assertIn("COLLECTIVE_HANG", found["report.txt"])
        jobs = json.loads(found["report.json"])["jobs"]
        self.assertIn("OOM_KILLED", {f["id"] for job in jobs for f in job["findings"]})
        self.assertIn("NCCL_DEBUG=INFO\n", found["facts.txt"])
        self.assertIn('"id": "X"', found["events/job-1.jsonl"])
        self.assertIn("build_id = 0011223344556677\n", found["facts.txt"])
        self.assertNotIn("cmdline", found["facts.txt"] + found["records/rank-3.txt"])
        self.assertIn("Using eth0:10.0.3.7<0>", found["bundle/logs/002-packed.log.gz"])
        self.assertEqual(json.loads(found["bundle/k8s/pods.json"])["items"][0]["metadata"]["name"], "p")
        for wanted in ("AWS Support", "arn:aws:x", "rank 3", "follows the node", "OOM_KILLED"):
            self.assertIn(wanted, found["COVER.txt"])
        for unwanted in ("nvidia-bug-report", "run the job under ncclspy-run"):
            self.assertNotIn(unwanted, found["COVER.txt"])
        self.manifest_is_right(found)

    def manifest_is_right(self, found):
        lines = found["manifest.txt"].splitlines()
        self.assertEqual(lines[0], "ncclspy.support/1")
        states = {name: state for state, name, _ in (line.split("\t") for line in lines[1:])}
        there = {name for name, state in states.items() if state == "ok"}
        self.assertEqual(there, set(found) - {"COVER.txt", "manifest.txt"})
        self.assertEqual(states["bundle/k8s/odd.json"], "left out")
        self.assertEqual(states["bundle/extra/.netrc"], "left out")

    def test_report_reads_the_bundle_within(self):
        self.run_it("-o", self.out, self.bundle())
        result = subprocess.run([ANALYZE, "report", "--fail-on", "none", self.out], capture_output=True, text=True,
                                timeout=100, check=True)
        self.assertIn("OOM_KILLED", result.stdout)

    def test_bounded(self):
        noise = "".join(hashlib.sha256(str(i).encode()).hexdigest()[:30] + "\n" for i in range(40000))
        logs = [self.write(f"l{i}.log", noise) for i in range(3)]
        self.run_it("-o", self.out, "--max-size", "2", *logs)
        found = self.members()
        self.assertLess(sum(map(len, found.values())), 2 << 20)
        self.assertRegex(found["manifest.txt"], r"left out\tlogs/00\d-l\d.log\t\d+ bytes: no room")
        self.assertIn("report.txt", found)

    def test_a_long_log_keeps_both_ends(self):
        middle = "step\n" * 1200000
        tail = KEY_LINE + "\nhunter2\n-----END RSA PRIVATE" + " KEY-----\nthe last line\n"
        log = self.write("long.log", "the first line\n-----BEGIN RSA PRIVATE" + " KEY-----\n" +
                         middle + tail + "z\n" * 500000)
        self.run_it("-o", self.out, log)
        text = self.members()["logs/001-long.log"]
        self.assertTrue(text.startswith("the first line\n"))
        self.assertTrue(text.endswith("the last line\n" + "z\n" * 500000))
        self.assertRegex(text, r"\[ncclspy: about \d+ bytes left out here\]")
        self.assertLess(len(text), 2 << 20)

    def test_records_by_option(self):
        traces = self.traces()
        self.run_it("-o", self.out, "--records", "0", traces)
        self.assertFalse([name for name in self.members() if name.startswith("records/")])
        os.remove(self.out)
        self.run_it("-o", self.out, "--records", "5", "--rank", "1", "--for", "nvidia", traces)
        found = self.members()
        self.assertEqual(found["records/rank-1.txt"].count("\n"), 5)
        self.assertIn("nvidia-bug-report", found["COVER.txt"])
        self.assertIn("output of all ranks", found["COVER.txt"])

    def test_hostile_names_and_binaries(self):
        odd = self.write("x\n\x1b[2J\tok\tfake.log", LOG)
        binary = self.write("b.log", b"text\0" + SECRET.encode())
        pickle = self.write("nccl_trace_rank_0", b"\x80\x02}q\0(X\7\0\0\0" + SECRET.encode() + b".")
        self.run_it("-o", self.out, odd, binary, pickle)
        found = self.members()
        self.assertNotIn("\x1b", "".join(found))
        for line in found["manifest.txt"].splitlines()[1:]:
            self.assertEqual(line.count("\t"), 2, line)

    def test_nothing_without_the_redactor(self):
        alone = shutil.copy(ANALYZE, self.root + "/alone")
        log = self.write("x.log", LOG)
        out = self.run_it("-o", self.out, log, code=4, path=alone, PATH="/nonexistent")
        self.assertIn("nothing is packed without it", out)
        self.assertFalse(os.path.exists(self.out))
        os.symlink(REDACT, self.root + "/ncclspy-redact")
        self.run_it("-o", self.out, log, path=alone, PATH="/nonexistent")
        self.assertIn("logs/001-x.log", self.members())

    def test_usage(self):
        log = self.write("x.log", LOG)
        for bad in ([log], ["-o", self.out, "--for", "me", log], ["-o", self.out, "--max-size", "0", log],
                    ["-o", self.out, "--rank", "x", log], ["-o", self.out, "-"], ["-o", log, log]):
            self.run_it(*bad, code=2)
        self.assertFalse(os.path.exists(self.out))
        self.run_it("-o", self.out, self.root + "/nothing", code=3)
        self.run_it("-o", self.root + "/no/such/out", log, code=4)
        self.assertIn("Usage:", self.run_it("--help"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
