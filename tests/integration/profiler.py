# SPDX-License-Identifier: Apache-2.0
"""The profiler plugin: what a host of plugins drives is what the trace has, whatever it does."""
import json
import os
import sys
from pathlib import Path

import harness
import jobs
from harness import BUILD, LIBRARY, RUN

sys.path.insert(0, str(Path(__file__).parent.parent / "analyzer"))
import perfetto_reader  # noqa: E402

HOST = os.path.join(BUILD, "tests/profiler/profiler_host")
VERSIONS = (1, 2, 3, 4, 5, 6)
ALL = "ops,steps,kernels"
# Plugins have symbols of one name: the address sanitizer would take that for a mistake.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_odr_violation=0"
COLL, P2P, PROXY_OP, STEP, KERNEL, COPY = 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 6, 1 << 12


def user_plugin(version):
    return os.path.join(BUILD, f"tests/profiler/libuser{version}.so")


def drive(scratch, version, *words, library=LIBRARY, env=None, directory="traces"):
    """What the host says it did, and the records of what it was told to record."""
    harness.need(HOST, library if library != "STATIC" else HOST)
    traces = scratch.file(directory)
    result = scratch.run([HOST, library, str(version), *map(str, words)],
                         {"NCCLSPY_DIR": traces, "NCCLSPY_QUIET": "1", **(env or {})}).ok()
    said = [json.loads(line) for line in result.out.splitlines() if line.startswith("{")]
    return said[-1], jobs.dump(scratch, traces) if os.path.isdir(traces) else []


def of_kind(records, kind):
    return [record for record in records if record.get("kind") == kind]


def sums(records):
    return of_kind(records, "prof_sums")[-1]


def check_ops(said, records, threads, ops, channels, steps):
    """Every operation of the host is there, once, with the times that its version can give."""
    version = said["version"]
    found = of_kind(records, "prof_op")
    plain = [op for op in found if op["what"] != "copy_engine"]
    assert len(plain) == threads * ops, (version, len(plain))
    assert len(found) - len(plain) == said["copies"], (version, len(found))
    for what, func, remainder in (("collective", "AllReduce", 0), ("p2p", "Send", 1)):
        mine = [op for op in plain if op["what"] == what]
        assert len(mine) == threads * len([i for i in range(ops) if i % 2 == remainder]), version
        assert {op["func"] for op in mine} == {func} and {op["count"] for op in mine} == {1024}
        assert {op["datatype"] for op in mine} == {7}, mine[0]
    assert {op.get("network_ops") for op in plain} == {2 * channels}, plain[0]
    assert not [op for op in plain if op.get("cut")], version
    exact = {op.get("exact_gpu_ns") for op in plain}
    assert exact == ({said["gpu_ns"]} if version >= 4 else {None}), (version, exact)
    assert {op.get("kernel_channels") for op in plain} == ({channels} if version >= 3 else {None})
    captured = len([op for op in plain if op.get("captured")])
    assert captured == (threads * len(range(3, ops, 4)) if version >= 5 else 0), captured
    check_sums(said, records, threads * ops, channels, steps)


def check_sums(said, records, ops, channels, steps):
    version, total = said["version"], sums(records)
    expected = ops * (1 + channels * (2 + 2 * steps + (version >= 3))) + said["copies"]
    assert total["started"] == total["stopped"] == expected, (version, total, expected)
    states = ops * channels * (steps * (6 if version >= 4 else 5) + (version >= 4))
    assert total["states"] == states, (version, total, states)
    assert total["ops"] == ops + said["copies"], total
    for name in ("cut", "dropped", "unmatched", "foreign", "bad_time"):
        assert total[name] == 0, (version, name, total)
    rows = of_kind(records, "prof_wait")
    assert sum(row["sends"] for row in rows) == ops * channels * steps, version
    assert sum(row["recvs"] for row in rows) == ops * channels * steps, version
    sent = sum(row["send_bytes"] for row in rows)
    assert sent == (4096 * ops * channels * steps if version >= 4 else 0), (version, sent)


def test_every_version(scratch):
    for version in VERSIONS:
        said, records = drive(scratch, version, "legal", 3, 40, 2, 2, 0,
                              env={"NCCLSPY_PROFILER": ALL}, directory=f"v{version}")
        check_ops(said, records, 3, 40, 2, 2)
        comms = {comm["hash"]: comm for comm in of_kind(records, "prof_comm")}
        if version >= 4:
            assert set(comms) == {"0xabc000", "0xabc001", "0xabc002"}, comms
            assert {(c["nranks"], c["rank"], c["nodes"]) for c in comms.values()} == {(2, 0, 2)}
        else:
            assert "0x1234" in comms, comms
        assert {comm["api"] for comm in comms.values()} == {version}, comms
        jobs.analyze(scratch, "check", scratch.file(f"v{version}")).ok()


