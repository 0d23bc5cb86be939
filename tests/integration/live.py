# SPDX-License-Identifier: Apache-2.0
"""While the job hangs, a survivor's stderr says why and who; a job that is well stays silent."""
import glob
import json
import os
import re
import time

import harness
import jobs

# Seconds until a hang is told, and until a trainjob without progress gives up: only a hang that is
# not told reaches that, on the most loaded machine too.
HANG_S, STUCK_S = 1, 60
SETTINGS = {"NCCLSPY_HANG_S": str(HANG_S), "NCCLSPY_HANG_NOTE_S": "1",
            "NCCLSPY_HANG_START_S": str(HANG_S)}
JOB = ["-n", "8", "--steps", "12", "--compute-ms", "2", "--no-verify", "--timeout", str(STUCK_S),
       "--grace", "60"]
TOLD = re.compile(r"^ncclspy \S+ job \S+ \[(\w+)\] (P\d) (\w+) (.*)$", re.MULTILINE)
RANKS = re.compile(r"\branks? ([\d,-]+)")


class Case:
    """culprits: ranks that the VERDICT line must name, and no other; none: nobody may be blamed.

    says: words that must stand in the block.
    """

    def __init__(self, fault, finding, culprits=(), says=(), options=()):
        self.fault, self.finding, self.culprits = fault, finding, list(culprits)
        self.says, self.options = says, list(options)


CASES = {
    "never_arrived": Case("rank=5,op=all_reduce,nth=41,do=hang", "COLLECTIVE_HANG", [5],
                          ["never arrived", "outside NCCL"]),
    "first_rank": Case("rank=0,op=all_reduce,nth=41,do=hang", "COLLECTIVE_HANG", [0]),
    "two_ranks": Case("rank=2-3,op=all_reduce,nth=41,do=hang", "COLLECTIVE_HANG", [2, 3]),
    "inside": Case("rank=6,op=all_gather,nth=30,do=hang-inside", "COLLECTIVE_HANG", [6],
                   ["is inside ncclAllGather"]),
    "killed": Case("rank=3,op=all_reduce,nth=41,do=kill", "RANK_DIED", [3]),
    "killed_speaker": Case("rank=0,op=all_reduce,nth=41,do=kill", "RANK_DIED", [0]),
    "left": Case("rank=7,op=all_reduce,nth=17,do=exit:3", "RANK_DIED", [7], ["exit code 3"]),
    "stopped": Case("rank=2,op=all_reduce,nth=41,do=stop", "COLLECTIVE_HANG", [2], ["is stopped"]),
    "stopped_speaker": Case("rank=0,op=all_reduce,nth=41,do=stop", "COLLECTIVE_HANG", [0],
                            ["is stopped"]),
    "host_loop": Case("rank=4,op=all_reduce,nth=41,do=spin", "PROGRESS_STALLED_OUTSIDE_NCCL", [4],
                      ["ms of CPU"]),
    "mismatch": Case("rank=2,op=all_reduce,nth=41,do=count:512", "COLLECTIVE_MISMATCH", [2],
                     ["count 512"]),
    "left_out": Case("rank=5,op=all_reduce,nth=41,do=skip", "COLLECTIVE_MISMATCH", [5]),
    "order": Case("rank=5,op=all_reduce,comm=world,nth=21,do=invert", "ORDER_INVERSION", [5],
                  options=["--extra-comms", "1"]),
    "order_groups": Case("rank=2,op=all_gather,comm=dp,nth=9,do=invert", "ORDER_INVERSION", [2],
                         options=["--pattern", "tp"]),
    "message": Case("rank=1,op=send,nth=9,do=skip", "COLLECTIVE_HANG", [1], ["ncclSend"],
                    ["--pattern", "pp"]),
    "message_late": Case("rank=2,op=recv,nth=9,do=hang", "COLLECTIVE_HANG", [2],
                         options=["--pattern", "pp"]),
    "in_other_groups": Case("rank=6,op=all_reduce,comm=tp,nth=25,do=hang", "COLLECTIVE_HANG", [6],
                            options=["--pattern", "mix"]),
    "init": Case("rank=4,op=init,do=hang", "RANKS_MISSING", [4], ["ncclCommInitRank"]),
    "split": Case("rank=3,op=split,do=hang", "RANKS_MISSING", [3], ["ncclCommSplit"],
                  ["--pattern", "tp"]),
    "init_nonblocking": Case("rank=4,op=init,do=hang", "RANKS_MISSING", [4],
                             options=["--nonblocking"]),
    # Faster than the watcher reads records: replays are counted all the same.
    "replay": Case("rank=1,op=compute,nth=1500,do=hang", "COLLECTIVE_HANG", [1],
                   ["graph replay #1500 "], ["--graph", "--compute-ms", "0", "--steps", "100000",
                                             "-n", "2"]),
    # All are there and nothing comes back: nobody is to blame.
    "below": Case("rank=2,op=all_reduce,nth=41,do=stall", "COLLECTIVE_HANG", [],
                  ["nobody is missing", "page: fabric"]),
}

