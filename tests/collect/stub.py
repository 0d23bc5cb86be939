# SPDX-License-Identifier: Apache-2.0
"""Stands in for kubectl, aws, scontrol, ...: answers from $STUB_DIR, and writes down the question.

An answer is the file whose name is the longest beginning of the command line, blanks as '_'. A name
that ends in .hang never answers, one in .fail goes to stderr with status 1.
"""
import os
import shutil
import sys
import time

FOLDER = os.environ["STUB_DIR"]
# Words that only reads use; anything else would be a change.
READS = {"kubectl": {"get", "logs", "exec"}, "scontrol": {"ping", "show", "-o"}, "sinfo": None,
         "sacct": None, "squeue": None, "srun": None, "ssh": None, "systemctl": {"is-active"},
         "aws": {"describe-cluster", "list-cluster-nodes", "list-cluster-events",
                 "describe-cluster-node", "describe-security-groups", "get-metric-statistics",
                 "filter-log-events", "AWS-StartNonInteractiveCommand"},
         "session-manager-plugin": set()}


def main():
    name = os.path.basename(sys.argv[1])
    arguments = sys.argv[2:]
    with open(FOLDER + "/asked", "a", encoding="utf-8") as f:
        f.write(" ".join([name] + arguments) + "\n")
    reads = READS[name]
    if reads and not reads & set(arguments):
        sys.exit(f"stub: {name} {arguments} is no read")
    line = "_".join([name] + [a for a in arguments if not a.startswith("--")
                              or a.startswith("--metric") or a.startswith("--node-id")])
    best = ""
    for path in os.listdir(FOLDER):
        stem = path[:-5] if path.endswith((".hang", ".fail")) else path
        if line.replace("/", "%").startswith(stem) and len(stem) > len(best.rsplit(".hang")[0]):
            best = path
    if not best:
        sys.exit(f"stub: no answer for {line}")
    if best.endswith(".hang"):
        time.sleep(600)
    out = sys.stderr if best.endswith(".fail") else sys.stdout
    with open(f"{FOLDER}/{best}", encoding="utf-8") as f:
        shutil.copyfileobj(f, out)
    sys.exit(1 if best.endswith(".fail") else 0)


if __name__ == "__main__":
    main()
