# SPDX-License-Identifier: Apache-2.0
"""Reading a scenario file. Words it does not know are errors: a typing mistake must not pass."""
import os
import random
import re

WORDS = {"title", "ranks", "workload", "fault", "expect", "also", "says", "near", "near-workload",
         "timeout", "hang-after", "load"}
REPEATED = {"also", "says"}
NO_FAULT = "none"


class Expect:
    """A finding: `ID PRIORITY RANKS`, RANKS as 3, 2-3, 1,4, `nobody`, or `unseen 3`."""

    def __init__(self, text):
        self.id, self.priority, *who = text.split()
        self.unseen = who[0] == "unseen"
        ranks = who[-1]
        self.ranks = []
        for part in [] if ranks == "nobody" else ranks.split(","):
            first, _, last = part.partition("-")
            self.ranks += range(int(first), int(last or first) + 1)
        self.ranks.sort()


class Plan:
    """A scenario with all its numbers drawn. near is None if there is none, "" for no fault."""

    def __init__(self, name, words):
        self.name, self.title = name, words["title"]
        self.ranks = int(words["ranks"])
        self.workload = words["workload"].split()
        self.near_workload = words.get("near-workload", words["workload"]).split()
        self.fault = fault(words.get("fault"))
        self.near = fault(words["near"]) or "" if "near" in words else None
        nothing = words["expect"] == "nothing"
        self.expect = None if nothing else Expect(words["expect"])
        self.also = [Expect(text) for text in words.get("also", [])]
        self.says = words.get("says", [])
        self.timeout = float(words.get("timeout", 4))
        self.hang_after = float(words.get("hang-after", 2))
        self.load = int(words.get("load", 0))
        if nothing and self.fault:
            raise ValueError("a fault needs something to expect")
        if not nothing and self.near is None:
            raise ValueError("what is expected needs a near miss")
        # The fault may lie in the workload itself, if the near miss has another one.
        if not nothing and not self.fault and self.workload == self.near_workload:
            raise ValueError("nothing is wrong with this job")


def fault(text):
    return None if text in (None, NO_FAULT) else text


def choices(text):
    """`0-7` is a whole number of that range, `a | b | c` one of these."""
    span = re.fullmatch(r"(\d+)-(\d+)", text)
    if span:
        return [str(n) for n in range(int(span[1]), int(span[2]) + 1)]
    return [part.strip() for part in text.split("|")]


def fill(text, drawn):
    """Puts drawn values in: {name}, or {name+N} and {name-N} for numbers."""

    def value(match):
        if match[2]:
            return str(int(drawn[match[1]]) + int(match[2]))
        return drawn[match[1]]

    return re.sub(r"{(\w+)([+-]\d+)?}", value, text)


def lines(path):
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            if line and not line.startswith("#"):
                word, colon, text = line.partition(":")
                if not colon or not text.strip():
                    raise ValueError(f"{path}:{number}: not 'word: text'")
                yield number, word, text.strip()


def load(path, seed):
    name = os.path.splitext(os.path.basename(path))[0]
    # The name is in the seed, so that not all scenarios draw the same rank.
    source = random.Random(f"{name} {seed}")
    words, drawn = {}, {}
    for number, word, text in lines(path):
        if word.startswith("draw "):
            drawn[word[len("draw "):].strip()] = source.choice(choices(text))
        elif word not in WORDS:
            raise ValueError(f"{path}:{number}: no such word: {word}")
        elif word in REPEATED:
            words.setdefault(word, []).append(fill(text, drawn))
        elif word in words:
            raise ValueError(f"{path}:{number}: {word} again")
        else:
            words[word] = fill(text, drawn)
    return Plan(name, words)
