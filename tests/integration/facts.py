# SPDX-License-Identifier: Apache-2.0
"""What is said live, and in the report, about machines, settings and libraries, on made-up ones."""
import os
import re
import shutil
import socket
import time

import harness
import jobs
from harness import ANALYZE, BUILD, FAKES, LIBRARY, RUN, TRAINJOB

HERE = os.path.dirname(os.path.realpath(__file__))
MACHINE = os.path.join(HERE, "machine.sh")
PLUGIN = os.path.join(BUILD, "tests/integration/libnccl-net-nspytest.so")
PLUGIN_HOST = os.path.join(BUILD, "tests/integration/plugin_host")
DRIVER_HOST = os.path.join(BUILD, "tests/integration/driver_host")
REFUSE_FORK = os.path.join(BUILD, "tests/integration/librefusefork.so")
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


def test_tcp_fallback(scratch):
    machine = make_rdma(scratch, ["rdmap0s6", "rdmap0s7"])
    result = run_on(scratch, machine, NODES).ok()
    finding = expect(scratch, result, "TCP_FALLBACK", "P0", [])
    assert finding["confidence"] == "probable", finding
    assert "rdmap0s6" in finding["summary"] and "rdmap0s7" in finding["summary"], finding
    assert live(result)["TCP_FALLBACK"] == 2, "one line for each node"


def test_tcp_on_one_node(scratch):
    machine = make_rdma(scratch, ["rdmap0s6"], nodes=False, down=["rdmap0s6"])
    result = run_on(scratch, machine, ONE_NODE, {"NCCL_NET_PLUGIN": "absent", "FI_PROVIDER": "tcp"})
    expect_silence(scratch, result)


def test_no_rdma(scratch):
    expect_silence(scratch, run_on(scratch, None, NODES))


def test_plugin_missing(scratch):
    result = run_on(scratch, None, NODES, {"NCCL_NET_PLUGIN": "absent"})
    expect(scratch, result, "NET_PLUGIN_LOAD_FAILED", "P0", [])


def test_plugin_needs_more(scratch):
    """The file is there and does not load: the loader's own words are in the report."""
    broken = scratch.file("libnccl-net-broken.so", "no object at all")
    result = run_on(scratch, None, [*NODES, "--steps", "60", "--compute-ms", "40"],
                    {"NCCL_NET_PLUGIN": broken})
    assert live(result)["NET_PLUGIN_LOAD_FAILED"] == 2, "one line for each node"
    assert "invalid ELF header" in result.err or "file too short" in result.err, str(result)
    finding = expect(scratch, result, "NET_PLUGIN_LOAD_FAILED", "P0", [])
    assert "probe: " in finding["summary"] and broken in finding["summary"], finding
    assert not [name for name in jobs.trace_files(scratch.traces) if name.endswith(".probe")]


def test_plugin_there(scratch):
    harness.need(PLUGIN)
    machine = make_rdma(scratch, ["rdmap0s6"])
    result = run_on(scratch, machine, NODES, {"NCCL_NET_PLUGIN": "nspytest", "LD_PRELOAD": PLUGIN})
    expect_silence(scratch, result)


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


def test_no_device_in_container(scratch):
    machine = make_rdma(scratch, ["mlx5_0"], driver="mlx5_core", nodes=False)
    result = run_on(scratch, machine, NODES)
    expect(scratch, result, "NO_RDMA_DEVICE_IN_CONTAINER", "P0", [])


def test_port_down(scratch):
    machine = make_rdma(scratch, ["mlx5_0", "mlx5_1"], driver="mlx5_core", down=["mlx5_1"])
    result = run_on(scratch, machine, NODES, {"NCCL_IB_HCA": "mlx5"})
    finding = expect(scratch, result, "NIC_PORT_DOWN", "P0", [])
    assert "mlx5_1" in finding["summary"] and "mlx5_0" not in finding["summary"], finding


def test_unused_port_down(scratch):
    machine = make_rdma(scratch, ["mlx5_0", "mlx5_1"], driver="mlx5_core", down=["mlx5_1"])
    result = run_on(scratch, machine, NODES, {"NCCL_IB_HCA": "=mlx5_0"})
    assert "NIC_PORT_DOWN" not in found(scratch) and "NIC_PORT_DOWN" not in live(result)