def test_more_many_threads(scratch):
    """Threads that share rings and stop each other in the middle; all must still be matched."""
    for version in (3, 6):
        said, records = drive(scratch, version, "legal", 16, 400, 4, 1, 0,
                              env={"NCCLSPY_PROFILER": ALL}, directory=f"v{version}")
        total = sums(records)
        if total["dropped"]:  # slow storage: what was dropped is missing, nothing else is wrong
            continue
        check_ops(said, records, 16, 400, 4, 1)


def test_what_is_asked_for(scratch):
    """By default nothing that costs NCCL a thread or a callback for each transfer."""
    cheap = COLL | P2P | PROXY_OP
    for words, version, mask in ((None, 6, cheap | COPY), (None, 4, cheap), (None, 1, cheap),
                                 ("steps", 5, cheap | STEP), ("kernels", 3, cheap | KERNEL),
                                 ("kernels", 2, cheap), ("none", 6, 0)):
        env = {"NCCLSPY_PROFILER": words} if words else {}
        said, records = drive(scratch, version, "legal", 1, 8, 2, 2, 0, env=env,
                              directory=f"{words}{version}")
        assert said["mask"] == mask, (words, said)
        if not mask:
            assert not of_kind(records, "prof_comm"), records
            continue
        ops = of_kind(records, "prof_op")
        assert len(ops) == 8 + said["copies"], len(ops)
        assert any("exact_gpu_ns" in op for op in ops) is False, ops[0]
        assert bool(of_kind(records, "prof_wait")) == bool(mask & STEP), words


def test_kinds_of_time_in_report(scratch):
    """Exact times and those of callbacks are told apart, and nothing is called exact without."""
    for version, words in ((6, "kernels"), (3, "kernels"), (6, "ops")):
        where = f"r{version}{words}"
        drive(scratch, version, "legal", 1, 8, 2, 0, 0, env={"NCCLSPY_PROFILER": words},
              directory=where)
        text = jobs.analyze(scratch, "report", scratch.file(where)).out
        job = jobs.report(scratch, directory=scratch.file(where))
        ops = {op["function"]: op for op in job["profiler"]["operations"]
               if op["what"] != "copy_engine"}
        assert ("exact (GPU)" in text) == (version == 6 and words == "kernels"), text
        assert "host callback" in text, text
        assert ("(host calls only)" in text) != ("exact (GPU)" in text), text
        exact = ops["AllReduce"]["exact_gpu"]
        assert exact["count"] == (4 if version == 6 and words == "kernels" else 0), exact
        if exact["count"]:
            assert exact["sum_ns"] == 4 * 5010 and exact["max_ns"] == 5010, exact


def test_sources_of_time_in_timeline(scratch):
    """A picture draws each operation of the interface once and says where its time comes from."""
    for version, words in ((6, "kernels"), (6, "ops")):
        where = f"t{version}{words}"
        _, records = drive(scratch, version, "legal", 2, 8, 2, 2, 0,
                           env={"NCCLSPY_PROFILER": words}, directory=where)
        out = jobs.analyze(scratch, "timeline", "-o", scratch.file("x.pftrace"),
                           scratch.file(where))
        out.ok()
        trace = perfetto_reader.Trace(Path(scratch.file("x.pftrace")).read_bytes())
        drawn = trace.of("profiler")
        assert len(drawn) == len(of_kind(records, "prof_op")), out.err
        exact = [op["exact_gpu_ns"] for op in of_kind(records, "prof_op") if "exact_gpu_ns" in op]
        assert sorted(one.args["exact_gpu_ns"] for one in drawn
                      if "exact_gpu_ns" in one.args) == sorted(exact)
        assert bool(exact) == (words == "kernels")
        sources = {one.args["source"] for one in drawn}
        assert ("profiler, host callback: kernel" in sources) == (words == "kernels"), sources
        assert all(source.startswith("profiler, host") for source in sources), sources


def test_who_starved_whom(scratch):
    """The host's one slow transfer waits for data from its peer."""
    for version in (2, 6):
        where = f"w{version}"
        _, records = drive(scratch, version, "waits", env={"NCCLSPY_PROFILER": "steps"},
                           directory=where)
        row = of_kind(records, "prof_wait")[0]
        assert row["peer"] == 1 and row["recv_wait_ns"] >= 200_000_000, row
        others = [name for name in row if name.endswith("_wait_ns") and name != "recv_wait_ns"]
        assert len(others) == 5 and all(row[name] < row["recv_wait_ns"] for name in others), row
        text = jobs.analyze(scratch, "report", scratch.file(where)).out
        assert "waited" in text and "for data from rank 1" in text, text


def test_illegal_sequences(scratch):
    """Whatever the host does: no crash, success reported, and the trace is sound."""
    for version in VERSIONS:
        where = f"i{version}"
        said, records = drive(scratch, version, "illegal", env={"NCCLSPY_PROFILER": ALL},
                              directory=where)
        assert said["bad"] == 0, said
        total = sums(records)
        assert total["unmatched"] > 0 and total["cut"] > 0, total
        assert total["foreign"] == 2 and total["dropped"] == 0, total
        if version >= 4:
            assert total["bad_time"] == 2, total
        assert not [op for op in of_kind(records, "prof_op") if "exact_gpu_ns" in op], version
        jobs.analyze(scratch, "check", scratch.file(where)).ok()


