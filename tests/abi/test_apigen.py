#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The call tables and their generator: mistakes are reported, never guessed away.

Usage: test_apigen.py INTERPOSE_DIR GOLDEN_CALLS_MD [unittest arguments]
With NSPY_UPDATE_GOLDEN=1 in the environment the golden copy is rewritten.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

INTERPOSE = Path(sys.argv.pop(1)).resolve()
GOLDEN = Path(sys.argv.pop(1)).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(INTERPOSE / "gen"))
# pylint: disable=wrong-import-position
import apigen
import apitable

PLACE = re.compile(r"^[^\n:]+:[1-9][0-9]*: .")
MUTATIONS = 300

# (table, text to replace, replacement, message expected, text that the reported line contains).
# Each is one plausible slip of somebody who edits a table.
SLIPS = [
    ("nccl.api", "class=query since=2.0\n", "class=qery since=2.0\n", "unknown class 'qery'",
     "qery"),
    ("nccl.api", "class=query since=2.0\n", "class=query\n", "'since' is missing", "GetVersion"),
    ("nccl.api", "class=query since=2.0\n", "class=query since=two\n", "not a version", "two"),
    ("nccl.api", "class=query since=2.0\n", "class=query since=2.0 foo=1\n", "unknown attribute",
     "foo"),
    ("nccl.api", "class=query since=2.0\n", "class=query since=2.0 since=2.1\n", "given twice",
     "2.1"),
    ("nccl.api", "class=query since=2.0\n", "class=query since=2.0 and so on\n", "not key=value",
     "so on"),
    ("nccl.api", "class=query since=2.0\n", "class=query since=2.4 until=2.3\n", "not later",
     "until"),
    ("nccl.api", "ncclGetVersion(int *version) |", "ncclGetVersion(int *version)", "no '|'",
     "GetVersion"),
    ("nccl.api", "ncclGetVersion(int *version)", "ncclGetVersion(int *)", "cannot read", "int *)"),
    ("nccl.api", "ncclGetVersion(int *version)", "ncclGetVersion(unsigned int)", "without a name",
     "unsigned"),
    ("nccl.api", "ncclGetVersion(int *version)", "ncclGetVersion(int *version, int version)",
     "two arguments", "version"),
    ("nccl.api", "ncclGetVersion(int *version)", "ncclGetVersion(int *ret)", "wrapper itself",
     "ret"),
    ("nccl.api", "ncclGetVersion(int *version)", "ncclGetVersion(int *copy)", "wrapper itself",
     "copy"),
    ("nccl.api", "ncclGetVersion(int *version)", "ncclGetVersion(double *version)", "undeclared",
     "double"),
    ("nccl.api", "ncclGetVersion(int *version)", "ncclGetVersion(ncclConfig_t version)",
     "by value", "ncclConfig_t version"),
    ("nccl.api", "ncclResult_t ncclGetVersion(", "int ncclGetVersion(", "cannot return",
     "GetVersion"),
    ("nccl.api", "ncclResult_t ncclGetVersion(", "ncclResult_t mcclGetVersion(", "does not begin",
     "mcclGet"),
    ("nccl.api", "ncclResult_t ncclGetVersion(", "ncclResult_t ncclSend(", "already at",
     "ncclSend"),
    ("nccl.api", "put=send(comm, ", "put=sent(comm, ", "no hook nspy_put_sent", "sent"),
    ("nccl.api", "put=send(comm, count, ", "put=send(comm, ", "takes 5 arguments, not 4",
     "ncclSend"),
    ("nccl.api", "put=send(comm, count, ", "put=send(count, comm, ", "does not fit", "ncclSend"),
    ("nccl.api", "put=send(comm, count, ", "put=send(komm, count, ", "no argument 'komm'", "komm"),
    ("nccl.api", "put=send(comm, count, datatype, peer, ", "put=send(comm, count, NO_OP, peer, ",
     "does not fit", "ncclSend"),
    ("nccl.api", "put=send(comm, count, ", "put=send(comm, NULL, ", "does not fit", "ncclSend"),
    ("nccl.api", "class=send since=2.7 put=send(", "class=send since=2.7 put=recv(",
     "needs put=send", "ncclSend"),
    ("nccl.api", "got=init_rank(comm)", "got=init_rank(nranks)", "does not fit", "nranks)"),
    ("nccl.api", 'route=none since=2.24 reason="deprecated switch of NCCL\'s own log"',
     "route=none since=2.24", "needs a reason", "ncclResetDebugInit"),
    ("nccl.api", "ncclTeamWorld | route=none", "ncclTeamWorld | route=symbol", "needs route=none",
     "TeamWorld"),
    ("nccl.api", "library nccl id=", "library nccl ip=", "unknown attribute 'ip'", "library"),
    ("nccl.api", 'known_by="ncclGetVersion ', 'known_by="getVersion ', "no name of this library",
     "library"),
    ("cuda.api", "known_by=", "known=", "unknown attribute", "library"),
    ("nccl.api", " missing=5", " missing=0", "not a number from 1", "library"),
    ("nccl.api", "id=NSPY_LIB_NCCL", "id=NSPY_LIB_MCCL", "not in enum nspy_library", "library"),
    ("nccl.api", "type ncclUniqueId           bytes=128", "type ncclUniqueId bytes=0",
     "not a number from 1", "UniqueId"),
    ("nccl.api", "type ncclConfig_t           struct", "type ncclConfig_t structure",
     "expected: type", "structure"),
    ("cuda.api", "type cudaStream_t                handle", "type cudaStream_t enum",
     "declared twice", "cudaStream_t"),
    ("cuda.api", "route=same since=12.0", "route=some since=12.0", "unknown route", "some"),
    ("cuda.api", "since=10.0 until=12.0", "since=10.0", "needs until=", "unsigned long long flags"),
    ("cuda.api", "put=bytes(size) got=address(devPtr)", "put=bytes(size)", "needs got=address",
     "cudaMalloc"),
    ("cuda.api", "suffix=_ptsz put=arg(stream)\n", "suffix=\x01 put=arg(stream)\n", "ASCII",
     "\x01"),
    ("values.api", "datatype 0 ncclInt8 bytes=1", "datatype 0 ncclInt8", "needs bytes", "Int8"),
    ("values.api", "datatype 0 ncclInt8", "datatype 1 ncclInt8", "already at", "Uint8"),
    ("values.api", "redop 0 ncclSum", "redop -1 ncclSum", "not a number", "ncclSum"),
    ("values.api", "result nccl 0", "result mccl 0", "unknown library 'mccl'", "mccl"),
    ("values.api", "redop 0 ncclSum", "operator 0 ncclSum", "unknown line", "operator"),
    ("values.api", "column enter ns\n", "", "not the fields of struct nspy_rec", ""),
]


