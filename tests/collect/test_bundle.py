# SPDX-License-Identifier: Apache-2.0
"""ncclspy-analyze report BUNDLE: each rule with documents as the public APIs describe them."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ANALYZE, SCHEMA = sys.argv[1:3]
NOW = "2026-12-02T14:00:00Z"


def condition(kind, status, message=""):
    return {"type": kind, "status": status, "message": message}


def node(name, **labels):
    labels = {"node.kubernetes.io/instance-type": "ml.p5.48xlarge",
              "topology.kubernetes.io/zone": "us-west-2a",
              "topology.k8s.aws/network-node-layer-3": "nn-3",
              "sagemaker.amazonaws.com/node-health-status": "Schedulable", **labels}
    return {"metadata": {"name": name, "labels": labels},
            "status": {"conditions": [condition("MemoryPressure", "False"), condition("Ready", "True")],
                       "capacity": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"},
                       "allocatable": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"}}}


def pod(number):
    return {"metadata": {"name": f"train-{number}", "namespace": "ml",
                         "creationTimestamp": "2026-12-02T13:00:00Z",
                         "labels": {"job-name": "train", "app": "train"}},
            "spec": {"nodeName": f"node{number}",
                     "containers": [{
                         "name": "main", "image": "repo/train:1",
                         "env": [{"name": "MASTER_ADDR", "value": "train-0.train.ml.svc.cluster.local"}],
                         "resources": {"limits": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"}},
                         "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}],
                     "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]},
            "status": {"phase": "Running", "conditions": [condition("PodScheduled", "True")],
                       "containerStatuses": [{"name": "main", "restartCount": 0,
                                              "imageID": "repo/train@sha256:aa",
                                              "state": {"running": {"startedAt": NOW}}}]}}


def daemonset(name):
    return {"metadata": {"name": name, "namespace": "kube-system"},
            "status": {"desiredNumberScheduled": 2, "numberReady": 2}}


def snapshot(host, **facts):
    return {"schema": "ncclspy.snapshot/1", "host": host, "time": NOW, "scope": "host",
            "facts": {"stable": {"module.efa": "2.13.0", **facts}, "measured": {}, "identity": {}},
            "checks": [{"status": "OK", "text": "fine"}], "not_available": []}


def points(*values):
    return {"Label": "FileServerDiskIopsUtilization",
            "Datapoints": [{"Timestamp": NOW, "Average": v, "Unit": "Percent"} for v in values]}


SELF = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}], "IpRanges": []}
OPEN = {"IpProtocol": "-1", "UserIdGroupPairs": [], "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


def good():
    return {
        "k8s/nodes.json": {"items": [node("node0"), node("node1"), node("node2")]},
        "k8s/pods.json": {"items": [pod(0), pod(1)]},
        "k8s/events.json": {"items": []},
        "k8s/services.json": {"items": [{"metadata": {"name": "train", "namespace": "ml"},
                                         "spec": {"clusterIP": "None", "selector": {"app": "train"}}}]},
        "k8s/networkpolicies.json": {"items": []},
        "k8s/daemonsets.json": {"items": [daemonset("aws-efa-k8s-device-plugin"),
                                          daemonset("nvidia-device-plugin-daemonset")]},
        "k8s/dns.json": {"items": [{"metadata": {"name": "coredns-1", "namespace": "kube-system"},
                                    "status": {"conditions": [condition("Ready", "True")]}}]},
        "slurm/ping.txt": "Slurmctld(primary) at head1 is UP\nSlurmctld(backup) at head2 is DOWN\n",
        "slurm/munge.txt": "active\n",
        "slurm/nodes.txt": "NodeName=gpu1 Arch=x86_64 State=ALLOCATED ThreadsPerCore=2\n",
        "slurm/jobs.txt": "JobId=7 JobName=a JobState=PENDING Reason=Resources EndTime=Unknown\n"
                          "JobId=8 JobName=b JobState=COMPLETING Reason=None "
                          "EndTime=2026-12-02T13:57:00\n",
        "slurm/sacct.txt": "7|COMPLETED|0:0|0:0|01:00|gpu1\n7.0|CANCELLED|0:15|0:0|01:00|gpu1\n",
        "aws/cluster.json": {"ClusterName": "c", "ClusterStatus": "InService",
                             "NodeRecovery": "Automatic"},
        "aws/nodes.json": {"ClusterNodeSummaries": [
            {"InstanceId": "i-1", "InstanceType": "ml.p5.48xlarge",
             "InstanceStatus": {"Status": "Running", "Message": ""}}]},
        "aws/node.i-1.json": {"NodeDetails": {"InstanceId": "i-1", "InstanceType": "ml.p5.48xlarge",
                                              "Placement": {"AvailabilityZoneId": "usw2-az1"}}},
        "aws/node.i-2.json": {"NodeDetails": {"InstanceId": "i-2", "InstanceType": "ml.p5.48xlarge",
                                              "Placement": {"AvailabilityZoneId": "usw2-az1"}}},
        "aws/events.json": {"Events": [{"InstanceId": "i-1",
                                        "Description": "Instance health checks passed after reboot"}]},
        "aws/security-groups.json": {"SecurityGroups": [
            {"GroupId": "sg-1", "IpPermissions": [SELF], "IpPermissionsEgress": [OPEN, SELF]}]},
        "aws/fsx.fs-1.FileServerDiskIopsUtilization.json": points(10, 99, 20, 30),
        "snapshots/node0.json": snapshot("node0"),
        "snapshots/node1.json": snapshot("node1"),
        "snapshots/node2.json": snapshot("node2"),
    }


def status(docs, number=1):
    return docs["k8s/pods.json"]["items"][number]["status"]


def container(docs, number=1):
    return status(docs, number)["containerStatuses"][0]


def spec(docs, number=1):
    return docs["k8s/pods.json"]["items"][number]["spec"]


def labels(docs, number=1):
    return docs["k8s/nodes.json"]["items"][number]["metadata"]["labels"]


def ended(docs, reason, code, restarts=0, number=1):
    container(docs, number).update(
        restartCount=restarts, lastState={"terminated": {"exitCode": code, "reason": reason}})


def policy(docs, name, selector, **rules):
    docs["k8s/networkpolicies.json"]["items"].append(
        {"metadata": {"name": name, "namespace": "ml"},
         "spec": {"podSelector": selector, **rules}})


def pending(docs, message, created="2026-12-02T13:00:00Z"):
    docs["k8s/pods.json"]["items"][1]["metadata"]["creationTimestamp"] = created
    docs["k8s/pods.json"]["items"][1]["status"] = {
        "phase": "Pending", "conditions": [condition("PodScheduled", "False", message)]}


def init(docs, state):
    status(docs).update(phase="Pending", containerStatuses=[], initContainerStatuses=[
        {"name": "fetch", "restartCount": 0, "state": state}])


def event(docs, text):
    docs["aws/events.json"]["Events"].append({"InstanceId": "i-9", "Description": text})


def egress(docs, rules):
    docs["aws/security-groups.json"]["SecurityGroups"][0]["IpPermissionsEgress"] = rules


def concern(docs, finding, state):
    docs["snapshots/node1.json"]["checks"].append({"status": state, "finding": finding, "text": "x"})


def put(docs, name, value):
    docs[name] = value


def shm(docs, volume):
    for number in (0, 1):
        spec(docs, number)["volumes"][0] = dict(volume, name="shm")


def no_efa(docs, same_node=False):
    for number in (0, 1):
        del spec(docs, number)["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"]
    if same_node:
        spec(docs)["nodeName"] = "node0"


def master(docs, name):
    for number in (0, 1):
        spec(docs, number)["containers"][0]["env"][0]["value"] = name


def service(docs, **spec_):
    docs["k8s/services.json"]["items"][0]["spec"].update(spec_)


# (finding, priority, text expected, what makes it fire, what just does not)
RULES = [
    ("OOM_KILLED", 0, "ml/train-1", lambda d: ended(d, "OOMKilled", 137),
     lambda d: ended(d, "Completed", 0)),
    ("OOM_KILLED", 0, "7.0", lambda d: put(d, "slurm/sacct.txt", "7.0|OUT_OF_MEMORY|0:9|0:0|1|gpu1\n"),
     lambda d: put(d, "slurm/sacct.txt", "7.0|TIMEOUT|0:9|0:0|1|gpu1\n")),
    ("POD_CRASH_LOOP", 0, "SIGSEGV", lambda d: ended(d, "Error", 139, 3),
     lambda d: ended(d, "Error", 139, 2)),
    ("POD_CRASH_LOOP", 0, "exit 1",
     lambda d: (ended(d, "Error", 1, 1), container(d).update(
         state={"waiting": {"reason": "CrashLoopBackOff"}})),
     lambda d: container(d).update(state={"waiting": {"reason": "ContainerCreating"}})),
    ("POD_PENDING", 0, "too little is free", lambda d: pending(d, "0/9 nodes: 9 Insufficient nvidia.com/gpu"),
     lambda d: pending(d, "0/9 nodes: 9 Insufficient nvidia.com/gpu", "2026-12-02T13:58:30Z")),
    ("POD_PENDING", 0, "no node fits", lambda d: pending(d, "didn't match Pod's node affinity/selector"),
     lambda d: status(d).update(phase="Running")),
    ("POD_PENDING", 0, "a taint", lambda d: pending(d, "9 node(s) had untolerated taint {a: }"),
     lambda d: status(d).update(phase="Succeeded")),
    ("POD_PENDING", 0, "volume cannot be mounted",
     lambda d: (status(d).update(phase="Pending", conditions=[], containerStatuses=[]),
                d["k8s/events.json"]["items"].append(
                    {"type": "Warning", "involvedObject": {"name": "train-1"},
                     "message": "MountVolume.SetUp failed for volume x"})),
     lambda d: d["k8s/events.json"]["items"].append(
         {"type": "Warning", "involvedObject": {"name": "train-1"}, "message": "MountVolume.SetUp failed"})),
    ("POD_PENDING", 0, "no condition and no event",
     lambda d: status(d).update(phase="Pending", conditions=[], containerStatuses=[]), lambda d: None),
    ("POD_IMAGE_PULL", 0, "ErrImagePull",
     lambda d: container(d).update(state={"waiting": {"reason": "ErrImagePull", "message": "denied"}}),
     lambda d: container(d).update(state={"waiting": {"reason": "PodInitializing"}})),
    ("POD_INIT_FAILED", 0, "exit 2", lambda d: init(d, {"terminated": {"exitCode": 2}}),
     lambda d: (init(d, {"terminated": {"exitCode": 0}}), status(d).update(phase="Running"))),
    ("POD_INIT_FAILED", 0, "11 minutes",
     lambda d: init(d, {"running": {"startedAt": "2026-12-02T13:49:00Z"}}),
     lambda d: (init(d, {"running": {"startedAt": "2026-12-02T13:51:00Z"}}),
                status(d).update(phase="Running"))),
    ("POD_FAILED", 0, "SIGKILL", lambda d: (status(d).update(phase="Failed"), ended(d, "Error", 137)),
     lambda d: (status(d).update(phase="Succeeded"), ended(d, "Completed", 0))),
    ("POD_SHM_DEFAULT", 1, "64 MiB", lambda d: shm(d, {"emptyDir": {}}),
     lambda d: shm(d, {"hostPath": {"path": "/dev/shm"}})),
    ("POD_WITHOUT_EFA", 1, "asks for none", no_efa, lambda d: no_efa(d, same_node=True)),
    ("IMAGE_DRIFT", 1, "sha256:bb", lambda d: container(d).update(imageID="repo/train@sha256:bb"),
     lambda d: (container(d).update(imageID="repo/train@sha256:bb"),
                d["k8s/pods.json"]["items"][1]["metadata"].update(labels={"job-name": "other", "app": "train"}))),
    ("MIXED_HARDWARE", 1, "p4d", lambda d: labels(d).update(
        {"node.kubernetes.io/instance-type": "ml.p4d.24xlarge"}),
     lambda d: labels(d, 2).update({"node.kubernetes.io/instance-type": "ml.p4d.24xlarge"})),
    ("TOPOLOGY_SPREAD", 1, "us-west-2b", lambda d: labels(d).update({"topology.kubernetes.io/zone": "us-west-2b"}),
     lambda d: labels(d, 2).update({"topology.kubernetes.io/zone": "us-west-2b"})),
    ("TOPOLOGY_SPREAD", 2, "nn-4", lambda d: labels(d).update({"topology.k8s.aws/network-node-layer-3": "nn-4"}),
     lambda d: labels(d, 2).update({"topology.k8s.aws/network-node-layer-3": "nn-4"})),
    ("TOPOLOGY_SPREAD", 1, "usw2-az2",
     lambda d: d["aws/node.i-2.json"]["NodeDetails"]["Placement"].update(AvailabilityZoneId="usw2-az2"),
     lambda d: d["aws/node.i-2.json"]["NodeDetails"].update(
         InstanceType="ml.m5.large", Placement={"AvailabilityZoneId": "usw2-az2"})),
    ("K8S_NODE_NOT_READY", 1, "kubelet stopped",
     lambda d: d["k8s/nodes.json"]["items"][2]["status"].update(
         conditions=[condition("Ready", "Unknown", "kubelet stopped")]),
     lambda d: d["k8s/nodes.json"]["items"][2]["status"].update(
         conditions=[condition("DiskPressure", "False"), condition("Ready", "True")])),
    ("NODE_HEALTH_LABEL", 1, "PendingReboot", lambda d: labels(d).update(
        {"sagemaker.amazonaws.com/node-health-status": "UnschedulablePendingReboot"}),
     lambda d: labels(d).update({"sagemaker.amazonaws.com/deep-health-check-status": "Passed"})),
    ("NIC_COUNT_LOW", 1, "31 EFA devices",
     lambda d: d["k8s/nodes.json"]["items"][2]["status"]["capacity"].update({"vpc.amazonaws.com/efa": "31"}),
     lambda d: d["k8s/nodes.json"]["items"][2]["status"]["capacity"].update({"vpc.amazonaws.com/efa": "33"})),
    ("DEVICE_PLUGIN_MISSING", 0, "vpc.amazonaws.com/efa", lambda d: d["k8s/daemonsets.json"]["items"].pop(0),
     lambda d: (d["k8s/daemonsets.json"]["items"].pop(0), put(d, "k8s/pods.json", {"items": []}))),
    ("DEVICE_PLUGIN_MISSING", 0, "1 of 2",
     lambda d: d["k8s/daemonsets.json"]["items"][1]["status"].update(numberReady=1),
     lambda d: d["k8s/daemonsets.json"]["items"].append(daemonset("node-exporter"))),
    ("NETWORK_POLICY_BLOCKS", 0, "deny allows no Ingress",
     lambda d: policy(d, "deny", {}, policyTypes=["Ingress"]),
     lambda d: (policy(d, "deny", {}, policyTypes=["Ingress"]),
                policy(d, "allow", {"matchLabels": {"app": "train"}}, policyTypes=["Ingress"],
                       ingress=[{"from": [{"podSelector": {}}]}]))),
    ("NETWORK_POLICY_BLOCKS", 0, "allows no Egress",
     lambda d: policy(d, "deny", {"matchLabels": {"app": "train"}}, policyTypes=["Egress"], egress=[]),
     lambda d: policy(d, "deny", {"matchLabels": {"app": "web"}}, policyTypes=["Egress"], egress=[])),
    ("HEADLESS_SERVICE_MISSING", 1, "no such service", lambda d: put(d, "k8s/services.json", {"items": []}),
     lambda d: (put(d, "k8s/services.json", {"items": []}), master(d, "10.0.0.7"))),
    ("HEADLESS_SERVICE_MISSING", 1, "clusterIP: None", lambda d: service(d, clusterIP="10.1.2.3"),
     lambda d: (service(d, clusterIP="10.1.2.3"), master(d, "train"))),
    ("HEADLESS_SERVICE_MISSING", 1, "selects other pods", lambda d: service(d, selector={"app": "web"}),
     lambda d: service(d, selector={"app": "train", "job-name": "train"})),
    ("CLUSTER_DNS_UNHEALTHY", 1, "coredns-1",
     lambda d: d["k8s/dns.json"]["items"][0]["status"].update(conditions=[condition("Ready", "False")]),
     lambda d: d.pop("k8s/dns.json")),
    ("SLURM_NODE_DOWN", 1, "gpu1 (DOWN*: Not responding [slurm@now])",
     lambda d: put(d, "slurm/nodes.txt", "NodeName=gpu1 State=DOWN* X=1 Reason=Not responding [slurm@now]\n"),
     lambda d: put(d, "slurm/nodes.txt", "NodeName=gpu1 State=MIXED X=1\n")),
    ("SLURM_NODE_DOWN", 2, "IDLE+DRAIN", lambda d: put(
        d, "slurm/nodes.txt", "NodeName=gpu1 State=IDLE+DRAIN X=1 Reason=check fan\n"),
     lambda d: put(d, "slurm/nodes.txt", "NodeName=DRAINAGE State=IDLE X=1\n")),
    ("SLURM_NODE_DOWN", 1, "NODE_FAIL", lambda d: put(d, "slurm/sacct.txt", "7|NODE_FAIL|0:0|0:0|1|gpu[1-2]\n"),
     lambda d: put(d, "slurm/sacct.txt", "7|FAILED|1:0|0:0|1|gpu[1-2]\n")),
    ("SLURM_JOB_STUCK", 1, "ReqNodeNotAvail",
     lambda d: put(d, "slurm/jobs.txt", "JobId=9 JobState=PENDING Reason=ReqNodeNotAvail,_May_be_reserved\n"),
     lambda d: put(d, "slurm/jobs.txt", "JobId=9 JobState=PENDING Reason=Priority\n")),
    ("SLURM_JOB_STUCK", 1, "COMPLETING since 6 minutes",
     lambda d: put(d, "slurm/jobs.txt", "JobId=9 JobState=COMPLETING EndTime=2026-12-02T13:54:00\n"),
     lambda d: put(d, "slurm/jobs.txt", "JobId=9 JobState=COMPLETING EndTime=2026-12-02T13:56:00\n")),
    ("SLURM_CONTROLLER_DOWN", 0, "is DOWN", lambda d: put(d, "slurm/ping.txt", "Slurmctld(primary) at h is DOWN\n"),
     lambda d: put(d, "slurm/ping.txt", "Slurmctld(primary) at h is DOWN\nSlurmctld(backup) at i is UP\n")),
    ("MUNGE_DOWN", 0, "failed", lambda d: put(d, "slurm/munge.txt", "failed\n"),
     lambda d: put(d, "slurm/munge.txt", "unknown\n")),
    ("HYPERPOD_CLUSTER_STATE", 0, "RollbackFailed no capacity",
     lambda d: d["aws/cluster.json"].update(ClusterStatus="RollbackFailed", FailureMessage="no capacity"),
     lambda d: d["aws/cluster.json"].update(ClusterStatus="InService", FailureMessage="no capacity")),
    ("HYPERPOD_CLUSTER_STATE", 2, "Updating", lambda d: d["aws/cluster.json"].update(ClusterStatus="Updating"),
     lambda d: d["aws/cluster.json"].pop("ClusterStatus")),
    ("HYPERPOD_NO_RECOVERY", 2, "NodeRecovery", lambda d: d["aws/cluster.json"].update(NodeRecovery="None"),
     lambda d: d["aws/cluster.json"].pop("NodeRecovery")),
    ("HYPERPOD_NODE_NOT_RUNNING", 1, "i-1",
     lambda d: d["aws/nodes.json"]["ClusterNodeSummaries"][0]["InstanceStatus"].update(Status="Failure"),
     lambda d: d["aws/nodes.json"]["ClusterNodeSummaries"][0].pop("InstanceStatus")),
    ("HYPERPOD_EVENT", 1, "EFA health", lambda d: event(d, "EFA health checks did not run: failed"),
     lambda d: event(d, "Replacement of the instance succeeded")),
    ("HYPERPOD_EVENT", 1, "i-9", lambda d: event(d, "Insufficient capacity in the zone"),
     lambda d: event(d, "Lifecycle script started")),
    ("SECURITY_GROUP_SELF", 0, "(outbound to the group itself", lambda d: egress(d, [OPEN]),
     lambda d: egress(d, [SELF])),
    ("SECURITY_GROUP_SELF", 0, "inbound and outbound",
     lambda d: put(d, "aws/security-groups.json", {"SecurityGroups": [
         {"GroupId": "sg-1", "IpPermissions": [dict(SELF, IpProtocol="tcp")], "IpPermissionsEgress": []}]}),
     lambda d: put(d, "aws/security-groups.json", {"SecurityGroups": [
         {"GroupId": "sg-2", "IpPermissions": [SELF], "IpPermissionsEgress": [SELF]},
         {"GroupId": "sg-1", "IpPermissions": [], "IpPermissionsEgress": []}]})),
    ("STORAGE_SATURATED", 1, "2 of 4 periods",
     lambda d: put(d, "aws/fsx.fs-1.FileServerDiskIopsUtilization.json", points(80, 90, 10, 10)),
     lambda d: put(d, "aws/fsx.fs-1.FileServerDiskIopsUtilization.json", points(80, 79.9, 10, 10))),
    ("STORAGE_SATURATED", 1, "used up",
     lambda d: put(d, "aws/fsx.fs-1.FileServerDiskIopsUtilization.json", points(99, 99, 98, 97)),
     lambda d: put(d, "aws/fsx.fs-1.FileServerDiskIopsUtilization.json", points(99, 99))),
    ("GPU_HEALTH", 1, "node1", lambda d: concern(d, "GPU_HEALTH", "CONCERN"),
     lambda d: concern(d, "GPU_HEALTH", "INFO")),
    ("STACK_DRIFT", 1, "module.efa: 2.10.0, 2 others have 2.13.0",
     lambda d: put(d, "snapshots/node1.json", snapshot("node1", **{"module.efa": "2.10.0"})),
     lambda d: put(d, "snapshots/here.json", snapshot("login", **{"module.efa": "2.10.0"}))),
]


def write(root, docs, manifest=""):
    with open(root + "/manifest.txt", "w", encoding="utf-8") as f:
        f.write(f"ncclspy.bundle/1\ntime\t{NOW}\nscope\tcluster=c\n" + manifest)
    for name, content in docs.items():
        os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
        with open(f"{root}/{name}", "w", encoding="utf-8") as f:
            f.write(content if isinstance(content, str) else json.dumps(content))


def report(docs, manifest="", arguments=("--json", "--fail-on", "none"), code=0):
    with tempfile.TemporaryDirectory() as root:
        write(root, docs, manifest)
        result = subprocess.run([ANALYZE, "report", *arguments, root], capture_output=True, text=True,
                                timeout=120, check=False)
    assert result.returncode == code, (result.returncode, result.stderr)
    return result.stdout


def findings(docs, manifest=""):
    return json.loads(report(docs, manifest))["jobs"][0]["findings"]


class Bundle(unittest.TestCase):
    def test_rules_and_near_misses(self):
        for name, priority, text, fires, near in RULES:
            with self.subTest(rule=name, text=text):
                docs = good()
                fires(docs)
                found = [f for f in findings(docs) if f["id"] != "UNKNOWN_CAUSE_CHECKLIST"]
                self.assertEqual([(f["id"], f["priority"]) for f in found], [(name, f"P{priority}")])
                self.assertIn(text, json.dumps(found))
                docs = good()
                near(docs)
                self.assertEqual([f["id"] for f in findings(docs)], ["UNKNOWN_CAUSE_CHECKLIST"])

    def test_healthy_is_no_clean_bill(self):
        self.assertEqual([f["id"] for f in findings(good())], ["UNKNOWN_CAUSE_CHECKLIST"])

    def test_what_was_not_collected_is_said(self):
        out = report(good(), "absent\tslurm\tscontrol is not installed here\n"
                             "failed\tk8s/pods.json\terror: You must be logged in (Unauthorized)\n",
                     ("--no-color",))
        self.assertIn("slurm (absent: scontrol is not installed here)", out)
        self.assertIn("CLUSTER_API_REFUSED", out)
        self.assertNotIn("CLUSTER_API_REFUSED", report(
            good(), "failed\tk8s/pods.json\terror: the server doesn't have a resource\n"))

    def test_many_pods_are_one_finding(self):
        docs = good()
        docs["k8s/pods.json"]["items"] = [pod(n) for n in range(12)]
        for number in range(12):
            ended(docs, "OOMKilled", 137, number=number)
        found = findings(docs)
        self.assertEqual([f["id"] for f in found], ["OOM_KILLED"])
        self.assertIn("12 pods: ml/train-0, ml/train-1, ml/train-2, ml/train-3 and 8 more",
                      found[0]["summary"])

    def test_verdict_names_and_command(self):
        docs = good()
        ended(docs, "OOMKilled", 137)
        out = report(docs, arguments=("--no-color",), code=1)
        self.assertRegex(out.splitlines()[1], r"^VERDICT: .*ml/train-1.* page: application")
        self.assertIn("kubectl describe pod train-1 -n ml", out)

    def test_hostile_names_never_become_commands(self):
        docs = good()
        ended(docs, "OOMKilled", 137)
        docs["k8s/pods.json"]["items"][1]["metadata"]["name"] = "x; rm -rf ~\x1b[31m"
        out = report(docs, arguments=("--no-color",), code=1)
        self.assertIn("kubectl describe pod <name> -n ml", out)
        self.assertNotIn("\x1b", out)

    def test_logs_of_the_bundle_are_read(self):
        docs = good()
        docs["logs/ml.train-0.log"] = "node0:7:7 [0] NCCL INFO cudaDriverVersion 12040\n"
        out = json.loads(report(docs))
        self.assertEqual([job["job"] for job in out["jobs"]], ["bundle", "logs"])

    def test_damaged_documents_are_named(self):
        docs = good()
        docs["k8s/pods.json"] = "{"
        self.assertIn("k8s/pods.json: not a JSON object", report(docs, arguments=("--no-color",)))

    def test_odd_shapes_do_no_harm(self):
        for shape in ({}, {"items": None}, {"items": [None, 3, "x", []]}, {"items": {"a": 1}},
                      {"items": [{"metadata": [], "spec": 1, "status": {"containerStatuses": {}}}]},
                      {"SecurityGroups": [1], "Events": [{}], "ClusterNodeSummaries": [None]}):
            report({name: shape for name in good() if name.endswith(".json")})

    def test_schema(self):
        try:
            import jsonschema  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        docs = good()
        ended(docs, "OOMKilled", 137)
        with open(SCHEMA, encoding="utf-8") as f:
            jsonschema.validate(json.loads(report(docs)), json.load(f))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
