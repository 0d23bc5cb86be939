# SPDX-License-Identifier: Apache-2.0
"""Jobs on made-up machines, and what is said of them: live, and in the report."""
import os
import re

import harness
import jobs
from harness import ANALYZE, BUILD, LIBRARY, RUN, TRAINJOB

HERE = os.path.dirname(os.path.realpath(__file__))
MACHINE = os.path.join(HERE, "machine.sh")
PLUGIN = os.path.join(BUILD, "tests/integration/libnccl-net-nspytest.so")
NODES = ["-n", "4", "--node-size", "2", "--steps", "3", "--no-verify"]
ONE_NODE = ["-n", "4", "--steps", "3", "--no-verify"]


def make_rdma(scratch, names, driver="efa", down=(), nodes=True):
    """A machine with these RDMA devices; nodes: the process was given them."""
    root = os.path.join(scratch.path, "machine")
    for name in names:
        port = os.path.join(root, "class/infiniband", name, "ports/1")
        os.makedirs(port)
        device = os.path.join(root, "class/infiniband", name, "device")
        os.makedirs(device)
        os.symlink(f"/sys/bus/pci/drivers/{driver}", os.path.join(device, "driver"))
        scratch.file(os.path.join(port, "state"), "1: DOWN\n" if name in down else "4: ACTIVE\n")
    for i in range(len(names) if nodes else 0):
        scratch.file(os.path.join(root, f"dev/infiniband/uverbs{i}"), "")
    os.makedirs(os.path.join(root, "dev/infiniband"), exist_ok=True)
    return root


def run_on(scratch, machine, options, env=None, before=()):
    harness.need(TRAINJOB, LIBRARY, RUN, ANALYZE)
    env = dict(env or {})
    if jobs.sanitizer_runtime():
        env["LD_PRELOAD"] = ":".join([jobs.sanitizer_runtime(), *env.get("LD_PRELOAD", "").split()])
    place = [MACHINE, machine] if machine else []
    result = scratch.run([*place, *before, RUN, "-o", scratch.traces, "--", TRAINJOB, *options], env)
    if result.status == 77:
        raise harness.Skip("no namespaces of our own here")
    assert not result.timed_out, str(result)
    return result


def live(result):
    """{id: number of lines} of findings on stderr."""
    found = {}
    for name in re.findall(r"\[(?:FAIL|WARN)\] P\d ([A-Z0-9_]+)", result.err):
        found[name] = found.get(name, 0) + 1
    return found


def found(scratch):
    return {finding["id"]: finding for finding in jobs.report(scratch)["findings"]}


def expect(scratch, result, name, priority, ranks):
    """It was said live, and it is in the report."""
    assert name in live(result), str(result)
    finding = found(scratch).get(name)
    assert finding, (name, found(scratch))
    assert finding["priority"] == priority, finding
    assert jobs.culprit_ranks(finding) == ranks, finding
    return finding


def expect_silence(scratch, result):
    assert result.status == 0, str(result)
    assert not live(result), str(result)
    assert not jobs.urgent(jobs.report(scratch)), jobs.report(scratch)


def told_by(result, name):
    """Ranks that say so of themselves."""
    return [int(rank) for rank in re.findall(rf"P\d {name}(?: \(probable\))? on rank (\d+)",
                                             result.err)]
