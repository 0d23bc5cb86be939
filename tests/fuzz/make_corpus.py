#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the first corpus from a job's traces: make_corpus.py TRACE-DIRECTORY LIVE-FILE CORPUS.

Needs zstd(1). Run by hand when the format grows; what fuzzing finds is added beside it."""
import struct
import subprocess
import sys
from pathlib import Path

KINDS = {1: "ident", 2: "schema", 3: "state", 4: "ops", 5: "end", 6: "net", 7: "note"}


def chunks(data):
    at = 0
    while at + 96 <= len(data):
        kind, = struct.unpack_from("<H", data, at + 18)
        packed, = struct.unpack_from("<I", data, at + 32)
        frame = data[at + 96:at + 96 + packed]
        yield kind, data[at:at + 96 + packed], frame
        at += 96 + packed


def shorten(live):
    """A live file with its first two pages only."""
    page_offset, = struct.unpack_from("<I", live, 64)
    struct.pack_into("<I", live, 68, 2)
    return live[:page_offset + 2 * 8192]


def main():
    traces, live, corpus = (Path(arg) for arg in sys.argv[1:])
    for name in ("env", "live", "name", "net", "ops", "segment"):
        (corpus / name).mkdir(parents=True, exist_ok=True)
    segment = sorted(traces.rglob("*.nspy"))[0].read_bytes()
    (corpus / "segment" / "whole").write_bytes(segment)
    for kind, chunk, frame in chunks(segment):
        (corpus / "segment" / KINDS[kind]).write_bytes(chunk)
        if kind == 4:
            raw = subprocess.run(["zstd", "-dc"], input=frame, capture_output=True, check=True)
            (corpus / "ops" / "job").write_bytes(raw.stdout)
        if kind == 6:
            raw = subprocess.run(["zstd", "-dc"], input=frame, capture_output=True, check=True)
            (corpus / "net" / "job").write_bytes(raw.stdout)
    (corpus / "live" / "job").write_bytes(shorten(bytearray(live.read_bytes())))
    (corpus / "name" / "live").write_bytes(live.name.encode())
    (corpus / "env" / "plain").write_bytes(
        b"NCCLSPY_DISK=12\nNCCLSPY=1\nNCCL_DEBUG=INFO\nRANK=3\nLD_PRELOAD=x\nNCCLSPY_QUIET=maybe\n")


if __name__ == "__main__":
    main()
