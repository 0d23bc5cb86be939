#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulated jobs through the analyzer: how often is the root cause named first, and the right rank?

usage: run_sim.py SIM ANALYZE [--seeds FIRST:COUNT] [--clean FIRST:COUNT] [--ranks N] [--max-ranks N]
                  [--kind KIND] [--strength SHARE] [--gpu] [--floor PERCENT] [--kind-floor PERCENT] [--wrong-max PERCENT]
                  [--verbose] [--json]

Seeds go through the kinds of fault in turn, so each has the same share. An oracle that knows the
whole truth says first what a report can be asked to find. Exit status: 0 within the limits, 1 not,
2 usage.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

# kind: findings that tell its cause
EXPECTED = {
    "hang": {"COLLECTIVE_HANG"},
    "hang-malloc": {"COLLECTIVE_HANG"},
    "stopped": {"COLLECTIVE_HANG"},
    "graph-hang": {"COLLECTIVE_HANG"},
    "network": {"COLLECTIVE_HANG"},
    "killed": {"RANK_DIED"},
    "crashed": {"RANK_DIED"},
    "missing": {"RANKS_MISSING"},
    "split-member": {"RANKS_MISSING"},
    "mismatch-count": {"COLLECTIVE_MISMATCH"},
    "mismatch-call": {"COLLECTIVE_MISMATCH"},
    # what is left out shifts the rest: it then calls in another order than the others
    "skipped": {"COLLECTIVE_MISMATCH", "COLLECTIVE_HANG", "ORDER_INVERSION"},
    "order": {"ORDER_INVERSION", "COLLECTIVE_MISMATCH"},
    "p2p-mismatch": {"P2P_MISMATCH"},
    "p2p-alone": {"P2P_MISMATCH", "COLLECTIVE_HANG", "ORDER_INVERSION"},
    "call-failed": {"NCCL_CALL_FAILED", "RANK_DIED"},
    "oom": {"CUDA_OOM", "RANK_DIED"},
    "slow-rank": {"STRAGGLER_RANK"},
    "slow-host": {"STRAGGLER_RANK"},
    "pause": {"PROGRESS_STALLED_OUTSIDE_NCCL"},
    "checkpoint": {"IO_OR_CHECKPOINT_STALL", "PROGRESS_STALLED_OUTSIDE_NCCL"},
    "io-stall": {"IO_OR_CHECKPOINT_STALL"},
    "slow-link": {"UNEVEN_NODE_BANDWIDTH"},
    "slow-pair": {"UNEVEN_NODE_BANDWIDTH"},
}
TWO_SIDED = {"p2p-mismatch", "p2p-alone", "mismatch-count", "mismatch-call", "skipped"}
# Findings that count also as notes.
SLOW = {"STRAGGLER_RANK", "PROGRESS_STALLED_OUTSIDE_NCCL", "IO_OR_CHECKPOINT_STALL",
        "UNEVEN_NODE_BANDWIDTH"}
# Bandwidth below these shares of the median is a note, and calls for action.
SHARE_NOTE, SHARE_ACT, NEAR = 0.95, 0.80, 0.02


def link_decidable(truth):
    """Paths with equal loads, most of which are as fast as ever; the slow one well below."""
    paths, share = truth["paths"], 1 / (1 + truth["strength"])
    if share > SHARE_NOTE - NEAR or not paths["slow"] or paths["equal"] < 4 or paths["nodes"] < 3:
        return False
    if paths["equal"] - paths["slow"] < max(3, paths["slow"] + 1):
        return False  # which of them are slow is a matter of taste
    # A node's own link shows at several partners; a pair's at a node that else does well.
    if truth["kind"] == "slow-link":
        return paths["partners"] > 1 and not paths["spared"]
    return paths["partners"] == 1 and paths["spared"]


