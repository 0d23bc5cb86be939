# SPDX-License-Identifier: Apache-2.0
"""A rank that is late again and again is named while the job runs; what only looks like it is not."""
import re

import harness
import jobs
import live

STEPS, COMPUTE_MS = 50, 400
JOB = ["-n", "16", "--compute-ms", str(COMPUTE_MS), "--no-verify", "--timeout", "100"]
SETTINGS = {"NCCLSPY_HANG_S": "600", "NCCLSPY_HANG_NOTE_S": "600"}
NAMED = re.compile(r"\[FAIL\] P1 STRAGGLER_RANK (.*)")


def run(scratch, fault, *options, steps=STEPS):
    result = jobs.run_job(scratch, *JOB, "--steps", str(steps), *options, fault=fault,
                          env=SETTINGS, timeout=300)
    assert result.status == 0, str(result)
    return result


def slower(rank, percent):
    return f"rank={rank},op=compute,do=delay:{COMPUTE_MS * percent // 100}ms"


def test_ten_percent(scratch):
    """Named within 50 steps, once, and no other."""
    result = run(scratch, slower(11, 10))
    named = NAMED.findall(result.err)
    assert len(named) == 1 and named[0].startswith("rank 11 "), str(result)
    assert live.named(live.verdict(live.block(result, "STRAGGLER_RANK"))) == [11], str(result)
    found = [e for e in live.events(scratch) if e["event"] == "finding"]
    assert [c["rank"] for c in found[0]["culprits"]] == [11], found


def test_three_percent(scratch):
    """A note at most."""
    result = run(scratch, slower(11, 3))
    assert not NAMED.findall(result.err), str(result)
    assert not [e for e in live.events(scratch) if e["event"] == "finding"]


def test_more_node(scratch):
    """All ranks of a node: the node is named."""
    result = run(scratch, slower("8-11", 15), "--node-size", "4", steps=120)
    named = NAMED.findall(result.err)
    assert named and named[0].startswith("node node-2 "), str(result)


def test_more_checkpoints(scratch):
    """Rank 0 saves now and then, and everybody begins slowly."""
    result = run(scratch, "rank=0,op=checkpoint,do=delay:900ms;rank=3,op=compute,nth=1-15,do=delay:300ms",
                 "--checkpoint-every", "4", steps=70)
    assert not NAMED.findall(result.err), str(result)


def test_more_gpu(scratch):
    """A slow GPU comes on time: nobody is blamed, and a note says what would show it."""
    result = run(scratch, "rank=7,op=all_reduce,nth=600-,do=late:40ms", "--compute-ms", "100",
                 steps=130)
    assert not NAMED.findall(result.err), str(result)
    notes = [e for e in live.events(scratch) if e["id"] == "STRAGGLER_RANK"]
    assert notes and all(not e["culprits"] for e in notes), notes
    assert "times of kernels would show" in notes[0]["verdict"], notes


if __name__ == "__main__":
    harness.main(globals())
