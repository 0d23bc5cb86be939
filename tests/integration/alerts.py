# SPDX-License-Identifier: Apache-2.0
"""What a job tells other programs while it hangs: NCCLSPY_PROM_DIR and NCCLSPY_ON_EVENT."""
import glob
import json
import os
import re

import harness
import jobs

JOB = ["-n", "4", "--steps", "12", "--compute-ms", "2", "--no-verify", "--timeout", "600",
       "--grace", "600"]
HANG = "rank=2,op=all_reduce,nth=41,do=hang"
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*$")
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
                    r',?)*)\} (-?[0-9]+(?:\.[0-9]+)?)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')


def start_job(scratch, env, fault=HANG):
    harness.need(harness.TRAINJOB, harness.LIBRARY, harness.RUN)
    path = scratch.file("stderr", "")
    with open(path, "w", encoding="utf-8") as err:
        return scratch.start([harness.RUN, "-o", scratch.traces, "--", harness.TRAINJOB, *JOB],
                             {"NSPY_FAKE": fault or "", "NCCLSPY_HANG_S": "1",
                              "NCCLSPY_HANG_START_S": "1",
                              "LD_PRELOAD": jobs.sanitizer_runtime(), **env}, stderr=err)


def told(scratch):
    with open(scratch.file("stderr"), encoding="utf-8", errors="replace") as f:
        return "-> references/" in f.read()


def parse(text):
    """The exposition format: HELP, TYPE, then the samples of each metric, none twice."""
    assert text.endswith("\n"), text
    metrics, current, seen = {}, None, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert NAME.match(current) and current not in metrics, line
            metrics[current] = {"type": None, "samples": []}
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and kind in ("gauge", "counter"), line
            assert (kind == "counter") == name.endswith("_total"), line
            metrics[name]["type"] = kind
        else:
            match = SAMPLE.match(line)
            assert match and match[1] == current and metrics[current]["type"], line
            labels = dict(LABEL.findall(match[2]))
            key = (current, tuple(sorted(labels.items())))
            assert key not in seen, line
            seen.add(key)
            metrics[current]["samples"].append((labels, float(match[3])))
    assert all(metric["samples"] for metric in metrics.values()), text
    return metrics


def value(metrics, name, **labels):
    for have, number in metrics.get("ncclspy_" + name, {"samples": []})["samples"]:
        if labels.items() <= have.items():
            return number
    return None


def test_prometheus(scratch):
    directory = scratch.file("prom")
    os.makedirs(directory)
    job = start_job(scratch, {"NCCLSPY_PROM_DIR": directory})

    def seen():
        for path in glob.glob(os.path.join(directory, "*.prom")):
            with open(path, encoding="utf-8") as f:
                metrics = parse(f.read())
            if value(metrics, "finding_active") == 1:
                return metrics
        return None
    metrics = harness.wait_for(seen, "a finding in the text file")
    assert value(metrics, "finding_info", finding="COLLECTIVE_HANG") == 1, metrics
    assert value(metrics, "world_size") == 4 and value(metrics, "calls_total") > 100, metrics
    assert value(metrics, "processes", state="waiting") == 3, metrics
    assert value(metrics, "processes", state="running") == 1, metrics
    assert value(metrics, "open_call_seconds") >= 1, metrics
    names = {tuple(sorted(labels)) for metric in metrics.values()
             for labels, _ in metric["samples"]}
    assert names == {("job", "node"), ("job", "node", "state"), ("finding", "job", "node")}, names
    files = [name for name in os.listdir(directory) if name.endswith(".prom")]
    assert len(files) == 1 and scratch.env["NCCLSPY_JOB"] in files[0], files
    harness.kill_session(job)


def test_prometheus_is_removed(scratch):
    """A job that is over leaves no numbers behind."""
    directory = scratch.file("prom")
    os.makedirs(directory)
    job = start_job(scratch, {"NCCLSPY_PROM_DIR": directory, "NCCLSPY_HANG_S": "60"},
                    "rank=0,op=all_reduce,nth=41,do=delay:4000ms")
    harness.wait_for(lambda: [name for name in os.listdir(directory) if name.endswith(".prom")],
                     "a text file")
    harness.wait_for(lambda: job.poll() is not None, "the end of the job")
    assert job.returncode == 0
    assert os.listdir(directory) == [], os.listdir(directory)


def test_prometheus_without_directory(scratch):
    job = start_job(scratch, {"NCCLSPY_PROM_DIR": scratch.file("missing/prom")})
    harness.wait_for(lambda: told(scratch), "the hang on stderr")
    harness.kill_session(job)


def test_hook(scratch):
    """The event on stdin and in the environment; our own preload does not reach the command."""
    out = scratch.file("event")
    start_job(scratch, {"NCCLSPY_ON_EVENT": f'(cat; printf "%s\\n" "$NCCLSPY_EVENT"; '
                        f'echo "preload=$LD_PRELOAD"; ls /proc/self/fd | wc -l; '
                        f'grep SigBlk /proc/self/status) > {out}.tmp && mv {out}.tmp {out}'})
    harness.wait_for(lambda: os.path.exists(out), "the command's output")
    with open(out, encoding="utf-8") as f:
        lines = f.read().splitlines()
    event = json.loads(lines[0])
    assert event["event"] == "finding" and event["id"] == "COLLECTIVE_HANG", event
    assert [culprit["rank"] for culprit in event["culprits"]] == [2], event
    assert lines[1] == lines[0], lines
    assert lines[2] == "preload=", lines
    # 0 to 2, and the directory that ls reads.
    assert int(lines[3]) <= 5, lines
    assert lines[4].split()[1].strip("0") == "", lines


def test_hook_that_hangs(scratch):
    """Nobody waits for it, and it is nobody's child."""
    pid = scratch.file("pid")
    start_job(scratch, {"NCCLSPY_ON_EVENT": f"echo $$ > {pid}.tmp; mv {pid}.tmp {pid}; "
                        "exec sleep 600"})
    harness.wait_for(lambda: os.path.exists(pid), "the command")
    with open(pid, encoding="utf-8") as f:
        hook = int(f.read())
    try:
        harness.wait_for(lambda: told(scratch), "the hang on stderr")
        with open(f"/proc/{hook}/stat", encoding="utf-8") as f:
            fields = f.read().rpartition(")")[2].split()
        parent, session = int(fields[1]), int(fields[3])
        with open(f"/proc/{parent}/comm", encoding="utf-8") as f:
            assert f.read().strip() != "trainjob"
        assert session == hook, "a session of its own"
        harness.wait_for(lambda: glob.glob(os.path.join(scratch.traces, "*", "events.jsonl")),
                         "events.jsonl")
    finally:
        os.kill(hook, 9)


def test_hook_that_does_not_exist(scratch):
    job = start_job(scratch, {"NCCLSPY_ON_EVENT": "/nonexistent/command --with arguments"})
    harness.wait_for(lambda: told(scratch), "the hang on stderr")
    assert job.poll() is None


def test_hook_only_for_events(scratch):
    out = scratch.file("event")
    job = start_job(scratch, {"NCCLSPY_ON_EVENT": f"touch {out}", "NCCLSPY_HANG_S": "60",
                              "NCCLSPY_HANG_START_S": "60"}, None)
    assert scratch.finish(job).status == 0
    assert not os.path.exists(out)


if __name__ == "__main__":
    harness.main(globals())
