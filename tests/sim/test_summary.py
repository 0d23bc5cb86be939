#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A report on summaries is the report on the traces.

usage: test_summary.py SIM ANALYZE [--seeds FIRST:COUNT] [--max-ranks N] [--only-equality]

Simulated jobs, each kind of fault in turn and clean ones, are put into one summary a node; what the
report says of those must be, byte for byte, what it says of the traces, but for paths."""

import argparse
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import run_sim  # noqa: E402

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("NCCLSPY")}


def run(command, expect=(0,)):
    done = subprocess.run([str(c) for c in command], env=ENVIRONMENT, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode in expect, f"{command}: {done.returncode}\n{done.stderr}"
    return done


def report(analyze, *inputs):
    return run([analyze, "report", "--json", *inputs], expect=(0, 1)).stdout


def without(text, *paths):
    """What names the inputs taken out."""
    for path in paths:
        text = text.replace(str(path), "INPUT")
    return text.replace("INPUT:", "INPUT/")


def summarize(analyze, job, into):
    into.mkdir()
    for node in sorted(p.name for p in job.iterdir() if p.is_dir()):
        run([analyze, "summarize", "--host", node, "-o", into, job])
    return sorted(into.iterdir())


def same(analyze, scratch, traces, summaries, what):
    before = without(report(analyze, traces), traces)
    after = without(report(analyze, *summaries), *summaries, summaries[0].parent)
    if before != after:
        Path(scratch, "traces.json").write_text(before, encoding="utf-8")
        Path(scratch, "summaries.json").write_text(after, encoding="utf-8")
        print(f"{what}: the reports differ")
        print(subprocess.run(["diff", Path(scratch, "traces.json"),
                              Path(scratch, "summaries.json")], capture_output=True, text=True,
                             check=False).stdout[:2000])
        sys.exit(1)


def equality(options):
    kinds = [*run_sim.EXPECTED, "slow-link", "slow-gpu", "clean"]
    sizes = [s for s in (8, 16, 32, 64, 128, 256) if s <= options.max_ranks]
    traced = summed = 0
    for seed in run_sim.parse_range(options.seeds):
        kind = kinds[seed % len(kinds)]
        with tempfile.TemporaryDirectory() as scratch:
            run([options.sim, seed, scratch, kind, sizes[seed // len(kinds) % len(sizes)]])
            job = Path(scratch, "sim")
            summaries = summarize(options.analyze, job, Path(scratch, "summaries"))
            same(options.analyze, scratch, job, summaries, f"seed {seed} {kind}")
            traced += sum(p.stat().st_size for p in job.rglob("*.nspy"))
            summed += sum(p.stat().st_size for p in summaries)
    count = len(run_sim.parse_range(options.seeds))
    print(f"{count} jobs: reports equal; {summed} bytes of {traced} ({summed / traced:.2f})")


def others(options):
    """Mixed with traces, twice, of summaries, in shards; mode, names, a newer version, damage."""
    analyze = options.analyze
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        run([options.sim, 3, scratch, "hang", 32])
        job = scratch / "sim"
        summaries = summarize(analyze, job, scratch / "summaries")
        whole = without(report(analyze, job), job)
        first, place = summaries[0], scratch / "summaries"
        nodes = sorted(p for p in job.iterdir() if p.is_dir())
        assert len(nodes) > 1 and stat.S_IMODE(first.stat().st_mode) == 0o600
        assert not list(place.glob("*.tmp"))

        mixed = report(analyze, first, *nodes[1:])
        assert without(mixed, place, job) == whole, "mixed with traces"
        done = run([analyze, "report", "--json", first, job], expect=(0, 1))
        assert without(done.stdout, place, job) == whole, "traces and a summary of some of them"
        assert "in more than one input, taken once, from the trace" in done.stderr, done.stderr
        copy = scratch / "summaries" / "copy.nspysum"
        copy.write_bytes(first.read_bytes())
        done = run([analyze, "report", "--json", place], expect=(0, 1))
        assert without(done.stdout, place) == whole and "taken once" in done.stderr
        copy.unlink()

        run([analyze, "summarize", "-o", scratch / "all.nspysum", *summaries])
        assert without(report(analyze, scratch / "all.nspysum"), scratch) == \
            whole, "a summary of summaries"
        shards = scratch / "shards"
        shards.mkdir()
        for i in range(3):
            run([analyze, "summarize", "--shard", f"{i}/3", "-o", shards, job])
        assert without(report(analyze, shards), shards) == whole, "shards"
        for command in ("dump", "export", "check"):
            assert without(run([analyze, command, job]).stdout, job).count("\n") == \
                run([analyze, command, place]).stdout.count("\n"), command

        run([analyze, "summarize", "--host", "nobody", "-o", place, job], expect=(3,))
        run([analyze, "summarize", job], expect=(2,))
        run([analyze, "summarize", "--shard", "3/3", "-o", place, job], expect=(2,))
        run([analyze, "summarize", "-o", scratch / "none" / "x", job], expect=(4,))
        damage(analyze, first, scratch / "damaged.nspysum", summaries[1:])


def damage(analyze, first, damaged, rest):
    whole = first.read_bytes()
    everything = json.loads(report(analyze, first, *rest))["jobs"][0]["totals"]
    for at in range(200, len(whole), max(1, len(whole) // 60)):
        broken = bytearray(whole)
        broken[at] ^= 0x55
        damaged.write_bytes(broken)
        done = run([analyze, "report", "--json", damaged, *rest], expect=(0, 1))
        told = json.loads(done.stdout)
        assert any("offset" in json.dumps(p) for p in told["problems"]), f"byte {at} unnoticed"
        ranks = sum(job["totals"]["ranks"] for job in told["jobs"])
        assert ranks >= everything["ranks"] - 1, f"byte {at}: {ranks} ranks"
        assert run([analyze, "check", damaged], expect=(1,)).stdout
    for cut in range(0, len(whole), max(1, len(whole) // 15)):
        damaged.write_bytes(whole[:cut])
        done = run([analyze, "report", "--json", damaged, *rest], expect=(0, 1))
        assert json.loads(done.stdout)["problems"], f"cut at {cut} unnoticed"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sim", type=Path)
    parser.add_argument("analyze", type=Path)
    parser.add_argument("--seeds", default="0:25")
    parser.add_argument("--max-ranks", type=int, default=32)
    parser.add_argument("--only-equality", action="store_true")
    options = parser.parse_args()
    equality(options)
    if not options.only_equality:
        others(options)


if __name__ == "__main__":
    main()
