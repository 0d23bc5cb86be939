# SPDX-License-Identifier: Apache-2.0
"""Prometheus' text exposition format, as strictly as its client libraries read it, and stricter."""
import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*$")
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
ESCAPES = {"\\": "\\", '"': '"', "n": "\n"}


class Wrong(AssertionError):
    """The text is not in the format."""


def need(condition, line):
    if not condition:
        raise Wrong(line)


def read_value(line, at):
    """A quoted value from its opening quote on, and what comes behind it."""
    need(at < len(line) and line[at] == '"', line)
    at, text = at + 1, ""
    while True:
        need(at < len(line), line)
        char = line[at]
        at += 1
        if char == '"':
            return text, at
        if char == "\\":
            need(at < len(line) and line[at] in ESCAPES, line)
            char = ESCAPES[line[at]]
            at += 1
        text += char


def read_labels(line, at):
    labels = {}
    while line[at:at + 1] != "}":
        match = LABEL_NAME.match(line, at)
        need(match and not match[0].startswith("__") and match[0] not in labels, line)
        at = match.end()
        need(line[at:at + 1] == "=", line)
        labels[match[0]], at = read_value(line, at + 1)
        if line[at:at + 1] == ",":
            at += 1
        else:
            need(line[at:at + 1] == "}", line)
    return labels, at + 1


def read_number(text, line):
    if text in ("NaN", "+Inf", "-Inf"):
        return float(text)
    need(re.match(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$", text), line)
    return float(text)


def read_sample(line):
    """name, labels, value"""
    end = min(at for at in (line.find("{"), line.find(" ")) if at >= 0) \
        if "{" in line or " " in line else len(line)
    name, labels, at = line[:end], {}, end
    need(NAME.match(name), line)
    if line[at:at + 1] == "{":
        labels, at = read_labels(line, at + 1)
    need(line[at:at + 1] == " ", line)
    # The node exporter's text collector refuses timestamps.
    return name, labels, read_number(line[at + 1:], line)


def read_help(line):
    words = line.split(" ", 3)
    need(len(words) == 4 and NAME.match(words[2]), line)
    # Of escapes there are two: a backslash and the end of a line.
    need(not re.search(r"\\(?![\\n])", words[3].replace("\\\\", "")), line)
    return words[2]


def parse(text):
    """{name: {"type", "samples": [(labels, value)]}}. HELP, TYPE, then samples, none twice."""
    need(text.endswith("\n"), "no end of the last line")
    metrics, current, seen = {}, None, set()
    for line in text[:-1].split("\n"):
        need(line and line.isprintable(), line)
        if line.startswith("# HELP "):
            current = read_help(line)
            need(current not in metrics, line)
            metrics[current] = {"type": None, "samples": []}
        elif line.startswith("# TYPE "):
            words = line.split(" ")
            need(len(words) == 4 and words[2] == current and words[3] in TYPES, line)
            need(metrics[current]["type"] is None and not metrics[current]["samples"], line)
            need((words[3] == "counter") == current.endswith("_total"), line)
            metrics[current]["type"] = words[3]
        else:
            name, labels, value = read_sample(line)
            need(name == current and metrics[name]["type"], line)
            key = (name, tuple(sorted(labels.items())))
            need(key not in seen, line)
            seen.add(key)
            need(metrics[name]["type"] != "counter" or value >= 0, line)
            need(math.isfinite(value), line)
            metrics[name]["samples"].append((labels, value))
    need(all(metric["samples"] for metric in metrics.values()), "a metric without samples")
    return metrics
