# SPDX-License-Identifier: Apache-2.0
"""usage: test_kubernetes.py EXAMPLES: the manifests are what the API takes, the component fits each kind.

Fields are held against a table of those that the public API reference has for what is used here; with
the PyPI package kubernetes-validate (NSPY_KUBERNETES_VALIDATE: folder it lies in) also against the
API's own schemas."""
import copy
import json
import os
import sys
import unittest

try:
    import yaml
except ImportError:
    print("no PyYAML (package python3-yaml)")
    sys.exit(77)

FOLDER = sys.argv[1] + "/kubernetes/"
sys.path.insert(0, os.environ.get("NSPY_KUBERNETES_VALIDATE", "/nowhere"))
try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

TEXT, NUMBER, FLAG, ANY = str, int, bool, object
SECURITY = {"allowPrivilegeEscalation": FLAG, "capabilities": {"drop": [TEXT]}, "runAsNonRoot": FLAG}
CONTAINER = {
    "name": TEXT, "image": TEXT, "command": [TEXT], "args": [TEXT], "workingDir": TEXT, "securityContext": SECURITY,
    "env": [{"name": TEXT, "value": TEXT, "valueFrom": {"fieldRef": {"fieldPath": TEXT}}}],
    "resources": {"limits": {"*": ANY}, "requests": {"*": ANY}},
    "volumeMounts": [{"name": TEXT, "mountPath": TEXT, "readOnly": FLAG}]}
POD = {"subdomain": TEXT, "restartPolicy": TEXT, "initContainers": [CONTAINER], "containers": [CONTAINER],
       "volumes": [{"name": TEXT, "emptyDir": {"medium": TEXT, "sizeLimit": TEXT},
                    "persistentVolumeClaim": {"claimName": TEXT}, "hostPath": {"path": TEXT, "type": TEXT}}]}
