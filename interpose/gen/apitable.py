# SPDX-License-Identifier: Apache-2.0
"""Reads the call tables (interpose/api) and checks them against the headers they refer to.

Every mistake becomes one "file:line: text" in TableErrors; nothing is guessed or skipped.
The grammar is in interpose/api/README.md.
"""

import re
from pathlib import Path

API_FILES = ("nccl.api", "cuda.api")
VALUES_FILE = "values.api"

BUILTIN = {"void": "void", "char": "int", "int": "int", "unsigned int": "int", "size_t": "long",
           "unsigned long long": "long", "int8_t": "int", "int16_t": "int", "int32_t": "int",
           "int64_t": "long", "uint8_t": "int", "uint16_t": "int", "uint32_t": "int",
           "uint64_t": "long", "float": "void"}  # a float is only ever pointed to

# Hooks that a class of calls cannot do without: the analyzer relies on what they record.
CLASS_HOOKS = {
    "coll": ("put_coll",), "send": ("put_send",), "recv": ("put_recv",), "rma": ("put_rma",),
    "group_start": ("put_group_start", "got_group_start"),
    "group_end": ("put_group_end", "got_group_end"),
    "comm_destroy": ("put_destroy", "got_destroy"),
    "mem_alloc": ("put_bytes", "got_address"), "mem_free": ("put_arg",),
    "capture": ("put_arg",), "graph": ("put_arg",),
}
# Words that stand for "this call has none", and the hook parameters that may receive them.
LITERALS = {"NONE": ("NSPY_PEER_NONE", ("root", "peer")), "NO_OP": ("NSPY_REDOP_NONE", ("op",)),
            "NO_TYPE": ("NSPY_DATATYPE_NONE", ("datatype",))}
# A C keyword as an argument name would only be noticed by the compiler, far from the table.
C_KEYWORDS = frozenset("""auto break case char const continue default do double else enum extern
    float for goto if inline int long register restrict return short signed sizeof static struct
    switch typedef union unsigned void volatile while""".split())
# Names the wrapper uses itself.
RESERVED = frozenset(("real", "rec", "ret", "found", "copy"))
ATTRIBUTE = re.compile(r'\s+(\w+)=("[^"]*"|\w+\([^()]*\)|[^\s"()]+)')
NAME = re.compile(r"[A-Za-z_]\w*")


class TableErrors(Exception):
    """All mistakes found, as "file:line: text" lines."""

    def __init__(self, lines):
        super().__init__("\n".join(lines))
        self.lines = lines


class LineError(Exception):
    """A mistake in the line being read."""


class Entry:
    """A record of plain fields; which ones depends on the kind of line."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


def split_attributes(text, allowed):
    """Returns [(key, value)] of a string of key=value; keys outside allowed are an error."""
    pairs, at = [], 0
    text = " " + text.strip()
    while at < len(text.rstrip()):
        match = ATTRIBUTE.match(text, at)
        if not match:
            raise LineError(f"not key=value: '{text[at:].strip()}'")
        key, value = match.groups()
        if key not in allowed:
            raise LineError(f"unknown attribute '{key}'")
        pairs.append((key, value.strip('"')))
        at = match.end()
    return pairs


def single_attributes(text, allowed, repeatable=()):
    """Like split_attributes, as a dict; an attribute given twice is an error."""
    fields = {}
    for key, value in split_attributes(text, allowed):
        if key in repeatable:
            fields.setdefault(key, []).append(value)
        elif key in fields:
            raise LineError(f"attribute '{key}' given twice")
        else:
            fields[key] = value
    return fields


def parse_version(text):
    """'2.28' or '2.28.7' as a tuple of three numbers; None stays None."""
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){1,2}", text):
        raise LineError(f"not a version: '{text}'")
    parts = [int(part) for part in text.split(".")]
    return tuple(parts + [0] * (3 - len(parts)))


def parse_number(text, low, high):
    """A decimal number between low and high."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
        raise LineError(f"'{text}' is not a number from {low} to {high}")
    return int(text)


