#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the call tables into C: apigen.py INTERPOSE_DIR OUT_DIR

Reads INTERPOSE_DIR/api/*.api and writes into OUT_DIR: api_types.h, api_ids.h, api_table.c,
api_wrappers_{nccl,cuda}.c, api_schema.h, api_check_{nccl,cuda}.c and calls.md.
Exit status: 0, 1 mistakes in the tables (one "file:line: text" each on stderr), 2 usage.
"""

import re
import sys
from pathlib import Path
from string import Template

import apitable

TEMPLATES = Path(__file__).resolve().parent / "templates"
COMMUNICATOR = "ncclComm_t"  # an argument of this type says which copy of the library is meant
# What a library begins with: a communicator, or a question before there is one.
FIRST_CLASSES = ("comm_init", "other", "query")
WIDTH = 100
TAB = 8


def fill(template, **fields):
    """The named template with its $fields replaced."""
    text = (TEMPLATES / (template + ".in")).read_text(encoding="utf-8")
    return Template(text).substitute(fields)


def wrap(indent, head, items, tail):
    """'head(items)tail' at a depth of indent tabs, broken like clang-format would break it."""
    column = indent * TAB + len(head) + 1
    margin = "\t" * (column // TAB) + " " * (column % TAB)
    lines, line = [], "\t" * indent + head + "("
    for number, item in enumerate(items):
        text = item + (")" + tail if number == len(items) - 1 else ",")
        first = line.endswith("(")
        if first or len(line.expandtabs(TAB)) + 1 + len(text) <= WIDTH:
            line += text if first or line == margin else " " + text
        else:
            lines.append(line)
            line = margin + text
    if not items:
        line += ")" + tail
    return "\n".join(lines + [line])


def declare(function, head="", tail="", name=None, more=()):
    """The prototype of a function, wrapped; under another name or with more arguments."""
    name = name or function.name
    items = [ctype.declare(item) for ctype, item in function.arguments] + list(more)
    items = items or ["void"]
    text = wrap(0, head + function.result.declare(name), items, tail)
    if max(len(line.expandtabs(TAB)) for line in text.split("\n")) > WIDTH or \
            text.count("\n") >= len(items) - 1 > 1:
        text = head + function.result.text + "\n" + wrap(0, name, items, tail)
    return text


# --- api_types.h ---

def make_types(tables):
    """Minimal C types: enough to pass every argument on, nothing to look into."""
    lines = []
    for ctype in tables.types.values():
        if ctype.name.startswith("enum "):
            tag = ctype.name[5:]
            lines.append(f"enum {tag} {{ NSPY_ENUM_{tag} = 0 }};")
        elif ctype.kind == "enum":
            lines.append(f"typedef int {ctype.name};")
        elif ctype.kind == "handle":
            lines.append(f"typedef struct nspy_{ctype.name} *{ctype.name};")
        elif ctype.kind == "struct":
            lines.append(f"typedef struct nspy_{ctype.name} {ctype.name};")
        else:
            lines.append(f"typedef struct {{\n\tchar bytes[{ctype.size}];\n}} {ctype.name};")
    return fill("api_types.h", types="\n".join(lines))


# --- api_ids.h, api_table.c ---

def make_ids(tables):
    """Dense function ids, library after library, in file order."""
    lines = []
    for library in tables.libraries:
        lines.append(f"\t/* {library.name} */")
        lines += [f"\t{function.id}," for function in tables.functions
                  if function.library == library]
    return fill("api_ids.h", ids="\n".join(lines))


def table_row(function):
    """One row of nspy_fn_table."""
    alias = function.library.alias
    alias = f'"{alias}{function.name}"' if alias else "NULL"
    klass = "NSPY_CLASS_" + function.klass.upper()
    return wrap(1, f"NSPY_FN_ROW", [function.id, f'"{function.name}"', alias,
                                    function.library.id, klass], ",")


def make_table(tables):
    """The run-time tables behind interpose/core/resolve.h."""
    known_by, rows = [], []
    for library in tables.libraries:
        first = next(one for one in tables.functions if one.library == library)
        names = ", ".join(f'"{name}"' for name in library.known_by)
        known_by.append(f"extern nspy_any_fn *const nspy_entries_{library.name}[];\n"
                        f"static const char *const known_by_{library.name}[] = {{\n"
                        f"\t{names}, NULL,\n}};")
        rows.append(f"\t[{library.id}] = {{\"{library.name}\", known_by_{library.name},\n"
                    f"\t\tnspy_entries_{library.name}, {first.id}}},")
    by_name = sorted(tables.functions, key=lambda one: one.name.encode())
    return fill("api_table.c", rows="\n".join(table_row(one) for one in tables.functions),
                sorted="\n".join(f"\t{one.id}," for one in by_name),
                libraries="\n".join(known_by), library_rows="\n".join(rows),
                ignored="\n".join(f'\t"{one.name}",' for one in tables.ignored))