# What looks alarming and is not.
HEALTHY = {
    "clean": (None, []),
    "mix": (None, ["--pattern", "mix"]),
    "graph": (None, ["--graph"]),
    "nonblocking": (None, ["--nonblocking"]),
    "threads": (None, ["--ranks-per-process", "2"]),
    "jitter": ("op=coll,nth=3-,do=jitter:5ms", []),
    "pauses": ("rank=0,op=checkpoint,do=delay:300ms", ["--checkpoint-every", "3"]),
    # All leave without a word when their work is done.
    "leaves": ("op=sync,step=12,do=exit:0", []),
}


def told(result):
    return TOLD.findall(result.err)


def block(result, finding):
    """The lines of a finding, from its first to its pointer into the references."""
    lines = result.err.splitlines()
    first = next(i for i, line in enumerate(lines) if f" {finding} " in line and "[FAIL]" in line)
    last = next(i for i in range(first, len(lines)) if "-> references/" in lines[i])
    return lines[first:last + 1]


def named(line):
    """Ranks that a text names: "ranks 2-3,7" are three."""
    ranks = set()
    for words in RANKS.findall(line):
        for word in words.split(","):
            first, _, last = word.partition("-")
            ranks |= set(range(int(first), int(last or first) + 1))
    return sorted(ranks)


def verdict(lines):
    line = next(line for line in lines if "VERDICT: " in line)
    assert " page: " in line and " do: " in line and " restart: " in line, line
    # Up to the first full stop it is the cause; an operation of messages names ranks too.
    return re.sub(r"from rank \d+ to rank \d+", "", line.split("VERDICT: ")[1].split(". page:")[0])


def events(scratch):
    found = []
    for path in glob.glob(os.path.join(scratch.traces, "*", "events.jsonl")):
        with open(path, encoding="utf-8") as f:
            found += [json.loads(line) for line in f]
    return found


def run_until(scratch, pattern, *options, fault=None, env=None):
    """A job that is ended soon after its stderr has said that, or has ended before."""
    harness.need(harness.TRAINJOB, harness.LIBRARY, harness.RUN)
    path = scratch.file("stderr", "")
    env = dict(SETTINGS, **(env or {}), LD_PRELOAD=jobs.sanitizer_runtime())
    if fault:
        env["NSPY_FAKE"] = fault
    with open(path, "w", encoding="utf-8") as err:
        child = scratch.start([harness.RUN, "-o", scratch.traces, "--", harness.TRAINJOB, *JOB,
                               *options], env, stderr=err)

    def said():
        with open(path, encoding="utf-8", errors="replace") as f:
            return re.search(pattern, f.read()) or child.poll() is not None

    harness.wait_for(said, f"{pattern} on stderr")
    time.sleep(1)  # room for a second voice, which must not come
    harness.kill_session(child)
    child.wait()
    with open(path, encoding="utf-8", errors="replace") as f:
        return harness.Result(child.args, child.returncode, "", f.read(), False)


def check(scratch, case):
    result = run_until(scratch, r"-> references/", *case.options, fault=case.fault)
    found = [one[2] for one in told(result)]
    assert found[:1] == [case.finding], str(result)
    lines = block(result, case.finding)
    assert len(lines) <= 8, lines
    assert named(verdict(lines)) == case.culprits, lines
    for word in case.says:
        assert any(word in line for line in lines), lines
    # Once, by one process, and in the file too.
    assert found.count(case.finding) == 1, str(result)
    first = [one for one in events(scratch) if one["event"] == "finding"][0]
    assert first["id"] == case.finding, first
    ranks = sorted(one["rank"] for one in first["culprits"])
    assert ranks == case.culprits or case.finding == "RANKS_MISSING", first


def check_healthy(scratch, fault, options):
    result = jobs.run_job(scratch, *JOB, *options, fault=fault, env=SETTINGS)
    assert result.status == 0 and not result.timed_out, str(result)
    assert not told(result), str(result)
    assert not [one for one in events(scratch) if one["event"] == "finding"], events(scratch)


def test_resumes(scratch):
    """A rank that comes after all: the end is told, and the hang not again."""
    result = jobs.run_job(scratch, *JOB, "--steps", "900",
                          fault="rank=2,op=all_reduce,nth=20,do=delay:6s", env=SETTINGS)
    assert result.status == 0, str(result)
    assert [one[2] for one in told(result)] == ["COLLECTIVE_HANG"], str(result)
    assert re.search(r"\[INFO\] COLLECTIVE_HANG: .* resumed after \d+ s", result.err), str(result)
    assert [one["event"] for one in events(scratch) if one["event"] != "note"] == \
        ["finding", "end"], events(scratch)


