# SPDX-License-Identifier: Apache-2.0
"""ncclspy-collect end to end: stubs for the cluster's tools, a bundle, the report on it."""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SCRIPT, REDACT, SNAPSHOT, ANALYZE, STUB = sys.argv[1:6]
TOOLS = ["sh", "date", "mktemp", "mkdir", "rm", "cat", "tail", "tr", "cut", "head", "sort", "grep",
         "awk", "timeout", "dirname", "basename", "tar", "gzip", "sed", "sleep"]
STUBS = ["kubectl", "scontrol", "sinfo", "sacct", "squeue", "srun", "ssh", "systemctl", "aws"]
SECRET = "hunter2"

POD = {"metadata": {"name": "train-0", "namespace": "ml", "labels": {"job-name": "train"},
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET},
                    "creationTimestamp": "2026-01-01T00:00:00Z"},
       "spec": {"nodeName": "node0", "containers": [{
           "name": "main", "image": "repo/train:1", "command": ["python", "--password", SECRET],
           "env": [{"name": "WANDB_API_KEY", "value": SECRET}, {"name": "DB", "value": SECRET},
                   {"name": "NCCL_DEBUG", "value": "INFO"}],
           "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
       "status": {"phase": "Running", "containerStatuses": [{
           "name": "main", "restartCount": 1, "state": {"running": {}},
           "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled",
                                        "message": "PASSWORD=" + SECRET}}}]}}
ITEMS = json.dumps({"items": []})
ANSWERS = {
    "kubectl_get_pods": json.dumps({"items": [POD]}),
    "kubectl_get_pods_-o_jsonpath": "ml train-0 0 1\nml $(touch%20x)\n",
    "kubectl_get_nodes": ITEMS,
    "kubectl_get_events": json.dumps({"items": [{"message": "token=" + SECRET}]}),
    "kubectl_get_services": ITEMS,
    "kubectl_get_networkpolicies": ITEMS,
    "kubectl_get_daemonsets": json.dumps({"items": [{"metadata": {"name": "nvidia-device-plugin"},
                                                     "status": {}}]}),
    "kubectl_logs": "step 1\nexport HF_TOKEN=" + SECRET + "\nAuthorization: Bearer " + SECRET +
                    "\nnode0:7:7 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.7<0>\n",
    "kubectl_exec": json.dumps({"schema": "ncclspy.snapshot/1", "host": "node0", "facts": {"stable": {}},
                                "checks": [{"status": "CONCERN", "finding": "GPU_HEALTH", "text": "hot"}]}),
    "scontrol_ping": "Slurmctld(primary) at head is UP\n",
    "scontrol_-o_show_nodes": "NodeName=gpu1 State=DOWN Reason=fan [root@now]\n",
    "scontrol_-o_show_job": "JobId=7 JobName=x JobState=RUNNING Reason=None Comment=my pass is " + SECRET +
                            " Command=/run.sh --pin " + SECRET + " WorkDir=/x\n",
    "sinfo": "gpu1|down|fan\n", "sacct": "7|RUNNING|0:0|0:0|1|gpu1\n", "systemctl": "active\n",
    "aws_sagemaker_describe-cluster": json.dumps(
        {"ClusterName": "c", "ClusterStatus": "InService",
         "InstanceGroups": [{"LifeCycleConfig": {"SourceS3Uri": SECRET}}],
         "VpcConfig": {"SecurityGroupIds": ["sg-0abc"]}}),
    "aws_sagemaker_list-cluster-nodes": json.dumps({"ClusterNodeSummaries": [
        {"InstanceId": "i-0abc", "InstanceStatus": {"Status": "Running"}}]}),
    "aws_sagemaker_list-cluster-events": json.dumps({"Events": []}),
    "aws_sagemaker_describe-cluster-node": json.dumps({"NodeDetails": {"InstanceId": "i-0abc"}}),
    "aws_ec2_describe-security-groups": json.dumps({"SecurityGroups": [
        {"GroupId": "sg-0abc", "IpPermissions": [], "IpPermissionsEgress": []}]}),
    "aws_logs": "LifecycleConfig/g/i-0abc\tError: mount failed, password=" + SECRET + "\n",
    "aws_sagemaker_describe-cluster_c_us-west-2_ClusterArn": "arn:aws:sagemaker:us-west-2:1:cluster/c1d2\n",
    "aws_cloudwatch": json.dumps({"Label": "DiskIopsUtilization", "Datapoints": [
        {"Average": 99}, {"Average": 98}, {"Average": 97}]}),
}


