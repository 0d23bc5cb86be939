#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every case file is in the build's list of tests: a forgotten one would never run.

usage: test_case_list.py FOLDER
"""

import re
import sys
from pathlib import Path


def main():
    folder = Path(sys.argv[1])
    listed = set(re.findall(r"'([a-z0-9-]+)'", (folder / "meson.build").read_text("utf-8")))
    missing = [p.name for p in sorted((folder / "cases").glob("*.case")) if p.stem not in listed]
    for name in missing:
        print(f"cases/{name} is in no test of meson.build")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
