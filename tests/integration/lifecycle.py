# SPDX-License-Identifier: Apache-2.0
"""However a process lives and ends, its trace has the calls it made. No more, no less."""
import os
import signal

import harness
import jobs


def expect_counts(scratch, *counts, function="ncclAllReduce"):
    found = jobs.count_calls(scratch, function)
    assert found == sorted(counts), f"{found}, expected {sorted(counts)}"


def no_leftovers(pid):
    assert jobs.live_files(pid) == [], jobs.live_files(pid)


def test_plain_end(scratch):
    child = jobs.start_caller(scratch, "init", "1000", "destroy", "return")
    scratch.finish(child).ok()
    no_leftovers(child.pid)
    expect_counts(scratch, 1000)


def test_ends_without_destroy(scratch):
    for end, status in (("return", 0), ("exit:3", 3), ("_exit:4", 4)):
        directory = scratch.file("traces-" + end.partition(":")[0])
        child = jobs.start_caller(scratch, "init", "300", end, env={"NCCLSPY_DIR": directory})
        assert scratch.finish(child).status == status, end
        found = jobs.count_calls(scratch, directory=directory)
        assert found == [300], (end, found)


def exit_note(directory):
    notes = [name for name in jobs.trace_files(directory) if name.endswith(".exit")]
    assert len(notes) == 1, jobs.trace_files(directory)
    with open(notes[0], encoding="utf-8") as f:
        return dict(line.rstrip().split("=") for line in f)


def run_launched(scratch, directory, *words):
    """The caller under ncclspy-run, without core files."""
    harness.need(jobs.CALLER, harness.RUN)
    env = {"LD_PRELOAD": jobs.sanitizer_runtime(), "ASAN_OPTIONS": "handle_segv=0:handle_abort=0",
           "TSAN_OPTIONS": "handle_segv=0:handle_abort=0"}
    return scratch.run([harness.RUN, "-o", directory, "--", "sh", "-c",
                        "ulimit -c 0; exec " + " ".join([jobs.CALLER, *words])], env)


def test_sudden_ends(scratch):
    """No destructor runs: the launcher brings the live pages home and notes how it ended."""
    for end, status in (("abort", -signal.SIGABRT), ("segv", -signal.SIGSEGV),
                        ("kill", -signal.SIGKILL), ("quick_exit:5", 5)):
        directory = scratch.file("traces-" + end.partition(":")[0])
        result = run_launched(scratch, directory, "init", "300", end)
        assert result.status == status, str(result)
        found = jobs.count_calls(scratch, directory=directory)
        assert found == [300], (end, found)
        note = exit_note(directory)
        assert note["signal" if status < 0 else "exit_code"] == str(abs(status)), note
        assert int(note["real_ns"]) > 10**18 and int(note["pid"]) > 0, note


def test_exit_note_of_a_clean_end(scratch):
    result = run_launched(scratch, scratch.traces, "init", "10", "destroy", "exit:9")
    assert result.status == 9, str(result)
    assert exit_note(scratch.traces)["exit_code"] == "9"
    assert not [n for n in jobs.trace_files(scratch.traces) if n.endswith((".live", ".tmp"))]


def test_forked_worker_stays_silent(scratch):
    """Data-loader workers inherit the library and must not touch their parent's trace."""
    jobs.run_caller(scratch, "init", "100", "fork:return", "_fork:return", "100", "fork:exit:0",
                    "100", "destroy").ok()
    expect_counts(scratch, 300)


def test_forked_child_that_calls(scratch):
    """It records under its own name; the parent's calls stay the parent's."""
    if "tsan" in jobs.sanitizer_runtime():
        raise harness.Skip("ThreadSanitizer allows no new thread in a forked child")
    jobs.run_caller(scratch, "init", "100", "fork:version:50", "100", "_fork:version:60",
                    "100").ok()
    expect_counts(scratch, 300)
    expect_counts(scratch, 50, 60, function="ncclGetVersion")


def test_vfork_and_spawn(scratch):
    """A vforked child shares its parent's memory until it has exec'd."""
    jobs.run_caller(scratch, "init", "100", "vfork", "100", "spawn:true", "vfork", "100",
                    "destroy").ok()
    expect_counts(scratch, 300)


def test_exec(scratch):
    """The same pid and start time twice: the first image's trace is not overwritten."""
    jobs.run_caller(scratch, "init", "100", "destroy", "exec", "init", "200", "destroy", "exec",
                    "init", "300", "destroy").ok()
    records = jobs.dump(scratch)
    total = sum(1 for r in records if r["kind"] == "call" and r["function"] == "ncclAllReduce")
    assert total >= 600, total


def test_threads_come_and_go(scratch):
    words = ["threads:64:20", "sleep:200"] * 4
    jobs.run_caller(scratch, "init", *words, "destroy").ok()
    expect_counts(scratch, 256 * 20)


def test_burst_of_threads(scratch):
    """Faster than their pages can be emptied: what does not fit is counted."""
    result = jobs.run_caller(scratch, "init", "threads:256:20", "destroy").ok()
    found = jobs.count_calls(scratch)[0]
    assert found <= 256 * 20 <= found + jobs.lost_calls(result), (found, result.err)


def test_descriptors_closed_by_the_host(scratch):
    """A host that closes everything and reuses the numbers must not find our bytes in its file."""
    path = scratch.file("host-file")
    jobs.run_caller(scratch, "init", "3000", "sleep:300", "closeall", f"file:{path}", "3000",
                    "sleep:300", "3000", "destroy").ok()
    assert os.path.getsize(path) == 0, "something was written into the host's file"
    expect_counts(scratch, 9000)


def test_relative_directory(scratch):
    """It counts from where the process was when it began to record."""
    os.mkdir(scratch.file("elsewhere"))
    jobs.run_caller(scratch, "init", "10", "chdir:elsewhere", "2000", "sleep:300", "10", "destroy",
                    env={"NCCLSPY_DIR": "here"}).ok()
    assert jobs.count_calls(scratch, directory=scratch.file("here")) == [2020]
    assert os.listdir(scratch.file("elsewhere")) == []


def latest_states(records, origin):
    """The last word on each communicator of that origin, of all processes."""
    states = {(r["pid"], r["key"]): r for r in records if r["kind"] == "comm"}
    return [state for state in states.values() if state["origin"] == origin]


def test_children_whose_handle_comes_later(scratch):
    """A nonblocking split has no handle when it returns; its child is known all the same."""
    jobs.run_job(scratch, "-n", "4", "--pattern", "tp", "--nonblocking", "--steps", "2",
                 fault="rank=0,op=split,do=delay:200ms").ok()
    records = jobs.dump(scratch)
    children = latest_states(records, "split")
    assert len(children) == 2 * 4, children
    for child in children:
        assert child["ready"] and child["nranks"] == 2 and child["comm_rank"] in (0, 1), child
    assert not latest_states(records, "found")
    for rank in range(4):
        used = {r["comm"] for r in records if r["kind"] == "call" and r["rank"] == rank
                and r["function"] == "ncclAllReduce"}
        assert used & {child["key"] for child in children if child["rank"] == rank}, rank


def test_many_calls(scratch):
    """More than fits into the live pages: the writer keeps up or counts what it lost."""
    result = jobs.run_caller(scratch, "init", "200000", "destroy").ok()
    found = jobs.count_calls(scratch)[0]
    assert found <= 200000 <= found + jobs.lost_calls(result), (found, result.err)


harness.main(globals())
