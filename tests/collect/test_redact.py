# SPDX-License-Identifier: Apache-2.0
"""ncclspy-redact: planted secrets go, what a diagnosis needs stays."""
import json
import subprocess
import sys
import unittest

REDACT = sys.argv[1]

# Each line holds SECRET in one place; in pieces where a scanner for leaked keys would cry.
AWS_ID = "AKIA" + "Q3EGRIZ7ABCDEFGH"
AWS_KEY = "wJalrXUtnFEMI" + "K7MDENGbPxRfiCYzk2Qe9XAMPLE"
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkw.dozjgNryP4J3jVmNHl0w"
SECRETS = {
    "export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567": "0123456789abcdef01234567",
    "DB_HOST=db.internal.example": "db.internal",
    "  MY_SETTING=hunter2 hunter3": "hunter",
    "HF_TOKEN=hf_" + "abcdefghijklmnopqrstuvwxyz": "abcdefghijkl",
    "login with password=correct-horse,battery&staple done": "battery",
    "password: correct horse battery staple": "staple",
    "train.py --api-key s3cr3t --lr 0.1": "s3cr3t",
    "train.py --token=s3cr3t": "s3cr3t",
    '{"user": "u", "password": "a \\"b\\" hunter2", "step": 3}': "hunter2",
    '"{\\"auth_token\\": \\"hunter2 hunter3\\"}"': "hunter",
    "Authorization: Bearer abc.def.ghi": "abc.def",
    "curl -H 'X-Auth: bearer abcdefgh12345678'": "abcdefgh12345678",
    "cloning https://user:hunter2@git.example/x.git": "hunter2",
    "postgres://u:p%40ss@db/x": "p%40ss",
    f"using {AWS_ID} to sign": AWS_ID,
    f"aws_secret_access_key = {AWS_KEY}": AWS_KEY,
    f"the key is {AWS_KEY}": AWS_KEY,
    f"got {JWT} from the server": JWT[-12:],
    "seed 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08": "9f86d081",
    "x=" + "ghp_" + "0123456789012345678901234567890": "0123456789",
    "cookie: a=b; c=hunter2": "hunter2",
    "AWS_SESSION_TOKEN=/IQoJb3JpZ2luX2V": "IQoJb3",
    "NCCL_AUTH_TOKEN=hunter2": "hunter2",
}
KEPT = [
    "node1:77:91 [3] NCCL INFO Bootstrap : Using eth0:10.0.3.7<0>",
    "NCCL_DEBUG=INFO",
    "export NCCL_SOCKET_IFNAME=^lo,docker",
    "MASTER_ADDR=train-0.train.ns.svc.cluster.local",
    "[rank3]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2077, "
    "ncclSystemError",
    "image repo/train@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "JobId=77 JobName=train JobState=PENDING Reason=Resources NodeList=gpu[01-04]",
    "commId 0x9f86d081884c7d65 rank 3 nranks 16 - Init COMPLETE",
    "connect to https://10.0.0.1:443/api?limit=5 timed out",
]


def run(mode, text, code=0):
    result = subprocess.run([REDACT, mode], input=text.encode(), capture_output=True, timeout=60,
                            check=False)
    assert result.returncode == code, (result.returncode, result.stderr)
    return result.stdout.decode()


class Text(unittest.TestCase):
    def test_secrets_go(self):
        for line, secret in SECRETS.items():
            with self.subTest(line=line):
                self.assertIn(secret, line)
                out = run("text", line + "\n")
                self.assertNotIn(secret, out)
                self.assertIn("<removed>", out)

    def test_what_is_needed_stays(self):
        for line in KEPT:
            self.assertEqual(run("text", line + "\n"), line + "\n")

    def test_private_key_over_lines(self):
        out = run("text", "a\n-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEow\nabc\n-----END RSA "
                  "PRIVATE KEY-----\nb\n")
        self.assertEqual(out, "a\n<removed>\nb\n")

    def test_binary_is_refused(self):
        run("text", "a\0HF_TOKEN=x\n", code=1)
        run("nonsense", "", code=2)


class Tree(unittest.TestCase):
    def test_pod(self):
        pod = {"items": [{"metadata": {
            "name": "p", "labels": {"job-name": "train"}, "managedFields": [{"m": "HUNTER"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "HUNTER",
                            "sagemaker.amazonaws.com/fault-details": "Xid 79",
                            "company/token": "HUNTER"}},
            "spec": {"containers": [{
                "name": "c", "image": "repo/train:1", "command": ["sh", "-c", "HUNTER"],
                "args": ["--x", "HUNTER"],
                "livenessProbe": {"exec": {"command": ["HUNTER"]},
                                  "httpGet": {"httpHeaders": [{"name": "a", "value": "HUNTER"}]}},
                "env": [{"name": "NCCL_DEBUG", "value": "INFO"},
                        {"name": "WORLD_SIZE", "value": "16"},
                        {"name": "OTHER", "value": "HUNTER"},
                        {"name": "FI_TOKEN", "value": "HUNTER"},
                        {"name": "MASTER_ADDR", "value": "http://u:HUNTER@h"},
                        {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "HUNTER"}}}],
                "resources": {"limits": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": 32}}}]},
            "status": {"containerStatuses": [{"lastState": {"terminated": {
                "exitCode": 1, "reason": "Error",
                "message": "line one\nPASSWORD=HUNTER\nncclSystemError"}}}]}}]}
        text = run("json", json.dumps(pod))
        self.assertNotIn("HUNTER", text)
        out = json.loads(text)["items"][0]
        container = out["spec"]["containers"][0]
        self.assertEqual([e.get("value") for e in container["env"][:3]], ["INFO", "16", "<removed>"])
        self.assertEqual(container["resources"]["limits"]["vpc.amazonaws.com/efa"], 32)
        self.assertEqual(container["image"], "repo/train:1")
        self.assertEqual(out["metadata"]["labels"], {"job-name": "train"})
        self.assertEqual(out["metadata"]["annotations"]["sagemaker.amazonaws.com/fault-details"],
                         "Xid 79")
        message = out["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"]
        self.assertIn("ncclSystemError", message)

    def test_secrets_of_the_cluster_never_pass(self):
        text = run("json", json.dumps({"kind": "Secret", "data": {"a": "HUNTER"},
                                       "stringData": {"b": "HUNTER"}}))
        self.assertNotIn("HUNTER", text)

    def test_no_json_is_refused(self):
        self.assertEqual(run("json", "{", code=1), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
