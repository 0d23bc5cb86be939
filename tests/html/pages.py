# SPDX-License-Identifier: Apache-2.0
"""Pages to test: of made traces with hostile names, of a simulated job, of compared runs."""

import json
import subprocess
import tempfile
from pathlib import Path

# Runs a script wherever one of these would get into the page unescaped; a trace holds 31 bytes of a name.
HOSTILE = ["</script><script>alert(1)//", "\"><img/src=x/onerror=alert(2)>",
           "'onmouseover='alert(3)", "<style>@import'//a.invalid'",
           "javascript:alert(4)", "&lt;b&gt;", "<!--<script>", "url(http://a.invalid/y)"]


class Maker:
    def __init__(self, analyze, tracegen, sim, cases, root):
        self.programs, self.cases, self.root = (analyze, tracegen, sim), Path(cases), Path(root)

    def analyze(self, *args):
        return subprocess.run([self.programs[0], *map(str, args)], capture_output=True, text=True,
                              timeout=120, check=False)

    def page(self, *args):
        """The path of the page that these arguments make, and the command's result."""
        path = self.root / f"page{len(list(self.root.glob('*.html')))}.html"
        result = self.analyze(*args, "--html", path)
        if not path.exists():
            raise RuntimeError(f"no page: {result.stderr}")
        return path, result

    def case(self, name, job="test", nodes=""):
        text = (self.cases / (name + ".case")).read_text("utf-8")
        first, _, rest = text.partition("\nranks ")
        header, newline, rest = rest.partition("\n")
        scenario = self.root / (job.replace("/", "_") + ".scenario")
        scenario.write_text(f"job {job}\n{first}\nranks {header}{newline}{nodes}{rest}", "utf-8")
        target = self.root / scenario.stem
        subprocess.run([self.programs[1], scenario, target], check=True)
        return target

    def hostile(self):
        """Jobs whose every rank runs on a node with a name of that kind (scenarios take no \")."""
        return [self.case("died-killed", f"job{i}", f"node {name} 0-3\n")
                for i, name in enumerate(HOSTILE) if '"' not in name]

    def simulated(self, *args):
        target = self.root / ("sim" + "-".join(map(str, args)))
        target.mkdir()
        subprocess.run([self.programs[2], *map(str, args[:1]), target, *map(str, args[1:])],
                       check=True)
        return target / "sim"

    def runs(self):
        """Options that compare two runs a side, the new ones slower."""
        paths, root = [], Path(tempfile.mkdtemp(dir=self.root))
        for number, percent in enumerate((0, 0, 12, 12)):
            path = root / f"run{number}"
            path.mkdir()
            subprocess.run([self.programs[2], "again", "1", path, "clean", "8", str(number),
                            str(percent)], check=True)
            paths.append(path / "sim")
        return ["compare", "--base", paths[0], "--base", paths[1], paths[2], paths[3]]

    def hostile_baseline(self):
        """The same, of a file whose names are somebody else's."""
        path = self.root / "hostile.json"
        run = self.runs()
        self.analyze("compare", "--save-baseline", path, run[2], run[4])
        document = json.loads(path.read_text("utf-8"))
        for i, one in enumerate(document["runs"]):
            one["job"] = HOSTILE[i]
            one["facts"] = {name: f"{name}{i}" for name in HOSTILE}
            one["hosts"] = [{"name": name, "charged_ns": 1e9 * i} for name in HOSTILE]
        path.write_text(json.dumps(document), "utf-8")
        return ["compare", "--base", path, run[5], run[6]]
