# SPDX-License-Identifier: Apache-2.0
"""A job on nodes that are namespaces: network, host name, processes and shared memory of their own.

The caller's process becomes the switch between them (a network namespace with a bridge), so that
all of it goes with the process. They share the file system, as nodes share the job's directory.
"""
import ctypes
import os
import re
import shlex
import subprocess
import threading
import time

import harness
import jobs

CLONE_NEWNET, CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x40000000, 0x20000, 0x4000, 1 << 18
ENTER = ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child",
         "--mount-proc"]
# Process 1 of a node. "$1" is the node's number, "$2" what to run once the cable is plugged in.
FIRST = """
echo node-$1 > /proc/sys/kernel/hostname
mount -t tmpfs -o size=1g,mode=1777 none /dev/shm
echo ready
read plugged
ip link set lo up
ip addr add 10.77.0.$(($1 + 1))/24 dev eth0
ip link set eth0 up
sh -c "$2" <&- &
wait
"""
FAULT = re.compile(r"^trainjob: rank (\d+): fault ")


def own_namespaces():
    """This process gets a network and a mount namespace of its own, once."""
    if own_namespaces.done:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | CLONE_NEWNS) or \
            libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        raise harness.Skip("no namespaces of our own here")
    own_namespaces.done = True


own_namespaces.done = False


def network(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise harness.Skip(f"{' '.join(words)}: {done.stderr.strip()}")


class Node:
    """lines: (seconds of the monotonic clock, line of stderr)."""

    def __init__(self, scratch, number, ranks, script, env):
        self.number, self.ranks, self.lines = number, ranks, []
        self.child = scratch.start([*ENTER, "sh", "-c", FIRST, "node", str(number), script], env,
                                   stdin=subprocess.PIPE)
        self.reader = threading.Thread(target=self.read, daemon=True)

    def plug_in(self):
        if self.child.stdout.readline() != "ready\n":
            raise harness.Skip("no node can be made: " + self.child.stderr.read())
        network("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns",
                str(self.child.pid))
        network("ip", "link", "set", self.cable, "master", "switch", "up")
        self.child.stdin.write("plugged\n")
        self.child.stdin.close()
        self.reader.start()

    @property
    def cable(self):
        return f"node{self.number}"

    def read(self):
        for line in self.child.stderr:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def text(self):
        return "\n".join(line for _, line in list(self.lines))

    def unplug(self):
        network("ip", "link", "set", self.cable, "down")

    def throttle(self, rate):
        """What is sent to the node goes at that rate ("64kbit")."""
        network("tc", "qdisc", "replace", "dev", self.cable, "root", "tbf", "rate", rate, "burst",
                "8k", "limit", "4m")

    def crash(self):
        """All of it at once, without a word, as if it had lost power."""
        harness.kill_session(self.child)


class Cluster:
    """trainjob's ranks, dealt out to nodes; options are trainjob's. absent: ranks never started."""

    def __init__(self, scratch, ranks, nodes, options, fault=None, env=None, absent=()):
        harness.need(harness.TRAINJOB, harness.LIBRARY, harness.RUN)
        self.ranks, self.node_size = ranks, ranks // nodes
        assert self.node_size * nodes == ranks
        own_namespaces()
        network("ip", "link", "set", "lo", "up")
        network("ip", "link", "add", "switch", "type", "bridge")
        network("ip", "link", "set", "switch", "up")
        self.started = time.monotonic()
        settings = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(self.node_size),
                    "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500",
                    "NCCL_SOCKET_IFNAME": "eth0", "NSPY_FAKE_GPUS": "32",
                    "LD_PRELOAD": jobs.sanitizer_runtime(), **(env or {})}
        if fault:
            settings["NSPY_FAKE"] = fault
        self.nodes = []
        for number in range(nodes):
            mine = [r for r in range(number * self.node_size, (number + 1) * self.node_size)
                    if r not in absent]
            self.nodes.append(Node(scratch, number, mine, self.script(scratch, mine, options),
                                   {**settings, "NCCL_HOSTID": f"node-{number}"}))
        for node in self.nodes:
            node.plug_in()

    def script(self, scratch, ranks, options):
        job = shlex.join([harness.TRAINJOB, "--world", str(self.ranks), "--idfile",
                          scratch.file("id"), *options])
        start = "".join(f"RANK={rank} LOCAL_RANK={rank % self.node_size} {job} --rank {rank} & "
                        for rank in ranks)
        return "exec " + shlex.join([harness.RUN, "-o", scratch.traces, "--", "sh", "-c",
                                     start + "wait"])

    def node_of(self, rank):
        return self.nodes[rank // self.node_size]

    def faulted(self):
        """When the script of faults first struck, None while it has not."""
        times = [when for node in self.nodes for when, line in list(node.lines)
                 if FAULT.match(line)]
        return min(times, default=None)

    def running(self):
        return [node for node in self.nodes if node.child.poll() is None]

    def end(self):
        for node in self.nodes:
            node.crash()
        for node in self.nodes:
            node.child.wait()
            if node.reader.ident:
                node.reader.join()
        network("ip", "link", "del", "switch")