def make_modules(scratch, taint, peermem):
    scratch.file("machine/module/nvidia/taint", taint + "\n")
    if peermem:
        scratch.file("machine/module/nvidia_peermem/refcnt", "0\n")


def test_no_peermem(scratch):
    machine = make_rdma(scratch, ["mlx5_0"], driver="mlx5_core")
    make_modules(scratch, "POE", False)
    result = run_on(scratch, machine, NODES)
    finding = expect(scratch, result, "NO_GPUDIRECT_RDMA", "P1", [])
    assert "nvidia-peermem" in finding["summary"], finding
    assert live(result)["NO_GPUDIRECT_RDMA"] == 2, "one line for each node"


def test_peermem(scratch):
    machine = make_rdma(scratch, ["mlx5_0"], driver="mlx5_core")
    make_modules(scratch, "POE", True)
    result = run_on(scratch, machine, NODES)
    assert "NO_GPUDIRECT_RDMA" not in found(scratch) and "NO_GPUDIRECT_RDMA" not in live(result)


def test_open_modules(scratch):
    """They offer dmabuf."""
    machine = make_rdma(scratch, ["mlx5_0"], driver="mlx5_core")
    make_modules(scratch, "OE", False)
    result = run_on(scratch, machine, NODES)
    assert "NO_GPUDIRECT_RDMA" not in found(scratch) and "NO_GPUDIRECT_RDMA" not in live(result)


def test_gpudirect_forbidden(scratch):
    machine = make_rdma(scratch, ["rdmap0s6"])
    result = run_on(scratch, machine, NODES, {"FI_EFA_USE_DEVICE_RDMA": "0"})
    expect(scratch, result, "NO_GPUDIRECT_RDMA", "P1", [])
    assert live(result)["NO_GPUDIRECT_RDMA"] == 1, "one line for the job"


def memlock(limit, *more):
    return ["prlimit", f"--memlock={limit}:{limit}", "setpriv", *more]


def test_memlock_low(scratch):
    machine = make_rdma(scratch, ["mlx5_0"], driver="mlx5_core")
    result = run_on(scratch, machine, NODES,
                    before=memlock(65536, "--bounding-set", "-ipc_lock", "--"))
    finding = expect(scratch, result, "MEMLOCK_LOW", "P0", [])
    assert "64 KiB" in finding["summary"], finding


def test_memlock_lifted(scratch):
    machine = make_rdma(scratch, ["mlx5_0"], driver="mlx5_core")
    result = run_on(scratch, machine, NODES, before=memlock(65536, "--"))
    assert "MEMLOCK_LOW" not in found(scratch) and "MEMLOCK_LOW" not in live(result)


def test_interface_invalid(scratch):
    result = run_on(scratch, None, NODES, {"NCCL_SOCKET_IFNAME": "nosuch"})
    assert result.status != 0, str(result)
    # Rank 0 makes the unique id and fails; the others are never given one.
    expect(scratch, result, "SOCKET_IFNAME_INVALID", "P0", [0])
    assert jobs.report(scratch)["findings"][0]["id"] == "SOCKET_IFNAME_INVALID"


def test_interface_valid(scratch):
    expect_silence(scratch, run_on(scratch, None, ONE_NODE, {"NCCL_SOCKET_IFNAME": "=lo"}))


def test_settings(scratch):
    result = run_on(scratch, None, NODES, {
        "CUDA_LAUNCH_BLOCKING": "1", "NCCL_TIMEOUT": "1800", "NCCL_P2P_DISABLE": "1",
        "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "ALL", "NCCL_DEBUG_FILE": "/dev/null",
        "NCCL_TOPO_FILE": "/nowhere.xml"})
    for name, priority in (("ENV_HARMFUL", "P1"), ("P2P_DISABLED", "P1"), ("ENV_INEFFECTIVE", "P2"),
                           ("DEBUG_LEVEL_COSTLY", "P2"), ("TOPO_FILE_SET", "P2")):
        expect(scratch, result, name, priority, [])
        assert live(result)[name] == 1, "one line for the job"


def test_gpu_hidden(scratch):
    result = run_on(scratch, None, NODES, {"CUDA_VISIBLE_DEVICES": "0"})
    assert "GPU_VISIBILITY" not in live(result), str(result)
    scratch.traces += ".second"
    result = run_on(scratch, None, ONE_NODE, {"CUDA_VISIBLE_DEVICES": "0,1,2"})
    expect(scratch, result, "GPU_VISIBILITY", "P1", [3])


