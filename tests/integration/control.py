# SPDX-License-Identifier: Apache-2.0
"""ncclspy-ctl on jobs that run, and NCCLSPY_MODE: what is kept, what is said, who may ask for it."""
import glob
import json
import os
import struct
import time

import harness
import jobs
import live

CTL = os.path.join(harness.BUILD, "tools/ctl/ncclspy-ctl")
MACHINE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "machine.sh")
JOB = ["-n", "4", "--steps", "20", "--compute-ms", "2", "--no-verify", "--timeout", "600",
       "--grace", "60"]
HANG = "rank=2,op=all_reduce,nth=41,do=hang"


class Held:
    """A job that stops where its faults say hold:N, until it is released."""

    def __init__(self, scratch, fault="", *options, env=None):
        harness.need(harness.TRAINJOB, harness.LIBRARY, harness.RUN, CTL)
        self.scratch, self.hold = scratch, scratch.file("hold")
        self.err = scratch.file("stderr", "")
        with open(self.err, "w", encoding="utf-8") as err:
            self.child = scratch.start(
                [harness.RUN, "-o", scratch.traces, "--", harness.TRAINJOB, *JOB, *options],
                {"NSPY_FAKE": fault, "NSPY_FAKE_HOLD": self.hold, "NCCLSPY_BOARD_S": "1",
                 "LD_PRELOAD": jobs.sanitizer_runtime(), **(env or {})}, stderr=err)
        self.job = scratch.env["NCCLSPY_JOB"]
        self.dir = os.path.join(os.path.realpath(scratch.path), "traces", self.job) \
            if not os.path.isabs(scratch.traces) else \
            os.path.join(os.path.realpath(scratch.traces), self.job)

    def wait_at(self, number):
        harness.wait_for(lambda: os.path.exists(f"{self.hold}.{number}.there") or
                         self.child.poll() is not None, f"hold {number}")
        assert self.child.poll() is None, self.said()

    def release(self, number):
        self.scratch.file(f"{self.hold}.{number}", "")

    def ctl(self, *words, wait=True):
        return self.scratch.run([CTL, *(["--wait=240"] if wait else []), self.dir, *words])

    def status(self):
        result = self.ctl("--json", "status", wait=False)
        return json.loads(result.out) if result.status == 0 else None

    def until_seen(self, ranks=4):
        def seen():
            status = self.status()
            return status and status["running"] == ranks
        harness.wait_for(seen, "all ranks")

    def end(self):
        harness.wait_for(lambda: self.child.poll() is not None, "the end of the job")
        assert self.child.returncode == 0, self.said()

    def said(self):
        with open(self.err, encoding="utf-8", errors="replace") as f:
            return f.read()

    def segments(self):
        return sorted(glob.glob(os.path.join(self.scratch.traces, "*", "*", "*.nspy")))


def processes(scratch):
    result = jobs.analyze(scratch, "check", "--json", scratch.traces)
    assert result.status == 0, str(result)
    return json.loads(result.out)["processes"]


