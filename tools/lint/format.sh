#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the layout of all C files with .clang-format; --fix rewrites them. Version 14 decides:
# others lay out the same style differently. Exit status 77: it is not installed.
set -eu
cd "$(dirname "$0")/../.."

for tool in clang-format-14 clang-format; do
    case $("$tool" --version 2>/dev/null) in
    *version\ 14.*) break ;;
    *) tool= ;;
    esac
done
if [ -z "$tool" ]; then
    echo "clang-format 14 is not installed"
    exit 77
fi
sources() {
    find interpose analyzer tools tests examples -type d -name 'build*' -prune -o \
        -type f -name '*.[ch]' -print0
}

if [ "${1:-}" = --fix ]; then
    sources | xargs -0 -r "$tool" -i
    exit
fi
different=$(sources | xargs -0 -r "$tool" --dry-run 2>&1 | sed -n 's/:[0-9].*//p' | sort -u)
if [ -n "$different" ]; then
    # shellcheck disable=SC2086 # one line per file
    printf '%s: not laid out as .clang-format says\n' $different
    exit 1
fi
