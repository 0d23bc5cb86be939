# SPDX-License-Identifier: Apache-2.0
"""ncclspy-snapshot on recorded trees: every rule fires, and stays silent just before it would."""
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

SNAPSHOT, NVML, CATALOGUE = sys.argv[1:4]
DEAD_MOUNT = sys.argv[5]
IB = "sys/class/infiniband"

PCI = "sys/bus/pci/devices/0000:53:00.0"
GOOD = {
    "proc/sys/kernel/hostname": "node1",
    "proc/sys/kernel/osrelease": "6.1.0",
    "sys/devices/virtual/dmi/id/sys_vendor": "Amazon EC2",
    "sys/devices/virtual/dmi/id/product_name": "p4d.24xlarge",
    "sys/devices/virtual/dmi/id/board_asset_tag": "i-0abc",
    "sys/devices/system/cpu/online": "0-1",
    "sys/devices/system/cpu/smt/active": "1",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
    "sys/devices/system/node/node0/cpulist": "0-1",
    "proc/cmdline": "root=/dev/nvme0n1p1 quiet",
    "proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\n",
    "proc/meminfo": "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\nHugePages_Total: 512\n"
                    "HugePages_Free: 512\n",
    "proc/self/cgroup": "0::/job\n",
    "sys/fs/cgroup/job/memory.max": "10737418240",
    "sys/fs/cgroup/job/memory.current": "10000000000",
    "sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 5000000000\n",
    "sys/fs/cgroup/job/memory.events": "low 0\noom 0\noom_kill 0\n",
    "proc/self/limits": "Max stack size            8388608              unlimited            bytes\n"
                        "Max open files            65536                65536                files\n"
                        "Max locked memory         1073741824           1073741824           bytes\n",
    "proc/self/status": "CapEff:\t0000000000000000\n",
    "proc/self/mounts": "overlay / overlay rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"
                        "10.0.0.9@tcp:/fsx /fsx lustre rw 0 0\nproc /proc proc rw 0 0\n",
    "ncclspy-recorded": "adjtimex 1 2000\nstatvfs:/ 100 11 100 11\n"
                        "statvfs:/dev/shm 17179869184 17179869184 100 99\n"
                        "statvfs:/fsx 1000 500 0 0\n",
    "etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\n",
    "etc/systemd/logind.conf.d/a.conf": "RemoveIPC=no\n",
    "dev/kmsg": "[1.0] NVRM: loading NVIDIA UNIX kernel module\n",
    "sys/class/net/ens5/operstate": "up",
    "sys/class/net/ens5/mtu": "9001",
    "sys/class/net/docker0/operstate": "up",
    "sys/class/net/docker0/mtu": "1500",
    "sys/module/efa/version": "2.13.0",
    "sys/module/nvidia/version": "570.86.15",
    "dev/infiniband/uverbs0": "",
    "opt/amazon/efa_installed_packages": "# EFA installer version: 1.38.0\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX 570.86.15\n",
    PCI + "/vendor": "0x10de",
    PCI + "/class": "0x030200",
    PCI + "/current_link_width": "16",
    PCI + "/max_link_width": "16",
    "dev/nvidia-nvswitchctl": "",
    "proc/77/comm": "nv-fabricmanage",
}


def topology(links, gpus=4):
    """As nvidia-smi topo -m prints it; links: {(a, b): link}, NV18 where nothing else is said."""
    names = [f"GPU{n}" for n in range(gpus)]
    rows = ["\t\x1b[4m" + "\t".join(names + ["NIC0", "NIC1", "CPU Affinity", "NUMA Affinity"]) + "\x1b[0m"]
    for a in range(gpus):
        cells = [" X " if a == b else links.get((min(a, b), max(a, b)), "NV18") for b in range(gpus)]
        rows.append("\t".join([f"GPU{a}"] + cells + ["PXB" if a < 2 else "SYS", "NODE", "0-47", "0"]))
    return "\n".join(rows) + "\nNIC0\tPXB\tPXB\tSYS\tSYS\t X \tSYS\n\nLegend:\n\n  X    = Self\n"


def lspci(valid):
    return ("00:01.0 PCI bridge: Broadcom\n\tCapabilities: [148 v1] Access Control Services\n"
            f"\t\tACSCap:\tSrcValid+ TransBlk+\n\t\tACSCtl:\tSrcValid{valid} TransBlk- ReqRedir{valid}\n")


