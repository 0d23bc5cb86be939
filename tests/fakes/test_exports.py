#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The exported symbols of the stand-ins: names, binding, symbol versions.

usage: test_exports.py NM LIBNCCL LIBCUDA LIBCUDART13 LIBCUDART12
"""
import subprocess
import sys

# NCCL 2.28.9: what each name is in the real library without its prefix.
NCCL = """
AllGather AllReduce AlltoAll Bcast Broadcast CommAbort CommCount CommCuDevice CommDeregister
CommDestroy CommFinalize CommGetAsyncError CommInitAll CommInitRank CommInitRankConfig
CommInitRankScalable CommRegister CommRevoke CommShrink CommSplit CommUserRank
CommWindowDeregister CommWindowRegister DevCommCreate DevCommDestroy Gather GetErrorString
GetLastError GetUniqueId GetVersion GinBarrierCreateRequirement GroupEnd GroupSimulateEnd
GroupStart LLA2ACalcSlots LLA2ACreateRequirement LsaBarrierCreateRequirement MemAlloc MemFree Recv
RedOpCreatePreMulSum RedOpDestroy Reduce ReduceScatter ResetDebugInit Scatter Send TeamLsa TeamRail
TeamRankToLsa TeamRankToWorld TeamWorld
""".split()

# What an interposer wants to wrap, and what has a form for per-thread default streams.
CUDART = """
cudaMalloc cudaMallocAsync cudaMallocManaged cudaMallocHost cudaHostAlloc cudaFree cudaFreeHost
cudaFreeAsync cudaMemGetInfo cudaMemcpy cudaMemcpyAsync cudaStreamCreate cudaStreamDestroy
cudaStreamSynchronize cudaStreamQuery cudaStreamWaitEvent cudaDeviceSynchronize cudaEventCreate
cudaEventRecord cudaEventQuery cudaEventSynchronize cudaEventElapsedTime cudaLaunchKernel
cudaLaunchHostFunc cudaStreamBeginCapture cudaStreamEndCapture cudaStreamIsCapturing
cudaGraphInstantiate cudaGraphInstantiateWithFlags cudaGraphLaunch cudaGraphDestroy
cudaGraphExecUpdate cudaGraphExecDestroy cudaRuntimeGetVersion cudaDriverGetVersion cudaGetDevice
cudaSetDevice cudaGetDeviceCount
""".split()
PTSZ = """
cudaMallocAsync cudaFreeAsync cudaMemcpyAsync cudaStreamSynchronize cudaStreamQuery
cudaStreamWaitEvent cudaEventRecord cudaLaunchKernel cudaLaunchHostFunc cudaStreamBeginCapture
cudaStreamEndCapture cudaStreamIsCapturing cudaGraphLaunch
""".split()
CUDA = """
cuInit cuDriverGetVersion cuDeviceGet cuDeviceGetCount cuDeviceGetUuid cuDeviceGetUuid_v2
cuDeviceGetPCIBusId cuCtxGetDevice cuStreamIsCapturing cuStreamIsCapturing_ptsz cuMemAlloc_v2
cuMemFree_v2 cuMemGetInfo_v2
""".split()


def symbols(nm, path):
    """name -> (kind, version) of what the library defines."""
    text = subprocess.run([nm, "-D", "--defined-only", "--with-symbol-versions", path],
                          check=True, capture_output=True, text=True).stdout
    found = {}
    for line in text.splitlines():
        _, kind, name = line.split()
        name, _, version = name.partition("@@")
        if kind != "A":
            found[name] = (kind, version)
    return found


def check_nccl(found):
    want = {"ncclResetDebugInitInternal": "T"}
    for name in NCCL:
        want["nccl" + name] = "W"
        want["pnccl" + name] = "T"
    for name in sorted(set(want) | set(found)):
        have = found.get(name, (None, ""))
        if have != (want.get(name), ""):
            yield f"libnccl: {name} is {have}, not {want.get(name)}"
    if len(NCCL) != 52:
        yield "libnccl: 2.28.9 has 52 functions"


def check_cudart(found, version):
    for name in CUDART + [name + "_ptsz" for name in PTSZ]:
        if name not in found:
            yield f"{version}: {name} is missing"
    for name, (_, has) in sorted(found.items()):
        if has != version:
            yield f"{version}: {name} has version '{has}'"
        if not name.startswith("cuda") and not name.startswith("fake"):
            yield f"{version}: {name} is not a name of the runtime"


def check_cuda(found):
    for name in CUDA:
        if name not in found:
            yield f"libcuda: {name} is missing"
    for name in sorted(found):
        if not name.startswith(("cu", "fake")):
            yield f"libcuda: {name} is not a name of the driver"


def main():
    nm, nccl, cuda, cudart13, cudart12 = sys.argv[1:]
    problems = list(check_nccl(symbols(nm, nccl)))
    problems += check_cuda(symbols(nm, cuda))
    problems += check_cudart(symbols(nm, cudart13), "libcudart.so.13")
    problems += check_cudart(symbols(nm, cudart12), "libcudart.so.12")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
