# SPDX-License-Identifier: Apache-2.0
"""A strict reader of what `timeline` writes: Perfetto's wire format, nothing skipped, nothing guessed.

Whatever is out of order, unnamed, unknown or cut raises Broken.
"""

import struct
from collections import defaultdict


class Broken(Exception):
    """The file is not what it must be."""


def need(condition, *what):
    if not condition:
        raise Broken(*what)


def varint(data, at):
    value = shift = 0
    while True:
        need(at < len(data) and shift < 70, "cut or long number", at)
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of a message; bytes for texts and messages."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            need(at + 8 <= len(data), "cut")
            value = struct.unpack_from("<Q", data, at)[0]
            at += 8
        else:
            need(wire == 2, "wire type", wire)
            size, at = varint(data, at)
            need(at + size <= len(data), "cut")
            value = bytes(data[at:at + size])
            at += size
        yield key >> 3, value


def message(data, known, repeated=()):
    """A dict by name; fields that are not known are broken."""
    result = {name: [] for name in repeated}
    for number, value in fields(data):
        need(number in known, "unknown field", number)
        name = known[number]
        if name in repeated:
            result[name].append(value)
        else:
            need(name not in result, "twice", name)
            result[name] = value
    return result


PACKET = {6: "clocks", 8: "when", 10: "sequence", 11: "event", 12: "interned", 13: "flags",
          60: "track"}
EVENT = {3: "category", 4: "args", 9: "type", 10: "name_iid", 11: "track", 23: "name",
         44: "value", 47: "flow"}
TRACK = {1: "uuid", 2: "name", 3: "process", 5: "parent", 8: "counter", 14: "description"}
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Slice:
    def __init__(self, track, name, category, begin, args, flow):
        self.track, self.name, self.category, self.begin = track, name, category, begin
        self.args, self.flow, self.end, self.depth = args, flow, None, 0


class Trace:
    def __init__(self, data):
        self.tracks, self.slices, self.instants = {}, [], []
        self.counters = defaultdict(list)
        self.names, self.categories, self.arg_names = {}, {}, {}
        self.open, self.last = defaultdict(list), {}
        self.packets = 0
        for number, packet in fields(data):
            need(number == 1, "not a packet", number)
            self.packet(message(packet, PACKET))
        need(not any(self.open.values()), "slices without an end")
        pids = [t["pid"] for t in self.tracks.values() if "pid" in t]
        need(len(pids) == len(set(pids)), "processes that a viewer would take for one")

    def packet(self, packet):
        need(packet.get("sequence") == 1, "sequence")
        need(packet.get("flags") == (1 if self.packets == 0 else 2), "flags")
        self.packets += 1
        if "interned" in packet:
            self.intern(packet["interned"])
        if "track" in packet:
            self.add_track(packet["track"])
        if "event" in packet:
            need("when" in packet, "an event without a time")
            self.event(packet["when"], message(packet["event"], EVENT, ["args"]))

    def intern(self, data):
        tables = {1: self.categories, 2: self.names, 3: self.arg_names}
        for number, entry in fields(data):
            need(number in tables, "interned", number)
            pair = message(entry, {1: "iid", 2: "text"})
            need(pair["iid"] and pair["iid"] not in tables[number], "interned twice")
            tables[number][pair["iid"]] = self.text(pair["text"])

    @staticmethod
    def text(data):
        text = data.decode("utf-8")
        need(text.isprintable() or not text, "control characters", text)
        return text

    def add_track(self, data):
        raw = message(data, TRACK)
        need(raw["uuid"] and raw["uuid"] not in self.tracks, "track twice")
        need(raw.get("parent", 0) == 0 or raw["parent"] in self.tracks, "parent unknown")
        track = {"name": self.text(raw["name"]), "parent": raw.get("parent", 0),
                 "description": self.text(raw.get("description", b"")),
                 "counter": "counter" in raw}
        need(track["name"], "a track without a name")
        if "process" in raw:
            track["pid"] = message(raw["process"], {1: "pid", 6: "name"})["pid"]
            need(track["pid"], "pid 0")
        self.tracks[raw["uuid"]] = track

    def args(self, event):
        result = {}
        for data in event["args"]:
            arg = message(data, {1: "name", 4: "number", 6: "text"})
            name = self.arg_names[arg["name"]]
            need(name not in result, "argument twice", name)
            if "text" in arg:
                result[name] = self.text(arg["text"])
            else:
                number = arg["number"]
                result[name] = number - (1 << 64) if number >> 63 else number
        return result

    def event(self, when, event):
        track = event["track"]
        need(track in self.tracks, "event on no track")
        need(when >= self.last.get(track, 0), "time runs backwards on", self.tracks[track])
        need(when < 1 << 63, "time")
        self.last[track] = when
        kind = event["type"]
        need((kind == COUNTER) == self.tracks[track]["counter"], "counter")
        if kind == END:
            need(self.open[track], "an end without a begin")
            self.open[track].pop().end = when
        elif kind == COUNTER:
            self.counters[track].append((when, struct.unpack("<d", struct.pack("<Q", event["value"]))[0]))
        else:
            name = self.text(event["name"]) if "name" in event else self.names[event["name_iid"]]
            one = Slice(track, name, self.categories[event["category"]], when, self.args(event),
                        event.get("flow"))
            if kind == INSTANT:
                self.instants.append(one)
            else:
                need(kind == BEGIN, "type", kind)
                one.depth = len(self.open[track])
                self.open[track].append(one)
                self.slices.append(one)

    def of(self, category):
        return [one for one in self.slices if one.category == category]

    def calls(self):
        return [one for one in self.slices if one.category in ("nccl", "wait", "host")]

    def process_of(self, track):
        """The track of the process, 0 if there is none."""
        while track and "pid" not in self.tracks[track]:
            track = self.tracks[track]["parent"]
        return track

    def flows(self):
        """By number: its slices."""
        result = defaultdict(list)
        for one in self.slices:
            if one.flow:
                result[one.flow].append(one)
        return result
