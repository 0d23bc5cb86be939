# SPDX-License-Identifier: Apache-2.0
"""Every fault of the live watch on nodes of their own, many times: who was named, where, when.

matrix.py [FAULT...] [--runs N] [--threshold S] [--seed N] [--jobs K] [--nodes N] [--keep] [--json]
matrix.py --list

A run is right if on each node where ranks survive the fault's finding was told, of those ranks and
no others. It is abstained if nobody or only a part was named, missed if a node was not told at all,
wrong if somebody else was named. Exit status: 0 no run wrong and at most one in 25 not right, 1
else, 77 the machine cannot do it. Latencies are told, never judged: they are counted from the
fault to the last node that was told.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import cluster
import harness
import live

RIGHT, ABSTAINED, MISSED, WRONG = "right", "abstained", "missed", "wrong"
# A fault that is not told of by then is missed; a cluster without sign of a fault has failed.
PATIENCE_S, START_S = 45, 90
BURN = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end:\n    pass"
FOLLOWER = re.compile(r" \(in full on node (\S+)\)$")


class Plan:
    """What happens in a run, and what must be said of it.

    culprits: ranks. fault: NSPY_FAKE. act: called with the cluster once the job has started, for
    what the network does. note: the event in events.jsonl is enough, and it must blame nobody.
    """

    def __init__(self, findings, culprits, fault=None, options=(), **more):
        self.findings, self.culprits = findings.split("|"), sorted(culprits)
        self.fault, self.options = fault, list(options)
        self.act = more.get("act")
        self.absent, self.note = more.get("absent", ()), more.get("note", False)
        self.compute_ms = more.get("compute_ms", 50)
        self.after_s = more.get("after_s", 4)
        # Starting takes longer than a threshold of a second on a busy machine, and is no fault.
        self.start_s = more.get("start_s", 15)


class Draw:
    """The numbers of a run."""

    def __init__(self, name, seed, nodes):
        self.dice = random.Random(f"{name} {seed}")
        self.seed = seed
        self.nodes = nodes or self.dice.choice((1, 1, 2, 2, 4))
        self.ranks = 8 if self.nodes < 4 else self.dice.choice((8, 16))
        if not nodes and seed % 25 == 7:
            self.nodes, self.ranks = 4, 32
        self.rank = self.dice.randrange(self.ranks)
        # Of seven in a step or so: behind the rounds in which a job is still starting.
        self.nth = self.dice.randrange(180, 400)

    def pick(self, *words):
        return self.dice.choice(words)


def never_arrived(d):
    pattern = d.pick("dp", "mix")
    return Plan("COLLECTIVE_HANG", [d.rank], f"rank={d.rank},op=all_reduce,nth={d.nth},do=hang",
                ["--pattern", pattern])


def dead_rank(d):
    return Plan("RANK_DIED", [d.rank],
                f"rank={d.rank},op=all_reduce,nth={d.nth},do={d.pick('kill', 'segv', 'exit:3')}")


def stopped(d):
    return Plan("COLLECTIVE_HANG", [d.rank], f"rank={d.rank},op=all_reduce,nth={d.nth},do=stop")


def host_loop(d):
    return Plan("PROGRESS_STALLED_OUTSIDE_NCCL", [d.rank],
                f"rank={d.rank},op=all_reduce,nth={d.nth},do=spin")


def mismatch(d):
    # Another operator hangs nobody: other nodes have no page of the moment in which it was used.
    what = d.pick("count:512", "datatype:float64", "op:all_gather",
                  *(["redop:max"] if d.nodes == 1 else []))
    return Plan("COLLECTIVE_MISMATCH", [d.rank],
                f"rank={d.rank},op=all_reduce,nth={d.nth},do={what}")


def order_inversion(d):
    return Plan("ORDER_INVERSION", [d.rank],
                # The last of a step: what comes next belongs to the other communicator.
                f"rank={d.rank},op=all_reduce,comm=world,nth={d.nth // 7 * 7},do=invert",
                ["--extra-comms", "1"])


def p2p_without_partner(d):
    """A receive that is left out harms nobody here: its message is taken for the next one."""
    return Plan("COLLECTIVE_HANG", [d.rank], f"rank={d.rank},op=send,nth={d.nth},do=skip",
                ["--pattern", "pp"])


def init_missing(d):
    rank = 1 + d.rank % (d.ranks - 1)
    if d.pick(True, False):
        return Plan("RANKS_MISSING", [rank], absent=[rank], start_s=d.threshold)
    return Plan("RANKS_MISSING", [rank], f"rank={rank},op=init,do=hang",
                d.pick([], ["--nonblocking"]), start_s=d.threshold)


def slow_link(d):
    """So slow that an operation takes longer than the threshold: the network, and no rank."""
    return Plan("COLLECTIVE_HANG", [], act=lambda c: c.nodes[-1].throttle("24kbit"))


def slower_link(d):
    """Operations take longer, and end: a note at most, which blames nobody."""
    return Plan("STRAGGLER_RANK", [], act=lambda c: c.nodes[-1].throttle("10mbit"), note=True,
                after_s=8)


def slow_rank(d):
    return Plan("STRAGGLER_RANK", [d.rank],
                f"rank={d.rank},op=compute,nth=60-,do=delay:{d.pick(30, 45)}ms", compute_ms=100)


def graph_replay(d):
    """A rank that does not come to the next replay, or a GPU that gets stuck inside one."""
    if d.pick(True, False):
        return Plan("COLLECTIVE_HANG", [d.rank],
                    f"rank={d.rank},op=compute,nth={d.nth // 4},do=hang", ["--graph"])
    return Plan("COLLECTIVE_HANG", [], f"rank={d.rank},op=all_reduce,nth={1 + d.nth % 7},do=stall",
                ["--graph"], start_s=d.threshold)


def network_stuck(d):
    def unplug(c):
        for node in c.nodes:
            node.unplug()

    if d.nodes == 1:
        return Plan("COLLECTIVE_HANG", [], f"op=all_reduce,nth={d.nth},do=stall")
    return Plan("COLLECTIVE_HANG", [], act=unplug)


def clean(d):
    return Plan("", [], None, d.pick([], ["--pattern", "mix"], ["--graph"], ["--nonblocking"],
                                     ["--pattern", "pp"]))


def noisy(d):
    """Pauses stay below half the threshold: on a busy machine they take longer than asked for."""
    most = max(int(d.threshold * 500), 1)
    stalls = "".join(f"rank={d.dice.randrange(d.ranks)},op=compute,nth={nth},do=delay:{most}ms;"
                     for nth in (30, 55, 80, 105))
    return Plan("", [], f"rank=0,op=checkpoint,do=delay:{most}ms;{stalls}"
                "op=compute,nth=20-,do=jitter:15ms;op=coll,nth=3-,do=jitter:3ms",
                ["--checkpoint-every", "20", *d.pick([], ["--pattern", "mix"], ["--graph"])])


FAULTS = [never_arrived, dead_rank, stopped, host_loop, mismatch, order_inversion,
          p2p_without_partner, init_missing, slow_link, slower_link, slow_rank, graph_replay,
          network_stuck]
HEALTHY = [clean, noisy]
BY_NAME = {function.__name__: function for function in FAULTS + HEALTHY}
# Without a network there is no link.
TWO_NODES = {"slow_link", "slower_link"}


class Run:
    """One job, from its start to what was said of it."""

    def __init__(self, name, options):
        self.name, self.threshold = name, options.threshold
        self.draw = Draw(name, options.seed, options.nodes)
        self.draw.threshold = options.threshold
        if name in TWO_NODES and self.draw.nodes == 1:
            self.draw.nodes = 2
        self.plan = BY_NAME[name](self.draw)
        self.scratch = harness.Scratch(tempfile.mkdtemp(
            prefix=f"ncclspy-{name}-", dir=os.environ.get("NSPY_SCRATCH")))
        self.cluster, self.struck = None, None

    def start(self):
        limit = str(self.threshold)
        healthy = not self.plan.findings[0]
        options = ["--no-verify", "--compute-ms", str(self.plan.compute_ms), *self.plan.options,
                   "--steps", str(120 if healthy else 1000000)]
        self.cluster = cluster.Cluster(
            self.scratch, self.draw.ranks, self.draw.nodes, options, self.plan.fault,
            {"NCCLSPY_HANG_S": limit, "NCCLSPY_HANG_NOTE_S": limit,
             "NCCLSPY_HANG_START_S": str(max(self.plan.start_s, self.threshold))},
            self.plan.absent)

    def wait_for_fault(self):
        if self.plan.act:
            time.sleep(self.plan.after_s)
            self.plan.act(self.cluster)
            self.struck = time.monotonic()
        elif self.plan.absent:
            self.struck = self.cluster.started
        elif ",do=stall" in self.plan.fault:
            # The stand-in does it, and says nothing: counted from the last call that came through.
            self.struck = None
        else:
            harness.wait_for(self.cluster.faulted, "the fault", START_S)
            self.struck = self.cluster.faulted()

    def told(self, node):
        """(when, finding, line) of the alarms on a node's stderr."""
        for when, line in list(node.lines):
            match = live.TOLD.match(line)
            if match and match[1] == "FAIL" and match[3] not in ("SHM_TOO_SMALL", "MEMLOCK_LOW"):
                yield when, match[3], line

    def survivors(self):
        gone = set(self.plan.absent)
        if self.name == "dead_rank":
            gone |= set(self.plan.culprits)
        return [node for node in self.cluster.nodes if set(node.ranks) - gone]

    def verdicts(self):
        """(finding, ranks that its VERDICT names, node, when) of each block."""
        for node in self.cluster.nodes:
            lines = list(node.lines)
            for (when, first), (_, second) in zip(lines, lines[1:]):
                match = live.TOLD.match(first)
                if match and "VERDICT: " in second:
                    yield match[3], live.named(live.verdict([second])), node, when

    def notes(self):
        return [e for e in live.events(self.scratch) if e["id"] in self.plan.findings]

    def done(self):
        """The last word that was hoped for has been said on every node."""
        if self.plan.note:
            return bool(self.notes())
        return all(any(finding in self.plan.findings for _, finding, _ in self.told(node))
                   for node in self.survivors())

    def watch(self):
        try:
            harness.wait_for(self.done, "", PATIENCE_S + 2 * self.threshold)
        except AssertionError:
            pass
        time.sleep(1.5)  # room for a second voice

    def judge_fault(self):
        plan = self.plan
        for finding, ranks, node, _ in self.verdicts():
            if set(ranks) - set(plan.culprits):
                return WRONG, f"{finding} of ranks {ranks} on node {node.number}"
        if plan.note:
            notes = self.notes()
            if any(e["culprits"] for e in notes):
                return WRONG, str(notes)
            return (RIGHT, "") if notes else (ABSTAINED, "nothing was noted")
        for node in self.survivors():
            told = {finding for _, finding, _ in self.told(node)}
            if not told:
                return MISSED, f"nothing on node {node.number}"
            if not told & set(plan.findings):
                return ABSTAINED, f"{sorted(told)} on node {node.number}"
            if told - set(plan.findings):
                return ABSTAINED, f"also {sorted(told - set(plan.findings))} on node {node.number}"
        if not any(finding in plan.findings and ranks == plan.culprits
                   for finding, ranks, _, _ in self.verdicts()):
            return ABSTAINED, str([v[:2] for v in self.verdicts()])
        unsaid = [v[:2] for v in self.verdicts() if v[1] != plan.culprits]
        return (ABSTAINED, f"first {unsaid}") if unsaid else (RIGHT, "")

    def latency(self):
        """Seconds from the fault until the last node was told; None if one was not."""
        times = []
        for node in self.survivors():
            right = [when for when, finding, _ in self.told(node) if finding in self.plan.findings]
            if not right or not self.struck:
                return None
            times.append(right[0])
        return round(max(times) - self.struck, 2)

    def healthy(self):
        """Pauses and load from outside, for the noisy ones; then the job must end by itself."""
        if self.name == "noisy":
            self.scratch.start([sys.executable, "-c", BURN])
        end = time.monotonic() + START_S + 60
        while self.cluster.running() and time.monotonic() < end:
            time.sleep(0.5)
            if self.name == "noisy":
                self.pause()
        for node in self.cluster.nodes:
            told = list(self.told(node))
            if told:
                return WRONG, str(told[0][2])
        found = [e for e in live.events(self.scratch) if e["event"] == "finding"]
        if found:
            return WRONG, str(found)
        codes = [node.child.poll() for node in self.cluster.nodes]
        return (RIGHT, "") if codes == [0] * len(codes) else (MISSED, f"ended with {codes}")

    def pause(self):
        """A rank does not run for a while, as when the kernel reclaims memory."""
        node = self.draw.dice.choice(self.cluster.nodes)
        pids = [pid for pid in harness.session_members(node.child.pid) if is_rank(pid)]
        if pids:
            pid = self.draw.dice.choice(pids)
            try:
                os.kill(pid, 19)
                time.sleep(self.threshold * 0.3)
                os.kill(pid, 18)
            except ProcessLookupError:
                pass

    def run(self):
        """outcome, why, latency"""
        try:
            self.start()
            if not self.plan.findings[0]:
                return (*self.healthy(), None)
            self.wait_for_fault()
            self.watch()
            return (*self.judge_fault(), self.latency())
        finally:
            if self.cluster:
                self.cluster.end()
            self.scratch.end()

    def remove(self):
        shutil.rmtree(self.scratch.path, ignore_errors=True)

    def keep(self):
        """What each node said, with times since the fault."""
        with open(self.scratch.file("said", ""), "w", encoding="utf-8") as f:
            for node in self.cluster.nodes if self.cluster else []:
                for when, line in node.lines:
                    f.write(f"node {node.number} {when - (self.struck or when):8.2f} {line}\n")


