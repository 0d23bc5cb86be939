#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTML pages: whole, self-contained, harmless whatever a trace holds, the same as --json.

usage: test_html.py ANALYZE TRACEGEN SIM CASES
"""

import base64
import hashlib
import json
import re
import sys
import tempfile
import unittest
from html.parser import HTMLParser

import pages

PROGRAMS = sys.argv[1:5]
VOID = {"meta", "br", "img", "input", "hr", "link"}
ALLOWED = {"html", "head", "meta", "style", "title", "body", "p", "span", "main", "article",
           "header", "h1", "h2", "h4", "div", "strong", "em", "dl", "dt", "dd", "nav", "section",
           "details", "summary", "code", "pre", "ul", "li", "table", "caption", "thead", "tbody",
           "tr", "th", "td", "figure", "footer", "script"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "id", "type", "scope",
              "hidden", "open", "data-v", "data-chart", "data-label", "data-name"}


class Page(HTMLParser):
    """Elements must be those that we write, closed in order."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.source = path.read_text("utf-8")
        self.stack, self.scripts, self.styles, self.policy = [], [], [], ""
        self.texts, self.rows, self.ids, self.findings, self.data = [], [], [], [], None
        self.wide = []
        self.feed(self.source)
        self.close()
        assert not self.stack, self.stack

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED, tag
        given = dict(attrs)
        assert set(given) <= ATTRIBUTES, (tag, given)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if "id" in given:
            self.ids.append(given["id"])
        if "finding" in given.get("class", "").split():
            self.findings.append("")
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += 1
        if tag not in VOID:
            self.stack.append((tag, given))

    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1][0] == tag, (tag, self.stack[-3:])
        self.stack.pop()

    def handle_data(self, data):
        tag, given = self.stack[-1] if self.stack else ("", {})
        if tag == "script" and given.get("type") == "application/json":
            self.data = json.loads(data)
        elif tag == "script":
            self.scripts.append(data)
        elif tag == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)
        if tag == "strong" and len(self.stack) > 2 and self.stack[-2][0] == "summary":
            self.findings[-1] = data


def hashed(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.make = pages.Maker(*PROGRAMS, cls.scratch.name)

    def check(self, path):
        page = Page(path)
        self.assertEqual(len(page.ids), len(set(page.ids)))
        policy = dict(part.strip().split(" ", 1) for part in page.policy.split(";"))
        self.assertEqual(policy["default-src"], "'none'")
        self.assertEqual(policy["script-src"].split(), [hashed(s) for s in page.scripts])
        self.assertEqual(policy["style-src"].split(), [hashed(s) for s in page.styles])
        self.assertNotIn("unsafe", page.policy)
        ours = page.scripts[-1] + page.styles[0]
        self.assertIsNone(re.search(r"https?://|fetch\(|XMLHttpRequest|@import|url\(", ours))
        return page

    def test_same_as_json(self):
        for case in ("died-killed", "clean", "bandwidth-factors", "aborted", "attempts",
                     "costs-chain", "hostile-text"):
            target = self.make.case(case, case)
            path, result = self.make.page("report", target)
            plain = self.make.analyze("report", target)
            self.assertEqual((result.stdout, result.returncode), (plain.stdout, plain.returncode))
            page = self.check(path)
            jobs = json.loads(self.make.analyze("report", "--json", target).stdout)["jobs"]
            self.assertEqual([s["findings"] for s in page.data["sections"]],
                             [job["findings"] for job in jobs])
            self.assertEqual(page.findings, [f["id"] for job in jobs for f in job["findings"]])
            text = "".join(page.texts)
            for job in jobs:
                for words in ("cause", "page", "do", "restart"):
                    self.assertIn(job["verdict"][words], text)
                for words in job["not_seen"] + job["warnings"] + job["notes"]:
                    self.assertIn(words, text)
                for finding in job["findings"]:
                    for words in (finding["summary"], *finding["details"],
                                  *finding["consequences"],
                                  *(e["command"] for e in finding["evidence"])):
                        self.assertIn(words, text)

    def test_hostile_names(self):
        targets = self.make.hostile()
        path, _ = self.make.page("report", *targets)
        page = self.check(path)
        text = "".join(page.texts)
        for name in pages.HOSTILE:
            self.assertTrue(name in text or '"' in name, name)
        for piece in ("<script>alert", "<img", "<!--<"):
            self.assertNotIn(piece, page.source)
        # Apostrophes mean nothing within the data block; everywhere else they are escaped.
        self.assertNotIn("'onmouseover", page.source.partition('id="data"')[0])
        path, _ = self.make.page(*self.make.hostile_baseline())
        page = self.check(path)
        for name in pages.HOSTILE[:2]:
            self.assertIn(name, "".join(page.texts))
        self.assertNotIn("<script>alert", page.source)

    def test_simulated_job(self):
        path, _ = self.make.page("report", self.make.simulated(3, "slow-rank", 1024))
        page = self.check(path)
        self.assertLess(path.stat().st_size, 3 << 20)
        data = page.data["sections"][0]
        levels = base64.b64decode(data["lag"]["levels"])
        count = len(data["rows"])
        self.assertEqual(len(levels), count * data["lag"]["columns"])
        self.assertEqual({count}, {len(data["charged"]), len(data["parts"])})
        self.assertGreater(data["worst"], 0)
        culprit = data["findings"][0]["culprits"][0]["rank"]
        self.assertEqual(data["rows"][0].split(",")[0], f"rank {culprit}")
        self.assertEqual(data["charged"][0], max(data["charged"]))
        # The rank that is late has the longest lags: sum of levels, among the ranks drawn alone.
        columns = data["lag"]["columns"]
        sums = [sum(levels[r * columns:(r + 1) * columns]) for r in range(data["worst"])]
        self.assertEqual(sums.index(max(sums)), 0)
        self.assertIn(f"rank {culprit} ", "".join(page.texts))

    def test_comparison(self):
        runs = self.make.runs()
        path, result = self.make.page(*runs)
        plain = self.make.analyze(*runs)
        self.assertEqual((result.stdout, result.returncode), (plain.stdout, plain.returncode))
        page = self.check(path)
        document = json.loads(self.make.analyze(*runs, "--json").stdout)
        data = page.data["sections"][0]
        self.assertEqual(data["findings"], document["findings"])
        self.assertEqual(data["findings"][0]["id"], "PERF_REGRESSION")
        step = data["distributions"][0]
        self.assertEqual([run[0] for run in step["runs"]], [0, 0, 1, 1])
        for run in step["runs"]:
            self.assertLessEqual(run[2], run[4])

    def test_standard_output_and_errors(self):
        target = self.make.case("clean", "out")
        result = self.make.analyze("report", "--html", "-", target)
        self.assertTrue(result.stdout.startswith("<!doctype html>"))
        self.assertTrue(result.stdout.endswith("</html>\n"))
        self.assertEqual(self.make.analyze("report", "--json", "--html", "-", target).returncode, 2)
        result = self.make.analyze("report", "--html", "/nowhere/page.html", target)
        self.assertEqual(result.returncode, 3)
        self.assertIn("/nowhere/page.html", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