def run_nodes(scratch, pattern, *options, fault=None, env=None):
    """Four nodes of two ranks, which see each other's messages only."""
    return run_until(scratch, pattern, "--node-size", "2", "--steps", "2000", *options, fault=fault,
                     env=dict({"NCCLSPY_BOARD_S": "1"}, **(env or {})))


def test_nodes(scratch):
    """The leading node tells in full, each of the others a line."""
    result = run_nodes(scratch, r"(?s)(\(in full on node node-0\).*){3}",
                       fault="rank=5,op=all_reduce,nth=900,do=hang")
    lines = block(result, "COLLECTIVE_HANG")
    assert named(verdict(lines)) == [5], lines
    assert any("rank 5 (node node-2" in line for line in lines), lines
    assert len(told(result)) == 4, str(result)
    assert result.err.count("VERDICT: ") == 1, str(result)


def test_nodes_died(scratch):
    result = run_nodes(scratch, r"(?s)(\(in full on node node-0\).*){3}",
                       fault="rank=6,op=all_reduce,nth=900,do=kill")
    assert {one[2] for one in told(result)} == {"RANK_DIED"}, str(result)
    assert named(verdict(block(result, "RANK_DIED"))) == [6], str(result)


def test_restarted(scratch):
    """The same job again, soon after all of it was killed: its dead are not this run's."""
    env = {"NCCLSPY_JOB": f"again{os.getpid()}"}
    run_until(scratch, r"-> references/", fault="rank=1,op=all_reduce,nth=41,do=hang", env=env)
    result = run_until(scratch, r"-> references/", "--node-size", "4",
                       fault="rank=5,op=all_reduce,nth=41,do=hang", env=env)
    assert {one[2] for one in told(result)} == {"COLLECTIVE_HANG"}, str(result)


def test_more_node_gone(scratch):
    """Nothing of a node runs any more, as if it had lost power."""
    result = run_nodes(scratch, r"-> references/", fault="rank=4-5,op=all_reduce,nth=900,do=stop")
    lines = block(result, "COLLECTIVE_HANG")
    assert named(verdict(lines)) == [4, 5] and "not heard of" in lines[0], lines


def test_more_leading_node_gone(scratch):
    """Another node takes over."""
    result = run_nodes(scratch, r"-> references/", fault="rank=0-1,op=all_reduce,nth=900,do=stop")
    lines = block(result, "COLLECTIVE_HANG")
    assert named(verdict(lines)) == [0, 1] and "not heard of" in lines[0], lines


def test_more_garbage_on_the_board(scratch):
    """Files that are cut, foreign or noise do not matter, nor does a link to somewhere else."""
    board = os.path.join(scratch.traces, scratch.env["NCCLSPY_JOB"], "board")
    scratch.file(os.path.join(board, "noise.1.node"), "NSPYSTAT" + "x" * 5000)
    scratch.file(os.path.join(board, "empty.1.node"), "")
    scratch.file(os.path.join(board, "job.digest"), "ncclspy-digest 1\n0\n")
    os.symlink("/dev/zero", os.path.join(board, "endless.1.node"))
    os.mkfifo(os.path.join(board, "pipe.1.node"))
    os.mkdir(os.path.join(board, "folder.1.node"))
    result = run_nodes(scratch, r"(?s)(\(in full on node node-0\).*){3}",
                       fault="rank=5,op=all_reduce,nth=900,do=hang")
    assert named(verdict(block(result, "COLLECTIVE_HANG"))) == [5], str(result)


def test_more_board_refused(scratch):
    """No board can be had: the nodes speak of what they see themselves, and blame nobody else."""
    scratch.file(os.path.join(scratch.traces, scratch.env["NCCLSPY_JOB"], "board"), "a file")
    result = run_nodes(scratch, r"-> references/", fault="rank=5,op=all_reduce,nth=900,do=hang")
    for line in result.err.splitlines():
        if "VERDICT: " in line:
            assert set(named(line.split("VERDICT: ")[1])) <= {5}, line


def test_more_nodes_healthy(scratch):
    result = jobs.run_job(scratch, *JOB, "--node-size", "2", "--steps", "600",
                          env=dict(SETTINGS, NCCLSPY_BOARD_S="1"))
    assert result.status == 0 and not told(result), str(result)
    board = os.path.join(scratch.traces, scratch.env["NCCLSPY_JOB"], "board")
    assert len(glob.glob(os.path.join(board, "*.node"))) == 4, os.listdir(board)