FI_INFO = "provider: efa\n    fabric: efa\n    domain: rdmap{0}s0-rdm\n    version: 203.0\n    type: FI_EP_RDM\n"
LFS_DF = ("UUID                   1K-blocks        Used   Available Use% Mounted on\n"
          "fsx-MDT0000_UUID            1000         100         900  10% /fsx[MDT:0]\n"
          "fsx-OST0000_UUID            1000         500         500  50% /fsx[OST:0]\n"
          "{}\n\nfilesystem_summary:         2000        1390         610  95% /fsx\n")
OST1 = "fsx-OST0001_UUID            1000         {0}0           0  {0}% /fsx[OST:1]"
TOOLS = "ncclspy-tools/"
GOOD.update({
    TOOLS + "nvidia-smi": topology({}),
    TOOLS + "fi_info": "".join(FI_INFO.format(n) for n in range(4)),
    TOOLS + "lspci": lspci("-"),
    TOOLS + "lfs": LFS_DF.format(OST1.format(89)),
    "proc/cpuinfo": "flags\t\t: fpu sse2\n",
})
BARE = {(0, 2): "SYS", (1, 2): "SYS", (2, 3): "SYS"}
for n in range(4):
    GOOD.update({
        f"{IB}/rdmap{n}/fw_ver": "0.0.0.0",
        f"{IB}/rdmap{n}/ports/1/state": "4: ACTIVE",
        f"{IB}/rdmap{n}/ports/1/rate": "100 Gb/sec",
        f"{IB}/rdmap{n}/ports/1/hw_counters/rx_drops": "0",
    })

HW = f"{IB}/rdmap2/ports/1/hw_counters/rx_drops"
MLX = {"sys/module/mlx5_core/version": "5.0", "proc/sys/kernel/osrelease": "5.11.22"}