# --- api_wrappers_*.c ---

def entry_name(function, copy):
    """The wrapper that a dlsym on the copy of that number returns."""
    return f"nspy_{function.name}_{copy}"


def finder(function, comm):
    """How a linked caller's copy is found: the first calls of a user of NCCL look again."""
    is_first = function.klass in FIRST_CLASSES and comm == "NULL" and function.library.alias
    return "nspy_real_anew" if is_first else "nspy_real"


def make_wrapper(function, copies):
    """One wrapper as C text."""
    names = [name for _, name in function.arguments]
    has_result = function.result.text == function.library.result
    is_void = function.result.text == "void"
    missing = {True: f"return NSPY_MISSING_{function.library.name.upper()};",
               False: "return;" if is_void else "return nspy_missing_text;"}[has_result]
    before = [wrap(1, "nspy_" + hook.name, ["rec"] + hook.texts, ";") for hook in function.put]
    after = [wrap(1, "nspy_" + hook.name, ["rec", "ret"] + hook.texts, ";")
             for hook in function.got]
    if is_void:
        early = "if (!rec) {\n" + wrap(2, "real", names, ";") + "\n\t\treturn;\n\t}"
        call = wrap(1, "real", names, ";")
    else:
        early = "if (!rec)\n" + wrap(2, "return real", names, ";")
        call = wrap(1, "ret = real", names, ";")
    lines = before + ["\tnspy_commit(rec);", call] + after
    lines.append(f"\tnspy_leave(rec, {'ret' if has_result else '0'});")
    if not is_void:
        lines.append("\treturn ret;")
    variables = "" if is_void else "\t" + function.result.declare("ret") + ";\n"
    comm = ([name for ctype, name in function.arguments
             if (ctype.base, ctype.stars) == (COMMUNICATOR, 0)] + ["NULL"])[0]
    linked = wrap(1, "nspy_any_fn *found = " + finder(function, comm),
                  [function.id, function.library.id, comm, "NSPY_CALLER"], ";")
    handed = wrap(1, "nspy_any_fn *found = nspy_real_of", ["copy", function.id, comm], ";")
    give = "" if is_void else "return "
    inner, of_name = "nspy_do_" + function.name, "nspy_of_" + function.name
    return fill("wrapper", name=function.name, id=function.id, variables=variables,
                missing=missing, early=early, body="\n".join(lines),
                inner=declare(function, "static inline NSPY_INLINE ", name=inner,
                              more=["nspy_any_fn *found"]),
                prototype=declare(function, "NSPY_EXPORT "),
                linked=linked, handed=handed, give=wrap(1, give + inner, names + ["found"], ";"),
                of=declare(function, "static NSPY_NOINLINE ", name=of_name,
                           more=["unsigned int copy"]),
                entries="\n\n".join(
                    declare(function, "static ", name=entry_name(function, copy)) + "\n{\n" +
                    wrap(1, give + of_name, names + [str(copy)], ";") + "\n}"
                    for copy in range(copies)))


def make_wrappers(tables, library):
    """All wrappers of one library."""
    functions = [one for one in tables.functions if one.library == library]
    copies = tables.headers.copies_max
    text = ""
    if any(one.result.stars for one in functions):
        text = f'static const char nspy_missing_text[] = "{library.missing_text}";\n\n'
    return fill("api_wrappers.c", library=library.name, upper=library.name.upper(),
                missing=library.missing, missing_text=text,
                prototypes="\n".join(declare(one, tail=";") for one in functions),
                entries="\n".join(f"\t(nspy_any_fn *){entry_name(one, copy)},"
                                  for one in functions for copy in range(copies)),
                wrappers="\n".join(make_wrapper(one, copies) for one in functions).rstrip())


# --- api_schema.h ---

def schema_lines(tables):
    """SCHEMA lines as interpose/trace/trace_reader.h documents them."""
    classes = tables.headers.classes
    for number, one in enumerate(tables.functions):
        yield ("fn", number, one.name, one.library.name, classes[one.klass], one.result.text)
    for one in tables.values["datatype"]:
        yield ("datatype", one.value, one.name, one.bytes)
    for one in tables.values["redop"]:
        yield ("redop", one.value, one.name)
    for one in tables.values["result"]:
        yield ("result", one.library.name, one.value, one.name)
    for one in tables.values["column"]:
        yield ("column", one.name, one.unit)


def make_schema(tables):
    """The schema as a C string; too long for the live page is a mistake of the tables."""
    lines = ["\t".join(str(field) for field in line) for line in schema_lines(tables)]
    size = sum(len(line) + 1 for line in lines)
    if size > tables.headers.schema_bytes_max:
        place = tables.functions[-1].place
        raise apitable.TableErrors([f"{place}: the schema takes {size} bytes, "
                                    f"NSPY_LIVE_SCHEMA_BYTES is {tables.headers.schema_bytes_max}"])
    text = "\n".join('\t"' + line.replace("\t", "\\t") + '\\n"' for line in lines)
    return fill("api_schema.h", text=text, bytes=size)


