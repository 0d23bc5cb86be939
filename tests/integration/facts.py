# SPDX-License-Identifier: Apache-2.0
"""What is said live, and in the report, about machines, settings and libraries, on made-up ones."""
import os
import re
import socket
import time

import harness
import jobs
from harness import ANALYZE, BUILD, FAKES, LIBRARY, RUN, TRAINJOB
from machines import (MACHINE, NODES, ONE_NODE, PLUGIN, expect, expect_silence, found, live,
                      make_rdma, run_on, told_by)

REFUSE_FORK = os.path.join(BUILD, "tests/integration/librefusefork.so")


def test_tcp_fallback(scratch):
    machine = make_rdma(scratch, ["rdmap0s6", "rdmap0s7"])
    result = run_on(scratch, machine, NODES).ok()
    finding = expect(scratch, result, "TCP_FALLBACK", "P0", [])
    assert finding["confidence"] == "probable", finding
    assert "rdmap0s6" in finding["summary"] and "rdmap0s7" in finding["summary"], finding
    assert live(result)["TCP_FALLBACK"] == 2, "one line for each node"


def talkative(subsystems, **more):
    """NCCL says what it does, on the job's own stdout."""
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": subsystems, **more}


def test_tcp_in_its_own_words(scratch):
    """NCCL's lines are heard where it writes them, and they are still there."""
    machine = make_rdma(scratch, ["rdmap0s6"])
    result = run_on(scratch, machine, NODES, talkative("INIT"))
    assert result.ok().out.count("NCCL INFO Using network Socket") >= 4, str(result)
    finding = expect(scratch, result, "TCP_FALLBACK", "P0", [])
    assert finding["confidence"] == "certain" and "says itself" in finding["summary"], finding
    assert live(result)["TCP_FALLBACK"] == 2 and "(probable)" not in result.err, str(result)


def test_tcp_in_the_words_of_a_new_release(scratch):
    machine = make_rdma(scratch, ["rdmap0s6"])
    result = run_on(scratch, machine, NODES, talkative("INIT", NSPY_FAKE_LOG="vfprintf"))
    assert result.ok().out.count("NCCL INFO Using network Socket") >= 4, str(result)
    assert live(result)["TCP_FALLBACK"] == 2 and "says itself" in result.err, str(result)


def test_tcp_confirmed(scratch):
    """Concluded when there is a communicator, seen at the first connection between nodes."""
    machine = make_rdma(scratch, ["rdmap0s6"])
    result = run_on(scratch, machine, [*NODES, "-n", "2", "--node-size", "1",
                                       "--compute-ms", "800"], talkative("P2P"))
    told = [line.split("TCP_FALLBACK")[1].split()[0] for line in result.ok().err.splitlines()
            if "TCP_FALLBACK" in line]
    assert sorted(told) == ["(confirmed)", "(confirmed)", "(probable)", "(probable)"], str(result)
    assert told.index("(probable)") < told.index("(confirmed)"), str(result)
    assert found(scratch)["TCP_FALLBACK"]["confidence"] == "certain", found(scratch)


def test_tcp_seen(scratch):
    """NCCL says nothing, but its connections carry more than setting up needs."""
    machine = make_rdma(scratch, ["rdmap0s6"])
    result = run_on(scratch, machine, [*NODES, "-n", "2", "--node-size", "1", "--count", "6000000",
                                       "--compute-ms", "700"])
    told = [line.split("TCP_FALLBACK")[1].split()[0] for line in result.ok().err.splitlines()
            if "TCP_FALLBACK" in line and "[FAIL]" in line]
    assert sorted(told) == ["(confirmed)", "(confirmed)", "(probable)", "(probable)"], str(result)
    finding = found(scratch)["TCP_FALLBACK"]
    assert finding["confidence"] == "certain" and " MiB: " in finding["summary"], finding


def test_other_network_in_its_own_words(scratch):
    """A plugin that is linked in: nothing is mapped, but NCCL says that it uses it."""
    machine = make_rdma(scratch, ["rdmap0s6"])
    result = run_on(scratch, machine, NODES, talkative("INIT", NSPY_FAKE_NET="AWS Libfabric"))
    expect_silence(scratch, result)


def test_words_on_one_node(scratch):
    machine = make_rdma(scratch, ["rdmap0s6"])
    result = run_on(scratch, machine, ONE_NODE, talkative("INIT", NCCL_DEBUG_FILE="/dev/null"))
    expect_silence(scratch, result)


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