class CType:
    """A C type in canonical spelling: words, then stars."""

    def __init__(self, text):
        if not re.fullmatch(r"[A-Za-z_][\w ]*(\s*\*)*(\s*const\s*\*)*\s*", text):
            raise LineError(f"cannot read the type '{text.strip()}'")
        self.stars = text.count("*")
        tokens = re.findall(r"\w+|\*", text)
        words = tokens[:tokens.index("*")] if "*" in tokens else tokens
        self.base = " ".join(word for word in words if word != "const")
        self.text = " ".join(words)
        for token in tokens[len(words):]:
            self.text += token if self.text.endswith("*") else " " + token
        self.constant = "const" in words

    def declare(self, name):
        """The declaration of a variable or function of this type."""
        return self.text + ("" if self.text.endswith("*") else " ") + name


def split_declaration(text):
    """'const void *name' as (CType, name)."""
    match = re.fullmatch(r"(.*[\s*])([A-Za-z_]\w*)\s*", text.strip())
    if not match:
        raise LineError(f"cannot read the declaration '{text.strip()}'")
    if match.group(2) in C_KEYWORDS:
        raise LineError(f"argument without a name: '{text.strip()}'")
    return CType(match.group(1)), match.group(2)


def split_prototype(text):
    """A prototype as (return CType, name, [(CType, name)])."""
    match = re.fullmatch(r"([^()]*)\(([^()]*)\)", text.strip())
    if not match:
        raise LineError(f"not a prototype: '{text.strip()}'")
    result, name = split_declaration(match.group(1))
    inside = match.group(2).strip()
    arguments = []
    if inside not in ("", "void"):
        arguments = [split_declaration(part) for part in inside.split(",")]
    names = [argument for _, argument in arguments]
    for argument in names:
        if names.count(argument) > 1:
            raise LineError(f"two arguments are named '{argument}'")
        if argument in RESERVED:
            raise LineError(f"the argument name '{argument}' is used by the wrapper itself")
    return result, name, arguments


class Headers:
    """What the hand-written headers say: classes, libraries, hooks, record fields, limits."""

    def __init__(self, interpose):
        trace = Path(interpose, "trace")
        form = Path(trace, "trace_format.h").read_text(encoding="utf-8")
        self.classes = {name.lower(): int(value) for name, value in
                        re.findall(r"NSPY_CLASS_(\w+) = (\d+)", form)}
        resolve = Path(interpose, "core", "resolve.h").read_text(encoding="utf-8")
        enum = re.search(r"enum nspy_library \{(.*?)\};", resolve, re.S).group(1)
        self.libraries = re.findall(r"\b(NSPY_LIB_(?!COUNT)\w+)", enum)
        self.copies_max = int(re.search(r"NSPY_COPIES_MAX\s+(\d+)u", resolve).group(1))
        hooks = "".join(Path(interpose, "wrap", name).read_text(encoding="utf-8")
                        for name in ("hooks.h", "hooks_ops.h"))
        self.hooks = {}
        declaration = r"^(?:static inline (?:NSPY_INLINE )?)?void nspy_((?:put|got)_\w+)\(([^;{]*)\)(?:;|\n\{)"
        for match in re.finditer(declaration, hooks, re.M):
            skip = 1 if match.group(1).startswith("put") else 2
            parts = re.sub(r"\s+", " ", match.group(2)).split(",")
            self.hooks[match.group(1)] = [split_declaration(part) for part in parts[skip:]]
        record = Path(trace, "trace_record.h").read_text(encoding="utf-8")
        body = re.search(r"struct nspy_rec \{(.*?)\n\};", record, re.S).group(1)
        self.fields = re.findall(r"\b(\w+);", re.sub(r"/\*.*?\*/", "", body, flags=re.S))
        live = Path(trace, "trace_live.h").read_text(encoding="utf-8")
        self.schema_bytes_max = int(re.search(r"NSPY_LIVE_SCHEMA_BYTES\s+(\d+)u", live).group(1))