def link_told(truth, finding):
    """Whether the finding is as urgent as the loss is, and of the right link."""
    share = 1 / (1 + truth["strength"])
    if abs(share - SHARE_ACT) > NEAR and (finding["priority"] == "P1") != (share < SHARE_ACT):
        return False
    return all(f" {node} " in finding["summary"].replace(",", " ")
               for node in truth.get("link", ()))


def decidable(truth):
    """Whether the traces say who it was. What host calls do not show cannot be asked for."""
    kind = truth["kind"]
    if kind not in EXPECTED:
        return False  # slow-gpu: hosts call on time
    if kind in ("slow-link", "slow-pair"):
        return link_decidable(truth)
    if kind == "missing":  # of two ranks without a trace of their start either may be the one
        return truth["untraced"] in (-1, *truth["culprits"]) and truth["torn"] == -1
    if truth["untraced"] in truth["culprits"] or truth["torn"] in truth["culprits"]:
        return False
    if kind in TWO_SIDED and truth["partner"] in {truth["untraced"], truth["torn"]} - {-1}:
        return False  # nothing to compare with
    if kind == "slow-host":
        return truth["nodes"] > 1
    return True


def ranks_of(finding):
    return {rank for c in finding["culprits"] for rank in c.get("ranks", [c["rank"]])}


def judge(truth, findings):
    """'right', 'nobody' or 'wrong' from the most urgent finding."""
    urgent = [f for f in findings if f["priority"] != "P2" or f["id"] in SLOW]
    if not urgent:
        return "nobody"
    first, culprits = urgent[0], set(truth["culprits"])
    named = ranks_of(first)
    if first["id"] in EXPECTED.get(truth["kind"], ()):
        if truth["kind"] in ("slow-link", "slow-pair") and not link_told(truth, first):
            return "wrong" if named - culprits else "nobody"
        if not culprits:
            return "wrong" if named else "right"
        if truth["kind"] == "missing" and not named:
            return "right" if f"rank {truth['culprits'][0]} " in first["summary"] else "nobody"
        if named and named <= culprits and (
                truth["kind"] not in ("slow-host", "slow-link") or named == culprits):
            return "right"
    return "wrong" if named - culprits else "nobody"


def run_one(options, seed, kind):
    env = {k: v for k, v in os.environ.items() if not k.startswith("NCCLSPY")}
    with tempfile.TemporaryDirectory() as scratch:
        ranks = options.ranks
        if not ranks:
            sizes = [8 << i for i in range(10) if 8 << i <= options.max_ranks]
            ranks = sizes[(seed * 2654435761 >> 7) % len(sizes)]
        command = [options.sim, str(seed), scratch, kind, str(ranks)]
        command += ["--gpu"] * options.gpu
        if options.strength is not None:
            command += ["--strength", str(options.strength)]
        subprocess.run(command, check=True, timeout=600)
        truth = json.loads(Path(scratch, "truth.json").read_text(encoding="utf-8"))
        report = subprocess.run([options.analyze, "report", "--json", scratch + "/sim"], env=env,
                                capture_output=True, text=True, timeout=600, check=False)
        if not report.stdout:
            raise RuntimeError(f"seed {seed} {kind}: no report: {report.stderr}")
        jobs = json.loads(report.stdout)["jobs"]
    return truth, [f for job in jobs for f in job["findings"]]


def describe(truth, findings):
    where = " ".join(f"{k}={truth[k]}" for k in
                     ("seed", "ranks", "tp", "pp", "dp", "ep", "group_size", "strength", "delay_ns",
                      "polls", "untraced", "torn", "culprits") if truth[k] != -1)[:240]
    told = [f"{f['id']} {f['priority']} {sorted(ranks_of(f))[:4]} {f['summary'][:110]}"
            for f in findings[:3]]
    return f"{truth['kind']}: {where}\n    " + "\n    ".join(told or ["nothing found"])


def parse_range(text):
    first, _, count = text.partition(":")
    return range(int(first), int(first) + int(count))