def test_commands(scratch):
    """off leaves a hole that is told and nothing concluded from; marks are in every trace."""
    job = Held(scratch, "rank=2,op=all_reduce,nth=41,do=hold:1;"
                        "rank=1,op=all_reduce,nth=1641,do=hold:2;"
                        "rank=2,op=all_reduce,nth=1681,do=hold:3", "--steps", "340",
               "--compute-ms", "0")  # more in between than fits into memory
    job.wait_at(1)
    job.until_seen()
    for words in (["mark", "before", "eval \x1b[2J"], ["off"]):
        result = job.ctl(*words).ok()
        assert "taken up by 4 of 4 ranks on 1 node" in result.out, str(result)
    before = sum(os.path.getsize(path) for path in job.segments())
    job.release(1)
    job.wait_at(2)
    assert job.status()["modes"]["off"] == 4
    assert sum(os.path.getsize(path) for path in job.segments()) == before
    for words in (["on"], ["dump"], ["threshold", "77"]):
        job.ctl(*words).ok()
    status = job.status()
    assert status["modes"]["record"] == 4 and status["threshold_s_most"] == 77, status
    assert [one["taken_up"] for one in status["commands"]] == [4] * 5, status
    job.release(2)
    job.wait_at(3)
    job.release(3)
    job.end()
    # Where it was held it stood still, on a busy machine for long.
    report = jobs.report(scratch, "--hang-after", "600")
    urgent = [one for one in report["findings"] if one["priority"] != "P2"]
    assert not urgent, urgent
    told = [(one["command"], one["processes"]) for one in report["self"]["commands"]]
    assert told == [("mark before eval  [2J", 4), ("off", 4), ("on", 4), ("dump", 4),
                    ("threshold 77", 4)], told
    holes = report["self"]["holes"]
    assert sorted({hole["rank"] for hole in holes}) == [0, 1, 2, 3], holes
    assert any("not kept" in text for text in report["not_seen"]), report["not_seen"]
    assert report["self"]["processes"] == 4 and report["self"]["watcher_cpu_seconds"] > 0
    for proc in processes(scratch):
        assert proc["state"] == "complete" and proc["mode"] == "record", proc
        assert proc["not_kept_records"] > 0 and not proc["lost_records"], proc
        assert proc["records"] < proc["calls"], proc
    # A busy machine makes rounds long, which is noted beside.
    told = [one for one in live.events(scratch) if one["event"] == "command"]
    assert [(one["command"], one["rank"]) for one in told] == \
        [("mark", 0), ("off", 0), ("on", 0), ("dump", 0), ("threshold", 0)], live.events(scratch)
    assert "[INFO] ncclspy-ctl: mark before eval" in job.said(), job.said()
    # What is gone can be commanded no more.
    result = job.ctl("off", wait=False)
    assert result.status == 3 and "no rank" in result.err, str(result)
    assert not glob.glob(f"/dev/shm/ncclspy.{os.getuid()}.*.control") or \
        not [path for path in glob.glob(f"/dev/shm/ncclspy.{os.getuid()}.*.control")
             if job.dir in open(path, encoding="utf-8").read()]


def test_off_until_the_end(scratch):
    """Ranks that leave off at different operations, and never record again: nobody is late."""
    job = Held(scratch, "rank=2,op=all_reduce,nth=41,do=hold:1", "--steps", "60")
    job.wait_at(1)
    job.until_seen()
    job.ctl("off").ok()
    job.release(1)
    job.end()
    # Where it was held it stood still, on a busy machine for long.
    report = jobs.report(scratch, "--hang-after", "600")
    assert not report["findings"], report["findings"]
    assert len(report["self"]["holes"]) == 4, report["self"]
    assert {proc["mode"] for proc in processes(scratch)} == {"off"}


def test_killed_while_off(scratch):
    """The newest calls lie in the live pages all the same, but the job was told to be quiet."""
    job = Held(scratch, "rank=2,op=all_reduce,nth=41,do=hold:1;"
                        "rank=2,op=all_reduce,nth=81,do=hang",
               "--steps", "60", env={"NCCLSPY_HANG_S": "1", "NCCLSPY_HANG_START_S": "60"})
    job.wait_at(1)
    job.until_seen()
    job.ctl("off").ok()
    job.release(1)
    time.sleep(3)
    harness.kill_session(job.child)
    assert "[FAIL]" not in job.said(), job.said()
    # Without the live pages it is not known what was done last: nobody may be blamed.
    for path in glob.glob(os.path.join(scratch.traces, "*", "*", "*.live")):
        os.unlink(path)
    harness.remove_live_files(scratch.path)
    report = jobs.report(scratch)
    for finding in report["findings"]:
        assert not finding["culprits"] and "HANG" not in finding["id"], finding


