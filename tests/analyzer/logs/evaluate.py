#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many failure reports does the reader of logs understand?

    evaluate.py ncclspy-analyze CASES.jsonl [-v] [--min SHARE]

A case is a JSON line with "n", "logs" (lines; those that begin with # are remarks), "category",
"verbatim" and "expect": {"priority": "P0", "finding": words}. Counted are cases with verbatim
lines: the first finding must be one that the category allows, or one of "allow" if the case has it.
Where nothing is expected (P2), no finding may be P0 or P1. A case may tell the culprit as
"who": {"ranks": [..]}, {"hosts": [..]} (one of them, in the culprits or the summary) or "none".
Exit status 1 if the share is below --min or a negative case raised one."""
import argparse
import json
import subprocess
import sys

NETWORK = {"FABRIC_CQ_ERROR", "FABRIC_PEER_UNREACHABLE", "NIC_PORT_DOWN", "COLLECTIVE_HANG",
           "NIC_COUNT_LOW"}
HANG = {"COLLECTIVE_HANG", "TORCH_WATCHDOG_TIMEOUT", "RANKS_MISSING", "INIT_TIMEOUT", "RANK_DIED",
        "COLLECTIVE_MISMATCH", "ORDER_INVERSION"}
# What may come first, by kind of failure: the mechanism, or what it does if only that was printed.
ALLOWED = {
    "tcp-fallback": {"TCP_FALLBACK", "NETWORK_MIXED", "EFA_PROVIDER_UNAVAILABLE",
                     "NET_PLUGIN_LOAD_FAILED", "P2P_DISABLED"},
    "plugin-abi": {"NET_PLUGIN_LOAD_FAILED", "PLUGIN_LIBFABRIC_INCOMPATIBLE", "NCCL_LOAD_FAILED"},
    "efa-error": {"FABRIC_CQ_ERROR", "FABRIC_PEER_UNREACHABLE", "RDMA_REG_MR_FAILED", "FORK_UNSAFE",
                  "PLUGIN_LIBFABRIC_INCOMPATIBLE", "EFA_PROVIDER_UNAVAILABLE", "RANK_DIED",
                  "ENV_HARMFUL"},
    "mr-enomem": {"RDMA_REG_MR_FAILED", "MEMLOCK_LOW"},
    "mr-fail": {"RDMA_REG_MR_FAILED"},
    "gdr": {"NO_GPUDIRECT_RDMA"},
    "ifname": {"SOCKET_IFNAME_INVALID", "RENDEZVOUS_ENV_MISSING", "BOOTSTRAP_CONNECT_FAILED",
               "GLOO_CONNECT_FAILED"},
    "bootstrap": {"BOOTSTRAP_CONNECT_FAILED", "FOREIGN_CONNECTION", "GLOO_CONNECT_FAILED",
                  "RANKS_MISSING", "NOFILE_LOW", "DNS_RESOLUTION_FAILED", "RENDEZVOUS_ENV_MISSING",
                  "PORT_IN_USE", "SOCKET_IFNAME_INVALID", "GPU_VISIBILITY", "INIT_TIMEOUT"},
    "version-mismatch": {"VERSION_MISMATCH", "NCCL_LOAD_FAILED", "DRIVER_RUNTIME_MISMATCH"},
    "duplicate-gpu": {"GPU_VISIBILITY"},
    "cuda-oom": {"CUDA_OOM"},
    "shm": {"SHM_ALLOC_FAILED"},
    "p2p-acs": {"P2P_DISABLED", "DATA_CORRUPTION", "CUDA_DEVICE_FAULT", "COLLECTIVE_HANG"} | NETWORK,
    "nvls": {"NVLS_FAILURE", "NCCL_CALL_FAILED"},
    "xid-hw": {"GPU_XID", "CUDA_DEVICE_FAULT", "NCCL_CALL_FAILED"},
    "roce-gid": NETWORK,
    "rdma-error": NETWORK,
    "topo": {"TOPOLOGY_FALLBACK", "NO_GPUDIRECT_RDMA"},
    "hang-mismatch": {"COLLECTIVE_MISMATCH", "P2P_MISMATCH", "COLLECTIVE_HANG"},
    "hang-env-skew": {"COLLECTIVE_MISMATCH", "ENV_HARMFUL", "STACK_DRIFT"},
    "hang-desync": HANG | {"NIC_COUNT_LOW", "NETWORK_MIXED"},
    "hang-rank-dead": HANG,
    "watchdog": HANG,
    "hang-bug": HANG | {"GPU_XID", "FABRIC_CQ_ERROR", "COMM_ABORTED"},
    "sigsegv": {"RANK_DIED", "NVLS_FAILURE"},
    "straggler": {"STRAGGLER_RANK", "UNEVEN_NODE_BANDWIDTH"},
    "perf-regression": {"TOPOLOGY_FALLBACK", "ENV_HARMFUL", "STACK_DRIFT"},
}


def findings(analyze, lines):
    run = subprocess.run([analyze, "logs", "--json", "-"], input="\n".join(lines) + "\n",
                         capture_output=True, text=True, check=False, timeout=60)
    if run.returncode not in (0, 1):
        return None
    return json.loads(run.stdout)["jobs"][0]["findings"]


def judge(case, found):
    """(counts, good, first finding)"""
    urgent = [f for f in found if f["priority"] in ("P0", "P1")]
    first = found[0]["id"] if found else "-"
    if case["expect"]["priority"] == "P2":
        return "negative", not urgent, urgent[0]["id"] if urgent else "-"
    allowed = set(case.get("allow") or ALLOWED.get(case["category"], set()))
    return "positive", bool(urgent) and first in allowed, first


def culprit_right(who, found):
    """Are those named whom the case names, and nobody else?"""
    culprits = found[0]["culprits"] if found else []
    if who == "none":
        return not culprits
    ranks = sorted(c["rank"] for c in culprits if c.get("rank") is not None)
    if "ranks" in who:
        return ranks == sorted(who["ranks"])
    told = json.dumps(culprits) + (found[0]["summary"] if found else "")
    return any(host in told for host in who["hosts"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("analyze")
    parser.add_argument("cases")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--all", action="store_true", help="also cases whose lines are not verbatim")
    parser.add_argument("--min", type=float, default=0.0)
    args = parser.parse_args()
    counts = {"positive": [0, 0], "negative": [0, 0], "culprit": [0, 0]}
    with open(args.cases, encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines if line.strip()]
    for case in cases:
        lines = [x for x in case["logs"] if not x.lstrip().startswith("#")]
        negative = case["expect"]["priority"] == "P2"
        if not negative and (not lines or not (case["verbatim"] or args.all)):
            continue
        found = findings(args.analyze, lines or [""])
        kind, good, first = judge(case, found or [])
        counts[kind][0] += good
        counts[kind][1] += 1
        if case["expect"].get("who"):
            right = culprit_right(case["expect"]["who"], found or [])
            counts["culprit"][0] += right
            counts["culprit"][1] += 1
            if not right:
                print(f"WHO  {case['n']} {case['expect']['who']}")
        if args.v or not good:
            words = case["expect"]["finding"]
            said = found[0]["summary"][:150] if found else ""
            print(f"{'ok  ' if good else 'MISS'} {case['n']} {case.get('slug', '')} "
                  f"[{case['category']}] {first}: {said}\n       expected: {words}")
    good, total = counts["positive"]
    share = good / total if total else 1.0
    print(f"{good} of {total} cases understood ({share:.1%}); "
          f"{counts['negative'][0]} of {counts['negative'][1]} negative cases silent; "
          f"{counts['culprit'][0]} of {counts['culprit'][1]} culprits right")
    sys.exit(share < args.min or counts["negative"][0] < counts["negative"][1])


if __name__ == "__main__":
    main()