def chain(scratch, version, mask, ours, words):
    """What the user's plugin prints, with and without us in front of it."""
    env = {"USER_MASK": hex(mask)}
    if ours:
        env.update(jobs.preload_env(scratch, scratch.file(f"c{version}{mask}")),
                   NCCLSPY_PROFILER=ALL)
    elif jobs.sanitizer_runtime():
        env["LD_PRELOAD"] = jobs.sanitizer_runtime()
    result = scratch.run([HOST, user_plugin(version), str(version), *words], env).ok()
    # One each time that the last of its communicators has gone.
    return [line for line in result.out.splitlines() if line.startswith("user:")][-1]


def test_users_plugin_sees_the_same(scratch):
    words = ("legal", "2", "24", "2", "0", "0")
    for version in (1, 4, 5, 6):
        harness.need(user_plugin(version))
        # Everything, as the host sends it without us: what it does depends on no mask but this.
        mask = COLL | P2P | PROXY_OP | (KERNEL if version >= 4 else 0) | 1 | \
            (COPY if version >= 6 else 0)
        alone, ours = (chain(scratch, version, mask, on, words) for on in (False, True))
        assert alone == ours and ours.endswith("wrong 0"), (alone, ours)
        records = jobs.dump(scratch, scratch.file(f"c{version}{mask}"))
        ops = [op for op in of_kind(records, "prof_op") if op["what"] != "copy_engine"]
        assert len(ops) == 48 and sums(records)["unmatched"] == 0, sums(records)
        assert ("exact_gpu_ns" in ops[0]) == (version >= 4), ops[0]


def test_users_plugin_is_asked_for_nothing_more(scratch):
    """Events that only we asked for do not reach a plugin that asked for none."""
    line = chain(scratch, 6, 0, True, ("legal", "1", "8", "2", "1", "0"))
    expected = " ".join(["user: contexts 1"] + ["0/0"] * 15 + ["states 0 parents 0 wrong 0"])
    assert line == expected, line
    ops = of_kind(jobs.dump(scratch, scratch.file("c60")), "prof_op")
    assert len(ops) == 9, len(ops)


def test_versions_found(scratch):
    """Of a user's plugin no version is found that it lacks; otherwise all of ours are."""
    ours = jobs.preload_env(scratch)
    alone = scratch.run([HOST, "STATIC", "0", "versions"], ours).ok()
    assert alone.out.split() == ["6", "5", "4", "3", "2", "1"], alone
    opened = scratch.run([HOST, user_plugin(4), "0", "versions"], ours).ok()
    assert opened.out.split() == ["4"], opened
    for preload in (f"{ours['LD_PRELOAD']}:{user_plugin(4)}",
                    ours["LD_PRELOAD"].replace(LIBRARY, f"{user_plugin(4)}:{LIBRARY}")):
        both = scratch.run([HOST, "STATIC", "0", "versions"],
                           {**ours, "LD_PRELOAD": preload}).ok()
        assert both.out.split() == ["4"], both


def test_static_plugin(scratch):
    """As ncclspy-run has it: preloaded, and found by a look-up in everything loaded."""
    said, records = drive(scratch, 0, "legal", 1, 8, 1, 0, 0, library="STATIC",
                          env=jobs.preload_env(scratch))
    assert said["version"] == 6 and len(of_kind(records, "prof_op")) == 8 + said["copies"], said


def test_run_chooses_the_plugin(scratch):
    """If asked to, the launcher names us, unless the user has a plugin."""
    harness.need(RUN, LIBRARY)
    command = [RUN, "-o", scratch.traces, "--", "/bin/sh", "-c", "echo =$NCCL_PROFILER_PLUGIN="]
    default = os.path.join(scratch.path, "lib")
    os.mkdir(default)
    plain = {"LD_PRELOAD": jobs.sanitizer_runtime()}
    asked = {**plain, "NCCLSPY_PROFILER": "ops"}
    for env, expected in ((plain, ""),
                          (asked, "STATIC_PLUGIN"),
                          ({**asked, "NCCL_PROFILER_PLUGIN": "mine"}, "mine"),
                          ({**asked, "NCCL_PROFILER_PLUGIN": "none"}, "none"),
                          ({**plain, "NCCLSPY_PROFILER": "none"}, ""),
                          ({**asked, "LD_LIBRARY_PATH": f"/nowhere:{default}"},
                           "STATIC_PLUGIN")):
        result = scratch.run(command, env).ok()
        assert f"={expected}=" in result.out, (env, str(result))
    # What NCCL would load without being told.
    scratch.file("lib/libnccl-profiler.so", "")
    result = scratch.run(command, {**asked, "LD_LIBRARY_PATH": f"/nowhere:{default}"}).ok()
    assert "==" in result.out, str(result)


if __name__ == "__main__":
    harness.main(globals())
