#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trainjob on the stand-ins: clean runs of every kind, and that each fault does what it says.

usage: test_trainjob.py TRAINJOB
"""
import os
import re
import subprocess
import sys
import unittest

TRAINJOB = sys.argv.pop(1)


def run(*args, fake="", env=None, timeout=100):
    """Exit status and stderr of a job."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "NSPY_"))}
    environment.update(env or {})
    if fake:
        environment["NSPY_FAKE"] = fake
    done = subprocess.run([TRAINJOB, *args], env=environment, timeout=timeout,
                          capture_output=True, text=True)
    return done.returncode, done.stderr, done.stdout


class Clean(unittest.TestCase):
    def check(self, *args, **kwargs):
        code, told, _ = run(*args, "--timeout", "30", **kwargs)
        self.assertEqual(code, 0, told)
        self.assertIn("results right", told)
        self.assertIn(": done", told)

    def test_patterns(self):
        for pattern in ("dp", "tp", "pp", "ep", "mix"):
            for ranks in ("2", "3", "8"):
                with self.subTest(pattern=pattern, ranks=ranks):
                    self.check("-n", ranks, "--steps", "3", "--pattern", pattern)

    def test_one_rank(self):
        self.check("-n", "1", "--steps", "2", "--pattern", "mix")

    def test_many_ranks(self):
        self.check("-n", "64", "--steps", "2", "--count", "512")

    def test_large_counts(self):
        self.check("-n", "4", "--steps", "2", "--count", "400000")

    def test_nodes(self):
        self.check("-n", "8", "--node-size", "2", "--steps", "3", "--pattern", "mix")
        self.check("-n", "7", "--node-size", "3", "--steps", "3")

    def test_ranks_per_process(self):
        self.check("-n", "8", "--ranks-per-process", "4", "--steps", "3", "--pattern", "mix")

    def test_graph(self):
        self.check("-n", "4", "--graph", "--steps", "50", "--pattern", "mix")

    def test_nonblocking(self):
        self.check("-n", "4", "--nonblocking", "--steps", "3", "--pattern", "mix")

    def test_many_communicators(self):
        self.check("-n", "4", "--extra-comms", "12", "--steps", "3")

    def test_compute_and_checkpoints(self):
        for where in ("host", "gpu"):
            self.check("-n", "2", "--steps", "4", "--compute-ms", "3", "--compute-on", where,
                       "--checkpoint-every", "2", "--checkpoint-ms", "5")

    def test_endings(self):
        self.check("-n", "4", "--steps", "2", "--abort-at-end", "--pattern", "tp")
        self.check("-n", "4", "--steps", "2", "--watchdog", "20")

    def test_kernel_duration(self):
        self.check("-n", "2", "--steps", "2", env={"NSPY_FAKE_KERNEL_US": "500"})