def test_mode_off(scratch):
    """Nothing is written and nothing said, until it is switched on."""
    job = Held(scratch, HANG, env={"NCCLSPY_MODE": "off", "NCCLSPY_HANG_S": "1",
                                   "NCCLSPY_HANG_START_S": "1"})
    job.until_seen()
    time.sleep(3)
    assert not job.segments() and "[FAIL]" not in job.said(), job.said()
    job.ctl("on").ok()
    harness.wait_for(lambda: "-> references/" in job.said(), "the hang")
    assert live.named(live.verdict(live.block(
        harness.Result([], 0, "", job.said(), False), "COLLECTIVE_HANG"))) == [2], job.said()
    harness.kill_session(job.child)
    finding = jobs.urgent(jobs.report(scratch))[0]
    assert finding["id"] in ("COLLECTIVE_HANG", "RANK_DIED"), finding


def test_mode_watch(scratch):
    """No file without an event; at a hang what is in memory is enough to name the rank."""
    harness.need(CTL)
    result = jobs.run_job(scratch, *JOB, env={"NCCLSPY_MODE": "watch"})
    assert result.status == 0, str(result)
    assert not glob.glob(os.path.join(scratch.traces, "*", "*", "*.nspy")), result
    job = Held(scratch, HANG, env={"NCCLSPY_MODE": "watch", "NCCLSPY_HANG_S": "1",
                                   "NCCLSPY_HANG_START_S": "1"})
    harness.wait_for(lambda: len(job.segments()) == 4, "the traces of all ranks")
    assert "-> references/" in job.said(), job.said()

    def named():
        found = jobs.urgent(jobs.report(scratch, "--hang-after", "1"))
        return found and found[0]["id"] == "COLLECTIVE_HANG" and \
            jobs.culprit_ranks(found[0]) == [2]
    harness.kill_session(job.child)
    harness.wait_for(named, "the report", timeout=30)


def test_across_nodes(scratch):
    """Given elsewhere, a command reaches every node through the job's directory alone."""
    job = Held(scratch, "rank=2,op=all_reduce,nth=41,do=hold:1", "--node-size", "1")
    job.wait_at(1)
    os.makedirs(scratch.file("machine"))
    scratch.file("machine/shm.mb", "4")
    away = [MACHINE, scratch.file("machine"), CTL]

    def seen():
        result = scratch.run([*away, "--json", job.dir, "status"])
        if result.status == 77:
            raise harness.Skip("no namespaces of our own here")
        return result.status == 0 and json.loads(result.out)["running"] == 4
    harness.wait_for(seen, "four nodes on the board")
    result = scratch.run([*away, "--wait=240", job.dir, "threshold", "99"]).ok()
    assert "taken up by 4 of 4 ranks on 4 nodes" in result.out, str(result)
    assert job.status()["threshold_s_least"] == 99
    job.release(1)
    job.end()
    told = [one["event"] for one in live.events(scratch) if one["event"] != "note"]
    assert told == ["command"], live.events(scratch)


# --- who may ---

MASK = (1 << 64) - 1
PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
          0x27D4EB2F165667C5)


def rotate(value, bits):
    return (value << bits | value >> 64 - bits) & MASK