def faulty(scratch, fault, *options):
    return run_on(scratch, None, [*ONE_NODE, "--timeout", "20", *options], {"NSPY_FAKE": fault})


def told_by(result, name):
    """Ranks that say so of themselves."""
    return [int(rank) for rank in re.findall(rf"P\d {name}(?: \(probable\))? on rank (\d+)",
                                             result.err)]


def test_call_failed(scratch):
    result = faulty(scratch, "rank=2,op=all_reduce,nth=3,do=fail:3")
    assert told_by(result, "NCCL_CALL_FAILED") == [2], str(result)
    assert "ncclAllReduce returned 3 (internal error)" in result.err, str(result)
    finding = found(scratch)["NCCL_CALL_FAILED"]
    assert jobs.culprit_ranks(finding) == [2], finding


def test_device_fault(scratch):
    result = faulty(scratch, "rank=1,op=all_reduce,nth=3,do=gpufault:700")
    assert told_by(result, "CUDA_DEVICE_FAULT") == [1], str(result)
    assert "illegal memory access" in result.err, str(result)
    assert jobs.culprit_ranks(found(scratch)["CUDA_DEVICE_FAULT"]) == [1], found(scratch)


def test_memory_refused(scratch):
    result = faulty(scratch, "rank=3,op=malloc,nth=1,do=oom")
    assert told_by(result, "CUDA_OOM") == [3], str(result)
    assert jobs.culprit_ranks(found(scratch)["CUDA_OOM"]) == [3], found(scratch)


# A caching allocator: what is refused is obtained when it has given up its cache. And a call that
# fails because it is wrong, which says nothing about a device.
RETRY = """
import ctypes, sys, time
nccl = ctypes.CDLL(sys.argv[1])
cuda = ctypes.CDLL(sys.argv[2])
version, kept, more = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
assert nccl.ncclGetVersion(ctypes.byref(version)) == 0
malloc = lambda to, mib: cuda.cudaMalloc(ctypes.byref(to), ctypes.c_size_t(mib << 20))
print(malloc(kept, 48), malloc(more, 40))
if sys.argv[3] == "retry":
    print(cuda.cudaFree(kept), malloc(more, 40))
print(cuda.cudaStreamSynchronize(ctypes.c_void_p(0x1234)) != 0)
time.sleep(float(sys.argv[4]))
"""


def allocator(scratch, *words):
    script = scratch.file("retry.py", RETRY)
    env = dict(jobs.preload_env(scratch), NSPY_FAKE_MEMORY="64M", RANK="0")
    return scratch.run([os.path.realpath("/proc/self/exe"), script,
                        os.path.join(FAKES, "libnccl.so.2"),
                        os.path.join(FAKES, "libcudart.so.13"), *words], env).ok()


def test_memory_refused_for_good(scratch):
    result = allocator(scratch, "stay", "1.5")
    assert result.out.split() == ["0", "2", "True"], str(result)
    assert live(result) == {"CUDA_OOM": 1}, str(result)
    assert "cudaMalloc was refused 40 MiB" in result.err, str(result)


def test_memory_obtained_later(scratch):
    result = allocator(scratch, "retry", "1.5")
    assert result.out.split() == ["0", "2", "0", "0", "True"], str(result)
    assert not live(result), str(result)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_connect_refused(scratch):
    """Nobody listens where the root should be."""
    result = run_on(scratch, None, ["-n", "2", "--timeout", "20", "--steps", "2"], {
        "NCCL_COMM_ID": f"127.0.0.1:{free_port()}", "NCCL_SOCKET_RETRY_CNT": "2",
        "NCCL_SOCKET_RETRY_SLEEP_MSEC": "10", "NSPY_FAKE": "rank=0,op=init,do=exit:0"})
    assert result.status != 0, str(result)
    finding = expect(scratch, result, "BOOTSTRAP_CONNECT_FAILED", "P0", [1])
    assert "Connection refused" in finding["summary"], finding


def test_connect_late(scratch):
    """The root comes late: refused at first, and well in the end."""
    result = run_on(scratch, None, ["-n", "2", "--steps", "2"], {
        "NCCL_COMM_ID": f"127.0.0.1:{free_port()}", "NCCL_SOCKET_RETRY_SLEEP_MSEC": "50",
        "NSPY_FAKE": "rank=0,op=init,do=delay:400ms"})
    expect_silence(scratch, result)


