#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTML pages in a headless Chromium: every control works, nothing else runs or is asked for.

usage: test_browser.py ANALYZE TRACEGEN SIM CASES CHARTS [RANKS]

CHARTS: yes or no, whether Chart.js was built in. RANKS: size of the large job (default 4096). Exit
status 77 without Chromium (package chromium, or NSPY_CHROMIUM).
"""

import resource
import sys
import tempfile
import time
import unittest

import browser
import pages

PROGRAMS, CHARTS = sys.argv[1:5], sys.argv[5] == "yes"
RANKS = int(sys.argv[6]) if len(sys.argv) > 6 else 4096


class InBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.make = pages.Maker(*PROGRAMS, cls.scratch.name)
        cls.browser = browser.Browser(browser.find())
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        for kept in (self.browser.errors, self.browser.dialogs, self.browser.requests):
            kept.clear()

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])
        self.assertEqual(self.browser.dialogs, [])
        self.assertEqual([url for url in self.browser.requests
                          if not url.startswith(("file://", "about:"))], [])

    def js(self, text):
        return self.browser.js(text)

    def column(self, table, number):
        return self.js(f"Array.from(document.querySelectorAll('{table} tbody tr:not([hidden])'), "
                       f"row => row.cells[{number}].dataset.v ?? row.cells[{number}].textContent)")

    def charts_drawn(self):
        """Charts that have a canvas with more than one colour in it."""
        return self.js("""Array.from(document.querySelectorAll('figure:not([hidden])'), figure => {
            const canvas = figure.querySelector('canvas:not(.legend)');
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            return new Set(new Uint32Array(data.buffer)).size > 1 ? figure.dataset.chart : ''; })""")

    def test_controls(self):
        path, _ = self.make.page("report", self.make.simulated(3, "slow-rank", 16))
        self.browser.open(path)
        drawn = self.charts_drawn()
        self.assertIn("lag", drawn)
        self.assertEqual("parts" in drawn, CHARTS)
        self.assertNotIn("", drawn)
        self.sort_by_keyboard()
        self.filter()
        self.themes()
        self.heat_map()
        self.expand()

    def sort_by_keyboard(self):
        table = "#time-0 table"
        self.js(f"document.querySelector('{table} th button').focus()")
        for state, reverse in (("descending", True), ("ascending", False)):
            self.browser.key("Enter", text="\r")
            ranks = [int(rank) for rank in self.column(table, 0)]
            self.assertEqual(ranks, sorted(ranks, reverse=reverse))
            self.assertEqual(self.js(f"document.querySelector('{table} th').ariaSort"), state)
        self.browser.key("Tab")
        self.browser.key(" ", "Space", " ")
        nodes = self.column(table, 1)
        self.assertEqual(nodes, sorted(nodes))
        self.assertEqual(self.js(f"document.querySelectorAll('{table} th[aria-sort]').length"), 1)
        self.assertNotEqual(self.js("getComputedStyle(document.activeElement).outlineStyle"), "none")

    def filter(self):
        self.js("document.querySelector('#time-0 input[type=search]').focus()")
        self.browser.call("Input.insertText", text="node1 12")
        rows = self.column("#time-0 table", 0)
        self.assertTrue(0 < len(rows) < 16, rows)
        self.assertIn("of 16 rows", self.js("document.querySelector('#time-0 [role=status]').textContent"))

    def themes(self):
        paper = "getComputedStyle(document.body).backgroundColor"
        before = self.js(paper)
        self.js("document.getElementById('theme').focus()")
        self.browser.key("Enter", text="\r")
        after = self.js(paper)
        self.assertNotEqual(before, after)
        self.browser.key(" ", "Space", " ")
        self.assertEqual(self.js(paper), before)
        self.browser.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark"}])
        self.js("delete document.documentElement.dataset.theme")
        self.assertNotEqual(self.js(paper), before)
        self.browser.call("Emulation.setEmulatedMedia", features=[])

    def heat_map(self):
        output = "document.querySelector('#lag-0 output').textContent"
        self.js("document.querySelector('#lag-0 canvas.heat').focus()")
        self.browser.key("ArrowDown")
        first = self.js(output)
        self.assertTrue(first.startswith("rank 1,"), first)
        self.browser.key("ArrowRight")
        self.assertNotEqual(self.js(output), first)
        self.js("""{ const s = document.querySelector('#lag-0 select'); s.value = 'cost';
                s.dispatchEvent(new Event('change')); }""")
        culprit = self.js("JSON.parse(document.getElementById('data').textContent)"
                          ".sections[0].findings[0].culprits[0].rank")
        self.js("document.querySelector('#lag-0 canvas.heat').focus()")
        self.browser.key("ArrowRight")
        self.assertTrue(self.js(output).startswith(f"rank {culprit},"), self.js(output))

    def expand(self):
        self.assertTrue(self.js("document.querySelector('.finding').open"))
        reference = "document.querySelector('.finding .reference')"
        self.js(f"{reference}.querySelector('summary').focus()")
        self.browser.key("Enter", text="\r")
        self.assertTrue(self.js(f"{reference}.open"))
        self.assertGreater(self.js(f"{reference}.querySelector('pre').getBoundingClientRect().height"), 50)

    def test_narrow(self):
        path, _ = self.make.page("report", self.make.simulated(5, "slow-rank", 8))
        self.browser.call("Emulation.setDeviceMetricsOverride", width=390, height=800,
                          deviceScaleFactor=1, mobile=False)
        self.browser.open(path)
        self.assertLessEqual(self.js("document.documentElement.scrollWidth"), 390)
        self.browser.call("Emulation.clearDeviceMetricsOverride")

    def test_comparison(self):
        path, _ = self.make.page(*self.make.runs())
        self.browser.open(path)
        self.assertEqual("distributions" in self.charts_drawn(), CHARTS)
        if CHARTS:
            labels = "Chart.getChart(document.querySelector('#distributions-0 canvas')).data.labels"
            self.assertEqual([label[:4] for label in self.js(labels)], ["base", "base", "new:", "new:"])
            self.js("""{ const s = document.querySelector('#distributions-0 select');
                    s.selectedIndex = 1; s.dispatchEvent(new Event('change')); }""")
            self.assertEqual(len(self.js(labels)), 4)

    def test_hostile_names(self):
        path, _ = self.make.page("report", *self.make.hostile())
        self.browser.open(path)
        text = self.js("document.body.textContent")
        for name in pages.HOSTILE:
            self.assertTrue(name in text or '"' in name, name)
        self.assertEqual(self.js("document.images.length"), 0)
        path, _ = self.make.page(*self.make.hostile_baseline())
        self.browser.open(path)
        self.assertIn(pages.HOSTILE[1], self.js("document.body.textContent"))
        self.assertEqual(self.js("document.images.length"), 0)

    def test_policy_stops_a_script(self):
        """Were escaping to fail somewhere, the page's policy would still let nothing run."""
        path, _ = self.make.page("report", self.make.case("clean", "policy"))
        text = path.read_text("utf-8").replace(
            "<main>", "<main><script>alert(1)</script><img src=x onerror=alert(2)>"
                      "<img src=http://a.invalid/x.png>")
        path.write_text(text, "utf-8")
        self.browser.open(path)
        self.assertEqual(self.browser.dialogs, [])
        self.assertGreaterEqual(len(self.browser.errors), 3)
        self.assertTrue(all("Content Security Policy" in error for error in self.browser.errors),
                        self.browser.errors)
        self.assertEqual(self.js("performance.getEntriesByType('resource')"
                                 ".filter(entry => entry.transferSize).length"), 0)
        self.browser.errors.clear()
        self.browser.requests.clear()  # those that were stopped

    def test_without_scripts(self):
        path, _ = self.make.page("report", self.make.case("died-killed", "plain"))
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        self.browser.open(path, scripts=False)
        text = self.js("document.body.innerText")
        self.browser.call("Emulation.setScriptExecutionDisabled", value=False)
        for words in ("VERDICT", "RANK_DIED", "Operations", "Not seen"):
            self.assertIn(words, text)

    def test_large(self):
        target = self.make.simulated(7, "slow-rank", RANKS)
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        path, _ = self.make.page("report", target)
        wall = time.monotonic() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Times of the processors: what others do on this machine is no matter of the page.
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        size = path.stat().st_size
        self.browser.call("Performance.enable")
        self.browser.call("Page.navigate", url="about:blank")
        opened = self.browser.open(path)
        metrics = {m["name"]: m["value"] for m in self.browser.call("Performance.getMetrics")["metrics"]}
        work = metrics["ThreadTime"]
        print(f"{RANKS} ranks: {size / 1e6:.2f} MB, built in {wall:.1f} s ({spent:.1f} s of processor"
              f" time), opened in {opened:.2f} s ({work:.2f} s of processor time)")
        self.assertLess(size, 5 << 20)
        self.assertNotIn("", self.charts_drawn())


if __name__ == "__main__":
    if not browser.find():
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