def xxh64(data):
    p1, p2, p3, p4, p5 = PRIMES

    def turn(acc, lane):
        return rotate((acc + lane * p2) & MASK, 31) * p1 & MASK
    at, acc = 0, p5
    if len(data) >= 32:
        lanes = [p1 + p2 & MASK, p2, 0, -p1 & MASK]
        for at in range(0, len(data) - 31, 32):
            lanes = [turn(lane, value) for lane, value in
                     zip(lanes, struct.unpack_from("<4Q", data, at))]
        at += 32
        acc = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            acc = ((acc ^ turn(0, lane)) * p1 + p4) & MASK
    acc = acc + len(data) & MASK
    for at in range(at, len(data) - 7, 8):
        acc = (rotate(acc ^ turn(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) & MASK
    rest = data[len(data) & ~7:]
    if len(rest) >= 4:
        acc = (rotate(acc ^ struct.unpack_from("<I", rest)[0] * p1 & MASK, 23) * p2 + p3) & MASK
        rest = rest[4:]
    for byte in rest:
        acc = rotate(acc ^ byte * p5 & MASK, 11) * p1 & MASK
    acc = (acc ^ acc >> 33) * p2 & MASK
    acc = (acc ^ acc >> 29) * p3 & MASK
    return acc ^ acc >> 32


def control_text(directory, command):
    text = f"ncclspy-control 1\njob {directory}\n{time.time_ns()} {command}\n".encode()
    return text + f"sum {xxh64(text):016x}\n".encode()


def test_strangers(scratch):
    """Files that others own or can write, and links, are not obeyed; the same bytes of ours are."""
    job = Held(scratch, "rank=2,op=all_reduce,nth=41,do=hold:1")
    job.wait_at(1)
    job.until_seen()
    job.ctl("mark", "a").ok()
    pages = [path for path in glob.glob("/dev/shm/ncclspy.*.status")
             if job.dir.encode() + b"\0" in open(path, "rb").read()]
    local = ".".join(pages[0].split(".")[:3]) + ".control"
    shared = os.path.join(job.dir, "board", "job.control")
    text = control_text(job.dir, "off")

    def put(path, mode, owner=None, link=False):
        beside = path + ".test"
        with open(beside, "wb") as f:
            f.write(text)
        os.chmod(beside, mode)
        if owner:
            os.chown(beside, owner, -1)
        if link:
            os.symlink(beside, path + ".link")
            beside = path + ".link"
        os.rename(beside, path)
        scratch.started_files = [path + ".test"]

    wrongs = [{"mode": 0o666}, {"mode": 0o620}, {"mode": 0o600, "link": True}]
    if os.getuid() == 0:
        wrongs.append({"mode": 0o600, "owner": 12345})
    for wrong in wrongs:
        for path in (local, shared):
            put(path, **wrong)
        time.sleep(2.5)
        assert job.status()["modes"]["record"] == 4, wrong
    os.unlink(shared)
    put(local, 0o600)
    harness.wait_for(lambda: job.status()["modes"]["off"] == 4, "our own file to be obeyed")
    for path in (local, shared):
        if os.path.lexists(path + ".test"):
            os.unlink(path + ".test")
    # And a directory that others could write to, or that is not ours, is not written to.
    os.chmod(os.path.join(job.dir, "board"), 0o777)
    result = job.ctl("on", wait=False)
    assert result.status == 1 and "only its owner" in result.err, str(result)
    os.chmod(os.path.join(job.dir, "board"), 0o700)
    if os.getuid() == 0:
        os.chown(job.dir, 12345, -1)
        result = job.ctl("on", wait=False)
        assert result.status == 1 and "only its owner" in result.err, str(result)
        os.chown(job.dir, 0, -1)
    job.ctl("on").ok()
    job.release(1)
    job.end()


def test_wrong_words(scratch):
    harness.need(CTL)
    os.makedirs(scratch.file("jobs/a/board"))
    for words, status in (([], 2), (["x"], 2), (["x", "what"], 2), (["x", "mark"], 2),
                          (["x", "off", "now"], 2), (["x", "threshold"], 2),
                          (["x", "threshold", "0"], 2), (["x", "threshold", "1e3"], 2),
                          (["x", "threshold", "86401"], 2), (["x", "dump", "all"], 2),
                          (["x", "mark", "y" * 300], 2), (["--wait=0", "x", "on"], 2),
                          (["no-such-job", "on"], 3), ([scratch.file("jobs"), "on"], 2),
                          ([scratch.file("jobs/a"), "on"], 3)):
        result = scratch.run([CTL, *words])
        assert result.status == status and result.err, (words, str(result))
    # Forced, a command waits there for whoever comes; more than a file holds are refused.
    for i in range(16):
        scratch.run([CTL, "--force", scratch.file("jobs/a"), "mark", str(i)]).ok()
    result = scratch.run([CTL, "--force", scratch.file("jobs/a"), "mark", "17"])
    assert result.status == 1 and "too many" in result.err, str(result)
    assert os.stat(scratch.file("jobs/a/board/job.control")).st_mode & 0o777 == 0o600


if __name__ == "__main__":
    harness.main(globals())
