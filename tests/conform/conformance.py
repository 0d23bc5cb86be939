# SPDX-License-Identifier: Apache-2.0
"""Every wrapped function comes to the same with the library and without it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "integration"))
# pylint: disable=wrong-import-position
import harness
import jobs

CONFORM = os.path.join(harness.BUILD, "tests/conform/conform")
# Polling: equal answers in a row are one record. Events and questions: failures only.
NOT_EACH = {
    "ncclCommGetAsyncError", "cudaStreamQuery", "cudaStreamWaitEvent", "cudaStreamCreate",
    "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority", "cudaStreamDestroy",
    "cudaEventCreate", "cudaEventCreateWithFlags", "cudaEventDestroy", "cudaEventRecord",
    "cudaEventRecordWithFlags", "cudaEventQuery", "cudaEventElapsedTime",
    "cudaIpcGetEventHandle", "cudaGraphAddEventRecordNode", "cudaGraphEventRecordNodeSetEvent",
    "cudaGraphExecEventRecordNodeSetEvent", "cudaStreamQuery_ptsz", "cudaStreamWaitEvent_ptsz",
    "cudaEventRecord_ptsz", "cudaEventRecordWithFlags_ptsz"}
# Rounds of results: sound and without pointers 11 each, wild 9 (see conform.c).
CALLS_A_ROUTE = 11 + 9 + 11


def plain_env():
    return {"LD_PRELOAD": jobs.sanitizer_runtime()}


def expected_calls(lines):
    """{function: calls}, from what the program says it did."""
    found = {}
    for line in lines:
        name, routes = line.split()
        found[name] = found.get(name, 0) + int(routes) * CALLS_A_ROUTE
    return found


def test_recording(scratch):
    harness.need(CONFORM, harness.LIBRARY)
    plain = scratch.run([CONFORM], plain_env()).ok()
    ours = scratch.run([CONFORM], jobs.preload_env(scratch)).ok()
    assert plain.out == ours.out, f"{plain}\n{ours}"
    expected = expected_calls(plain.out.splitlines())
    assert len(expected) > 100, expected
    recorded = {}
    for record in jobs.dump(scratch):
        if record["kind"] == "call":
            recorded[record["function"]] = recorded.get(record["function"], 0) + 1
    lost = jobs.lost_calls(ours)
    for name, calls in expected.items():
        if name in NOT_EACH:
            assert recorded[name] > 0, name
        else:
            # Each was seen by every route, unless the writer could not keep up.
            assert 0 < recorded.get(name, 0) <= calls, f"{name}: {recorded.get(name)} of {calls}"
            assert recorded[name] + lost >= calls, f"{name}: {recorded[name]} of {calls}"


def test_not_recording(scratch):
    """Switched off, it still stands in between."""
    harness.need(CONFORM, harness.LIBRARY)
    plain = scratch.run([CONFORM], plain_env()).ok()
    ours = scratch.run([CONFORM], {**jobs.preload_env(scratch), "NCCLSPY": "0"}).ok()
    assert (plain.out, plain.err) == (ours.out, ours.err), f"{plain}\n{ours}"
    assert not os.path.exists(scratch.traces)


harness.main(globals())