class Outside(unittest.TestCase):
    """Command line, environment of the ranks, launchers."""

    def test_usage(self):
        for args in (["--steps", "x"], ["-n", "0"], ["-n", "4", "--ranks-per-process", "3"],
                     ["--pattern", "xp"], ["surplus"], ["--nonsense"], ["--idfile", "/tmp/x"],
                     ["--env", "A=b"], ["--env", "x:A=b"], ["--env", "1:A"], ["--env", "2-1:A=b"],
                     ["--env", "1:=b"], ["--abort-status", "-1"]):
            with self.subTest(args=args):
                self.assertEqual(run(*args)[0], 2)

    def test_help(self):
        code, _, text = run("--help")
        self.assertEqual(code, 0)
        self.assertIn("exit status:", text)

    def test_launcher_and_environment(self):
        code, told, text = run("-n", "4", "--node-size", "2", "--steps", "1", "--launcher",
                               "sh -c env;exec\"$@\" sh".replace("env;exec", "env;\texec\t"))
        # words are split at blanks only, so the script above has tabs
        self.assertEqual(code, 0, told)
        for rank in range(4):
            self.assertIn(f"\nRANK={rank}\n", "\n" + text)
        for line in ("WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                     "NODE_NAME=node-0", "NODE_NAME=node-1", "LOCAL_RANK=1"):
            self.assertIn(line, text.splitlines())

    def test_environment_of_ranks(self):
        code, told, text = run("-n", "4", "--steps", "1", "--launcher", "sh -c env;exec\t\"$@\" sh",
                               "--env", "1-2:ODD=a=b", "--env", "3:ODD=c", "--env", "any:ALL=",
                               "--env", "2:ODD=d", env={"ODD": "outside", "ALL": "outside"})
        self.assertEqual(code, 0, told)
        lines = text.splitlines()
        self.assertEqual(sorted(line for line in lines if line.startswith("ODD=")),
                         ["ODD=a=b", "ODD=c", "ODD=d", "ODD=outside"])
        self.assertEqual(lines.count("ALL="), 4)

    def test_missing_launcher(self):
        code, told, _ = run("-n", "2", "--launcher", "/nonexistent/launcher")
        self.assertEqual(code, 1)
        self.assertIn("/nonexistent/launcher", told)

    def test_outer_launcher(self):
        path = f"/tmp/test_trainjob.{os.getpid()}.id"
        try:
            environment = {**os.environ, "WORLD_SIZE": "2"}
            ranks = [subprocess.Popen([TRAINJOB, "--idfile", path, "--steps", "2"],
                                      env={**environment, "RANK": str(r), "LOCAL_RANK": str(r)},
                                      stderr=subprocess.DEVNULL) for r in (0, 1)]
            self.assertEqual([rank.wait(60) for rank in ranks], [0, 0])
        finally:
            os.unlink(path)

    def test_log_lines(self):
        _, _, text = run("-n", "2", "--steps", "1", env={"NCCL_DEBUG": "INFO"})
        prefix = r"(?m)^\S+:\d+:\d+ \[\d\] NCCL INFO "
        for pattern in (r"Bootstrap: Using \S+:\S+<0>", r"Using network Socket",
                        r"NET/Plugin: Could not find: libnccl-net.so",
                        r"ncclCommInitRankConfig comm 0x[0-9a-f]+ rank 1 nranks 2 cudaDev 1 "
                        r"nvmlDev 1 busId 11000 commId 0x[0-9a-f]+ - Init START",
                        r"ncclCommInitRankConfig comm .* - Init COMPLETE",
                        r"Channel 00/0 : 0\[0\] -> 1\[1\] via P2P/IPC",
                        r"comm 0x[0-9a-f]+ rank 0 nranks 2 .* - Destroy COMPLETE"):
            self.assertRegex(text, prefix + pattern)
        self.assertRegex(text, r"(?m)^NCCL version 2\.28\.9\+cuda13\.0$")
        ids = set(re.findall(r"commId (0x\w+)", text))
        self.assertEqual(len(ids), 1)


class Faults(unittest.TestCase):
    def job(self, fake, *args, timeout="1"):
        return run("-n", "4", "--steps", "6", "--timeout", timeout, "--grace", "0.5", *args,
                   fake=fake)

    def hangs(self, fake, *args):
        code, told, _ = self.job(fake, *args)
        self.assertEqual(code, 124, told)

    def ends(self, fake, *args, code=0):
        got, told, _ = self.job(fake, *args, timeout="20")
        self.assertEqual(got, code, told)
        return told

    def test_who_does_not_call(self):
        self.hangs("rank=2,op=all_reduce,nth=9,do=skip")
        self.hangs("rank=2,op=all_reduce,nth=9,do=hang")
        self.hangs("rank=2,op=compute,step=4,do=hang")
        self.hangs("rank=1,op=init,do=skip")
        self.hangs("rank=1,op=split,do=hang", "--pattern", "tp")

    def test_inside(self):
        self.hangs("rank=2,op=any,nth=9,do=hang-inside")
        self.hangs("rank=2,op=any,nth=9,do=stall")

    def test_deaths(self):
        self.ends("rank=2,op=any,nth=30,do=kill", code=137)
        self.ends("rank=2,op=any,nth=30,do=segv", code=139)
        self.ends("rank=2,op=any,nth=30,do=exit:9", code=9)

    def test_wrong_calls(self):
        self.hangs("rank=2,op=all_reduce,nth=8,do=count:9")
        self.hangs("rank=2,op=all_reduce,nth=8,do=count:99999")
        self.hangs("rank=2,op=all_reduce,nth=8,do=datatype:float64")
        self.hangs("rank=1,op=broadcast,nth=2,do=root:2")
        self.hangs("rank=1,op=reduce_scatter,nth=4,do=op:all_gather")
        # a rank that combines what others send; the others' operation does not matter
        told = self.ends("rank=2,op=all_reduce,nth=8,do=redop:max", "--verify", code=3)
        self.assertIn("wrong data: all_reduce", told)

    def test_wrong_order(self):
        # two communicators of the same ranks: each waits for the other
        self.hangs("rank=1,comm=extra0,step=2,do=invert", "--extra-comms", "2")

    def test_wrong_peer(self):
        self.hangs("rank=1,op=send,nth=3,do=peer:3", "--pattern", "pp")

    def test_slowness(self):
        for fake in ("rank=2,do=jitter:1ms", "rank=2,step=3,op=all_gather,do=delay:5ms",
                     "rank=2,do=late:500us", "rank=2,do=slow:300us",
                     "rank=1,op=sync,do=delay:5ms", "rank=1,op=compute,do=delay:3ms", "rank=0,op=init,do=delay:200ms"):
            with self.subTest(fake=fake):
                self.ends(fake, "--verify")

    def test_failing_calls(self):
        self.assertIn("out of memory", self.ends("rank=2,nth=4,do=oom", code=4))
        self.ends("rank=2,op=all_gather,nth=4,do=fail:3", code=5)
        self.ends("rank=2,op=init,do=fail:2", code=5)
        told = self.ends("rank=2,op=any,nth=30,do=gpufault:700", code=4)
        self.assertIn("an illegal memory access was encountered (700)", told)
        told = self.ends("rank=2,do=version:22703", code=5)
        self.assertIn("Mismatched NCCL version detected : rank 2 version 22703", told)

    def test_watchdog(self):
        self.ends("rank=2,op=all_reduce,nth=9,do=skip", "--watchdog", "0.5", code=7)
        self.ends("rank=2,op=all_reduce,nth=9,do=hang-inside", "--watchdog", "0.5", code=7)
        self.ends("rank=2,op=all_reduce,nth=9,do=delay:2s", "--watchdog", "0.5",
                  "--abort-status", "0", code=0)
        told = self.ends("rank=1,op=any,nth=24,do=asyncerr:6", "--watchdog", "5", code=6)
        self.assertIn("asynchronous error: remote process exited", told)
        told = self.ends("rank=2,op=any,nth=30,do=kill", "--node-size", "2", "--watchdog", "5",
                         "--grace", "9", code=137)
        self.assertIn("asynchronous error: remote process exited", told)

    def test_script_errors(self):
        code, told, _ = run("-n", "2", fake="rank=1,do=bogus")
        self.assertEqual(code, 2)
        self.assertIn("NSPY_FAKE: rule 'rank=1,do=bogus': unknown fault", told)

    def test_setting_errors(self):
        code, told, _ = run("-n", "2", env={"NSPY_FAKE_MEMORY": "lots"})
        self.assertEqual(code, 2)
        self.assertIn("NSPY_FAKE_MEMORY", told)

    def test_small_memory(self):
        # not enough for NCCL, then not enough for the program
        code, told, _ = run("-n", "2", env={"NSPY_FAKE_MEMORY": "4M"})
        self.assertEqual(code, 5)
        self.assertIn("(1): Failed to CUDA calloc 10485760 bytes", told)
        code, told, _ = run("-n", "2", "--count", "4000000", env={"NSPY_FAKE_MEMORY": "12M"})
        self.assertEqual(code, 4)
        self.assertIn("cudaMalloc failed: out of memory (2)", told)


if __name__ == "__main__":
    unittest.main()
