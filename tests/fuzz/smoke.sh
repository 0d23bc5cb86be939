#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs one fuzz target for a short time: smoke.sh SECONDS TARGET. It starts from its corpus in the tree, which
# stays as it is; what it finds goes beside the target, into runs/. The output comes in one piece, because
# several of these run at a time.
set -u
cd "$(dirname "$0")/../.." || exit
seconds=$1
target=$2
fuzzer=$(basename "$target")
work=$(dirname "$target")/runs/$fuzzer
mkdir -p "$work/corpus" "$work/artifacts"
"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
    -close_fd_mask=2 -artifact_prefix="$work/artifacts/" "$work/corpus" \
    "tests/fuzz/corpus/${fuzzer#fuzz_}" >"$work/log" 2>&1
status=$?
{
    echo "--- $fuzzer: exit status $status"
    cat "$work/log"
} >"$work/said"
cat "$work/said"
exit "$status"
