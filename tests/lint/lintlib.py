# SPDX-License-Identifier: Apache-2.0
"""What the lint checks share: walking the tree, reporting, and the self-test.

A check is a module with CHECK (one sentence), BAD and GOOD (trees as {path: text}) and
check(root), which yields problems as "path:line: text". Run as a program it checks --root;
--self-test proves that it complains about BAD and is silent about GOOD.
"""
import argparse
import os
import sys
import tempfile

SKIPPED_DIRS = {".git", "__pycache__", ".cache", "subprojects"}


def files(root, *endings):
    """Relative paths of the project's files, sorted; endings such as ".c", none = all."""
    found = []
    for folder, dirs, names in os.walk(root):
        dirs[:] = sorted(
            d for d in dirs
            if d not in SKIPPED_DIRS and not (folder == root and d.startswith("build"))
            and not os.path.exists(os.path.join(folder, d, "build.ninja")))
        for name in names:
            if not endings or name.endswith(endings):
                found.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(found)


def read(root, path):
    """Text of a file; None if it is not there or is no text."""
    try:
        with open(os.path.join(root, path), encoding="utf-8") as f:
            return f.read()
    except (OSError, UnicodeDecodeError):
        return None


def numbered(root, path):
    """Lines of a text file with their numbers."""
    return enumerate((read(root, path) or "").splitlines(), 1)


def _problems_of(module, tree):
    with tempfile.TemporaryDirectory() as root:
        for path, text in tree.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
        return list(module.check(root))


def _self_test(module):
    failed = 0
    trees = module.BAD if isinstance(module.BAD, list) else [module.BAD]
    for number, tree in enumerate(trees):
        if not _problems_of(module, tree):
            print(f"self-test: bad tree {number} was not noticed")
            failed = 1
    for problem in _problems_of(module, module.GOOD):
        print(f"self-test: good tree: {problem}")
        failed = 1
    return failed


def main(module):
    parser = argparse.ArgumentParser(description=module.CHECK)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), "..", ".."))
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return _self_test(module)
    problems = list(module.check(os.path.realpath(options.root)))
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problem(s): {module.CHECK}", file=sys.stderr)
    return 1 if problems else 0


def run(name):
    """Call at the end of a check: runs it if it is the program."""
    if name == "__main__":
        sys.exit(main(sys.modules[name]))
