#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Findings as SARIF, JUnit XML, CSV and OpenTelemetry: valid, complete, and harmless whatever a trace holds.

usage: test_exports.py TRACEGEN ANALYZE CASES

With NSPY_SARIF_SCHEMA (and python3-jsonschema) or NSPY_JUNIT_XSD (and xmllint) in the environment
the documents are validated against the consumers' own schemas too.
"""

import csv
import datetime
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

TRACEGEN, ANALYZE, CASES = sys.argv[1:4]
# The fields of OTLP/JSON (protobuf's JSON mapping of the OpenTelemetry protocol) that we use: a
# collector refuses a document with a field it does not know.
OTLP_ATTRIBUTES = [{"key": str, "value": {"stringValue": str, "intValue": "integer"}}]
OTLP_SCOPE = {"name": str, "version": str}
OTLP_LOGS = {"resourceLogs": [{
    "resource": {"attributes": OTLP_ATTRIBUTES},
    "scopeLogs": [{"scope": OTLP_SCOPE, "logRecords": [{
        "timeUnixNano": "integer", "observedTimeUnixNano": "integer", "severityNumber": int,
        "severityText": str, "body": {"stringValue": str}, "attributes": OTLP_ATTRIBUTES,
        "eventName": str}]}]}]}
OTLP_METRICS = {"resourceMetrics": [{
    "resource": {"attributes": OTLP_ATTRIBUTES},
    "scopeMetrics": [{"scope": OTLP_SCOPE, "metrics": [{
        "name": str, "description": str, "unit": str, "gauge": {"dataPoints": [{
            "startTimeUnixNano": "integer", "timeUnixNano": "integer", "asDouble": "number",
            "attributes": OTLP_ATTRIBUTES}]}}]}]}]}
HOSTILE = ["=cmd|'/C calc'!A0", "+1", "-1", "@SUM(A1)", "a\"b", "<script>", "x&y", "a,b", "]]>"]


def analyze(*args):
    return subprocess.run([ANALYZE, *map(str, args)], capture_output=True, text=True, timeout=120,
                          check=False)


def check_form(value, form, where=""):
    """A document has no field but those of a form, each of its type."""
    if isinstance(form, dict):
        for name, member in value.items():
            assert name in form, f"{where}.{name} is not in the protocol"
            check_form(member, form[name], f"{where}.{name}")
    elif isinstance(form, list):
        assert isinstance(value, list), where
        for member in value:
            check_form(member, form[0], where)
    elif form == "integer":
        assert isinstance(value, str) and value.lstrip("-").isdigit(), f"{where}: {value!r}"
    elif form == "number":
        assert isinstance(value, (int, float)) and not isinstance(value, bool), where
    else:
        assert isinstance(value, form), f"{where}: {value!r}"


def attributes_of(point):
    return {one["key"]: next(iter(one["value"].values())) for one in point["attributes"]}


class Exports(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = Path(self.scratch.name)

    def make(self, case, job="test", extra=""):
        text = Path(CASES, case + ".case").read_text("utf-8")
        first, _, rest = text.partition("\nranks ")
        header, newline, rest = rest.partition("\n")
        scenario = self.root / (job + ".scenario")
        scenario.write_text(f"job {job}\n{first}\nranks {header}{newline}{extra}{rest}", "utf-8")
        target = self.root / job
        subprocess.run([TRACEGEN, scenario, target], check=True)
        return target

    def documents(self, target, *args):
        paths = [self.root / name for name in ("o.sarif", "o.xml", "o.csv")]
        result = analyze("report", "--sarif", paths[0], "--junit", paths[1], "--csv", paths[2],
                         *args, target)
        sarif = json.loads(paths[0].read_text("utf-8"))
        junit = ET.parse(paths[1]).getroot()
        table = list(csv.DictReader(io.StringIO(paths[2].read_text("utf-8"), newline="")))
        self.validate(paths[0], paths[1])
        return result, sarif, junit, table

    @staticmethod
    def validate(sarif, junit):
        schema, xsd = os.environ.get("NSPY_SARIF_SCHEMA"), os.environ.get("NSPY_JUNIT_XSD")
        if schema:
            import jsonschema
            jsonschema.validate(json.loads(sarif.read_text("utf-8")),
                                json.loads(Path(schema).read_text("utf-8")))
        if xsd:
            subprocess.run(["xmllint", "--noout", "--schema", xsd, junit], check=True,
                           capture_output=True)

    def test_same_as_the_report(self):
        target = self.make("died-killed")
        result, sarif, junit, table = self.documents(target)
        plain = analyze("report", target)
        self.assertEqual(result.stdout, plain.stdout)
        self.assertEqual(result.returncode, plain.returncode)
        findings = json.loads(analyze("report", "--json", target).stdout)["jobs"][0]["findings"]
        run = sarif["runs"][0]
        self.assertEqual([r["ruleId"] for r in run["results"]], [f["id"] for f in findings])
        for one in run["results"]:
            self.assertEqual(run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"], one["ruleId"])
        first = run["results"][0]
        self.assertEqual(first["level"], "error")
        self.assertTrue(first["message"]["text"].startswith(findings[0]["summary"]))
        self.assertEqual(first["locations"][0]["logicalLocations"][0]["fullyQualifiedName"],
                         "test/node1/rank 3")
        suite = junit.find("testsuite")
        urgent = [f for f in findings if f["priority"] in ("P0", "P1")]
        self.assertEqual(int(suite.get("failures")), len(urgent))
        self.assertEqual(int(suite.get("tests")), len(findings))
        self.assertEqual(len(suite.findall("testcase/failure")), len(urgent))
        self.assertEqual(table[0]["id"], "RANK_DIED")
        self.assertEqual(table[0]["rank"], "3")
        self.assertEqual(table[0]["node"], "node1")

    def test_clean_job(self):
        _, sarif, junit, table = self.documents(self.make("clean"))
        self.assertEqual(sarif["runs"][0]["results"], [])
        self.assertEqual(junit.find("testsuite").get("failures"), "0")
        self.assertEqual(junit.find("testsuite/testcase").get("name"), "no finding")
        self.assertEqual(table, [])

    def test_accepted_findings(self):
        target = self.make("died-killed")
        accepted = self.root / "accepted"
        accepted.write_text("RANK_DIED * 2099-01-01 known, ticket <7>\n", "utf-8")
        _, sarif, junit, table = self.documents(target, "--ignore", accepted)
        self.assertEqual(sarif["runs"][0]["results"][0]["suppressions"][0]["kind"], "external")
        self.assertEqual(junit.find("testsuite").get("skipped"), "1")
        self.assertIn("<7>", junit.find("testsuite/testcase/skipped").get("message"))
        self.assertIn("<7>", table[0]["ignored"])

    def test_hostile_names(self):
        for number, name in enumerate(HOSTILE):
            if " " in name:
                name = name.replace(" ", "_")
            target = self.make("died-killed", f"job{number}", f"node {name} 0-3\n")
            _, sarif, junit, table = self.documents(target)
            where = sarif["runs"][0]["results"][0]["locations"][0]["logicalLocations"][0]
            self.assertIn(name, where["fullyQualifiedName"])
            self.assertIsNotNone(junit.find("testsuite"))
            cell = table[0]["node"]
            self.assertEqual(cell.lstrip("'"), name)
            self.assertNotIn(cell[0], "=+-@", name)

    def test_control_characters(self):
        _, _, junit, table = self.documents(self.make("hostile-text"))
        text = ET.tostring(junit, "unicode") + str(table)
        self.assertNotRegex(text, r"[\x00-\x08\x0b-\x1f\x7f]")

    def otlp(self, target, *args):
        """Log records and metrics (name to data points) of the only job."""
        paths = self.root / "logs.jsonl", self.root / "metrics.jsonl"
        analyze("report", "--otlp-logs", paths[0], "--otlp-metrics", paths[1], *args, target)
        lines = [path.read_text("utf-8") for path in paths]
        for line, form in zip(lines, (OTLP_LOGS, OTLP_METRICS)):
            self.assertEqual(line.index("\n"), len(line) - 1)
            check_form(json.loads(line), form)
        logs = json.loads(lines[0])["resourceLogs"]
        metrics = json.loads(lines[1])["resourceMetrics"]
        self.assertEqual((len(logs), len(metrics)), (1, 1))
        self.assertEqual(attributes_of(logs[0]["resource"])["service.name"], "ncclspy")
        return logs[0]["scopeLogs"][0]["logRecords"], {
            metric["name"]: metric["gauge"]["dataPoints"]
            for metric in metrics[0]["scopeMetrics"][0]["metrics"]}

    def test_opentelemetry_logs(self):
        target = self.make("died-killed")
        job = json.loads(analyze("report", "--json", target).stdout)["jobs"][0]
        records, _ = self.otlp(target)
        self.assertEqual([attributes_of(r)["ncclspy.finding"] for r in records],
                         [f["id"] for f in job["findings"]])
        first, finding = records[0], job["findings"][0]
        self.assertEqual((first["severityNumber"], first["severityText"]), (17, "ERROR"))
        self.assertEqual(first["body"]["stringValue"], finding["summary"])
        began = datetime.datetime.strptime(finding["began"] + "+0000", "%Y-%m-%d %H:%M:%S.%f%z")
        self.assertEqual(int(first["timeUnixNano"]), round(began.timestamp() * 1000) * 10**6)
        self.assertGreater(int(first["observedTimeUnixNano"]), int(first["timeUnixNano"]))
        said = attributes_of(first)
        self.assertEqual((said["ncclspy.ranks"], said["host.name"]), ("3", "node1"))
        self.assertEqual(said["ncclspy.reference"], finding["reference"])

    def test_opentelemetry_metrics(self):
        target = self.make("died-killed")
        job = json.loads(analyze("report", "--json", target).stdout)["jobs"][0]
        _, metrics = self.otlp(target)
        for name, of in (("ranks", "ranks"), ("nodes", "nodes"), ("operations", "operations"),
                         ("world_size", "world_size"), ("bytes", "bytes")):
            points = metrics["ncclspy." + name]
            self.assertEqual([p["asDouble"] for p in points], [job["totals"][of]], name)
        found = {attributes_of(p)["ncclspy.priority"]: p["asDouble"]
                 for p in metrics["ncclspy.findings"]}
        self.assertEqual(found, {level: sum(f["priority"] == level for f in job["findings"])
                                 for level in ("P0", "P1", "P2")})
        self.assertAlmostEqual(metrics["ncclspy.rank_time"][0]["asDouble"],
                               job["costs"]["rank_seconds"])
        accepted = self.root / "accepted"
        accepted.write_text("RANK_DIED * 2099-01-01 known\n", "utf-8")
        records, metrics = self.otlp(target, "--ignore", accepted)
        self.assertIn("known", attributes_of(records[0])["ncclspy.ignored"])
        self.assertEqual(metrics["ncclspy.findings"][0]["asDouble"], 0)

    def test_opentelemetry_of_other_jobs(self):
        for case in ("hostile-text", "bandwidth-factors", "costs-chain"):
            records, metrics = self.otlp(self.make(case, case))
            self.assertNotRegex(json.dumps(records), r"\\u00[01]")
            self.assertIn("ncclspy.findings", metrics)

    def test_standard_output(self):
        target = self.make("died-killed")
        self.assertEqual(json.loads(analyze("report", "--sarif", "-", target).stdout)["version"],
                         "2.1.0")
        self.assertTrue(analyze("report", "--csv", "-", target).stdout.startswith("job,attempt,"))
        both = analyze("report", "--json", "--csv", "-", target)
        self.assertEqual((both.returncode, both.stdout), (2, ""))
        for two in (("--csv", "-", "--sarif", "-"), ("--csv", "x", "--junit", "x")):
            both = analyze("report", *two, target)
            self.assertEqual((both.returncode, both.stdout), (2, ""))
            self.assertIn("two forms for", both.stderr)

    def test_cannot_be_written(self):
        target = self.make("died-killed")
        result = analyze("report", "--csv", self.root / "no" / "x.csv", target)
        self.assertEqual(result.returncode, 3)
        self.assertIn("x.csv: No such file or directory", result.stderr)
        self.assertIn("VERDICT", result.stdout)
        if os.path.exists("/dev/full"):
            full = analyze("report", "--junit", "/dev/full", target)
            self.assertEqual(full.returncode, 3)
            self.assertIn("/dev/full: No space left on device", full.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
