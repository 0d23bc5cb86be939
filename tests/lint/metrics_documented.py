# SPDX-License-Identifier: Apache-2.0
"""Metrics: one list in the source; documents, alerts and dashboards that use it and nothing else."""
import json
import re

import lintlib

CHECK = "docs/METRICS.md has every metric and its type; examples name none that is not written"

SOURCE = "interpose/watch/prom_text.c"
PAGE = "docs/METRICS.md"
ALERTS, BOARDS = "examples/alerts/", "examples/grafana/"
CATALOGUE = "references/findings.def"
# add_number(t, "calls_total", "counter", ...), add_seconds(t, "open_call_seconds", ...) a gauge.
WRITTEN = re.compile(r'\badd_(?:head|number)\(&?t, "(\w+)",\s*"(\w+)"')
SECONDS = re.compile(r'\badd_seconds\(&?t, "(\w+)"')
STATE = re.compile(r'\{"(\w+)", s->\w+\}')
NAMED = re.compile(r"\bncclspy_[a-z0-9_]*[a-z0-9]\b(?!\.yaml)")
ROW = re.compile(r"^\| `(ncclspy_\w+)` \| (\w+) \|", re.MULTILINE)
FINDING = re.compile(r'finding(?:=~?|: )"?([A-Z][A-Z_]+)')
STATES = re.compile(r'state=~?"([\w|]+)"')

_TREE = {
    SOURCE: 'add_head(t, "processes", "gauge", "x");\n{"dead", s->dead},\n'
            'add_number(&t, "calls_total",\n"counter", "y");\nadd_seconds(&t, "wait_seconds", "z");\n',
    PAGE: "| `ncclspy_processes` | gauge | |\n| `ncclspy_calls_total` | counter | |\n"
          "| `ncclspy_wait_seconds` | gauge | |\n",
    CATALOGUE: 'NSPY_FINDING(A_A, 0, "x")\n',
    ALERTS + "a.yaml": 'expr: ncclspy_processes{state="dead"} > 0\n',
    BOARDS + "a.json": '{"panels": [{"targets": [{"expr": "rate(ncclspy_calls_total[1m])"}]}]}',
}
GOOD = dict(_TREE, **{ALERTS + "b.yaml": 'rule_files: [ncclspy_x.yaml]\nfinding="A_A"\n'})
BAD = [
    dict(_TREE, **{PAGE: _TREE[PAGE].replace("| counter", "| gauge")}),
    dict(_TREE, **{PAGE: _TREE[PAGE] + "ncclspy_gone\n"}),
    dict(_TREE, **{PAGE: "| `ncclspy_processes` | gauge | |\n"}),
    dict(_TREE, **{ALERTS + "a.yaml": "expr: ncclspy_call_total\n"}),
    dict(_TREE, **{ALERTS + "a.yaml": 'expr: ncclspy_processes{state="died"}\n'}),
    dict(_TREE, **{ALERTS + "a.yaml": 'expr: x{finding="B_B"}\n'}),
    dict(_TREE, **{BOARDS + "a.json": '{"panels": [{"expr": "ncclspy_call"}]}'}),
    dict(_TREE, **{BOARDS + "a.json": '{"panels": []}'}),
    dict(_TREE, **{BOARDS + "a.json": "{"}),
    dict(_TREE, **{SOURCE: "nothing"}),
]


def written(root):
    text = lintlib.read(root, SOURCE) or ""
    metrics = {"ncclspy_" + name: kind for name, kind in WRITTEN.findall(text)}
    metrics.update({"ncclspy_" + name: "gauge" for name in SECONDS.findall(text)})
    return metrics, set(STATE.findall(text))


def check_uses(root, path, metrics, states):
    findings = set(re.findall(r"NSPY_FINDING\((\w+),", lintlib.read(root, CATALOGUE) or ""))
    for number, line in lintlib.numbered(root, path):
        for name in set(NAMED.findall(line)) - set(metrics):
            yield f"{path}:{number}: {name} is written by nobody"
        for name in set(FINDING.findall(line)) - findings:
            yield f"{path}:{number}: no finding {name}"
        for words in STATES.findall(line):
            for state in set(words.split("|")) - states:
                yield f"{path}:{number}: no state {state}"


def check_board(root, path):
    try:
        board = json.loads(lintlib.read(root, path) or "")
    except ValueError as error:
        yield f"{path}:1: {error}"
        return
    if not board.get("panels"):
        yield f"{path}:1: no panels"


def check(root):
    metrics, states = written(root)
    if not metrics:
        yield f"{SOURCE}:1: no metrics"
    documented = dict(ROW.findall(lintlib.read(root, PAGE) or ""))
    for name, kind in metrics.items():
        if documented.get(name) != kind:
            yield f"{PAGE}:1: {name} is a {kind}, the table says {documented.get(name, 'nothing')}"
    yield from check_uses(root, PAGE, metrics, states)
    for path in lintlib.files(root, ".yaml", ".json"):
        if path.startswith((ALERTS, BOARDS)):
            yield from check_uses(root, path, metrics, states)
        if path.startswith(BOARDS):
            yield from check_board(root, path)


lintlib.run(__name__)