# name: (finding, what makes it fire, what just does not), as changes to the good tree; None removes.
# "after" changes the second reading, "nvml" the GPUs.
RULES = {
    "governor": ("CPU_GOVERNOR",
                 {"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave"},
                 {"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": None}),
    "iowait": ("HOST_IOWAIT_HIGH", {"after": {"proc/stat": "cpu  150 0 125 879 46 0 0 0 0 0\n"}},
               {"after": {"proc/stat": "cpu  150 0 125 885 40 0 0 0 0 0\n"}}),
    "cgroup": ("CGROUP_MEMORY_PRESSURE",
               {"sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 100000000\n"},
               {"sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 400000000\n"}),
    "oom": ("CGROUP_MEMORY_PRESSURE",
            {"sys/fs/cgroup/job/memory.events": "oom 1\noom_kill 1\n"},
            {"sys/fs/cgroup/job/memory.events": "oom 1\noom_kill 0\n"}),
    "memlock": ("MEMLOCK_LOW",
                {"proc/self/limits": "Max locked memory         8388608   8388608  bytes\n"},
                {"proc/self/limits": "Max locked memory         8388608   8388608  bytes\n",
                 "proc/self/status": "CapEff:\t0000000000004000\n"}),
    "shm": ("SHM_TOO_SMALL",
            {"ncclspy-recorded": "adjtimex 1 2\nstatvfs:/dev/shm 1073741823 1073741823 9 9\n"},
            {"ncclspy-recorded": "adjtimex 1 2\nstatvfs:/dev/shm 1073741824 1073741824 9 9\n"}),
    "full": ("DISK_OR_INODE_FULL", {"ncclspy-recorded": "statvfs:/fsx 100 10 0 0\n"},
             {"ncclspy-recorded": "statvfs:/fsx 100 11 0 0\n"}),
    "inodes": ("DISK_OR_INODE_FULL", {"ncclspy-recorded": "statvfs:/ 100 50 100 9\n"},
               {"ncclspy-recorded": "statvfs:/ 100 50 100 12\n"}),
    "clock": ("CLOCK_UNSYNCHRONISED", {"ncclspy-recorded": "adjtimex 65 16000000\n"},
              {"ncclspy-recorded": "adjtimex 1 16000000\n"}),
    "remove ipc": ("REMOVE_IPC", {"etc/systemd/logind.conf.d/a.conf": "RemoveIPC=yes\n"},
                   {"etc/systemd/logind.conf.d/a.conf": None}),
    "xid": ("GPU_XID", {"dev/kmsg": "[9.1] NVRM: Xid (PCI:0000:53:00): 79, GPU has fallen off\n"},
            {"dev/kmsg": "[9.1] NVRM: Xid (PCI:0000:53:00): 13, Graphics Exception\n"}),
    "mtu": ("MTU_LOW", {"sys/class/net/ens5/mtu": "1500"},
            {"sys/class/net/ens5/mtu": "1500", "sys/devices/virtual/dmi/id/sys_vendor": "Other"}),
    "port": ("NIC_PORT_DOWN", {f"{IB}/rdmap2/ports/1/state": "1: DOWN"},
             {f"{IB}/rdmap2/ports/1/state": "4: ACTIVE\n"}),
    "count": ("NIC_COUNT_LOW", {f"{IB}/rdmap3/{f}": None for f in (
        "fw_ver", "ports/1/state", "ports/1/rate", "ports/1/hw_counters/rx_drops")},
              {"sys/devices/virtual/dmi/id/product_name": "m5.large"}),
    "counters": ("NIC_PORT_ERRORS", {HW: "5", "after": {HW: "6"}}, {HW: "5", "after": {HW: "5"}}),
    "uverbs": ("NO_RDMA_DEVICE_IN_CONTAINER", {"dev/infiniband/uverbs0": None},
               {"dev/infiniband/uverbs0": None, "dev/infiniband/uverbs7": ""}),
    "peermem": ("NO_GPUDIRECT_RDMA", MLX, dict(MLX, **{"proc/sys/kernel/osrelease": "5.12.0"})),
    "fabric manager": ("NVLS_FAILURE", {"proc/77/comm": "bash"},
                       {"proc/77/comm": "bash", "dev/nvidia-nvswitchctl": None}),
    "lanes": ("GPU_HEALTH", {PCI + "/current_link_width": "8"},
              {PCI + "/current_link_width": "8", PCI + "/vendor": "0x8086"}),
    "hot": ("GPU_HEALTH", {"nvml": "celsius=88"}, {"nvml": "celsius=87"}),
    "throttled": ("GPU_HEALTH", {"nvml": "celsius=80,mhz=989"}, {"nvml": "celsius=79,mhz=989"}),
    "idle clock": ("GPU_HEALTH", {"nvml": "celsius=85,mhz=345"}, {"nvml": "celsius=45,mhz=345"}),
    "ecc": ("GPU_HEALTH", {"nvml": "ecc=1"}, {"nvml": "life=1"}),
    "remap pending": ("GPU_HEALTH", {"nvml": "pending=1"}, {"nvml": "pending=0"}),
    "remap failed": ("GPU_HEALTH", {"nvml": "failed=1"}, {"nvml": "failed=0"}),
    "nvlink": ("GPU_HEALTH", {"nvml": "links=17"}, {"nvml": "links=0"}),
    "pcie": ("GPU_HEALTH", {"nvml": "width=8"}, {"nvml": "width=16"}),
    "lost": ("GPU_HEALTH", {"nvml": "lost=15"}, {"nvml": "lost=2"}),
    "hang": ("GPU_HEALTH", {"nvml": "hang"}, {"nvml": "nodriver"}),
    "crash": ("GPU_HEALTH", {"nvml": "crash"}, {"nvml": ""}),
    "outside NVLink": ("GPU_HEALTH", {TOOLS + "nvidia-smi": topology(BARE)},
                       {TOOLS + "nvidia-smi": topology(BARE | {(0, 1): "SYS"})}),
    "no provider": ("EFA_PROVIDER_UNAVAILABLE", {TOOLS + "fi_info": ""},
                    {TOOLS + "fi_info": "", "sys/module/efa/version": None}),
    "access control": ("P2P_DISABLED", {TOOLS + "lspci": lspci("+")},
                       {TOOLS + "lspci": lspci("+"), "proc/cpuinfo": "flags\t\t: fpu hypervisor\n"}),
    "full target": ("DISK_OR_INODE_FULL", {TOOLS + "lfs": LFS_DF.format(OST1.format(90))},
                    {TOOLS + "lfs": LFS_DF.format(OST1.format(89))}),
    "inactive target": ("MOUNT_UNRESPONSIVE",
                        {TOOLS + "lfs": LFS_DF.format("OST0001             : inactive device")},
                        {TOOLS + "lfs": LFS_DF.format("")}),
    "off the bus": ("GPU_HEALTH", {f"sys/bus/pci/devices/0000:{b}:00.0/{f}": v
                                   for b in ("a0", "b0")
                                   for f, v in (("vendor", "0x10de"), ("class", "0x030200"))},
                    {f"sys/bus/pci/devices/0000:a0:00.0/{f}": v
                     for f, v in (("vendor", "0x10de"), ("class", "0x030200"))}),
}