def test_other_version(scratch):
    """While the job starts, not when it has failed."""
    result = run_until(scratch, r"VERSION_MISMATCH", "--steps", "2000",
                       fault="rank=3,do=version:22703;rank=5,op=init,do=delay:3s")
    found = re.findall(r"\[FAIL\] P0 VERSION_MISMATCH (.*)", result.err)
    assert len(found) == 1 and found[0].startswith("rank 3 (node "), str(result)
    assert re.search("has NCCL 22703, [67] others 22809", found[0]), found


def test_other_settings(scratch):
    result = run_until(scratch, r"STACK_DRIFT", "--steps", "2000", "--env", "6:NCCL_BUFFSIZE=65536")
    found = re.findall(r"\[FAIL\] P1 STACK_DRIFT (.*)", result.err)
    assert len(found) == 1 and found[0].startswith("rank 6 (node "), str(result)


def test_same_stack(scratch):
    """Near miss: settings that may differ, and a rank that comes to its facts later."""
    result = run_until(scratch, r"active on \S+ ranks", "--steps", "60", "--compute-ms", "30",
                       "--env", "6:NCCL_DEBUG=WARN", "--env", "2:NCCL_HOSTID=x")
    assert "STACK_DRIFT" not in result.err and "VERSION_MISMATCH" not in result.err, str(result)


def test_active(scratch):
    """All ranks are counted, once, over all nodes."""
    result = run_nodes(scratch, r"active on \S+ ranks")
    assert re.findall(r"\[INFO\] active on (\S+) ranks, (\d+) nodes", result.err) == \
        [("8/8", "4")], str(result)


def test_more_active_one_node(scratch):
    result = run_until(scratch, r"active on \S+ ranks", "--steps", "2000")
    assert re.findall(r"\[INFO\] active on (\S+) ranks, (\d+) node;", result.err) == \
        [("8/8", "1")], str(result)


def test_more_log_file(scratch):
    """With NCCLSPY_LOG_FILE the block goes there, and stderr stays the job's own."""
    log = scratch.file("log")
    result = jobs.run_job(scratch, *JOB, "--timeout", "12",
                          fault="rank=5,op=all_reduce,nth=41,do=hang",
                          env=dict(SETTINGS, NCCLSPY_LOG_FILE=log))
    assert not told(result), str(result)
    with open(log, encoding="utf-8") as f:
        found = TOLD.findall(f.read())
    assert [one[2] for one in found] == ["COLLECTIVE_HANG"], found


def test_more_off(scratch):
    """NCCLSPY_WATCH=0 says nothing, and publishes nothing."""
    result = jobs.run_job(scratch, *JOB, "--timeout", "5",
                          fault="rank=5,op=all_reduce,nth=41,do=hang",
                          env=dict(SETTINGS, NCCLSPY_WATCH="0"))
    assert not told(result), str(result)


def test_more_serving(scratch):
    """A server's ranks may wait for ever."""
    result = jobs.run_job(scratch, *JOB, "--timeout", "5",
                          fault="rank=5,op=all_reduce,nth=41,do=hang",
                          env=dict(SETTINGS, NCCLSPY_PROFILE="serving"))
    assert not told(result), str(result)


def test_alone(scratch):
    """Without shared memory a rank speaks for itself, later, and blames nobody."""
    result = run_until(scratch, r"-> references/", fault="rank=5,op=all_reduce,nth=41,do=hang",
                       env={"NCCLSPY_LIVE": "0"})
    assert told(result), str(result)
    for line in result.err.splitlines():
        if "VERDICT" in line:
            assert not named(line.split("VERDICT: ")[1]), line


def test_leaves_nothing(scratch):
    """The status pages of a job that ended are gone."""
    jobs.run_job(scratch, *JOB, env=SETTINGS).ok()
    left = [name for name in set(os.listdir("/dev/shm")) - jobs.SHARED_MEMORY_BEFORE
            if name.endswith(".status") and in_file(name, scratch.path)]
    assert not left, left


def in_file(name, path):
    try:
        with open(os.path.join("/dev/shm", name), "rb") as f:
            return path.encode() in f.read()
    except OSError:
        return False


def make_test(case):
    return lambda scratch: check(scratch, case)


def make_healthy(fault, options):
    return lambda scratch: check_healthy(scratch, fault, options)


# The rest belongs to the suite soak.
ALWAYS = {"never_arrived", "killed_speaker", "stopped_speaker", "host_loop", "mismatch", "order",
          "message", "init", "replay", "below", "healthy_mix", "healthy_jitter"}
TESTS = {name: make_test(case) for name, case in CASES.items()}
TESTS.update({"healthy_" + name: make_healthy(*how) for name, how in HEALTHY.items()})
globals().update({("test_" if name in ALWAYS else "test_more_") + name: test
                  for name, test in TESTS.items()})
if __name__ == "__main__":
    harness.main(globals())