def test_nics_missing(scratch):
    """Of a kind of machine whose number of devices is known."""
    machine = make_rdma(scratch, [f"rdmap{i}s0" for i in range(3)])
    scratch.file("machine/dmi/product_name", "p4d.24xlarge\n")
    result = run_on(scratch, machine, NODES)
    finding = expect(scratch, result, "NIC_COUNT_LOW", "P1", [])
    assert "3 EFA devices where a p4d.24xlarge has 4" in finding["summary"], finding
    assert live(result)["NIC_COUNT_LOW"] == 2, "one line for each node"


def test_nics_complete(scratch):
    machine = make_rdma(scratch, [f"rdmap{i}s0" for i in range(4)])
    scratch.file("machine/dmi/product_name", "p4d.24xlarge\n")
    result = run_on(scratch, machine, NODES)
    assert "NIC_COUNT_LOW" not in found(scratch) and "NIC_COUNT_LOW" not in live(result)


def on_machines(scratch, types):
    """A job with each rank on a machine of its own, of these types."""
    harness.need(TRAINJOB, LIBRARY, RUN, ANALYZE)
    for rank, kind in enumerate(types):
        scratch.file(f"machine{rank}/dmi/product_name", kind + "\n")
    launcher = f"{MACHINE} {scratch.path}/machine%r {RUN} -o {scratch.traces} --"
    result = scratch.run([TRAINJOB, "-n", str(len(types)), "--steps", "60", "--compute-ms", "40",
                          "--no-verify", "--launcher", launcher])
    if result.status == 77 or "status 77" in result.err:
        raise harness.Skip("no namespaces of our own here")
    return result.ok()


def test_other_machine(scratch):
    result = on_machines(scratch, ["p5.48xlarge", "p5.48xlarge", "p4d.24xlarge", "p5.48xlarge"])
    assert live(result) == {"MIXED_HARDWARE": 1}, str(result)
    assert "rank 2 (node " in result.err and "p4d.24xlarge, 3 others p5.48xlarge" in result.err, \
        str(result)
    assert jobs.culprit_ranks(found(scratch)["MIXED_HARDWARE"]) == [2], found(scratch)


def test_same_machines(scratch):
    assert not live(on_machines(scratch, ["p5.48xlarge"] * 4))
    assert "MIXED_HARDWARE" not in found(scratch)


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


def test_call_failed(scratch):
    result = faulty(scratch, "rank=2,op=all_reduce,nth=3,do=fail:3")
    assert told_by(result, "NCCL_CALL_FAILED") == [2], str(result)
    assert "ncclAllReduce returned 3 (internal error)" in result.err, str(result)
    finding = found(scratch)["NCCL_CALL_FAILED"]
    assert jobs.culprit_ranks(finding) == [2], finding


def test_call_failed_on_all(scratch):
    """What all ranks of a node would say is said once, with their number."""
    result = faulty(scratch, "op=all_reduce,nth=3,do=fail:3", "-n", "8", "--node-size", "4")
    # A rank that comes too late finds the others gone, which is another failure.
    same = [line for line in result.err.splitlines()
            if "P1 NCCL_CALL_FAILED" in line and "failure asked for" in line]
    assert len(same) == 2, str(result)
    assert {line.split("node ")[1].split(":")[0] for line in same} == {"node-0", "node-1"}, same
    others = [int(count) for count in
              re.findall(r"NCCL_CALL_FAILED: the same of (\d+) (?:other|more) ranks? of node", result.err)]
    assert all(0 < count < 4 for count in others), str(result)
    assert "NCCL_CALL_FAILED" in found(scratch), found(scratch)


def test_nothing_stays_in_shared_memory(scratch):
    """Not even of ranks that all fail at once, each with something to say at its end."""
    scratch.file("machine/shm.mb", "64")
    job = [RUN, "-o", scratch.traces, "--", TRAINJOB, *ONE_NODE, "--timeout", "20"]
    result = scratch.run([MACHINE, os.path.join(scratch.path, "machine"), "sh", "-c",
                          '"$@"; find /dev/shm -name "ncclspy.*"', "sh", *job],
                         {"NSPY_FAKE": "op=all_reduce,nth=3,do=fail:3"})
    if result.status == 77:
        raise harness.Skip("no namespaces of our own here")
    assert len(told_by(result, "NCCL_CALL_FAILED")) == 1, str(result)
    assert "/dev/shm/" not in result.out, str(result)


def test_calls_failed_for_different_reasons(scratch):
    result = faulty(scratch, "rank=0-1,op=all_reduce,nth=3,do=fail:3;"
                             "rank=2-3,op=all_reduce,nth=3,do=fail:5")
    assert len(told_by(result, "NCCL_CALL_FAILED")) == 2, str(result)
    assert "internal error" in result.err and "invalid usage" in result.err, str(result)


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
