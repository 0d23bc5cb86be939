# SPDX-License-Identifier: Apache-2.0
"""Recording jobs with the stand-ins, and reading what came of it."""
import json
import os
import re

import harness
from harness import ANALYZE, LIBRARY, RUN, TRAINJOB

CALLER = os.path.join(harness.BUILD, "tests/integration/caller")


def sanitizer_runtime():
    """An instrumented library in front of an instrumented program wants its runtime first."""
    return os.environ.get("NSPY_SANITIZER_RUNTIME", "")


def preload_env(scratch, directory=None):
    libraries = [lib for lib in (sanitizer_runtime(), LIBRARY) if lib]
    return {"LD_PRELOAD": ":".join(libraries), "NCCLSPY_DIR": directory or scratch.traces}


def start_caller(scratch, *words, env=None, **more):
    """A recorded process that carries out these words (see caller.c)."""
    harness.need(CALLER, LIBRARY)
    return scratch.start([CALLER, *words], dict(preload_env(scratch), **(env or {})), **more)


def run_caller(scratch, *words, env=None, **more):
    return scratch.finish(start_caller(scratch, *words, env=env, **more))


def run_job(scratch, *options, fault=None, launch=(), timeout=harness.TIMEOUT_S, env=None):
    """trainjob under one ncclspy-run, as on one node; launch are options of ncclspy-run."""
    harness.need(TRAINJOB, LIBRARY, RUN)
    env = dict(env or {})
    if fault:
        env["NSPY_FAKE"] = fault
    if sanitizer_runtime():
        env["LD_PRELOAD"] = sanitizer_runtime()
    return scratch.run([RUN, "-o", scratch.traces, *launch, "--", TRAINJOB, *options], env,
                       timeout=timeout)


def analyze(scratch, *arguments, timeout=harness.TIMEOUT_S):
    harness.need(ANALYZE)
    return scratch.run([ANALYZE, *arguments], timeout=timeout)


def report_jobs(scratch, *options, directory=None):
    """The jobs of `report --json`; the exit status is checked for being 0 or 1."""
    result = analyze(scratch, "report", "--json", *options, directory or scratch.traces)
    assert result.status in (0, 1), str(result)
    return json.loads(result.out)["jobs"]


def report(scratch, *options, directory=None):
    jobs = report_jobs(scratch, *options, directory=directory)
    assert len(jobs) == 1, [job["job"] for job in jobs]
    return jobs[0]


def urgent(job):
    """Findings of priority P0 and P1, in the order of the report."""
    return [finding for finding in job["findings"] if finding["priority"] in ("P0", "P1")]


def culprit_ranks(finding):
    named = (culprit.get("ranks", [culprit["rank"]]) for culprit in finding["culprits"])
    return sorted(rank for ranks in named for rank in ranks)


def dump(scratch, directory=None):
    """Records of `dump --json`."""
    result = analyze(scratch, "dump", "--json", directory or scratch.traces).ok()
    return [json.loads(line) for line in result.out.splitlines()]


def calls(records, function="ncclAllReduce"):
    """{pid: {(thread, number of the call in its thread)}}; the same call counts once."""
    found = {}
    for record in records:
        if record["kind"] == "call" and record["function"] == function:
            found.setdefault(record["pid"], set()).add((record["thread"], record["callno"]))
    return found


def count_calls(scratch, function="ncclAllReduce", directory=None):
    """Number of calls of each process, sorted."""
    found = calls(dump(scratch, directory), function)
    return sorted(len(numbers) for numbers in found.values())


def lost_calls(result):
    """What the last line of a recorded process says."""
    return int(re.search(r" calls, (\d+) lost", result.err)[1])


def trace_files(directory):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(directory)
                  for name in names)


# Pids come round: what others left behind before this test is none of its business.
SHARED_MEMORY_BEFORE = frozenset(os.listdir("/dev/shm"))


def live_files(pid):
    """Live pages of a process that lie in shared memory."""
    return [name for name in os.listdir("/dev/shm") if name not in SHARED_MEMORY_BEFORE
            and name.startswith("ncclspy.") and name.endswith(".live") and f".{pid}." in name]