META = {"name": TEXT, "namespace": TEXT, "labels": {"*": TEXT}, "annotations": {"*": TEXT}}
KINDS = {
    "Job": {"apiVersion": TEXT, "kind": TEXT, "metadata": META, "spec": {
        "completions": NUMBER, "parallelism": NUMBER, "completionMode": TEXT, "backoffLimit": NUMBER,
        "ttlSecondsAfterFinished": NUMBER, "template": {"metadata": META, "spec": POD}}},
    "Service": {"apiVersion": TEXT, "kind": TEXT, "metadata": META,
                "spec": {"clusterIP": TEXT, "selector": {"*": TEXT}, "ports": [{"port": NUMBER}]}},
}
# Kind: where its pods are.
PODS = {
    "Job": ("template",), "PyTorchJob": ("pytorchReplicaSpecs", "Worker", "template"),
    "MPIJob": ("mpiReplicaSpecs", "Worker", "template"),
    "JobSet": ("replicatedJobs", 0, "template", "spec", "template"),
    "RayCluster": ("workerGroupSpecs", 0, "template"),
    "LeaderWorkerSet": ("leaderWorkerTemplate", "workerTemplate"),
    "HyperPodPyTorchJob": ("replicaSpecs", 0, "template"),
}
USERS_POD = {"restartPolicy": "Never", "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "x"}}],
             "containers": [{"name": "main", "image": "train", "env": [{"name": "A", "value": "1"}],
                             "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}]}


def unknown(value, known, place):
    """What the table does not have."""
    if known is ANY:
        return
    if isinstance(known, (dict, list)) and not isinstance(value, type(known)):
        yield f"{place}: not {type(known).__name__}"
    elif isinstance(known, dict):
        for key, inner in value.items():
            if key in known or "*" in known:
                yield from unknown(inner, known.get(key, known.get("*")), f"{place}.{key}")
            else:
                yield f"{place}.{key}: no such field"
    elif isinstance(known, list):
        for number, inner in enumerate(value):
            yield from unknown(inner, known[0], f"{place}[{number}]")
    elif not isinstance(value, known) or (known is int and isinstance(value, bool)):
        yield f"{place}: {value!r} is no {known.__name__}"


def documents(name):
    with open(FOLDER + name, encoding="utf-8") as f:
        return [document for document in yaml.safe_load_all(f) if document]


def sample(kind):
    """A user's job of that kind, around its pods."""
    inner = {"spec": copy.deepcopy(USERS_POD)}
    for step in reversed(PODS[kind]):
        inner = [inner] if step == 0 else {step: inner}
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "x", "labels": {"ncclspy": "on"}}, "spec": inner}


def at(document, path):
    for step in path:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def patched(document, operations):
    """JSON patch, as far as it is used here (RFC 6902)."""
    for operation in operations:
        assert set(operation) == {"op", "path", "value"} and operation["op"] == "add", operation
        *way, last = operation["path"].lstrip("/").split("/")
        place = at(document, way)
        if isinstance(place, list):
            assert last == "-", operation
            place.append(copy.deepcopy(operation["value"]))
        else:
            place[last] = copy.deepcopy(operation["value"])
    return document


class Manifests(unittest.TestCase):
    def check(self, document, what):
        self.assertEqual(list(unknown(document, KINDS[document["kind"]], what)), [])
        if kubernetes_validate:
            kubernetes_validate.validate(document, "1.30", strict=True)

    def pods(self):
        for name in ("job.yaml", "tarball.yaml", "summarize.yaml"):
            for document in documents(name):
                self.check(document, name)
                if document["kind"] == "Job":
                    yield name, document["spec"]["template"]["spec"]
        for kind in PODS:
            name = f"component/{kind.lower()}.yaml"
            document = patched(sample(kind), documents(name)[0])
            yield name, at(document["spec"], PODS[kind])["spec"]

    def test_pods(self):
        for name, pod in self.pods():
            with self.subTest(manifest=name):
                self.check({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"},
                            "spec": {"template": {"spec": pod}}}, name)
                volumes = [volume["name"] for volume in pod["volumes"]]
                self.assertEqual(len(volumes), len(set(volumes)))
                for container in pod.get("initContainers", []) + pod["containers"]:
                    self.assertLessEqual({mount["name"] for mount in container.get("volumeMounts", [])}, set(volumes))
                    text = json.dumps(container)
                    for right in ("privileged", '"add"', "hostNetwork", "SYS_PTRACE"):
                        self.assertNotIn(right, text)

    def test_component(self):
        kinds = set()
        first = json.dumps(documents("component/job.yaml")[0])
        for patch in documents("component/kustomization.yaml")[0]["patches"]:
            kind = patch["target"]["kind"]
            kinds.add(kind)
            self.assertEqual(patch["path"], kind.lower() + ".yaml")
            pod = at(patched(sample(kind), documents("component/" + patch["path"])[0])["spec"], PODS[kind])["spec"]
            env = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
            self.assertEqual(env["LD_PRELOAD"], "/opt/ncclspy/lib/libncclspy.so")
            self.assertLessEqual({"A", "NCCLSPY_DIR", "NCCLSPY_JOB", "NODE_NAME", "POD_NAME", "POD_NAMESPACE"}, set(env))
            mine = json.dumps(documents("component/" + patch["path"])[0])
            where = "/spec/" + "/".join(map(str, PODS[kind])) + "/spec/"
            self.assertEqual(mine.replace(where, "/spec/template/spec/").count("/spec/template/spec/"),
                             first.count("/spec/template/spec/"))
        self.assertEqual(kinds, set(PODS))

    def test_the_table_refuses(self):
        for change in ({"spec": {"template": {"spec": {"conatiners": []}}}}, {"spec": {"completions": "4"}},
                       {"spec": {"template": {"spec": {"containers": {}}}}}):
            self.assertTrue(list(unknown(dict({"kind": "Job"}, **change), KINDS["Job"], "x")))

    def test_readme_names_what_exists(self):
        with open(FOLDER + "README.md", encoding="utf-8") as f:
            text = f.read()
        for name in ("job.yaml", "tarball.yaml", "summarize.yaml", "component/", "image/Dockerfile"):
            self.assertIn(f"]({name})", text)
            self.assertTrue(os.path.exists(FOLDER + name), name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
