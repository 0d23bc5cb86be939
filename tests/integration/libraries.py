# SPDX-License-Identifier: Apache-2.0
"""What is said of NCCL's plugins, libfabric, the CUDA driver and their versions; and near misses."""
import os
import shutil

import harness
import jobs
from harness import BUILD
from machines import (MACHINE, NODES, ONE_NODE, PLUGIN, expect, expect_silence, found, live,
                      make_rdma, run_on)

PLUGIN_HOST = os.path.join(BUILD, "tests/integration/plugin_host")
DRIVER_HOST = os.path.join(BUILD, "tests/integration/driver_host")


def hear_plugin(scratch, *versions, env=None):
    """What a host of the plugin sees, which must be the same without us; and the facts."""
    harness.need(PLUGIN, PLUGIN_HOST)
    command = [PLUGIN_HOST, PLUGIN, *versions]
    plain = scratch.run(command).ok()
    ours = scratch.run(command, dict(jobs.preload_env(scratch), **(env or {}))).ok()
    assert plain.out == ours.out, f"{plain}\n{ours}"
    return plain.out, {record["key"]: record["value"] for record in jobs.dump(scratch)
                       if record.get("kind") == "fact"}


def test_plugin_heard(scratch):
    out, facts = hear_plugin(scratch, "13", "12", "11")
    assert "NET/Test 123456789abcdef same profiler" in out and "context set" in out, out
    assert "devices 0 count 3 errno 44" in out, out
    expected = {"name": "Test", "api": "12", "init": "0", "devices": "3", "version": "1.21.1",
                "provider": "efa"}
    assert {name: facts.get("net_plugin." + name) for name in expected} == expected, facts
    assert "net_plugin.error" not in facts, facts


def test_plugin_gave_up(scratch):
    out, facts = hear_plugin(scratch, "8")
    assert "NET/Test no provider with  2.50 !" in out and "init 3 errno 41" in out, out
    assert facts["net_plugin.init"] == "3" and facts["net_plugin.version"] == "1.9.2", facts
    assert facts["net_plugin.error"] == "NET/Test no provider with  2.50 !", facts


def test_plugin_completes_its_table(scratch):
    out, facts = hear_plugin(scratch, "10")
    assert "name Ten, started" in out and "listen 77" in out, out
    assert facts["net_plugin.name"] == "Ten, started" and facts["net_plugin.api"] == "10", facts


def test_plugin_not_heard(scratch):
    _, facts = hear_plugin(scratch, "12", env={"NCCLSPY_NET_PLUGIN": "0"})
    assert "net_plugin.init" not in facts, facts


def driver_facts(scratch, **env):
    """A host of an NCCL that has its CUDA runtime in itself sees the same with us; facts."""
    harness.need(DRIVER_HOST)
    plain = scratch.run([DRIVER_HOST]).ok()
    ours = scratch.run([DRIVER_HOST], dict(jobs.preload_env(scratch), **env)).ok()
    assert plain.out == ours.out and "alloc gives 0 errno 31" in plain.out, f"{plain}\n{ours}"
    return {record["key"].replace("nccl.memory.", ""): record["value"]
            for record in jobs.dump(scratch)
            if record.get("kind") == "fact" and record["key"].startswith("nccl.memory.")}


def test_memory_of_nccl(scratch):
    """Two communicators of 24 MiB on the device, one given back; the host's own does not count."""
    mib = 1 << 20
    facts = driver_facts(scratch, NCCLSPY_CUDA_DRIVER="1")
    assert (facts["peak"], facts["live"]) == (str(48 * mib), str(24 * mib)), facts
    comms = {name: value for name, value in facts.items() if name.startswith("comm.")}
    assert sorted(comms.values()) == [str(24 * mib)] * 2, facts


def test_memory_of_nccl_not_asked_for(scratch):
    assert driver_facts(scratch) == {}


def test_stack_limit(scratch):
    result = run_on(scratch, None, ONE_NODE, {"NSPY_FAKE": "do=version:22703"},
                    before=["prlimit", "--stack=unlimited"])
    expect(scratch, result, "STACK_LIMIT_UNSAFE", "P2", [])
    assert live(result)["STACK_LIMIT_UNSAFE"] == 1, "one line for the job"


def test_stack_limit_of_a_newer_nccl(scratch):
    """It gives its threads stacks of their own."""
    expect_silence(scratch, run_on(scratch, None, ONE_NODE,
                                   before=["prlimit", "--stack=unlimited"]))


def test_driver_too_old(scratch):
    result = run_on(scratch, None, ["-n", "2", "--steps", "2", "--timeout", "20"],
                    {"NSPY_FAKE_DRIVER": "12080"})
    assert "DRIVER_RUNTIME_MISMATCH" in live(result), str(result)
    assert "12.8" in found(scratch)["DRIVER_RUNTIME_MISMATCH"]["summary"], found(scratch)


def test_driver_of_the_same_release(scratch):
    expect_silence(scratch, run_on(scratch, None, ONE_NODE, {"NSPY_FAKE_DRIVER": "13000"}))


# Not the stand-in, which the build leads to.
REAL_FABRIC = {"LD_LIBRARY_PATH": ""}


def fabric_library():
    if not shutil.which("fi_info"):
        raise harness.Skip("libfabric is not there")
    return "libfabric.so.1"


def test_plugin_needs_newer_libfabric(scratch):
    """The distribution's libfabric is 1.17; the plugin's text says that it is 1.13.0."""
    library = fabric_library()
    machine = make_rdma(scratch, ["rdmap0s6"])
    result = run_on(scratch, machine, NODES,
                    dict(REAL_FABRIC, NCCL_NET_PLUGIN="nspytest", LD_PRELOAD=f"{PLUGIN} {library}"))
    finding = expect(scratch, result, "PLUGIN_LIBFABRIC_INCOMPATIBLE", "P0", [])
    assert "aws-ofi-nccl 1.13.0" in finding["summary"], finding


def test_plugin_and_libfabric_without_efa(scratch):
    library = fabric_library()
    result = run_on(scratch, None, NODES,
                    dict(REAL_FABRIC, NCCL_NET_PLUGIN="nspytest", LD_PRELOAD=f"{PLUGIN} {library}"))
    expect_silence(scratch, result)


def test_efa_provider_unavailable(scratch):
    """The host has EFA, and libfabric, asked for it, has none: nor on a host without."""
    fabric_library()
    machine = make_rdma(scratch, ["rdmap0s6"])
    env = dict(REAL_FABRIC, **jobs.preload_env(scratch), NCCLSPY_FABRIC="all", RANK="3")
    result = scratch.run([MACHINE, machine, "fi_info", "-p", "efa"], env)
    if result.status == 77:
        raise harness.Skip("no namespaces of our own here")
    assert "EFA_PROVIDER_UNAVAILABLE: rank 3 " in result.err, str(result)
    assert jobs.culprit_ranks(found(scratch)["EFA_PROVIDER_UNAVAILABLE"]) == [3], found(scratch)
    scratch.traces += ".near"
    result = scratch.run(["fi_info", "-p", "efa"], dict(env, NCCLSPY_DIR=scratch.traces))
    assert "EFA_PROVIDER_UNAVAILABLE" not in result.err, str(result)
    assert "EFA_PROVIDER_UNAVAILABLE" not in found(scratch), found(scratch)


harness.main(globals())
