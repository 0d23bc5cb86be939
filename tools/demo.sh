#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: tools/demo.sh [BUILD]
# Runs an 8-rank job on the CPU stand-ins, on two pretended nodes, under ncclspy-run. Rank 5 is killed
# in the middle; the report says so. Exit status 0 if the report names it.
set -eu

SOURCE=$(cd "$(dirname "$0")/.." && pwd)
BUILD=${1:-$SOURCE/build}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/ncclspy-demo.XXXXXX")
FAULT='rank=5,op=all_reduce,nth=100,do=kill'

say() {
    printf '\n== %s\n' "$*"
}

show() {
    printf '$ %s\n' "$*"
}

run=$BUILD/tools/run/ncclspy-run
analyze=$BUILD/analyzer/ncclspy-analyze
job=$BUILD/tests/trainjob/trainjob

say "an 8-rank job on two pretended nodes; rank 5 will be killed in step 15"
show "NSPY_FAKE='$FAULT' trainjob -n 8 --launcher 'ncclspy-run -o $WORK --job demo --'"
# The job fails, as it is meant to: what it leaves behind is what counts.
NSPY_FAKE=$FAULT "$job" -n 8 --steps 40 --node-size 4 --timeout 8 --grace 6 \
    --launcher "$run -o $WORK --job demo --" || true

say "what happened?"
show "ncclspy-analyze report $WORK/demo"
"$analyze" report --fail-on none "$WORK/demo" | tee "$WORK/report.txt"

say "and what does that mean?"
show "ncclspy-analyze explain RANK_DIED | head -n 20"
"$analyze" explain RANK_DIED | sed -n '1,20p'

if ! grep -q '^\[FAIL\] P0 RANK_DIED rank 5 ' "$WORK/report.txt"; then
    printf '\nncclspy: the report does not name rank 5; traces are kept in %s\n' "$WORK" >&2
    exit 1
fi
say "the traces are in $WORK/demo (remove them with: rm -r $WORK)"