class Collect(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.bin, self.out = self.root + "/bin", self.root + "/bundle"
        os.makedirs(self.root + "/answers")
        os.makedirs(self.bin)
        for tool in TOOLS:
            if shutil.which(tool):
                os.symlink(shutil.which(tool), f"{self.bin}/{tool}")
        os.symlink(os.path.abspath(REDACT), self.bin + "/ncclspy-redact")

    def tearDown(self):
        shutil.rmtree(self.root)

    def stubs(self, answers=None, names=None):
        for name in STUBS if names is None else names:
            with open(f"{self.bin}/{name}", "w", encoding="utf-8") as f:
                f.write(f'#!/bin/sh\nexec "{sys.executable}" "{os.path.abspath(STUB)}" {name} "$@"\n')
            os.chmod(f"{self.bin}/{name}", 0o755)
        for name, text in (answers or ANSWERS).items():
            with open(f"{self.root}/answers/{name.replace('/', '%')}", "w", encoding="utf-8") as f:
                f.write(text)

    def run_script(self, *arguments, code=0):
        result = subprocess.run(
            ["sh", os.path.abspath(SCRIPT), *arguments], capture_output=True, text=True, timeout=250,
            cwd=self.root, env={"PATH": self.bin, "STUB_DIR": self.root + "/answers", "TMPDIR": self.root},
            check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr + result.stdout

    def manifest(self):
        with open(self.out + "/manifest.txt", encoding="utf-8") as f:
            return {line.split("\t")[1]: line.split("\t")[0] for line in f if line.count("\t") == 2}

    def report(self):
        result = subprocess.run([os.path.abspath(ANALYZE), "report", "--json", "--fail-on", "none", self.out],
                                capture_output=True, text=True, timeout=100, check=True)
        return result.stdout

    def assert_no_secret(self):
        for folder, _, names in os.walk(self.out):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    self.assertNotIn(SECRET, f.read(), name)

    def test_nothing_is_there(self):
        out = self.run_script("-o", self.out)
        for what in ("k8s: kubectl is not installed", "slurm: scontrol is not installed",
                     "aws: the aws CLI is not installed", "snapshots"):
            self.assertIn("[SKIP] " + what, out)
        self.assertIn("UNKNOWN_CAUSE_CHECKLIST", self.report())
        self.assertEqual(os.stat(self.out).st_mode & 0o77, 0)

    def test_everything_is_there(self):
        os.symlink(os.path.abspath(SNAPSHOT), self.bin + "/ncclspy-snapshot")
        self.stubs()
        self.run_script("-o", self.out, "--job", "7", "--selector=job-name=train", "--namespace", "ml",
                        "--cluster", "c", "--region", "us-west-2", "--fsx", "fs-0abc", "--tar")
        manifest = self.manifest()
        bad = {name: state for name, state in manifest.items() if state != "ok"}
        self.assertEqual(bad, {})
        found = {f["id"] for f in json.loads(self.report())["jobs"][0]["findings"]}
        self.assertLessEqual({"OOM_KILLED", "SLURM_NODE_DOWN", "SECURITY_GROUP_SELF", "GPU_HEALTH",
                              "STORAGE_SATURATED"}, found)
        self.assert_no_secret()
        self.assertNotIn(SECRET, self.report())
        with open(self.out + "/slurm/jobs.txt", encoding="utf-8") as f:
            self.assertEqual(f.read(), "JobId=7 JobName=x JobState=RUNNING Reason=None WorkDir=/x\n")
        with open(self.out + "/logs/ml.train-0.log", encoding="utf-8") as f:
            self.assertIn("NCCL INFO Bootstrap : Using eth0:10.0.0.7<0>", f.read())
        with open(self.out + "/logs/set-up.log", encoding="utf-8") as f:
            self.assertIn("mount failed", f.read())
        self.assertIn("logs/ml.train-0.previous.log", manifest)
        with tarfile.open(self.out + ".tar.gz") as tar:
            self.assertIn("bundle/manifest.txt", tar.getnames())
        self.asked_within_scope()

    def asked_within_scope(self):
        with open(self.root + "/answers/asked", encoding="utf-8") as f:
            asked = f.read()
        for line in asked.splitlines():
            if line.startswith("kubectl") and (" get pods" in line or " get events" in line):
                self.assertTrue("--namespace=ml" in line or "kube-system" in line, line)
            self.assertNotIn("$(", line)
        self.assertIn("--selector=job-name=train", asked)
        self.assertIn(" --region us-west-2", asked)

    def test_a_step_that_hangs_is_bounded(self):
        answers = dict(ANSWERS)
        answers["scontrol_-o_show_nodes.hang"] = answers.pop("scontrol_-o_show_nodes")
        self.stubs(answers, ["scontrol", "sinfo"])
        out = self.run_script("-o", self.out, "--timeout", "2")
        self.assertEqual(self.manifest()["slurm/nodes.txt"], "timeout")
        self.assertEqual(self.manifest()["slurm/sinfo.txt"], "ok")
        self.assertIn("[SKIP] slurm/nodes.txt: no answer within 2 s", out)

    def test_errors_are_told_without_secrets(self):
        self.stubs({"kubectl_get_nodes.fail": "error: Unauthorized (token: " + SECRET + ")\n"}, ["kubectl"])
        out = self.run_script("-o", self.out)
        self.assertIn("Unauthorized", out)
        self.assertNotIn(SECRET, out)
        self.assert_no_secret()
        self.assertIn("CLUSTER_API_REFUSED", self.report())

    def test_nodes_by_ssh(self):
        self.stubs({"ssh": ANSWERS["kubectl_exec"]}, ["ssh"])
        self.run_script("-o", self.out, "--node", "gpu1,gpu2")
        self.assertEqual(self.manifest()["snapshots/gpu2.json"], "ok")
        self.assertIn("GPU_HEALTH", self.report())

    def test_nodes_by_systems_manager(self):
        answers = dict(ANSWERS)
        answers["aws_sagemaker_list-cluster-nodes_c_us-west-2_ClusterNodeSummaries"] = (
            "g1\ti-0abc\ng1\ti-0$(x)\ng1\ti-0def\n")
        shot = json.dumps(json.loads(ANSWERS["kubectl_exec"]), indent=1)
        answers["aws_ssm"] = ("\nStarting session with SessionId: x-1\r\n" + shot.replace("\n", "\r\n") +
                              "\r\n\r\nExiting session with sessionId: x-1.\r\n")
        self.stubs(answers, ["aws", "session-manager-plugin"])
        self.run_script("-o", self.out, "--cluster", "c", "--region=us-west-2", "--ssm", "--node", "i-0abc")
        manifest = self.manifest()
        self.assertEqual(manifest["snapshots/i-0abc.json"], "ok")
        self.assertFalse([name for name in manifest if "i-0def" in name or "$" in name], manifest)
        self.assertIn("GPU_HEALTH", self.report())
        with open(self.root + "/answers/asked", encoding="utf-8") as f:
            self.assertIn("--target sagemaker-cluster:c1d2_g1-i-0abc", f.read())
        os.remove(self.bin + "/session-manager-plugin")
        shutil.rmtree(self.out)
        self.assertIn("--ssm needs aws", self.run_script("-o", self.out, "--cluster", "c", "--region=r", "--ssm"))

    def test_usage(self):
        for bad in ([], ["-o", self.out, "--job", "7;rm"], ["-o", self.out, "--node", "-oProxyCommand=x"],
                    ["-o", self.out, "--timeout", "x"], ["-o", self.out, "--nonsense"],
                    ["-o", self.out, "--cluster"]):
            self.run_script(*bad, code=2)
        self.assertFalse(os.path.exists(self.out))
        os.mkdir(self.out)
        self.run_script("-o", self.out, code=1)
        self.assertIn("Usage:", self.run_script("--help"))
        self.assertRegex(self.run_script("--version"), r"ncclspy-collect \d+\.\d+")

    def test_without_the_redactor_nothing_is_collected(self):
        os.remove(self.bin + "/ncclspy-redact")
        self.stubs()
        script = shutil.copy(SCRIPT, self.root + "/alone")
        result = subprocess.run(["sh", script, "-o", self.out], capture_output=True, text=True, timeout=60,
                                env={"PATH": self.bin, "STUB_DIR": self.root + "/answers"}, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("nothing is collected without it", result.stderr)
        self.assertFalse(os.path.exists(self.root + "/answers/asked"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