def test_name_not_found(scratch):
    result = run_on(scratch, None, ["-n", "2", "--timeout", "20"],
                    {"NCCL_COMM_ID": "no.such.name.invalid:4711"})
    assert result.status != 0, str(result)
    assert "DNS_RESOLUTION_FAILED" in live(result), str(result)
    assert "no.such.name.invalid" in found(scratch)["DNS_RESOLUTION_FAILED"]["summary"]


def test_port_in_use(scratch):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = run_on(scratch, None, ["-n", "2", "--timeout", "4"],
                        {"NCCL_COMM_ID": f"127.0.0.1:{port}"})
    assert result.status != 0, str(result)
    finding = expect(scratch, result, "PORT_IN_USE", "P1", [0])
    assert f"127.0.0.1:{port}" in finding["summary"], finding


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


# A Python program that starts a recording and then does what argv says.
PROGRAM = """
import ctypes, os, sys, time
fake = ctypes.CDLL(sys.argv[1])
ours = ctypes.CDLL(None, use_errno=True)
version = ctypes.c_int()
assert fake.ncclGetVersion(ctypes.byref(version)) == 0
if sys.argv[2] == "fork":
    try:
        if os.fork() == 0:
            os._exit(0)
        os.wait()
    except OSError as error:
        print("fork", error.errno)
else:
    fd = os.open("/dev/shm/nccl-test", os.O_RDWR | os.O_CREAT, 0o600)
    os.unlink("/dev/shm/nccl-test")
    try:
        os.posix_fallocate(fd, 0, int(sys.argv[2]))
    except OSError as error:
        print("space", error.errno)
    print(ours.fallocate(fd, 0, 0, ctypes.c_long(int(sys.argv[2]))), ctypes.get_errno())
time.sleep(0.5)
"""


def run_program(scratch, *words, machine=None, preload=()):
    script = scratch.file("program.py", PROGRAM)
    env = jobs.preload_env(scratch)
    env["LD_PRELOAD"] = ":".join([env["LD_PRELOAD"], *preload])
    place = [MACHINE, machine] if machine else []
    result = scratch.run([*place, os.path.realpath("/proc/self/exe"), script,
                          os.path.join(FAKES, "libnccl.so.2"), *words], env)
    if result.status == 77:
        raise harness.Skip("no namespaces of our own here")
    return result.ok()


def test_shared_memory_full(scratch):
    machine = os.path.join(scratch.path, "machine")
    scratch.file("machine/shm.mb", "8")
    result = run_program(scratch, str(64 << 20), machine=machine)
    assert result.out.split() == ["space", "28", "-1", "28"], str(result)
    assert "SHM_ALLOC_FAILED" in live(result), str(result)
    finding = found(scratch)["SHM_ALLOC_FAILED"]
    assert finding["priority"] == "P0" and "67108864 bytes" in finding["summary"], finding


def test_shared_memory_enough(scratch):
    machine = os.path.join(scratch.path, "machine")
    scratch.file("machine/shm.mb", "8")
    result = run_program(scratch, str(1 << 20), machine=machine)
    assert result.out.split() == ["0", "0"] and not live(result), str(result)


# A process that would notice a child, a signal or a descriptor of the helper.
WATCHFUL = """
import ctypes, os, signal, sys, time
seen = []
signal.signal(signal.SIGCHLD, lambda *a: seen.append("SIGCHLD"))
fake = ctypes.CDLL(sys.argv[1])
ident, comm = (ctypes.c_char * 128)(), ctypes.c_void_p()
descriptors = sorted(os.listdir("/proc/self/fd"))
assert fake.ncclGetUniqueId(ident) == 0

class Id(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 128)]

fake.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
assert fake.ncclCommInitRank(ctypes.byref(comm), 1, Id.from_buffer_copy(ident), 0) == 0
end = time.monotonic() + 4
while time.monotonic() < end:
    try:
        seen.append(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        pass
    time.sleep(0.01)
print(seen)
"""