def is_rank(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
            return f.read().strip() == "trainjob"
    except OSError:
        return False


def run_one(name, options):
    run = Run(name, options)
    try:
        outcome, why, latency = run.run()
    except harness.Skip as reason:
        run.remove()
        print(json.dumps({"skipped": str(reason)}))
        return
    except AssertionError as error:
        outcome, why, latency = MISSED, str(error), None
    kept = ""
    if outcome == RIGHT and not options.keep:
        run.remove()
    else:
        run.keep()
        kept = run.scratch.path
    print(json.dumps({"fault": name, "seed": options.seed, "nodes": run.draw.nodes,
                      "ranks": run.draw.ranks, "outcome": outcome, "why": why,
                      "latency": latency, "script": run.plan.fault, "kept": kept}))


def start_one(name, seed, options):
    """In a process of its own: it becomes the switch of its cluster."""
    command = [sys.executable, os.path.realpath(__file__), name, "--one", "--seed", str(seed),
               "--threshold", str(options.threshold)]
    command += ["--keep"] if options.keep else []
    command += ["--nodes", str(options.nodes)] if options.nodes else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        return {"fault": name, "seed": seed, "outcome": MISSED, "why": "the runner failed",
                "latency": None, "nodes": 0, "ranks": 0}
    return json.loads(done.stdout)


def quantile(values, part):
    return sorted(values)[min(int(part * len(values)), len(values) - 1)] if values else None


def table(name, results):
    """One line of counts, one of latencies for each kind of cluster."""
    counts = {kind: sum(r["outcome"] == kind for r in results)
              for kind in (RIGHT, ABSTAINED, MISSED, WRONG)}
    print(f"{name}: {len(results)} runs, " +
          ", ".join(f"{count} {kind}" for kind, count in counts.items()), flush=True)
    for words, some in (("one node", [r for r in results if r["nodes"] == 1]),
                        ("several nodes", [r for r in results if r["nodes"] > 1])):
        times = [r["latency"] for r in some if r["latency"] is not None]
        if times:
            print(f"  {words}: told everywhere after {quantile(times, 0.5)} s (median), "
                  f"{max(times)} s (latest) of {len(times)}")
    for r in results:
        if r["outcome"] != RIGHT:
            print(f"  seed {r['seed']}, {r['nodes']} nodes, {r['ranks']} ranks: {r['outcome']}: "
                  f"{r['why']}; {r.get('script')}; {r.get('kept', '')}")
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--threshold", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--json", action="store_true", help="a line for each run as well")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(BY_NAME))
        return
    if options.one:
        run_one(options.faults[0], options)
        return
    bad = False
    names = options.faults or list(BY_NAME)
    seeds = range(options.seed, options.seed + options.runs)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # Fault by fault in turn, so that not all of one kind run beside each other.
        runs = {(name, seed): pool.submit(start_one, name, seed, options)
                for seed in seeds for name in names}
        for name in names:
            results = [runs[name, seed].result() for seed in seeds]
            skipped = [r for r in results if "skipped" in r]
            if skipped:
                print(f"skipped: {skipped[0]['skipped']}")
                pool.shutdown(cancel_futures=True)
                sys.exit(harness.SKIP_STATUS)
            if options.json:
                print("\n".join(json.dumps(r) for r in results))
            counts = table(name, results)
            bad = bad or counts[WRONG] or counts[ABSTAINED] + counts[MISSED] > 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
