# SPDX-License-Identifier: Apache-2.0
"""What ncclspy-run and ncclspy say: little, and only what is true."""
import os

import harness
import jobs
from harness import LIBRARY, RUN

NCCLSPY = os.path.join(harness.BUILD, "tools/ncclspy")
FAKES = os.path.join(harness.BUILD, "tests/fakes")


SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def commands_of_the_analysis(scratch):
    harness.need(harness.ANALYZE)
    told = scratch.run([harness.ANALYZE, "--help"]).ok().out.split("Commands:\n")[1]
    return [line.split()[0] for line in told.split("\n\n")[0].splitlines()]


def check(scratch, *words, env=None):
    harness.need(RUN)
    env = dict(env or {}, LD_PRELOAD=jobs.sanitizer_runtime())
    return scratch.run([RUN, "--check", "-o", scratch.traces, *words], env)


def tagged(result, tag):
    return [line for line in result.out.splitlines() if line.startswith(f"[{tag}]")]


def test_silent_by_default(scratch):
    harness.need(RUN, LIBRARY)
    result = scratch.run([RUN, "-o", scratch.traces, "--", "true"]).ok()
    assert (result.out, result.err) == ("", ""), str(result)


def test_says_why_nothing_was_seen(scratch):
    harness.need(RUN, LIBRARY)
    result = scratch.run([RUN, "-v", "-o", scratch.traces, "--", "true"]).ok()
    assert result.err.startswith("ncclspy: no NCCL call seen: "), result.err
    assert len(result.err.splitlines()) == 1, result.err
    missing = scratch.run([RUN, "-v", "--lib", scratch.file("none.so"), "--", "true"]).ok()
    assert "was not preloaded" in missing.err, missing.err


def test_says_where_traces_are(scratch):
    harness.need(RUN, LIBRARY, jobs.CALLER)
    result = scratch.run([RUN, "-v", "-o", scratch.traces, "--", jobs.CALLER, "init", "10",
                          "destroy"], {"LD_PRELOAD": jobs.sanitizer_runtime()}).ok()
    assert f"next: ncclspy-analyze report {scratch.traces}" in result.err, result.err


def test_library_missing(scratch):
    """The command runs all the same."""
    harness.need(RUN)
    result = scratch.run([RUN, "--lib", scratch.file("none.so"), "--", "sh", "-c",
                          "echo \"[$LD_PRELOAD]\"; exit 3"])
    assert result.status == 3 and result.out == "[]\n", str(result)
    assert "running without recording" in result.err, result.err
    quiet = scratch.run([RUN, "-q", "--lib", scratch.file("none.so"), "--", "true"]).ok()
    assert quiet.err == "", quiet.err


def test_preload_is_appended(scratch):
    """Allocators insist on being first."""
    harness.need(RUN, LIBRARY)
    other = os.path.join(FAKES, "libcuda.so.1")
    first = ":".join(lib for lib in (jobs.sanitizer_runtime(), other) if lib)
    result = scratch.run([RUN, "--", "sh", "-c", "echo $LD_PRELOAD"],
                         {"LD_PRELOAD": first}).ok()
    assert result.out.strip() == f"{first}:{LIBRARY}", result.out


def test_before_a_starter_of_ranks(scratch):
    """In front of srun it says where it belongs, and lets it run."""
    harness.need(RUN, LIBRARY)
    srun = scratch.file("srun", "#!/bin/sh\necho \"srun $*\"\n", 0o755)
    result = scratch.run([RUN, "--", srun, "-n", "4", "python3"]).ok()
    assert result.out == "srun -n 4 python3\n", result.out
    assert "srun [options] ncclspy-run -- PROGRAM" in result.err, result.err


def test_check_of_a_program(scratch):
    harness.need(LIBRARY)
    result = check(scratch, "--", "sh", env={"LD_LIBRARY_PATH": FAKES})
    assert result.status == 0, str(result)
    passed = "\n".join(tagged(result, "PASS"))
    for subject in ("library: " + LIBRARY, "program: ", "NCCL: 2.28.9 at " + FAKES, "traces: "):
        assert subject in passed, result.out
    assert "not seen: " in result.out, result.out
    assert not os.path.exists(scratch.traces), "--check must leave nothing behind"


