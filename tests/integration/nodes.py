# SPDX-License-Identifier: Apache-2.0
"""Survivors report what hangs when a node, the shared directory or half of the pages are lost."""
import glob
import os
import random
import shutil
import subprocess
import threading
import time

import cluster
import harness
import live
import matrix

JOB = ["--no-verify", "--compute-ms", "20", "--steps", "1000000"]
# Long enough for the board to have been read by all.
HANG = "rank=5,op=all_reduce,nth=500,do=hang"


def start(scratch, nodes, fault=None, more=(), **env):
    return cluster.Cluster(scratch, 8, nodes, [*JOB, *more], fault,
                           {"NCCLSPY_HANG_S": "1", "NCCLSPY_HANG_NOTE_S": "1",
                            "NCCLSPY_HANG_START_S": "20", "NCCLSPY_BOARD_S": "1", **env})


def alarms(nodes):
    """[(finding, ranks that it names)] of each node; followers name them in their one line."""
    found = []
    for node in nodes:
        told = []
        lines = node.text().splitlines()
        for line, after in zip(lines, lines[1:] + [""]):
            match = live.TOLD.match(line)
            if not match or match[1] != "FAIL":
                continue
            where = live.verdict([after]) if "VERDICT: " in after else match[4]
            told.append((match[3], live.named(where)))
        found.append(told)
    return found


def wait_for_all(nodes, finding):
    harness.wait_for(lambda: all(any(one[0] == finding for one in told) for told in alarms(nodes)),
                     f"{finding} on every node: {[node.text() for node in nodes]}")


def wait_for_board(scratch, nodes):
    board = os.path.join(scratch.traces, scratch.env["NCCLSPY_JOB"], "board", "*.node")
    harness.wait_for(lambda: len(glob.glob(board)) == nodes, "the nodes' files")
    return glob.glob(board)


def blame_at_most(job, ranks):
    for told in alarms(job.nodes):
        for finding, named in told:
            assert set(named) <= set(ranks), (finding, named, [n.text() for n in job.nodes])


def test_culprits_node_is_gone(scratch):
    """All of it at once, as without power. The others hear nothing of it, and say so."""
    job = start(scratch, 4)
    wait_for_board(scratch, 4)
    time.sleep(2)
    job.nodes[2].crash()
    survivors = [node for node in job.nodes if node.number != 2]
    wait_for_all(survivors, "COLLECTIVE_HANG")
    job.end()
    told = [one for one in alarms(survivors)[0] if one[0] == "COLLECTIVE_HANG"]
    assert told[-1][1] == [4, 5], job.nodes[0].text()
    blame_at_most(job, [4, 5])


def test_directory_disappears(scratch):
    """Somebody cleans up. The culprit's node names it, the others say that they do not see all."""
    job = start(scratch, 2, HANG, NCCLSPY_HANG_S="2")
    wait_for_board(scratch, 2)
    shutil.rmtree(scratch.traces)
    scratch.file("traces", "not a directory any more\n")
    wait_for_all(job.nodes, "COLLECTIVE_HANG")
    job.end()
    assert ("COLLECTIVE_HANG", [5]) in alarms(job.nodes)[1], job.nodes[1].text()
    blame_at_most(job, [5])


def test_more_directory_is_full(scratch):
    """A small tmpfs, filled up while the job runs."""
    cluster.own_namespaces()
    os.mkdir(scratch.traces)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", scratch.traces],
                      check=False).returncode:
        raise harness.Skip("no right to mount")
    job = start(scratch, 2, HANG)
    wait_for_board(scratch, 2)
    try:
        with open(os.path.join(scratch.traces, "filler"), "wb") as f:
            for _ in range(4096):
                f.write(bytes(1024))
                f.flush()
    except OSError:
        pass
    wait_for_all(job.nodes, "COLLECTIVE_HANG")
    job.end()
    assert ("COLLECTIVE_HANG", [5]) in alarms(job.nodes)[1], job.nodes[1].text()
    blame_at_most(job, [5])


def test_more_creation_without_a_call(scratch):
    """A nonblocking one holds up no call; the nodes hear of each other in time all the same."""
    job = start(scratch, 4, "rank=5,op=init,do=hang", NCCLSPY_HANG_START_S="1",
                NCCLSPY_BOARD_S="10", more=["--nonblocking"])
    wait_for_all(job.nodes, "RANKS_MISSING")
    job.end()
    assert alarms(job.nodes)[0] == [("RANKS_MISSING", [5])], job.nodes[0].text()


class Vandal(threading.Thread):
    """Writes noise into files as fast as their owners write sense."""

    def __init__(self, find):
        super().__init__(daemon=True)
        self.find, self.over, self.hits = find, False, 0

    def run(self):
        dice = random.Random(7)
        while not self.over:
            for path in self.find():
                try:
                    with open(path, "r+b") as f:
                        size = os.fstat(f.fileno()).st_size
                        f.seek(dice.randrange(max(size, 1)))
                        f.write(dice.randbytes(dice.choice((1, 64, 4096)))[:max(size, 1)])
                        self.hits += 1
                except OSError:
                    pass
            time.sleep(0.005)


def node_root(node):
    """The file system as a node sees it."""
    ranks = [pid for pid in harness.session_members(node.child.pid) if matrix.is_rank(pid)]
    return f"/proc/{ranks[0]}/root" if ranks else None


def vandalise(job, find):
    vandal = Vandal(find)
    vandal.start()
    wait_for_all(job.nodes, "COLLECTIVE_HANG")
    vandal.over = True
    vandal.join()
    job.end()
    assert vandal.hits > 50, vandal.hits
    blame_at_most(job, [1])


def test_half_of_the_pages_are_garbage(scratch):
    """Four of eight ranks' pages in shared memory. The culprit's own is not among them."""
    job = start(scratch, 1, HANG.replace("rank=5", "rank=1"))
    harness.wait_for(lambda: "active on 8/8" in job.nodes[0].text(), "all ranks")
    root = node_root(job.nodes[0])
    pages = sorted(glob.glob(root + "/dev/shm/ncclspy.*.status"))
    assert len(pages) == 8, pages
    # Ranks were started in order, and have pids in order.
    pages.sort(key=lambda name: int(name.split(".")[-3]))
    vandalise(job, lambda: pages[4:])
    assert ("COLLECTIVE_HANG", [1]) in alarms(job.nodes)[0], job.nodes[0].text()


def test_more_half_of_the_nodes_files_are_garbage(scratch):
    """Two of four nodes' files in the shared directory."""
    job = start(scratch, 4, HANG.replace("rank=5", "rank=1"))
    files = wait_for_board(scratch, 4)
    bad = [path for path in files if os.path.basename(path).startswith(("node-2", "node-3"))]
    assert len(bad) == 2, files
    vandalise(job, lambda: bad)
    assert ("COLLECTIVE_HANG", [1]) in alarms(job.nodes)[0], job.nodes[0].text()


if __name__ == "__main__":
    harness.main(globals())
