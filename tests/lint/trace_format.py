# SPDX-License-Identifier: Apache-2.0
"""docs/TRACE_FORMAT.md says what the source does: names, numbers, offsets, columns, keys."""
import re
from pathlib import Path

import lintlib

CHECK = "docs/TRACE_FORMAT.md says what interpose/trace does"

STRUCT_OF_SECTION = {"Call": "nspy_rec", "Communicator": "nspy_comm_rec", "Text": "nspy_text_rec",
                     "Done": "nspy_done_rec"}
TYPE_BYTES = {"u8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8, "40 bytes": 40}
C_TYPE_BYTES = {"uint8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4,
                "uint64_t": 8, "char": 1}


def number(text):
    return int(re.sub(r"[uUlL]+$", "", text), 0)


def source_values(trace):
    """Every #define and enumerator of the trace headers that is a plain number."""
    values = {}
    for header in sorted(trace.glob("trace_*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(encoding="utf-8"), flags=re.S)
        for name, value in re.findall(r"^#define\s+(NSPY_\w+)\s+\(?-?(0x[0-9A-Fa-f]+|\d+)[uUlL]*\)?\s*$",
                                      text, re.M):
            values[name] = number(value)
        for name, shifted, by in re.findall(r"^#define\s+(NSPY_\w+)\s+\((\d+)u? << (\d+)\)\s*$",
                                            text, re.M):
            values[name] = int(shifted) << int(by)
        for body in re.findall(r"enum nspy_\w+ \{(.*?)\};", text, re.S):
            following = 0
            for entry in filter(None, (part.strip() for part in body.split(","))):
                name, _, value = (part.strip() for part in entry.partition("="))
                following = number(value) if value else following
                values[name] = following
                following += 1
    return values


def struct_fields(trace, name):
    """(field, offset) of a record structure, with natural alignment."""
    text = re.sub(r"/\*.*?\*/", "", (trace / "trace_record.h").read_text(encoding="utf-8"),
                  flags=re.S)
    body = re.search(r"struct %s \{(.*?)\n\};" % name, text, re.S).group(1)
    offset, fields = 0, {}
    for c_type, field, array in re.findall(r"(\w+) (\w+)(?:\[(\w+)\])?;", body):
        bytes_each = C_TYPE_BYTES[c_type]
        count = {"": 1, "NSPY_TEXT_PIECE_BYTES": 40}.get(array) or int(array)
        offset = -(-offset // bytes_each) * bytes_each
        fields[field] = (offset, bytes_each * count)
        offset += bytes_each * count
    return fields


def rows(section):
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in section.splitlines() if line.startswith("|") and not
            re.match(r"\|[-| ]+\|$", line)]


def problems_of(document, trace, identity_sources):
    values, problems = source_values(trace), []
    named = set()
    for title, section in re.findall(r"^#+ (.*?)\n(.*?)(?=^#|\Z)", document, re.M | re.S):
        for cells in rows(section):
            constant = re.fullmatch(r"`(NSPY_\w+)`", cells[0])
            if constant:
                name = constant.group(1)
                named.add(name)
                if name not in values:
                    problems.append(f"{name} is not in the source")
                elif re.fullmatch(r"0x[0-9A-Fa-f]+|\d+", cells[1]) and \
                        number(cells[1]) != values[name]:
                    problems.append(f"{name} is {values[name]}, not {cells[1]}")
            elif title in STRUCT_OF_SECTION and cells[0].isdigit():
                field = re.match(r"\w+", cells[2]).group(0)
                expected = (int(cells[0]), TYPE_BYTES[cells[1]])
                if struct_fields(trace, STRUCT_OF_SECTION[title]).get(field) != expected:
                    problems.append(f"{title}: {field} does not lie at {cells[0]} as {cells[1]}")
    families = ("NSPY_CHUNK_IDENT NSPY_CLASS_ NSPY_LOSS_ NSPY_REC_ NSPY_CALL_ NSPY_COMM_ NSPY_TEXT_ "
                "NSPY_COL_ NSPY_NET_ NSPY_PROF_").split()
    for name in values:
        if name.startswith(tuple(families)) and not name.endswith(("_COUNT", "_BYTES", "_MAX")) \
                and name not in named:
            problems.append(f"{name} is not in the document")
    keys = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)`",
                          re.search(r"^Keys: (.*?)\n\n", document, re.M | re.S).group(1)))
    written = set()
    for source in identity_sources:
        written |= set(re.findall(r'"([a-z_]+(?:\.[a-z_]+)*)"', source.read_text(encoding="utf-8")))
    for key in sorted(keys - written):
        # keys put together from a library's name and a word
        if not re.fullmatch(r"(nccl|cudart)\.(path|build_id)", key):
            problems.append(f"key {key} is written nowhere")
    return problems


def read_tree(root):
    trace, interpose = Path(root, "interpose", "trace"), Path(root, "interpose")
    sources = [path for path in (interpose / name for name in
               ("core/identity.c", "core/versions.c", "core/facts.c", "core/writer.c",
                "core/unseen.c", "wrap/gpu.c")) if path.exists()]
    return Path(root, "docs", "TRACE_FORMAT.md").read_text(encoding="utf-8"), trace, sources


def check(root):
    for problem in problems_of(*read_tree(root)):
        yield f"docs/TRACE_FORMAT.md:1: {problem}"


def _tree(old="", new=""):
    """A small tree with a document that fits, or with one slip in it."""
    document = ("# T\n\nKeys: `pid`, and so on.\n\n## K\n\n| `NSPY_CHUNK_IDENT` | 1 |\n\n"
                "### Call\n\n| 0 | u64 | enter |\n| 8 | u16 | fn |\n")
    return {
        "docs/TRACE_FORMAT.md": document.replace(old, new) if old else document,
        "interpose/trace/trace_format.h": "enum nspy_kind {\n\tNSPY_CHUNK_IDENT = 1,\n};\n",
        "interpose/trace/trace_record.h":
            "struct nspy_rec {\n\tuint64_t enter;\n\tuint16_t fn;\n};\n",
        "interpose/core/identity.c": 'fact("pid");\n',
    }


GOOD = _tree()
BAD = [_tree("`NSPY_CHUNK_IDENT` | 1", "`NSPY_CHUNK_IDENT` | 2"), _tree("| 8 | u16", "| 10 | u16"),
       _tree("`pid`", "`tid`"), _tree("| `NSPY_CHUNK_IDENT` | 1 |", "| `NSPY_CHUNK_IDENTS` | 1 |")]

lintlib.run(__name__)
