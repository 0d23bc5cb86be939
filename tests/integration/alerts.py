# SPDX-License-Identifier: Apache-2.0
"""What a job tells other programs while it hangs: NCCLSPY_PROM_DIR and NCCLSPY_ON_EVENT."""
import glob
import json
import os
import signal

import harness
import jobs
import promtext

JOB = ["-n", "4", "--steps", "12", "--compute-ms", "2", "--no-verify", "--timeout", "600",
       "--grace", "600"]
HANG = "rank=2,op=all_reduce,nth=41,do=hang"
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


# A host that would notice a child, a signal, a zombie; its other rank never comes.
HOST = """
import ctypes, os, signal, sys, threading, time
seen = []
signal.signal(signal.SIGCHLD, lambda *a: seen.append("SIGCHLD"))
fake = ctypes.CDLL(sys.argv[1])
ident, comm = (ctypes.c_char * 128)(), ctypes.c_void_p()

class Id(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 128)]

fake.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
assert fake.ncclGetUniqueId(ident) == 0
threading.Thread(target=fake.ncclCommInitRank, daemon=True,
                 args=(ctypes.byref(comm), 2, Id.from_buffer_copy(ident), 0)).start()
kept = os.open("/etc/passwd", os.O_RDONLY)
os.set_inheritable(kept, True)
end, over = time.monotonic() + 90, None
while time.monotonic() < (over or end):
    try:
        seen.append(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        pass
    if os.path.exists(sys.argv[2]) and not over:
        over = time.monotonic() + 2
    time.sleep(0.01)
print("told" if over else "not told", seen, flush=True)
os._exit(0)
"""


def value(metrics, name, **labels):
    for have, number in metrics.get("ncclspy_" + name, {"samples": []})["samples"]:
        if labels.items() <= have.items():
            return number
    return None


HEAD = "# HELP a_total Help.\n# TYPE a_total counter\n"
GOOD_TEXTS = [HEAD + "a_total 1\n", HEAD + 'a_total{b="c",d="\\\\ \\" \\n",} 1.5\n',
              "# HELP g Help, \\\\ and \\n.\n# TYPE g gauge\ng -1e3\ng{l=\"\"} 2\n"]
BAD_TEXTS = ["", "a_total 1\n", HEAD, HEAD + "a_total 1", HEAD + "a_total 1 1700000000\n",
             HEAD + "a_total  1\n", HEAD + "a_total x\n", HEAD + "a_total -1\n",
             HEAD + "a_total 1\na_total 2\n", HEAD + "b_total 1\n", HEAD + "a_total{b=c} 1\n",
             HEAD + 'a_total{b="c"d="e"} 1\n', HEAD + 'a_total{b="c} 1\n',
             HEAD + 'a_total{b="\\x"} 1\n', HEAD + 'a_total{b="c",b="d"} 1\n',
             HEAD + 'a_total{1b="c"} 1\n', HEAD + 'a_total{__b="c"} 1\n',
             HEAD + "a_total 1\n" + HEAD + "a_total 1\n", HEAD + "a_total 1\n\n",
             HEAD.replace("counter", "gauge") + "a_total 1\n",
             HEAD.replace("counter", "number") + "a_total 1\n",
             HEAD.replace("# HELP a_total Help.\n", "") + "a_total 1\n",
             HEAD.replace("Help.", "\\x") + "a_total 1\n", HEAD + "a_total NaN\n"]


def test_parser(scratch):
    """The reader of the text files can fail."""
    for text in GOOD_TEXTS:
        promtext.parse(text)
    for text in BAD_TEXTS:
        try:
            promtext.parse(text)
        except promtext.Wrong:
            continue
        raise AssertionError(f"{text!r} was read")
    assert promtext.parse(GOOD_TEXTS[1])["a_total"]["samples"] == \
        [({"b": "c", "d": '\\ " \n'}, 1.5)], scratch.path


def test_prometheus(scratch):
    directory = scratch.file("prom")
    os.makedirs(directory)
    job = start_job(scratch, {"NCCLSPY_PROM_DIR": directory})

    def seen():
        for path in glob.glob(os.path.join(directory, "*.prom")):
            with open(path, encoding="utf-8") as f:
                metrics = promtext.parse(f.read())
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


def run_host(scratch, command, mark):
    """What a host has seen of its hook, which leaves the file `mark`."""
    script = scratch.file("host.py", HOST)
    return scratch.run([os.path.realpath("/proc/self/exe"), script,
                        os.path.join(harness.FAKES, "libnccl.so.2"), mark],
                       dict(jobs.preload_env(scratch), RANK="0", WORLD_SIZE="2",
                            LOCAL_WORLD_SIZE="2", NCCLSPY_HANG_START_S="1", NCCLSPY_HANG_S="1",
                            NCCLSPY_STACKS="0", NCCLSPY_ON_EVENT=command))


def test_hook_is_nobodys_child(scratch):
    """The host sees no SIGCHLD, no child, no zombie; the hook none of the host's descriptors."""
    harness.need(harness.LIBRARY)
    out = scratch.file("seen")
    result = run_host(scratch, f"(readlink /proc/self/fd/*; cat /proc/$$/stat) > {out}.tmp 2>&1; "
                      f"mv {out}.tmp {out}; exit 3", out)
    assert result.status == 0 and result.out.split("\n")[0] == "told []", str(result)
    with open(out, encoding="utf-8") as f:
        seen = f.read()
    assert "passwd" not in seen and ".nspy" not in seen and "/dev/shm" not in seen, seen


def test_hook_that_fails(scratch):
    """By a signal, at once, with noise on all it has: the host does not hear of it."""
    harness.need(harness.LIBRARY)
    mark = scratch.file("mark")
    result = run_host(scratch, f"touch {mark}; yes | head -c 1000000; yes | head -c 1000000 >&2; "
                      "kill -SEGV $$", mark)
    assert result.status == 0 and result.out == "told []\n", str(result)[:3000]
    assert len(result.err) < 10000, result.err[:3000]


def test_hook_outlives_the_job(scratch):
    """A signal for the whole group of the job is none for it."""
    out, pid = scratch.file("end"), scratch.file("pid")
    job = start_job(scratch, {"NCCLSPY_ON_EVENT": f"echo $$ > {pid}.tmp; mv {pid}.tmp {pid}; "
                              f"sleep 2; touch {out}"})
    harness.wait_for(lambda: os.path.exists(pid), "the command")
    os.killpg(os.getpgid(job.pid), signal.SIGTERM)
    harness.kill_session(job)
    harness.wait_for(lambda: os.path.exists(out), "the command's end")


def test_hook_only_for_events(scratch):
    out = scratch.file("event")
    job = start_job(scratch, {"NCCLSPY_ON_EVENT": f"touch {out}", "NCCLSPY_HANG_S": "60",
                              "NCCLSPY_HANG_START_S": "60"}, None)
    assert scratch.finish(job).status == 0
    assert not os.path.exists(out)


if __name__ == "__main__":
    harness.main(globals())
