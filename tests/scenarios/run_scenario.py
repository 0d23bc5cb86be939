# SPDX-License-Identifier: Apache-2.0
"""Runs scenario files live: the job with its fault, its near miss, and what the report says of both.

run_scenario.py [--seed N] [--keep] FILE...   exit status 0: all as expected, 1: not
run_scenario.py --list                        the files beside this one
The format is in README.md.
"""
import argparse
import glob
import os
import shutil
import sys
import tempfile
import threading

import scenario

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
import harness  # pylint: disable=wrong-import-position
import jobs  # pylint: disable=wrong-import-position

# A job that is not meant to hang may take long on a busy machine; one that is ends soon.
PATIENCE_S = 60
# Nothing ends a burner but its own clock if this process is killed.
BURN = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end:\n    pass"


class Run(threading.Thread):
    """One job and its report. After join(): job, result, or error."""

    def __init__(self, plan, near):
        super().__init__()
        self.plan, self.near = plan, near
        self.scratch = harness.Scratch(tempfile.mkdtemp(prefix=f"ncclspy-{plan.name}-"))
        self.job = self.result = self.error = None

    def run(self):
        try:
            self.attempt()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error
        self.scratch.end()

    def attempt(self):
        plan = self.plan
        meant_to_hang = plan.fault and not self.near
        options = ["-n", str(plan.ranks), *(plan.near_workload if self.near else plan.workload),
                   "--timeout", str(plan.timeout if meant_to_hang else PATIENCE_S),
                   "--grace", str(PATIENCE_S)]
        for _ in range(plan.load):
            self.scratch.start([sys.executable, "-c", BURN])
        self.result = jobs.run_job(self.scratch, *options, fault=self.fault(),
                                   launch=["--job", "scenario"])
        assert not self.result.timed_out, "the job did not end"
        self.job = jobs.report(self.scratch, "--hang-after", str(plan.hang_after))

    def fault(self):
        return self.plan.near if self.near else self.plan.fault

    def remove(self):
        shutil.rmtree(self.scratch.path, ignore_errors=True)

    def tell(self):
        """For people who have to find out what went wrong."""
        lines = [f"  {'near miss' if self.near else 'run'}: NSPY_FAKE={self.fault() or ''}"]
        if self.result:
            lines.append(f"  {self.result}")
        for finding in (self.job or {}).get("findings", []):
            lines.append(f"  {finding['priority']} {finding['id']} "
                         f"ranks {jobs.culprit_ranks(finding)}: {finding['summary']}")
        lines.append(f"  traces kept: {self.scratch.traces}")
        return "\n".join(lines)


def silent(run):
    """A job that went well: nothing urgent in the report."""
    if run.result.status != 0:
        yield f"the job ended with status {run.result.status}"
    for finding in jobs.urgent(run.job):
        yield (f"{finding['priority']} {finding['id']} of a job that went well: "
               f"{finding['summary']}")


def matches(finding, expect):
    """Why this finding is not the one expected."""
    if finding["id"] != expect.id or finding["priority"] != expect.priority:
        yield f"first is {finding['priority']} {finding['id']}, not {expect.priority} {expect.id}"
        return
    named = jobs.culprit_ranks(finding)
    if named != ([] if expect.unseen else expect.ranks):
        yield f"names {named or 'nobody'}, not {expect.ranks or 'nobody'}"
    if expect.unseen:
        for rank in expect.ranks:
            if f"rank {rank} " not in finding["summary"]:
                yield f"does not speak of rank {rank}: {finding['summary']}"


def faults(run):
    plan, findings = run.plan, run.job["findings"]
    if not findings:
        yield "nothing was found"
        return
    yield from matches(findings[0], plan.expect)
    for word in plan.says:
        if word not in findings[0]["summary"]:
            yield f"does not say '{word}': {findings[0]['summary']}"
    for also in plan.also:
        if not any(not list(matches(finding, also)) for finding in findings[1:]):
            yield f"{also.id} of {also.ranks or 'nobody'} is not there too"


def complaints(run):
    if run.error:
        yield f"{type(run.error).__name__}: {run.error}"
    elif run.near or not run.plan.expect:
        yield from silent(run)
    else:
        yield from faults(run)


def check(path, seed, keep):
    """Fault and near miss at once: most of the time both only wait."""
    plan = scenario.load(path, seed)
    runs = [Run(plan, False)] + ([Run(plan, True)] if plan.near is not None else [])
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    skipped = [run.error for run in runs if isinstance(run.error, harness.Skip)]
    if skipped:
        print(f"{plan.name}: skipped: {skipped[0]}")
        return harness.SKIP_STATUS
    good = True
    for run in runs:
        found = list(complaints(run))
        if found:
            good = False
            print("\n".join(f"{plan.name}, seed {seed}: {text}" for text in found))
            print(run.tell())
        elif keep:
            print(run.tell())
        else:
            run.remove()
    print(f"{plan.name}, seed {seed}: {'ok' if good else 'FAILED'}", flush=True)
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the traces, tell the findings")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    if arguments.list:
        paths = glob.glob(os.path.join(HERE, "*", "*.scenario"))
        print("\n".join(sorted(os.path.relpath(path, HERE) for path in paths)))
        return
    sys.exit(max([check(path, arguments.seed, arguments.keep) for path in arguments.files],
                 default=2))


main()
