#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over the sources that a build directory compiles: tidy.sh BUILD [/FOLDER/...]
# One process per file: version 14 carries analyzer state from one file to the next.
# Exit status 77: it is not installed.
set -eu
build=$(cd "${1:?which build directory?}" && pwd)
shift
cd "$(dirname "$0")/../.."

tool=$(command -v clang-tidy-14 || command -v clang-tidy || true)
if [ -z "$tool" ]; then
    echo "clang-tidy is not installed"
    exit 77
fi
parts=${*:-/interpose/ /analyzer/ /tools/}
python3 - "$build" "$PWD" "$parts" <<'END' | xargs -0 -r -n 1 -P "$(nproc)" "$tool" -p "$build" --quiet
import json, os, sys
build, source, parts = sys.argv[1], sys.argv[2], sys.argv[3].split()
with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
    files = {os.path.realpath(os.path.join(c["directory"], c["file"])) for c in json.load(f)}
for name in sorted(files):
    inside = name.startswith(source + "/") and not name.startswith(build + "/")
    if inside and name.endswith(".c") and name[len(source):].startswith(tuple(parts)):
        sys.stdout.write(name + "\0")
END
