# SPDX-License-Identifier: Apache-2.0
"""Every command that docs/GUIDE.md shows is run, on a job that hangs as the guide is read."""
import os
import re
import shlex
import shutil

import harness
import jobs
from harness import ANALYZE, BUILD, LIBRARY, RUN, TRAINJOB

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
GUIDE = os.path.join(SOURCE, "docs/GUIDE.md")
PROGRAMS = ["analyzer/ncclspy-analyze", "tools/run/ncclspy-run", "tools/top/ncclspy-top",
            "tools/ctl/ncclspy-ctl", "tools/stacks/ncclspy-stacks",
            "tools/snapshot/ncclspy-snapshot"]
# What a command is allowed to end with; all others with 0. report: 1 is a P0. compare: 1 is a
# regression, 3 that steps of the hung job cannot be compared. run --check: 1 is "not all is seen".
STATUS = {"ncclspy-analyze report": (0, 1), "ncclspy-analyze compare": (0, 1, 3),
          "ncclspy-analyze check": (0, 1), "ncclspy-run": (0, 1), "ncclspy-snapshot compare": (0, 1)}
JOB = ["-n", "4", "--steps", "30", "--compute-ms", "2", "--no-verify"]


def blocks(kind):
    with open(GUIDE, encoding="utf-8") as guide:
        found = re.findall(r"^```(sh[^\n]*)\n(.*?)^```", guide.read(), re.M | re.S)
    return [line for info, text in found if info == kind for line in text.splitlines() if line]


def programs(scratch):
    folder = scratch.file("bin")
    os.mkdir(folder)
    for program in PROGRAMS:
        harness.need(os.path.join(BUILD, program))
        os.symlink(os.path.join(BUILD, program), os.path.join(folder, os.path.basename(program)))
    return folder


def earlier_runs(scratch):
    jobs.run_job(scratch, *JOB, launch=["--job", "8120"]).ok()
    for name in ("8121", "8122"):
        shutil.copytree(os.path.join(scratch.traces, "8120"), os.path.join(scratch.traces, name))


def test_guide(scratch):
    harness.need(TRAINJOB, LIBRARY, RUN, ANALYZE)
    commands = blocks("sh")
    assert len(commands) >= 15, commands
    earlier_runs(scratch)
    job = scratch.start(
        [RUN, "-q", "-o", scratch.traces, "--job", "8123", "--", TRAINJOB, *JOB, "--timeout", "200",
         "--grace", "10"], {"NSPY_FAKE": "rank=2,op=all_reduce,nth=41,do=hang"})
    path = programs(scratch) + ":" + os.environ["PATH"]

    def hangs():
        result = scratch.run([ANALYZE, "report", "--hang-after", "2",
                              os.path.join(scratch.traces, "8123")])
        return "COLLECTIVE_HANG" in result.out
    harness.wait_for(hangs, "the hang")
    said = {}
    for line in commands:
        command = line.replace("/fsx/spy", scratch.traces)
        result = scratch.run(["sh", "-c", command], {"PATH": path}, cwd=scratch.path)
        words = line.split()
        allowed = STATUS.get(" ".join(words[:2]), STATUS.get(words[0], (0,)))
        assert result.status in allowed, f"{line}\n{result}"
        said[line] = result
    assert job.poll() is None, "the job ended while the guide was read"
    harness.kill_session(job)
    first = said["ncclspy-analyze report --hang-after 3 /fsx/spy/8123"].out.splitlines()
    assert "VERDICT" in first[1] and "rank 2 " in first[1], first[:3]
    assert "COLLECTIVE_HANG" in said["ncclspy-analyze explain COLLECTIVE_HANG"].out


def options_of(words):
    return [word.split("=")[0] for word in words if word.startswith("--") and len(word) > 2]


def test_guide_cluster(scratch):
    """Of what needs a cluster: the shell understands it, and our programs know the options."""
    path = {"PATH": programs(scratch) + ":" + os.environ["PATH"]}
    lines = blocks("sh cluster")
    assert len(lines) >= 6, lines
    for line in lines:
        scratch.run(["sh", "-n", "-c", line]).ok()
        words = shlex.split(line)
        start = max(i for i, word in enumerate(words)
                    if os.path.basename(word).startswith("ncclspy-"))
        program = os.path.basename(words[start])
        if program == "ncclspy-collect":
            shown = scratch.run(["sh", os.path.join(SOURCE, "tools/collect/ncclspy-collect"),
                                 "--help"]).ok().out
        else:
            command = words[start + 1] if program == "ncclspy-analyze" else ""
            shown = scratch.run([program, *([command] if command else []), "--help"],
                                path).ok().out
        for option in options_of(words[start:]):
            assert option in shown, f"{line}: {option}"


if __name__ == "__main__":
    harness.main(globals())