def write(root, tree):
    for path, text in tree.items():
        if text is None:
            continue
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)


def run(arguments, nvml=None, code=0):
    env = dict(os.environ, NSPY_FAKE_NVML=nvml or "")
    result = subprocess.run([SNAPSHOT] + arguments, capture_output=True, text=True, env=env,
                            timeout=100, check=False)
    assert result.returncode == code, (arguments, result.returncode, result.stderr)
    return result.stdout + result.stderr


def snapshot(changes, text=False):
    changes = copy.deepcopy(changes)
    after, nvml = changes.pop("after", {}), changes.pop("nvml", "")
    tree = dict(GOOD, **changes)
    with tempfile.TemporaryDirectory() as root:
        write(root + "/one", tree)
        write(root + "/two", dict(tree, **after))
        out = run(([] if text else ["--json"]) + ["--tools", "--nvml", NVML, "--interval", "0",
                  "--root", root + "/one", "--after", root + "/two"], nvml)
    return out if text else json.loads(out)


def concerns(shot):
    return {c["finding"] for c in shot["checks"] if c["status"] == "CONCERN"}


class Rules(unittest.TestCase):
    def test_healthy_host(self):
        shot = snapshot({})
        self.assertEqual(concerns(shot), set(), shot["checks"])
        self.assertEqual(shot["not_available"], [])
        self.assertEqual((shot["host"], shot["scope"]), ("node1", "host"))
        stable = shot["facts"]["stable"]
        self.assertEqual(stable["module.efa"], "2.13.0")
        self.assertEqual(stable["gpu.count"], "2")
        self.assertEqual(stable["limit.memlock"], "1073741824")
        self.assertEqual(shot["facts"]["identity"]["host.asset"], "i-0abc")
        self.assertEqual((stable["gpu.links"], stable["gpu.nearest_nic"]), ("6 x NV18", "2 x PXB, 2 x NODE"))
        self.assertEqual((stable["efa.domains"], stable["pci.access_control"]), ("4", "0 of 1"))
        self.assertEqual(shot["facts"]["measured"]["lustre.fullest_percent"], "89")

    def test_rules_and_near_misses(self):
        for name, (finding, fires, near) in RULES.items():
            with self.subTest(rule=name):
                self.assertEqual(concerns(snapshot(fires)), {finding})
                self.assertEqual(concerns(snapshot(near)), set())

    def test_every_finding_that_the_source_names_has_a_rule_here(self):
        named, folder = set(), sys.argv[4]
        for path in os.listdir(folder):
            with open(os.path.join(folder, path), encoding="utf-8") as f:
                named |= set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', f.read()))
        with open(CATALOGUE, encoding="utf-8") as f:
            known = set(re.findall(r"^NSPY_FINDING\((\w+)", f.read(), re.MULTILINE))
        named -= {"LC_ALL", "FI_EP_RDM"}  # not ours
        self.assertLessEqual(named, known)
        self.assertEqual(named - {finding for finding, _, _ in RULES.values()}, set())

    def test_text_points_at_a_section(self):
        out = snapshot({"nvml": "celsius=91"}, text=True)
        self.assertIn("[CONCERN] GPU 1 (GPU-1): 91 degrees Celsius -> GPU_HEALTH: "
                      "references/host.md section 1", out)
        self.assertIn("1 concern,", out)

    def test_empty_tree_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as root:
            out = run(["--root", root, "--interval", "0", "--nvml", root + "/none.so"])
        for word in ("CPUs", "memory", "limits", "mounts", "kernel log", "interfaces",
                     "RDMA devices", "GPUs", "NVML", "time synchronisation"):
            self.assertRegex(out, r"not available: [^\n]*" + word)
        self.assertIn("0 concerns", out)
        self.assertIn("no clean bill of health", out)

    def test_hostile_names_stay_in_their_place(self):
        shot = snapshot({"sys/class/net/ens5/mtu": "1500\x1b[31m", "proc/sys/kernel/hostname": "a\nb"})
        self.assertNotIn("\x1b", json.dumps(shot, ensure_ascii=False))
        self.assertEqual(shot["host"], "a?b")

    def test_a_mount_that_does_not_answer(self):
        """A server that is gone, as statvfs(2) meets it: it waits for ever."""
        env = dict(os.environ, LD_PRELOAD=os.path.abspath(DEAD_MOUNT),
                   ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
        for dead, count in (("/", 1), ("/elsewhere", 0)):
            result = subprocess.run([SNAPSHOT, "--json", "--interval", "0", "--nvml", "/none.so"], timeout=100,
                                    env=dict(env, DEAD_MOUNT=dead), capture_output=True, text=True, check=True)
            told = [c for c in json.loads(result.stdout)["checks"] if c.get("finding") == "MOUNT_UNRESPONSIVE"]
            self.assertEqual(len(told), count, told)
        shown = subprocess.run([SNAPSHOT, "--interval", "0", "--nvml", "/none.so"], timeout=100,
                               env=dict(env, DEAD_MOUNT="/"), capture_output=True, text=True, check=True).stdout
        self.assertRegex(shown, r"\[CONCERN\] / \(\w+\) does not answer within 2 s")

    def test_programs_of_vendors(self):
        """Asked for only; one that hangs or is not there is said, one that floods is bounded."""
        with tempfile.TemporaryDirectory() as root:
            env = dict(os.environ, PATH=root, NSPY_FAKE_NVML="")
            for name, text in (("nvidia-smi", "exec sleep 60"), ("lspci", "while :; do echo ACSCtl: SrcValid+; done"),
                               ("fi_info", 'echo "libfabric: 2.1.0"')):
                write(root, {name: "#!/bin/sh\nPATH=/usr/bin:/bin\n" + text + "\n"})
                os.chmod(f"{root}/{name}", 0o755)
            shots = [json.loads(subprocess.run(
                [os.path.abspath(SNAPSHOT), "--json", "--interval", "0", "--nvml", "/none.so"] + more, env=env,
                timeout=100, capture_output=True, text=True, check=True).stdout) for more in ([], ["--tools"])]
        self.assertNotIn("libfabric.version", shots[0]["facts"]["stable"])
        self.assertEqual(shots[1]["facts"]["stable"]["libfabric.version"], "2.1.0")
        self.assertEqual(shots[1]["facts"]["stable"]["efa.domains"], "0")
        self.assertIn("pci.access_control", shots[1]["facts"]["stable"])
        self.assertIn("nvidia-smi: no answer within 10 s", shots[1]["not_available"])
        with tempfile.TemporaryDirectory() as root:
            shot = json.loads(run(["--json", "--tools", "--root", root, "--interval", "0", "--nvml", "/none.so"]))
        self.assertIn("fi_info: not recorded", shot["not_available"])

    def test_this_machine(self):
        shot = json.loads(run(["--json", "--interval", "0"]))
        self.assertEqual(shot["schema"], "ncclspy.snapshot/1")
        self.assertIn("kernel.release", shot["facts"]["stable"])


class Compare(unittest.TestCase):
    def compare(self, changes, code, json_out=False):
        with tempfile.TemporaryDirectory() as root:
            paths = []
            for number, change in enumerate(changes):
                path = f"{root}/{number}.json"
                shot = snapshot(dict({"proc/sys/kernel/hostname": f"node{number}"}, **change))
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(shot, f)
                paths.append(path)
            return run(["compare"] + (["--json"] if json_out else []) + paths, code=code)

    def test_the_odd_node_is_named(self):
        out = self.compare([{}, {"sys/module/efa/version": "2.10.0"}, {}], 1)
        self.assertIn("[CONCERN] module.efa: 2.13.0 on 2 of 3 nodes; node1: 2.10.0", out)
        self.assertIn("1 of ", out)
        drift = json.loads(self.compare([{}, {"sys/module/efa/version": None}, {}], 1, True))
        self.assertEqual(drift["drift"], [{"key": "module.efa", "usual": "2.13.0", "usual_nodes": 2,
                                           "others": {"node1": "(not there)"}}])

    def test_what_may_differ_is_no_drift(self):
        out = self.compare([{}, {"nvml": "celsius=60,mhz=500", HW: "3",
                                 "sys/devices/virtual/dmi/id/board_asset_tag": "i-0def"}], 0)
        self.assertIn("[OK] 2 nodes agree", out)

    def test_bad_input(self):
        with tempfile.TemporaryDirectory() as root:
            write(root, {"a.json": "{", "b.json": '{"schema": "x"}'})
            self.assertIn("not a snapshot", run(["compare", root + "/a.json", root + "/b.json"], code=3))
            self.assertIn("cannot be read", run(["compare", root + "/c.json", root], code=3))
        run(["compare", "one"], code=2)
        run(["--after", "x"], code=2)
        run(["--interval", "-1"], code=2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
