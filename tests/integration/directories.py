# SPDX-License-Identifier: Apache-2.0
"""What lies in a trace directory is seldom tidy: two jobs, no job, missing ranks, debris."""
import os
import shutil
import signal

import harness
import jobs
from harness import RUN, TRAINJOB

HANG = "rank=5,op=all_reduce,nth=41,do=hang"
JOB = ["-n", "8", "--node-size", "4", "--steps", "12", "--compute-ms", "2", "--no-verify"]


def segments_of(scratch, rank):
    """Files of the process with this rank."""
    facts = [r for r in jobs.dump(scratch) if r["kind"] == "fact" and r["rank"] == rank]
    pid = facts[0]["pid"]
    return [name for name in jobs.trace_files(scratch.traces) if f".{pid}." in name]


def test_two_jobs(scratch):
    """Each gets its own report; the healthy one stays healthy."""
    jobs.run_job(scratch, *JOB, launch=["--job", "good"]).ok()
    jobs.run_job(scratch, *JOB, "--timeout", "8", fault=HANG, launch=["--job", "bad"])
    found = {job["job"]: job for job in jobs.report_jobs(scratch)}
    assert sorted(found) == ["bad", "good"], sorted(found)
    assert not jobs.urgent(found["good"]), jobs.urgent(found["good"])
    top = jobs.urgent(found["bad"])[0]
    assert top["id"] == "COLLECTIVE_HANG" and jobs.culprit_ranks(top) == [5], top
    listed = scratch.run([os.path.join(harness.BUILD, "tools/ncclspy"), "ls", scratch.traces]).ok()
    lines = [line.split()[:3] for line in listed.out.splitlines()[1:]]
    assert sorted(lines) == [["bad", "2", "8"], ["good", "2", "8"]], listed.out


def test_two_jobs_at_the_same_time(scratch):
    """In one directory, one job name each, on one host."""
    harness.need(TRAINJOB, RUN)
    start = [RUN, "-o", scratch.traces]
    env = {"LD_PRELOAD": jobs.sanitizer_runtime(), "NCCLSPY_TAG": "two of a kind"}
    first = scratch.start(start + ["--job", "one", "--", TRAINJOB, *JOB], env)
    second = scratch.start(start + ["--job", "two", "--", TRAINJOB, *JOB], env)
    scratch.finish(first).ok()
    scratch.finish(second).ok()
    found = {job["job"]: job for job in jobs.report_jobs(scratch)}
    assert sorted(found) == ["one", "two"], sorted(found)
    for job in found.values():
        assert job["totals"]["ranks"] == 8 and not jobs.urgent(job), job
    tags = {r["pid"]: r["value"] for r in jobs.dump(scratch)
            if r["kind"] == "fact" and r["key"] == "job.tag"}
    assert list(tags.values()) == ["two of a kind"] * 16, tags


def test_restarted_job(scratch):
    """The same job name twice: two attempts, and the report is about the last."""
    jobs.run_job(scratch, *JOB, "--timeout", "8", fault=HANG, launch=["--job", "again"])
    jobs.run_job(scratch, *JOB, launch=["--job", "again"]).ok()
    job = jobs.report(scratch)
    assert job["attempts"] == 2 and job["attempt"] == 2, (job["attempts"], job["attempt"])
    assert not jobs.urgent(job), jobs.urgent(job)
    first = jobs.report(scratch, "--attempt", "1")
    assert jobs.culprit_ranks(jobs.urgent(first)[0]) == [5], jobs.urgent(first)


def test_default_directory(scratch):
    """Without NCCLSPY_DIR: below TMPDIR, said to be local to the node, found without a word."""
    harness.need(TRAINJOB, RUN)
    env = {"LD_PRELOAD": jobs.sanitizer_runtime()}
    result = scratch.run([RUN, "--", TRAINJOB, *JOB], env).ok()
    assert "node-local only" in result.err, result.err
    default = os.path.join(scratch.path, f"ncclspy-{os.getuid()}")
    assert os.listdir(default) == [scratch.env["NCCLSPY_JOB"]], os.listdir(scratch.path)
    assert os.stat(default).st_mode & 0o777 == 0o700
    shown = jobs.analyze(scratch, "report").ok()
    assert f"job {scratch.env['NCCLSPY_JOB']}" in shown.out and "8 ranks" in shown.out, shown.out


