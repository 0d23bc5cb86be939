# SPDX-License-Identifier: Apache-2.0
"""What a person can set for tests stands where a person looks for it."""
import re

import lintlib

CHECK = "each environment variable that a test's Python reads is described in docs/TESTING.md"

# Set by the build or by other tests.
INTERNAL = {"NSPY_BUILD", "NSPY_SANITIZER_RUNTIME"}
READ = re.compile(r"""environ(?:\.get\(|\[)["'](NSPY_[A-Z_]+)""")
DESCRIBED = re.compile(r"`(NSPY_[A-Z_]+)")

GOOD = {"tests/a.py": 'os.environ.get("NSPY_ROOTS")\nos.environ["NSPY_BUILD"]\n', "docs/TESTING.md": "| `NSPY_ROOTS` | |\n"}
BAD = [dict(GOOD, **{"docs/TESTING.md": "NSPY_OTHER\n"}),
       dict(GOOD, **{"docs/TESTING.md": "| `NSPY_ROOTS` |\n| `NSPY_GONE` |\n"})]


def check(root):
    described = set(DESCRIBED.findall(lintlib.read(root, "docs/TESTING.md") or ""))
    everything = ""
    for path in lintlib.files(root):
        if not path.startswith(("tests/", ".ci/")):
            continue
        text = lintlib.read(root, path) or ""
        everything += text
        if not path.endswith(".py") or path.startswith("tests/lint/"):
            continue
        for number, line in lintlib.numbered(root, path):
            for name in sorted(set(READ.findall(line)) - INTERNAL - described):
                yield f"{path}:{number}: {name} is not described in docs/TESTING.md"
    for name in sorted(described):
        if name not in everything:
            yield f"docs/TESTING.md: no test reads {name}"


lintlib.run(__name__)
