#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of a page, light and dark, wide and narrow, for a person to look at.

usage: pictures.py PAGE.html FOLDER
"""

import sys
from pathlib import Path

import browser


def main():
    page, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    one = browser.Browser(browser.find() or sys.exit("no Chromium"))
    try:
        print(f"ready after {one.open(page):.2f} s; errors: {one.errors}")
        for width in (1280, 390):
            for dark in (False, True):
                name = f"{page.stem}-{width}-{'dark' if dark else 'light'}.png"
                one.look(folder / name, width, 900, dark, whole=True)
    finally:
        one.close()


if __name__ == "__main__":
    main()