def read(name):
    """The text of a table as committed."""
    return (INTERPOSE / "api" / name).read_text(encoding="utf-8")


class TableTest(unittest.TestCase):
    """Runs with a private copy of the tables."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.api = Path(self.scratch.name, "api")
        shutil.copytree(INTERPOSE / "api", self.api)

    def tearDown(self):
        self.scratch.cleanup()

    def errors(self):
        """What the generator says about the private copy; [] if it is content."""
        try:
            apigen.generate(apitable.Tables(INTERPOSE, self.api))
        except apitable.TableErrors as errors:
            return errors.lines
        return []

    def test_the_tables_are_right(self):
        self.assertEqual(self.errors(), [])

    def test_slips(self):
        for table, old, new, message, inside in SLIPS:
            with self.subTest(new=new):
                text = read(table)
                self.assertIn(old, text, "the slip no longer applies to the table")
                text = text.replace(old, new, 1)
                (self.api / table).write_text(text, encoding="utf-8")
                lines = self.errors()
                (self.api / table).write_text(read(table), encoding="utf-8")
                said = [line for line in lines if message in line]
                self.assertTrue(said, f"expected '{message}' among {lines}")
                place, number = said[0].split(":")[:2]
                self.assertEqual(place, str(self.api / table))
                self.assertIn(inside, text.split("\n")[int(number) - 1])

    def test_every_mistake_is_reported_at_once(self):
        text = read("nccl.api").replace("class=query since=2.0\n", "class=qery since=2.0\n")
        (self.api / "nccl.api").write_text(text, encoding="utf-8")
        wrong = text.count("class=qery")
        self.assertGreater(wrong, 1)
        self.assertEqual(len(self.errors()), wrong)

    def test_a_shorter_first_form_is_refused(self):
        text = read("cuda.api")
        dropped = ", cudaGraphNode_t *pErrorNode, char *pLogBuffer, size_t bufferSize"
        text = text.replace(dropped, "")
        (self.api / "cuda.api").write_text(text, encoding="utf-8")
        self.assertIn("longest form", "\n".join(self.errors()))

    def test_unreadable_tables(self):
        (self.api / "cuda.api").unlink()
        self.assertIn("cuda.api:1: cannot be read", "\n".join(self.errors()))
        (self.api / "nccl.api").write_bytes(b"\xff\xfe")
        self.assertIn("nccl.api:1: cannot be read", "\n".join(self.errors()))
        (self.api / "nccl.api").write_text("", encoding="utf-8")
        self.assertIn("no 'library' line", "\n".join(self.errors()))

    def test_mutated_tables_never_crash_the_generator(self):
        rng = random.Random(20252)
        refused = 0
        for number in range(MUTATIONS):
            table = rng.choice(("nccl.api", "cuda.api", "values.api"))
            data = bytearray(read(table).encode())
            for _ in range(rng.randint(1, 3)):
                mutate(rng, data)
            (self.api / table).write_bytes(data)
            with self.subTest(mutation=number):
                lines = self.errors()
                refused += bool(lines)
                for line in lines:
                    self.assertRegex(line, PLACE)
            (self.api / table).write_text(read(table), encoding="utf-8")
        # Most random damage is noticed; what is not hits comments and harmless words.
        self.assertGreater(refused, MUTATIONS // 2)


def mutate(rng, data):
    """One random edit: a byte, a removed piece, a repeated piece, or two swapped pieces."""
    at = rng.randrange(len(data))
    length = rng.randint(1, 60)
    kind = rng.randrange(4)
    if kind == 0:
        data[at] = rng.choice(b"(),|=*&\"\n #09azAZ_.\x00\xff")
    elif kind == 1:
        del data[at:at + length]
    elif kind == 2:
        data[at:at] = data[at:at + length]
    else:
        other = rng.randrange(len(data))
        data[at:at + length], data[other:other + length] = \
            data[other:other + length], data[at:at + length]


class CommandTest(unittest.TestCase):
    """The command line, as the build uses it."""

    def run_apigen(self, *arguments):
        """Exit status and stderr."""
        done = subprocess.run([sys.executable, str(INTERPOSE / "gen" / "apigen.py"), *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def test_usage(self):
        status, text = self.run_apigen()
        self.assertEqual(status, 2)
        self.assertIn("INTERPOSE_DIR OUT_DIR", text)

    def test_mistakes_exit_1_and_write_nothing(self):
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch, "interpose")
            shutil.copytree(INTERPOSE, copy)
            table = copy / "api" / "nccl.api"
            table.write_text(read("nccl.api").replace("class=coll", "class=call", 1))
            out = Path(scratch, "out")
            out.mkdir()
            status, text = self.run_apigen(str(copy), str(out))
            self.assertEqual(status, 1)
            self.assertRegex(text, PLACE)
            self.assertNotIn("Traceback", text)
            self.assertEqual(list(out.iterdir()), [])


class OutputTest(unittest.TestCase):
    """What a sound table gives."""

    def setUp(self):
        self.tables = apitable.Tables(INTERPOSE)
        self.files = apigen.generate(self.tables)

    def test_golden_calls(self):
        text = self.files["calls.md"]
        if os.environ.get("NSPY_UPDATE_GOLDEN") == "1":
            GOLDEN.write_text(text, encoding="utf-8")
        self.assertEqual(GOLDEN.read_text(encoding="utf-8"), text,
                         "the call tables changed: set NSPY_UPDATE_GOLDEN=1, run this test "
                         "again and review the difference like code")

    def test_every_hook_is_used(self):
        used = {hook.name for one in self.tables.functions for hook in one.put + one.got}
        inline = (INTERPOSE / "wrap" / "hooks_ops.h").read_text(encoding="utf-8")
        for name in set(self.tables.headers.hooks) - used:
            # Some inline hooks share a part that no table names.
            self.assertGreater(inline.count(f"nspy_{name}("), 1, f"nspy_{name} is not used")

    def test_ids_are_dense_and_grouped(self):
        ids = re.findall(r"^\t(NSPY_FN_\w+),$", self.files["api_ids.h"], re.M)
        self.assertEqual(ids, [one.id for one in self.tables.functions])
        self.assertEqual(len(ids), len(set(ids)))
        groups = [one.library.name for one in self.tables.functions]
        self.assertEqual(groups, sorted(groups, key=["nccl", "cudart"].index))

    def test_schema_lines(self):
        for line in apigen.schema_lines(self.tables):
            for field in line:
                self.assertNotRegex(str(field), r"[\t\n]")
                self.assertNotEqual(str(field), "")

    def test_documented_wrapper_is_the_generated_one(self):
        page = (INTERPOSE.parent / "docs" / "hacking-wrappers.md").read_text(encoding="utf-8")
        snippets = re.findall(r"```c\n(.*?)```", page, re.S)
        self.assertTrue(snippets)
        for snippet in snippets:
            self.assertIn(snippet, self.files["api_wrappers_nccl.c"])

    def test_generated_c_fits_the_line(self):
        for name, text in self.files.items():
            if name.endswith((".c", ".h")):
                for number, line in enumerate(text.split("\n"), 1):
                    self.assertLessEqual(len(line.expandtabs(8)), 100, f"{name}:{number}")


if __name__ == "__main__":
    unittest.main()