def test_dry_run(scratch):
    """What is printed is what a shell runs, with the same effect; nothing is run or written by it."""
    harness.need(RUN, harness.LIBRARY)
    words = ["sh", "-c", 'printf "%s|" "$LD_PRELOAD" "$NCCLSPY_DIR" "$NCCLSPY_JOB" "$0" "$1"', "it's", "a b"]
    options = ["-o", scratch.file("out x"), "--job", "j"]
    plain = {}  # the harness removes ncclspy's variables
    line = scratch.run([RUN, *options, "--dry-run", "--", *words], plain).ok().out
    assert line.count("\n") == 1 and line.startswith("env ") and " LD_PRELOAD=" in line, line
    assert not os.path.exists(scratch.file("out x")), line
    shown = scratch.run(["sh", "-c", line], plain).ok().out
    assert shown == scratch.run([RUN, *options, "-q", "--", *words], plain).ok().out, shown
    assert "it's|a b|" in shown and "/out x|j|" in shown, shown
    off = scratch.run([RUN, *options, "--dry-run", "--", "true"], dict(plain, NCCLSPY="0")).ok().out
    assert off == "env true\n", off
    assert scratch.run([RUN, "--dry-run"], plain).status == 125


def test_check_of_what_cannot_work(scratch):
    harness.need(LIBRARY)
    assert tagged(check(scratch, "--", "no-such-program"), "FAIL")
    assert tagged(check(scratch, "--lib", scratch.file("none.so"), "--", "true"), "FAIL")
    off = check(scratch, "--", "true", env={"NCCLSPY": "0"})
    assert off.status == 1 and "NCCLSPY=0" in tagged(off, "FAIL")[0], str(off)
    static = scratch.file("static.c", "int main(void) { return 0; }\n")
    program = scratch.file("static")
    if scratch.run(["gcc", "-static", static, "-o", program]).status == 0:
        result = check(scratch, "--", program)
        assert result.status == 1 and "statically" in tagged(result, "FAIL")[0], str(result)
    scratch.file("plain", "content\n")
    unwritable = scratch.run([RUN, "--check", "-o", scratch.file("plain/traces"), "--", "true"])
    assert unwritable.status == 1 and "traces: " in tagged(unwritable, "FAIL")[0], str(unwritable)


def test_help_and_version(scratch):
    harness.need(RUN)
    assert "Usage: ncclspy-run" in scratch.run([RUN, "--help"]).ok().out
    assert scratch.run([RUN, "--version"]).ok().out.startswith("ncclspy-run ")


def test_dispatcher(scratch):
    harness.need(NCCLSPY, RUN, harness.ANALYZE)
    listed = scratch.run([NCCLSPY, "help"]).ok().out
    for line in listed.splitlines():
        command = line.split()[0] if line.startswith("  ") else "help"
        if command not in ("ls", "help"):
            said = scratch.run([NCCLSPY, command, "--help"]).ok().out
            assert said.startswith("Usage: ncclspy"), (command, said)
    analysis = commands_of_the_analysis(scratch)
    assert len(analysis) >= 10, analysis
    for command in analysis:
        assert f"\n  {command} " in listed, command
        for shell in ("bash/ncclspy", "zsh/_ncclspy", "fish/ncclspy.fish"):
            with open(os.path.join(SOURCE, "tools/completions", shell), encoding="utf-8") as text:
                assert command in text.read(), (shell, command)
    assert scratch.run([NCCLSPY, "run", "--", "sh", "-c", "exit 6"]).status == 6
    assert scratch.run([NCCLSPY, "report", scratch.file("gone")]).status == 3
    assert "RANK_DIED" in scratch.run([NCCLSPY, "explain", "RANK_DIED"]).ok().out
    assert scratch.run([NCCLSPY, "ls", scratch.file("gone")]).status == 3
    assert scratch.run([NCCLSPY]).status == 2
    unknown = scratch.run([NCCLSPY, "frobnicate"])
    assert unknown.status == 2 and "frobnicate" in unknown.err, str(unknown)
    own = scratch.file("bin/ncclspy-mine", "#!/bin/sh\necho mine \"$@\"\n", 0o755)
    path = f"{os.path.dirname(own)}:{os.environ['PATH']}"
    assert scratch.run([NCCLSPY, "mine", "x"], {"PATH": path}).ok().out == "mine x\n"


harness.main(globals())