def test_bystander_is_missing(scratch):
    """A trace less does not change who is named."""
    jobs.run_job(scratch, *JOB, "--timeout", "8", fault=HANG)
    for name in segments_of(scratch, 2):
        os.unlink(name)
    top = jobs.urgent(jobs.report(scratch))[0]
    assert top["id"] == "COLLECTIVE_HANG" and jobs.culprit_ranks(top) == [5], top


def test_culprit_is_missing(scratch):
    """Without the culprit's trace nobody else may be blamed."""
    jobs.run_job(scratch, *JOB, "--timeout", "8", fault=HANG)
    for name in segments_of(scratch, 5):
        os.unlink(name)
    for finding in jobs.urgent(jobs.report(scratch)):
        assert set(jobs.culprit_ranks(finding)) <= {5, None}, finding


def test_debris(scratch):
    """Cut, foreign and future files are named, one line each; the rest is read."""
    jobs.run_job(scratch, *JOB).ok()
    victim = [n for n in segments_of(scratch, 3) if n.endswith(".nspy")][0]
    folder = os.path.dirname(victim)
    with open(victim, "r+b") as f:
        f.truncate(os.path.getsize(victim) - 100)
    with open(os.path.join(folder, "notes.nspy"), "w", encoding="utf-8") as f:
        f.write("shopping list\n")
    with open(os.path.join(folder, "empty.nspy"), "w", encoding="utf-8"):
        pass
    jobs.report(scratch)
    shown = jobs.analyze(scratch, "report", scratch.traces)
    for name in ("notes.nspy", "empty.nspy", os.path.basename(victim)):
        lines = [line for line in shown.err.splitlines() if name in line]
        assert len(lines) == 1, (name, shown.err)
    assert "8 ranks" in shown.out, shown.out
    assert jobs.analyze(scratch, "check", scratch.traces).status == 1


def test_nothing_there(scratch):
    os.mkdir(scratch.file("empty"))
    for path in (scratch.file("empty"), scratch.file("gone")):
        result = jobs.analyze(scratch, "report", path)
        assert result.status == 3 and len(result.err.splitlines()) == 1, str(result)


def test_copied_away(scratch):
    """Traces are read where they are brought, by anyone."""
    jobs.run_job(scratch, *JOB, "--timeout", "8", fault=HANG)
    shutil.move(scratch.traces, scratch.file("elsewhere"))
    top = jobs.urgent(jobs.report(scratch, directory=scratch.file("elsewhere")))[0]
    assert jobs.culprit_ranks(top) == [5], top


def test_report_of_a_running_job(scratch):
    """Traces are running, not cut, and nobody has died."""
    harness.need(TRAINJOB, RUN)
    child = scratch.start([RUN, "-o", scratch.traces, "--", TRAINJOB, "-n", "4", "--steps",
                           "100000", "--compute-ms", "5", "--quiet"],
                          {"LD_PRELOAD": jobs.sanitizer_runtime()})
    harness.wait_for(lambda: len([n for n in jobs.trace_files(scratch.traces)
                                  if n.endswith(".nspy")]) == 4, "four traces")
    job = jobs.report(scratch)
    assert job["totals"]["running"] == 4 and job["totals"]["cut"] == 0, job["totals"]
    assert not jobs.urgent(job), jobs.urgent(job)
    harness.kill_session(child)
    scratch.finish(child)


def test_terminated_job(scratch):
    """SIGTERM to the launcher, as a scheduler does it: all ranks end, nobody is blamed."""
    harness.need(TRAINJOB, RUN)
    child = scratch.start([RUN, "-o", scratch.traces, "--", TRAINJOB, "-n", "4", "--steps",
                           "100000", "--compute-ms", "5", "--quiet"],
                          {"LD_PRELOAD": jobs.sanitizer_runtime()})
    harness.wait_for(lambda: len([n for n in jobs.trace_files(scratch.traces)
                                  if n.endswith(".nspy")]) == 4, "four traces")
    os.kill(child.pid, signal.SIGTERM)
    result = scratch.finish(child)
    assert result.status != 0 and not result.timed_out, str(result)
    for finding in jobs.urgent(jobs.report(scratch)):
        assert finding["priority"] != "P0", finding


harness.main(globals())