# A process that has mapped a segment of NCCL's, or has not, and makes a communicator.
SEGMENT = """
import ctypes, mmap, os, sys, time
fake = ctypes.CDLL(sys.argv[1])
ident, comm = (ctypes.c_char * 128)(), ctypes.c_void_p()

class Id(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 128)]

if sys.argv[2] == "map":
    fd = os.open("/dev/shm/nccl-mine", os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(fd, 4096)
    kept = mmap.mmap(fd, 4096)
fake.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
assert fake.ncclGetUniqueId(ident) == 0
assert fake.ncclCommInitRank(ctypes.byref(comm), 1, Id.from_buffer_copy(ident), 0) == 0
time.sleep(0.5)
"""


# A /dev/shm of its own for a process that may look into all others it sees.
OWN_SHM = """
mount -t tmpfs -o size=8m none /dev/shm && cp -Rp "$0/." /dev/shm/ && exec "$@"
"""


def with_segment(scratch, *words, place=(), **env):
    script = scratch.file("segment.py", SEGMENT)
    result = scratch.run([*place, os.path.realpath("/proc/self/exe"), script,
                          os.path.join(FAKES, "libnccl.so.2"), *words],
                         dict(jobs.preload_env(scratch), RANK="0", WORLD_SIZE="1", **env))
    if result.status == 77:
        raise harness.Skip("no namespaces of our own here")
    return result.ok()


def small_machine(scratch):
    scratch.file("machine/shm.mb", "8")
    return [MACHINE, os.path.join(scratch.path, "machine")]


def test_shared_memory_small(scratch):
    result = with_segment(scratch, "map", place=small_machine(scratch))
    assert live(result) == {"SHM_TOO_SMALL": 1}, str(result)
    assert "8 MiB" in found(scratch)["SHM_TOO_SMALL"]["summary"], found(scratch)


def test_shared_memory_small_and_unused(scratch):
    assert not live(with_segment(scratch, "leave", place=small_machine(scratch)))


def left_segment(scratch, age_s):
    """A segment of an ended job lies there for so long."""
    alone = ["unshare", "-Urmpf", "--mount-proc"]
    if scratch.run([*alone, "true"]).status != 0:
        raise harness.Skip("no /dev/shm of our own here")
    left = scratch.file("shm/nccl-AbCdEf", "x" * 4096)
    os.utime(left, (time.time() - age_s,) * 2)
    return with_segment(scratch, "leave",
                        place=[*alone, "sh", "-c", OWN_SHM, os.path.dirname(left)])


def test_stale_segments(scratch):
    result = left_segment(scratch, 7200)
    assert live(result) == {"SHM_STALE_SEGMENTS": 1}, str(result)
    assert found(scratch)["SHM_STALE_SEGMENTS"]["priority"] == "P2", found(scratch)


def test_young_segments(scratch):
    """A job that is just starting."""
    assert not live(left_segment(scratch, 5))


def test_rendezvous_contradicts(scratch):
    result = with_segment(scratch, "leave", MASTER_ADDR="127.0.0.1")
    assert told_by(result, "RENDEZVOUS_ENV_MISSING") == [0], str(result)
    assert "MASTER_PORT" in found(scratch)["RENDEZVOUS_ENV_MISSING"]["summary"], found(scratch)


def test_rendezvous_complete(scratch):
    result = with_segment(scratch, "leave", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    assert "RENDEZVOUS_ENV_MISSING" not in live(result), str(result)


def test_helper_unseen(scratch):
    script = scratch.file("watchful.py", WATCHFUL)
    env = dict(jobs.preload_env(scratch), NCCL_NET_PLUGIN="absent", WORLD_SIZE="8",
               LOCAL_WORLD_SIZE="1", RANK="0")
    result = scratch.run([os.path.realpath("/proc/self/exe"), script,
                          os.path.join(FAKES, "libnccl.so.2")], env).ok()
    assert "probe of the network plugin" in result.err, str(result)
    assert result.out.strip() == "[]", str(result)


def test_fork_refused(scratch):
    harness.need(REFUSE_FORK)
    result = run_program(scratch, "fork", preload=[REFUSE_FORK])
    assert result.out.split() == ["fork", "12"], str(result)
    assert "FORK_ENOMEM" in live(result), str(result)
    assert found(scratch)["FORK_ENOMEM"]["priority"] == "P1"


def test_fork_good(scratch):
    assert not live(run_program(scratch, "fork"))


harness.main(globals())