# --- api_check_*.c ---

def version_number(library, version):
    """The number the vendor's version macro has for this version."""
    major, minor, patch = version
    if library.version == "CUDART_VERSION":
        return major * 1000 + minor * 10
    if (major, minor) <= (2, 8):
        return major * 1000 + minor * 100 + patch
    return major * 10000 + minor * 100 + patch


def guard(library, since, until, text):
    """text, compiled only with headers from since on and before until."""
    tests = []
    if since:
        tests.append(f"{library.version} >= {version_number(library, since)}")
    if until:
        tests.append(f"{library.version} < {version_number(library, until)}")
    return f"#if {' && '.join(tests)}\n{text}\n#endif" if tests else text


def have(header):
    """The macro that says an optional header exists and can be read as C."""
    return "NSPY_HAVE_" + re.sub(r"\W", "_", header.upper())


def check_prototype(function, form):
    """An assertion that the vendor's declaration is the table's."""
    items = [ctype.text for ctype, _ in form.arguments] or ["void"]
    text = wrap(0, f"NSPY_SAME({function.name}, {form.result.text}", items, ");")
    text = guard(function.library, form.check, form.until, text)
    if function.suffixed:
        text = f"#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM\n{text}\n#endif"
    if function.header:
        text = f"#ifdef {have(function.header)}\n{text}\n#endif"
    return text


def make_check(tables, library):
    """Compile-time comparison of types, prototypes and values with the vendor's headers."""
    lines = []
    for ctype in tables.types.values():
        size = {"enum": "sizeof(int)", "handle": "sizeof(void *)", "bytes": ctype.size}
        if library in ctype.libraries and ctype.kind in size:
            lines.append(guard(library, ctype.check, None,
                               f"NSPY_SIZE({ctype.name}, {size[ctype.kind]});"))
    for function in tables.functions:
        if function.library == library:
            lines += [check_prototype(function, form) for form in [function] + function.forms]
    for kind in ("datatype", "redop", "result"):
        lines += [guard(library, one.check, None, f"NSPY_VALUE({one.name}, {one.value});")
                  for one in tables.values[kind] if one.library == library]
    headers = sorted({one.header for one in tables.functions
                      if one.library == library and one.header})
    includes = "".join(f"#ifdef {have(one)}\n#include <{one}>\n#endif\n" for one in headers)
    return fill("api_check.c", header=library.header, includes=includes, version=library.version,
                checks="\n".join(lines))


# --- calls.md ---

def recorded(function):
    """What a call's record holds, in words a reader of the table understands."""
    def words(hook):
        return [text.lstrip("&") for text in hook.given
                if text not in ("NULL",) and text not in apitable.LITERALS and not text.isdigit()]
    before = [word for hook in function.put for word in words(hook)]
    after = [word for hook in function.got for word in words(hook)]
    return ", ".join(before) + (" → " + ", ".join(after) if after else "")


def make_calls(tables):
    """The reader's table of all calls."""
    parts = []
    for library in tables.libraries:
        functions = [one for one in tables.functions if one.library == library]
        parts += [f"\n## {library.name}: {len(functions)} functions\n",
                  "| function | class | since | recorded |", "| --- | --- | --- | --- |"]
        parts += [f"| {one.name} | {one.klass} | {one.since_text} | {recorded(one)} |"
                  for one in functions]
    parts += [f"\n## Known, not wrapped: {len(tables.ignored)} functions\n",
              "| function | since | reason |", "| --- | --- | --- |"]
    parts += [f"| {one.name} | {one.since_text} | {one.reason} |" for one in tables.ignored]
    return fill("calls.md", tables="\n".join(parts))


def generate(tables):
    """All outputs as {file name: text}."""
    files = {"api_types.h": make_types(tables), "api_ids.h": make_ids(tables),
             "api_table.c": make_table(tables), "api_schema.h": make_schema(tables),
             "calls.md": make_calls(tables)}
    for library in tables.libraries:
        files[f"api_wrappers_{library.prefix}.c"] = make_wrappers(tables, library)
        files[f"api_check_{library.prefix}.c"] = make_check(tables, library)
    return files


def main(arguments):
    """The command line."""
    if len(arguments) != 2:
        print(__doc__.split("\n", maxsplit=1)[0], file=sys.stderr)
        return 2
    try:
        files = generate(apitable.Tables(arguments[0]))
    except apitable.TableErrors as errors:
        print("\n".join(errors.lines), file=sys.stderr)
        return 1
    for name, text in files.items():
        Path(arguments[1], name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
