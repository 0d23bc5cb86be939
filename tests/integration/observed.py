# SPDX-License-Identifier: Apache-2.0
"""What the application's own events and waits tell: the end of collectives, never too early."""
import os

import harness
import jobs

PROGRAM = os.path.join(harness.BUILD, "tests/integration/observed")


def observe(scratch, *words, kernel_us):
    harness.need(PROGRAM, harness.LIBRARY)
    env = dict(jobs.preload_env(scratch), NSPY_FAKE_KERNEL_US=str(kernel_us))
    printed = scratch.run([PROGRAM, *words], env).ok().out.split()
    return printed, [one for one in jobs.dump(scratch) if one["kind"] == "done"]


def test_elapsed_times(scratch):
    """What cudaEventElapsedTime gave is told of its collective, exact or as a bound."""
    printed, done = observe(scratch, "pairs", "20", kernel_us=2000)
    measured = {one["seq"]: one for one in done if one["source"] == "cudaEventElapsedTime"}
    assert sorted(measured) == list(range(1, 21)), sorted(measured)
    for seq, ns in enumerate(printed, 1):
        assert abs(measured[seq]["duration_ns"] - float(ns)) <= float(ns) / 100, (seq, ns)
        assert float(ns) >= 2e6
        exact = measured[seq]["gap_ns"] <= 20000
        assert measured[seq]["duration_kind"] == ("exact" if exact else "upper bound")
    waits = [one for one in done if one["source"] == "cudaEventSynchronize"]
    assert len(waits) == 20 and all(one["duration_kind"] == "upper bound" for one in waits)
    assert all(one["duration_ns"] >= 2e6 for one in waits)


def test_polling(scratch):
    """Each end lies between the last question that was answered no and the first answered yes."""
    _, done = observe(scratch, "polls", "20", "1000", kernel_us=5000)
    assert [one["seq"] for one in done] == list(range(1, 21)), done
    for one in done:
        assert one["source"] == "cudaEventQuery" and one["duration_kind"] == "upper bound", one
        assert one["duration_ns"] >= 5e6, one
        assert 0 < one["not_done_ns"] < one["duration_ns"], one


def test_race(scratch):
    """Events made anew and recorded from several threads: nothing ends before it has ended."""
    printed, done = observe(scratch, "race", "20000", kernel_us=0)
    if printed != ["600"]:
        raise harness.Skip("the machine is too slow: the collective ended meanwhile")
    assert [one["source"] for one in done] == ["cudaStreamSynchronize"], done
    assert done[0]["duration_ns"] > 0



harness.main(globals())
