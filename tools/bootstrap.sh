#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh Debian or Ubuntu machine to a tested build:
#   tools/bootstrap.sh demo    build, run an 8-rank job with one fault, explain it
#   tools/bootstrap.sh test    build, run the tests
#   tools/bootstrap.sh build   build only
#   tools/bootstrap.sh deps    install what the build needs, nothing else
#   tools/bootstrap.sh deps-ci ... and what .ci/run needs beyond that
# The build goes to $NSPY_BUILD, by default build/ beside this folder.
set -eu

SOURCE=$(cd "$(dirname "$0")/.." && pwd)
BUILD=${NSPY_BUILD:-$SOURCE/build}
MESON_MIN=1.0.0

PACKAGES="gcc libc6-dev meson ninja-build pkg-config python3 python3-jsonschema python3-yaml binutils
    libzstd-dev libxxhash-dev libcjson-dev libcmocka-dev zlib1g-dev scdoc libfabric-dev libfabric-bin
    libibverbs-dev libunwind-dev liblzma-dev libjs-chart.js"
# Sanitizers and fuzzing, style, the other architecture, the competitor of the benchmark.
CI_PACKAGES="clang clang-format clang-tidy shellcheck gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    qemu-user liblttng-ust-dev lttng-tools"

say() {
    printf 'ncclspy: %s\n' "$*"
}

die() {
    printf 'ncclspy: %s\n' "$*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo -- "$@"
    else
        die "not root and no sudo; have somebody run: $*"
    fi
}

missing() {
    for package in "$@"; do
        case $(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true) in
        ?i*) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" \
        </dev/null
}

# Refreshes the package lists only if the packages cannot be had without.
install_packages() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        say "this is no Debian or Ubuntu; needed are, under this system's names: $*"
        return
    fi
    wanted=$(missing "$@")
    [ -n "$wanted" ] || return 0
    say "installing with apt-get: $wanted"
    # shellcheck disable=SC2086 # a list of names
    if ! apt_install $wanted >"$LOG" 2>&1; then
        say "not to be had from the present package lists: apt-get update"
        as_root apt-get update -q </dev/null >>"$LOG" 2>&1 || true
        # shellcheck disable=SC2086
        apt_install $wanted >>"$LOG" 2>&1 || fail_with_log "apt-get install failed"
    fi
}

fail_with_log() {
    tail -n 40 "$LOG" >&2
    trap - EXIT
    die "$1 (whole log: $LOG)"
}

# Distribution's tools first: a python3 or meson of pyenv and the like lacks what was just installed.
choose_meson() {
    PATH=/usr/bin:$PATH
    export PATH
    for candidate in $(command -v meson) /usr/local/bin/meson "${HOME:-/}/.local/bin/meson"; do
        version=$("$candidate" --version 2>/dev/null) || continue
        if [ "$(printf '%s\n%s\n' "$MESON_MIN" "$version" | sort -V | head -n 1)" = "$MESON_MIN" ]; then
            MESON=$candidate
            return
        fi
    done
    die "meson $MESON_MIN or later is needed (Debian 12, Ubuntu 24.04 or later have it)"
}

deps() {
    # shellcheck disable=SC2086
    install_packages $PACKAGES
}

deps_ci() {
    # The fuzzers' runtime is packaged per version of clang.
    clang_version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
    # shellcheck disable=SC2086
    install_packages $PACKAGES $CI_PACKAGES ${clang_version:+"libclang-rt-$clang_version-dev"}
}

build() {
    deps
    choose_meson
    if [ ! -f "$BUILD/build.ninja" ]; then
        say "configuring $BUILD"
        "$MESON" setup "$BUILD" "$SOURCE" >"$LOG" 2>&1 || fail_with_log "meson setup failed"
    fi
    say "building"
    "$MESON" compile -C "$BUILD" >"$LOG" 2>&1 || fail_with_log "the build failed"
}

run_tests() {
    build
    say "testing (some ten minutes; details: $BUILD/meson-logs/testlog.txt)"
    "$MESON" test -C "$BUILD" --no-rebuild --print-errorlogs
}

demo() {
    build
    exec "$SOURCE/tools/demo.sh" "$BUILD"
}

usage() {
    sed -n '4,11s/^# \{0,1\}//p' "$0"
}

LOG=$(mktemp "${TMPDIR:-/tmp}/ncclspy-bootstrap.XXXXXX")
trap 'rm -f "$LOG"' EXIT
case ${1:-} in
demo) demo ;;
test) run_tests ;;
build) build ;;
deps) deps ;;
deps-ci) deps_ci ;;
-h | --help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