def links_accused(truth, findings):
    """Of uneven bandwidth, in a job in which all links do well, or nearly."""
    slow = truth["kind"] in ("slow-link", "slow-pair")
    fair = not slow or 1 / (1 + truth["strength"]) > SHARE_NOTE + NEAR / 2
    return fair and any(f["id"] == "UNEVEN_NODE_BANDWIDTH" for f in findings)


def measure_faults(options):
    kinds = [options.kind] if options.kind else [*EXPECTED, "slow-gpu"]
    results, other = defaultdict(Counter), Counter()
    for seed in parse_range(options.seeds):
        kind = kinds[seed % len(kinds)]
        truth, findings = run_one(options, seed, kind)
        verdict = judge(truth, findings)
        if decidable(truth):
            results[kind][verdict] += 1
        else:
            other[verdict] += 1
        majority = any(len(ranks_of(f)) > truth["ranks"] / 2 > len(truth["culprits"])
                       for f in findings[:1])
        other["majority blamed"] += majority
        accused = links_accused(truth, findings)
        other["links accused"] += accused
        bad = verdict != "right" if decidable(truth) else verdict == "wrong"
        if options.verbose and (bad or majority or accused):
            print(f"{'' if decidable(truth) else 'undecidable, '}{verdict}: "
                  + describe(truth, findings), flush=True)
    return results, other


def measure_clean(options):
    alarms = 0
    for seed in parse_range(options.clean):
        truth, findings = run_one(options, seed, "clean")
        loud = [f for f in findings if f["priority"] in ("P0", "P1")]
        alarms += bool(loud)
        if options.verbose and loud:
            print("false alarm: " + describe(truth, findings), flush=True)
    return alarms


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def summarise(options, results, other, alarms):
    """Prints the figures; True if they are within the limits."""
    total = sum(results.values(), Counter())
    count = total.total()
    wrong = total["wrong"] + other["wrong"]
    scenarios = count + sum(other[v] for v in ("right", "nobody", "wrong"))
    good = percent(total["right"], count) >= options.floor
    good &= percent(wrong, scenarios) <= options.wrong_max or not scenarios
    good &= other["majority blamed"] == other["links accused"] == 0 and alarms == 0
    for kind, verdicts in sorted(results.items()):
        share = percent(verdicts["right"], verdicts.total())
        good &= share >= options.kind_floor
        print(f"{kind:16} {verdicts['right']:4} of {verdicts.total():4} right ({share:5.1f} %), "
              f"nobody or another cause {verdicts['nobody']}, wrong {verdicts['wrong']}")
    if scenarios:
        print(f"decidable: {count} of {scenarios}; root cause and culprit first: "
              f"{percent(total['right'], count):.1f} %; wrong culprit: "
              f"{percent(wrong, scenarios):.1f} % of all ({other['wrong']} of "
              f"{scenarios - count} undecidable); majority blamed: {other['majority blamed']}; "
              f"links accused that do well: {other['links accused']}")
    print(f"clean runs: {len(parse_range(options.clean))}, with P0 or P1: {alarms}")
    if options.json:
        print(json.dumps({"metric": "culprit_top1_percent",
                          "value": round(percent(total["right"], count), 2)}))
        print(json.dumps({"metric": "clean_false_alarms", "value": alarms}))
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sim")
    parser.add_argument("analyze")
    parser.add_argument("--seeds", default="0:0")
    parser.add_argument("--clean", default="0:0")
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--max-ranks", type=int, default=4096)
    parser.add_argument("--kind")
    parser.add_argument("--strength", type=float)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--floor", type=float, default=97)
    parser.add_argument("--kind-floor", type=float, default=90)
    parser.add_argument("--wrong-max", type=float, default=1)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results, other = measure_faults(options)
    alarms = measure_clean(options)
    return 0 if summarise(options, results, other, alarms) else 1


if __name__ == "__main__":
    sys.exit(main())