class Tables:
    """Everything the tables say, checked."""

    def __init__(self, interpose, api=None):
        self.headers = Headers(interpose)
        self.libraries, self.types, self.functions, self.ignored = [], {}, [], []
        self.values = {"datatype": [], "redop": [], "result": [], "column": []}
        self.by_name, self.errors = {}, []
        api = Path(api or Path(interpose, "api"))
        for name in API_FILES:
            self._read(Path(api, name), self._api_line)
        self._read(Path(api, VALUES_FILE), self._value_line)
        self._check_columns(Path(api, VALUES_FILE))
        if self.errors:
            raise TableErrors(self.errors)

    def _read(self, path, handle):
        self.library = None
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.errors.append(f"{path}:1: cannot be read: {error}")
            return
        number = 0
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip() or line.startswith("#"):
                continue
            self.place = f"{path}:{number}"
            try:
                if not re.fullmatch(r"[\x20-\x7e\t]*", line):
                    raise LineError("only printable ASCII is allowed")
                handle(line.strip())
            except LineError as error:
                self.errors.append(f"{self.place}: {error}")
        if handle == self._api_line and self.library is None:
            self.errors.append(f"{path}:{number}: no 'library' line")

    # --- lines of nccl.api and cuda.api ---

    def _api_line(self, line):
        if line.startswith("library "):
            self._library_line(line[8:])
        elif self.library is None:
            raise LineError("a 'library' line must come first")
        elif line.startswith("type "):
            self._type_line(line[5:])
        elif "|" not in line:
            raise LineError("no '|' between the prototype and its attributes")
        else:
            left, _, right = line.partition("|")
            if NAME.fullmatch(left.strip()):
                self._ignored_line(left.strip(), right)
            else:
                self._function_line(left, right)

    def _library_line(self, text):
        name, _, rest = text.strip().partition(" ")
        keys = ("id", "prefix", "alias", "header", "version", "result", "missing", "missing_text",
                "known_by")
        fields = single_attributes(rest, keys)
        for key in keys:
            if key not in fields and key not in ("alias", "missing_text"):
                raise LineError(f"attribute '{key}' is missing")
        if self.library is not None:
            raise LineError("a second 'library' line")
        if not NAME.fullmatch(name) or name in [lib.name for lib in self.libraries]:
            raise LineError(f"bad or repeated library name '{name}'")
        if fields["id"] not in self.headers.libraries:
            raise LineError(f"'{fields['id']}' is not in enum nspy_library (resolve.h)")
        if self.headers.libraries.index(fields["id"]) != len(self.libraries):
            raise LineError(f"'{fields['id']}' is out of the order of enum nspy_library")
        for key in ("prefix", "result", "version"):
            if not NAME.fullmatch(fields[key]):
                raise LineError(f"'{fields[key]}' is not a name")
        if not re.fullmatch(r"\w+\.h", fields["header"]):
            raise LineError(f"'{fields['header']}' is not a header")
        self.library = Entry(name=name, id=fields["id"], prefix=fields["prefix"],
                             alias=fields.get("alias"), header=fields["header"],
                             version=fields["version"], result=fields["result"],
                             missing=parse_number(fields["missing"], 1, 32767),
                             missing_text=fields.get("missing_text", ""),
                             known_by=fields["known_by"].split())
        if not self.library.known_by:
            raise LineError("'known_by' names no function")
        for function in self.library.known_by:
            if not NAME.fullmatch(function) or not function.startswith(fields["prefix"]):
                raise LineError(f"known_by: '{function}' is no name of this library")
        if self.library.alias and not NAME.fullmatch(self.library.alias):
            raise LineError(f"'{self.library.alias}' is not a name")
        if re.search(r"[\\%]", self.library.missing_text):
            raise LineError("'missing_text' must not contain a backslash or a per cent sign")
        self.libraries.append(self.library)

    def _type_line(self, text):
        match = re.fullmatch(r'(?:"(enum [A-Za-z_]\w*)"|([A-Za-z_]\w*))\s+'
                             r"(enum|handle|struct|bytes=[0-9]{1,4})(\s.*)?", text.strip())
        if not match:
            raise LineError("expected: type NAME enum|handle|struct|bytes=N [since=] [check=]")
        name = match.group(1) or match.group(2)
        kind, _, size = match.group(3).partition("=")
        if match.group(1) and kind != "enum":
            raise LineError(f"'{name}' can only be an enum")
        if name in BUILTIN or name in C_KEYWORDS:
            raise LineError(f"'{name}' is a type of C")
        fields = single_attributes(match.group(4) or "", ("since", "check"))
        since = parse_version(fields.get("since"))
        size = parse_number(size, 1, 4096) if size else 0
        known = self.types.get(name)
        if known:
            # Both libraries speak of streams; they must agree on what a stream is.
            if known.library == self.library or (known.kind, known.size) != (kind, size):
                raise LineError(f"type '{name}' declared twice")
            known.libraries.append(self.library)
            return
        self.types[name] = Entry(name=name, kind=kind, size=size, library=self.library,
                                 libraries=[self.library], place=self.place,
                                 check=parse_version(fields.get("check")) or since)

    def _new_name(self, name):
        if not name.startswith(self.library.prefix):
            raise LineError(f"'{name}' does not begin with '{self.library.prefix}'")
        if name in self.by_name:
            raise LineError(f"'{name}' already at {self.by_name[name].place}")

    def _ignored_line(self, name, text):
        fields = single_attributes(text, ("route", "since", "reason"))
        if fields.get("route") != "none":
            raise LineError("a name without a prototype needs route=none")
        if len(fields.get("reason", "")) < 8:
            raise LineError("route=none needs a reason=\"...\"")
        if "since" not in fields:
            raise LineError("attribute 'since' is missing")
        self._new_name(name)
        entry = Entry(name=name, library=self.library, reason=fields["reason"],
                      since_text=fields["since"], place=self.place)
        parse_version(fields["since"])
        self.by_name[name] = entry
        self.ignored.append(entry)

    def _function_line(self, left, right):
        result, name, arguments = split_prototype(left)
        fields = single_attributes(right, ("class", "since", "until", "check", "header", "suffix",
                                           "route", "put", "got"), ("put", "got"))
        self._check_type(result, "the result")
        if (result.text, result.stars) not in ((self.library.result, 0), ("void", 0),
                                               ("const char *", 1)):
            raise LineError(f"a wrapper cannot return '{result.text}'")
        for ctype, argument in arguments:
            self._check_type(ctype, f"argument '{argument}'")
        if "since" not in fields:
            raise LineError("attribute 'since' is missing")
        since, until = parse_version(fields["since"]), parse_version(fields.get("until"))
        if not re.fullmatch(r"\w+(/\w+)?\.h", fields.get("header", "none.h")):
            raise LineError(f"'{fields['header']}' is not a header")
        if until and until <= since:
            raise LineError("'until' is not later than 'since'")
        entry = Entry(name=name, library=self.library, result=result, arguments=arguments,
                      since=since, until=until, since_text=fields["since"],
                      until_text=fields.get("until", ""), place=self.place,
                      check=parse_version(fields.get("check")) or since,
                      header=fields.get("header"), forms=[])
        if fields.get("route", "symbol") == "same":
            self._add_form(entry, fields)
            return
        if fields.get("route", "symbol") != "symbol":
            raise LineError(f"unknown route '{fields['route']}'")
        self._new_name(name)
        if fields.get("class") not in self.headers.classes or fields["class"] == "count":
            raise LineError(f"unknown class '{fields.get('class', '')}' (trace_format.h)")
        entry.klass = fields["class"]
        entry.put = [self._hook("put_", call, entry) for call in fields.get("put", [])]
        entry.got = [self._hook("got_", call, entry) for call in fields.get("got", [])]
        for hook in CLASS_HOOKS.get(entry.klass, ()):
            if hook not in [used.name for used in entry.put + entry.got]:
                raise LineError(f"class={entry.klass} needs {hook.replace('_', '=', 1)}(...)")
        if entry.got and result.text != self.library.result:
            raise LineError("got= needs a function that returns a result code")
        self._add_function(entry, fields.get("suffix"))

    def _add_function(self, entry, suffix):
        if suffix is not None and not re.fullmatch(r"_\w+", suffix):
            raise LineError(f"'{suffix}' is not a suffix")
        names = [entry.name] + ([entry.name + suffix] if suffix else [])
        for name in names:
            self._new_name(name)
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
            one = Entry(**{**vars(entry), "name": name, "suffixed": name != entry.name,
                           "id": "NSPY_FN_" + words.upper()})
            if one.id in [other.id for other in self.functions]:
                raise LineError(f"'{name}' gives the same identifier as another function")
            self.by_name[name] = one
            self.functions.append(one)

    def _add_form(self, entry, fields):
        """A later prototype of the same symbol, which the first one's wrapper must carry too."""
        first = self.by_name.get(entry.name)
        if first is None or not hasattr(first, "forms"):
            raise LineError(f"route=same: '{entry.name}' has no earlier line")
        for key in fields:
            if key not in ("route", "since", "until", "check"):
                raise LineError(f"'{key}' belongs to the first line of '{entry.name}'")
        last = first.forms[-1] if first.forms else first
        if last.until is None or last.until > entry.since:
            raise LineError(f"the form before it ({last.place}) needs until= no later than this")
        if entry.result.text != first.result.text:
            raise LineError("another result type is another function")
        if len(entry.arguments) > len(first.arguments):
            raise LineError("the first line must be the longest form")
        for ctype, argument in entry.arguments + first.arguments:
            if self._kind(ctype) not in ("pointer", "handle", "int", "long", "enum"):
                raise LineError(f"argument '{argument}' does not travel in one register")
        first.forms.append(entry)

    # --- types and hooks ---

    def _kind(self, ctype):
        if ctype.stars:
            return "pointer"
        if ctype.base in BUILTIN:
            return BUILTIN[ctype.base]
        return self.types[ctype.base].kind

    def _check_type(self, ctype, what):
        known = self.types.get(ctype.base)
        if ctype.base not in BUILTIN and (known is None or self.library not in known.libraries):
            raise LineError(f"{what} has the undeclared type '{ctype.base}'")
        if what != "the result" and self._kind(ctype) in ("void", "struct"):
            raise LineError(f"{what} cannot be passed by value")

    def _hook(self, prefix, call, entry):
        match = re.fullmatch(r"(\w+)\(([^()]*)\)", call)
        if not match:
            raise LineError(f"not a hook call: '{call}'")
        name = prefix + match.group(1)
        if name not in self.headers.hooks:
            raise LineError(f"no hook nspy_{name} in hooks.h")
        given = [part.strip() for part in match.group(2).split(",")] if match.group(2) else []
        wanted = self.headers.hooks[name]
        if len(given) != len(wanted):
            raise LineError(f"nspy_{name} takes {len(wanted)} arguments, not {len(given)}")
        texts = [self._hook_argument(name, text, ctype, parameter, entry)
                 for text, (ctype, parameter) in zip(given, wanted)]
        return Entry(name=name, texts=texts, given=given)

    def _hook_argument(self, hook, text, wanted, parameter, entry):
        """One argument of a hook as C text; a mismatch with the hook's parameter is an error."""
        misfit = LineError(f"nspy_{hook}: '{text}' does not fit '{wanted.declare(parameter)}'")
        if text in LITERALS:
            if parameter not in LITERALS[text][1]:
                raise misfit
            return LITERALS[text][0]
        if re.fullmatch(r"[0-9]{1,4}", text):
            if wanted.stars:
                raise misfit
            return text
        if text == "NULL":
            if not wanted.stars:
                raise misfit
            return text
        types = {argument: ctype for ctype, argument in entry.arguments}
        given = types.get(text.lstrip("&"))
        if given is None or text.startswith("&&"):
            raise LineError(f"nspy_{hook}: the function has no argument '{text}'")
        kind = "pointer" if text.startswith("&") else self._kind(given)
        pointee = "" if given.stars != 1 else self.types.get(given.base, Entry(kind="")).kind
        if wanted.text == "const void *":
            fits = kind in ("pointer", "handle")
        elif wanted.text == "void *const *":
            if pointee == "handle" and not given.constant and kind == "pointer":
                return f"(void *const *){text}"
            fits = given.text == "void **" and text != "&" + text.lstrip("&")
        elif wanted.text == "const int *":
            fits = given.stars == 1 and (given.base == "int" or pointee == "enum") \
                and not given.base.startswith("enum ") and not text.startswith("&")
        elif wanted.text == "const size_t *":
            fits = given.stars == 1 and given.base == "size_t" and not text.startswith("&")
        elif wanted.text == "const float *":
            fits = given.stars == 1 and given.base == "float" and not text.startswith("&")
        elif wanted.text == "unsigned int":
            fits = given.base == "unsigned int" and kind == "int"
        elif wanted.text == "size_t":
            fits = kind == "long" and given.base == "size_t"
        elif wanted.text == "int":
            fits = given.base == "int" and kind == "int" or kind == "enum"
        else:
            raise LineError(f"nspy_{hook}: parameters of type '{wanted.text}' are not supported")
        if not fits:
            raise misfit
        return text

    # --- lines of values.api ---

    def _value_line(self, line):
        kind, _, rest = line.partition(" ")
        words = rest.split()
        if kind not in self.values:
            raise LineError(f"unknown line '{kind}'")
        if kind == "column":
            if len(words) != 2 or not all(re.fullmatch(r"\w+", word) for word in words):
                raise LineError("expected: column FIELD UNIT")
            self.values[kind].append(Entry(name=words[0], unit=words[1], place=self.place))
            return
        library = self.libraries[0] if self.libraries else None
        if kind == "result":
            found = [lib for lib in self.libraries if words and lib.name == words[0]]
            if not found:
                raise LineError(f"unknown library '{words[0] if words else ''}'")
            library = found[0]
            words = words[1:]
        if len(words) < 2:
            raise LineError(f"a value and a name must follow '{kind}'")
        fields = single_attributes(" ".join(words[2:]), ("bytes", "since", "check"))
        if ("bytes" in fields) != (kind == "datatype"):
            raise LineError("a datatype needs bytes=N, nothing else has it")
        value = parse_number(words[0], 0, 32767 if kind == "result" else 254)
        if not NAME.fullmatch(words[1]):
            raise LineError(f"'{words[1]}' is not a name")
        for other in self.values[kind]:
            if (other.value, other.library) == (value, library) or other.name == words[1]:
                raise LineError(f"'{words[1]}' or {value} already at {other.place}")
        since = parse_version(fields.get("since"))
        self.values[kind].append(Entry(
            library=library, value=value, name=words[1], place=self.place,
            bytes=parse_number(fields.get("bytes", "1"), 1, 64),
            check=parse_version(fields.get("check")) or since))

    def _check_columns(self, path):
        names = [column.name for column in self.values["column"]]
        if names != self.headers.fields:
            self.errors.append(f"{path}:1: the columns are not the fields of struct nspy_rec in "
                               f"order: {' '.join(self.headers.fields)}")
