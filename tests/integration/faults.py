# SPDX-License-Identifier: Apache-2.0
"""One fault in an eight-rank job on two nodes: the report names the rank, or rightly nobody."""
import harness
import jobs

# A trainjob that makes no progress kills itself after so many seconds.
STUCK_S = 8
JOB = ["-n", "8", "--node-size", "4", "--steps", "12", "--compute-ms", "2", "--no-verify",
       "--timeout", str(STUCK_S), "--grace", "60"]


class Case:
    """fault as in NSPY_FAKE; finding and culprits as the report must have them at the top.

    summary: words that the finding's summary must have. also: a finding that must be there too.
    traceless: the culprits left no trace and can only be named in words.
    """

    def __init__(self, fault, finding=None, culprits=(), summary=(), status=None, options=(),
                 also=None, traceless=False):
        self.fault, self.finding, self.culprits = fault, finding, list(culprits)
        self.summary, self.status, self.options = summary, status, list(options)
        self.also, self.traceless = also, traceless


CASES = {
    "clean": Case(None, status=0),
    "clean_mix": Case(None, status=0, options=["--pattern", "mix"]),
    "clean_nonblocking": Case(None, status=0, options=["--nonblocking"]),
    "clean_abort_at_end": Case(None, status=0, options=["--abort-at-end"]),
    "clean_graph": Case(None, status=0, options=["--graph"]),
    "clean_threads": Case(None, status=0, options=["--ranks-per-process", "2"]),
    # A rank that is late, but comes, is nobody's fault in this report.
    "delay": Case("rank=2,op=all_reduce,nth=20,do=delay:1500ms", status=0),
    "skip": Case("rank=5,op=all_reduce,nth=41,do=skip", "COLLECTIVE_MISMATCH", [5]),
    "hang": Case("rank=5,op=all_reduce,nth=41,do=hang", "COLLECTIVE_HANG", [5]),
    "hang_first_rank": Case("rank=0,op=all_reduce,nth=41,do=hang", "COLLECTIVE_HANG", [0]),
    "hang_inside": Case("rank=6,op=all_gather,nth=30,do=hang-inside", "COLLECTIVE_HANG", [6]),
    "hang_two_ranks": Case("rank=2-3,op=all_reduce,nth=41,do=hang", "COLLECTIVE_HANG", [2, 3]),
    "never_joins": Case("rank=4,op=init,do=hang", "RANKS_MISSING", [4], ["rank 4 "],
                        traceless=True),
    "killed": Case("rank=3,op=all_reduce,nth=41,do=kill", "RANK_DIED", [3]),
    "crashed": Case("rank=1,op=all_reduce,nth=17,do=segv", "RANK_DIED", [1]),
    # It ended in an orderly way, but with a code that says why the others wait in vain.
    "left": Case("rank=7,op=all_reduce,nth=17,do=exit:3", "RANK_DIED", [7], ["exit code 3"]),
    "wrong_count": Case("rank=2,op=all_reduce,nth=41,do=count:512", "COLLECTIVE_MISMATCH", [2],
                        ["512"]),
    "wrong_datatype": Case("rank=6,op=all_reduce,nth=41,do=datatype:float16",
                           "COLLECTIVE_MISMATCH", [6], ["float16", "bfloat16"]),
    "wrong_redop": Case("rank=0,op=all_reduce,nth=41,do=redop:max", "COLLECTIVE_MISMATCH", [0],
                        ["max", "sum"]),
    "wrong_root": Case("rank=1,op=broadcast,nth=3,do=root:3", "COLLECTIVE_MISMATCH", [1],
                       ["root 3", "root 0"]),
    "wrong_op": Case("rank=6,op=all_reduce,nth=41,do=op:reduce_scatter", "COLLECTIVE_MISMATCH",
                     [6], ["ncclReduceScatter", "ncclAllReduce"]),
    "call_fails": Case("rank=5,op=all_reduce,nth=41,do=fail:5", "RANK_DIED", [5],
                       ["exit code 5"], also="NCCL_CALL_FAILED"),
    "other_version": Case("rank=3,do=version:22703", "VERSION_MISMATCH", [3]),
}


def check(scratch, case):
    result = jobs.run_job(scratch, *JOB, *case.options, fault=case.fault,
                          launch=["--job", "faulty"])
    assert not result.timed_out, str(result)
    if case.status is not None:
        assert result.status == case.status, str(result)
    job = jobs.report(scratch)
    found = jobs.urgent(job)
    if not case.finding:
        assert not found, found
        return
    assert found, (str(result), job)
    assert found[0]["id"] == case.finding, found
    assert case.traceless or jobs.culprit_ranks(found[0]) == case.culprits, found
    if case.also:
        others = [finding for finding in found if finding["id"] == case.also]
        assert others and jobs.culprit_ranks(others[0]) == case.culprits, found
    for word in case.summary:
        assert word in found[0]["summary"], found[0]["summary"]
    first_lines(scratch, case)


def first_lines(scratch, case):
    """Who, whose business and what to do stand in the first ten lines, for people."""
    result = jobs.analyze(scratch, "report", scratch.traces)
    head = "\n".join(result.out.splitlines()[:10])
    assert "VERDICT" in head and "page:" in head and "do:" in head, head
    assert f"ncclspy explain {case.finding}" in head, head
    for rank in case.culprits:
        assert str(rank) in head, head


def make_test(case):
    return lambda scratch: check(scratch, case)


globals().update({"test_" + name: make_test(case) for name, case in CASES.items()})
harness.main(globals())
