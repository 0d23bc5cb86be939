#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Summaries under a real Slurm: three slurmd on this machine, a job under ncclspy-run whose traces stay
in directories of the nodes, examples/slurm/summarize.sbatch, and the report on the summaries.

usage: test_slurm.py BUILD EXAMPLE

Skipped (77) without root or Slurm. Authentication is none."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NODES = 3
PER_NODE = 2


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def configure(place):
    control, *ports = free_ports(NODES + 1)
    host = socket.gethostname().split(".")[0]
    nodes = "".join(f"NodeName=sn{i + 1} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
                    f"CPUs={PER_NODE + 1} State=UNKNOWN\n" for i, port in enumerate(ports))
    (place / "slurm.conf").write_text(f"""ClusterName=summaries
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool.%n
SlurmctldPidFile={place}/ctld.pid
SlurmdPidFile={place}/d.%n.pid
SlurmctldLogFile={place}/ctld.log
SlurmdLogFile={place}/d.%n.log
{nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
""", encoding="utf-8")
    (place / "state").mkdir()


def wait_for(what, seconds=60):
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            raise SystemExit("Slurm did not come up")
        time.sleep(0.2)


def start(place, environment, daemons):
    def run(*command):
        daemons.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL))
    run("slurmctld", "-D", "-f", place / "slurm.conf")
    for i in range(NODES):
        run("slurmd", "-D", "-N", f"sn{i + 1}", "-f", place / "slurm.conf")
    wait_for(lambda: subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], env=environment,
                                    capture_output=True, text=True,
                                    check=False).stdout.strip() == str(NODES))


def job(build, place):
    """One rank; the first rank of node 2 stops."""
    libraries = ":".join(str(build / d) for d in ("tests/fakes", "interpose"))
    (place / "rank.sh").write_text(f"""#!/bin/sh
export LD_LIBRARY_PATH={libraries}
exec {build}/tests/trainjob/trainjob --rank $SLURM_PROCID --world $SLURM_NTASKS \\
    --idfile {place}/id --steps 40 --compute-ms 5 --quiet --watchdog 6
""", encoding="utf-8")
    (place / "rank.sh").chmod(0o755)


def check(place, build, output):
    analyze = build / "analyzer/ncclspy-analyze"
    summaries = sorted((place / "summaries").glob("*.nspysum"))
    assert len(summaries) == NODES, f"{summaries}\n{output}"
    told = []
    for inputs in ([place / "summaries"], list((place / "traces").iterdir())):
        text = subprocess.run([analyze, "report", "--json", *inputs], capture_output=True, text=True,
                              check=False).stdout
        for path in (place / "summaries", *inputs):
            text = text.replace(str(path), "INPUT")
        told.append(text)
    assert told[0] == told[1], "the reports differ"
    report = json.loads(told[0])["jobs"][0]
    first = report["findings"][0]
    assert report["totals"]["ranks"] == NODES * PER_NODE, report["totals"]
    assert first["id"] == "COLLECTIVE_HANG" and [c["rank"] for c in first["culprits"]] == [2], first
    assert "COLLECTIVE_HANG" in output, output
    print(f"{NODES} nodes, {report['totals']['ranks']} ranks: {first['summary'][:100]}")


def try_it(build, example, place, environment):
    daemons = []
    try:
        configure(place)
        start(place, environment, daemons)
        job(build, place)
        done = subprocess.run(["sbatch", "--wait", f"--nodes={NODES}",
                               f"--ntasks-per-node={PER_NODE}", "--gpus-per-task=0", "--time=5",
                               f"--output={place}/output", example, place / "rank.sh"], env=environment, cwd=place,
                              capture_output=True, text=True, timeout=200, check=False)
        output = Path(place, "output")
        text = output.read_text(encoding="utf-8") if output.exists() else done.stderr
        check(place, build, text)
    except BaseException:
        for log in sorted(place.glob("*.log")):
            print(f"--- {log.name}\n" + log.read_text(encoding="utf-8", errors="replace")[-1500:])
        raise
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(20)


def main():
    build, example = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    if os.geteuid() != 0 or not all(map(shutil.which, ("slurmctld", "slurmd", "sbatch"))):
        print("needs root and slurm-wlm")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        binaries = ":".join(str(build / d) for d in ("tools/run", "analyzer"))
        # /opt/ncclspy is not here: what the example puts before PATH finds nothing.
        environment = {**os.environ, "SLURM_CONF": str(place / "slurm.conf"),
                       "PATH": f"{binaries}:{os.environ['PATH']}",
                       "TRACES": str(place / "traces"),
                       "SUMMARIES": str(place / "summaries"),
                       "NSPY_FAKE": "rank=2,op=all_reduce,nth=41,do=hang"}
        (place / "traces").mkdir()
        try_it(build, example, place, environment)


if __name__ == "__main__":
    main()
