# SPDX-License-Identifier: Apache-2.0
"""All scenario files can be read, and what is no scenario is refused."""
import glob
import os
import sys
import tempfile

import scenario

HERE = os.path.dirname(os.path.realpath(__file__))
GOOD = ["title: t", "ranks: 4", "workload: --steps 2", "draw culprit: 1-3",
        "fault: rank={culprit},do=hang", "expect: COLLECTIVE_HANG P0 {culprit}",
        "near: rank={culprit-1},do=delay:1ms"]
# What to leave out of GOOD, and what to put in instead.
BAD = {
    "no near miss": ("near", None),
    "nothing expected of a fault": ("expect", "expect: nothing"),
    "a finding expected without a fault": ("fault", None),
    "an unknown word": ("title", "titel: t"),
    "a word without text": ("title", "title:"),
    "a line that is none": ("title", "hello"),
    "a word twice": ("title", "ranks: 5"),
    "a value that was not drawn": ("draw", None),
}


def read(lines, seed=1):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "one.scenario")
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        return scenario.load(path, seed)


def refuses(lines):
    try:
        read(lines)
    except (ValueError, KeyError):
        return True
    return False


def test_values():
    drawn = set()
    for seed in range(60):
        plan = read(GOOD, seed)
        (rank,) = plan.expect.ranks
        assert plan.fault == f"rank={rank},do=hang" and plan.near == f"rank={rank - 1},do=delay:1ms"
        assert (plan.expect.id, plan.expect.priority) == ("COLLECTIVE_HANG", "P0")
        drawn.add(rank)
    assert drawn == {1, 2, 3}, drawn
    assert read(GOOD, 7).fault == read(GOOD, 7).fault
    assert scenario.Expect("X P1 0-2,5").ranks == [0, 1, 2, 5]
    assert scenario.Expect("X P1 nobody").ranks == []
    assert scenario.Expect("X P1 unseen 4").unseen


def test_fault_of_the_workload():
    lines = [line for line in GOOD if not line.startswith(("fault", "near"))]
    plan = read(lines + ["near: none", "near-workload: --steps 3"])
    assert plan.fault is None and plan.near == "" and plan.workload != plan.near_workload
    assert refuses(lines + ["near: none", "near-workload: --steps 2"])
    assert refuses(lines + ["near-workload: --steps 3"])


def test_refusals():
    for what, (word, instead) in BAD.items():
        lines = [line for line in GOOD if not line.startswith(word)]
        assert len(lines) == len(GOOD) - 1, what
        assert refuses(lines + ([instead] if instead else [])), what


def test_files():
    counts = {}
    for kind in ("faults", "clean"):
        paths = glob.glob(os.path.join(HERE, kind, "*.scenario"))
        for path in paths:
            for seed in (1, 2, 3):
                plan = scenario.load(path, seed)
                assert (plan.expect is None) == (kind == "clean"), path
                assert 4 <= plan.ranks <= 16, path
        counts[kind] = len(paths)
    assert counts["faults"] >= 30 and counts["clean"] >= 10, counts
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as f:
        readme = f.read()
    for path in glob.glob(os.path.join(HERE, "*", "*.scenario")):
        name = os.path.splitext(os.path.basename(path))[0]
        assert f"`{name}`" in readme, f"{name} is not in README.md"


for test in (test_values, test_fault_of_the_workload, test_refusals, test_files):
    test()
    print(f"{test.__name__[len('test_'):]}: ok")
sys.exit(0)
