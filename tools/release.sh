#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: tools/release.sh [--arch x86_64|aarch64]... OUTDIR
#        tools/release.sh deps
# Makes the release of the last commit in OUTDIR, for both architectures unless one is named: a
# tarball, a .deb and a .rpm of each, a list of what is in them (SPDX) and checksums. The same commit
# on the same distribution makes the same bytes. 'deps' installs what that needs and downloads the
# rest; afterwards nothing is asked of the network.
set -eu

HERE=$(cd "$(dirname "$0")" && pwd)
SOURCE=$(dirname "$HERE")
CACHE=${NSPY_RELEASE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ncclspy-release}
export LC_ALL=C TZ=UTC

say() {
    printf 'release: %s\n' "$*" >&2
}

die() {
    say "$*"
    exit 1
}

# Only what is committed: a file left lying about would be in one release and not in the next.
take_source() {
    mkdir -p "$WORK/src"
    if git -C "$SOURCE" rev-parse --git-dir >/dev/null 2>&1; then
        git -C "$SOURCE" archive HEAD | tar -xf - -C "$WORK/src"
        SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$SOURCE" log -1 --format=%ct)}
    else
        (cd "$SOURCE" && tar -cf - --exclude='./build*' .) | tar -xf - -C "$WORK/src"
    fi
    [ -n "${SOURCE_DATE_EPOCH:-}" ] || die "not a clone: set SOURCE_DATE_EPOCH to the release's time"
    export SOURCE_DATE_EPOCH
    VERSION=$(sed -n "s/^ *version: '\([0-9][0-9.]*\)'.*/\1/p" "$WORK/src/meson.build" | head -n 1)
    [ -n "$VERSION" ] || die "meson.build has no version"
}

# tree ARCH: everything as it is installed below /usr, in $WORK/tree-ARCH.
tree() {
    arch=$1
    say "$arch: building"
    "$HERE/release/build.sh" "$arch" "$WORK/src" "$WORK/tree-$arch" "$CACHE" >"$WORK/$arch.log" 2>&1 || {
        tail -n 30 "$WORK/$arch.log" >&2
        die "the build for $arch failed"
    }
    python3 "$HERE/release/floor.py" "$WORK/tree-$arch" || die "$arch would not run everywhere"
    find "$WORK/tree-$arch" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

tarball() {
    name=ncclspy-$VERSION-linux-$1
    mkdir -p "$WORK/tar"
    cp -a "$WORK/tree-$1/usr" "$WORK/tar/$name"
    tar -cf - -C "$WORK/tar" --sort=name --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --format=gnu "$name" | gzip -9n >"$OUT/$name.tar.gz"
}

make_all() {
    for arch in $ARCHES; do
        tree "$arch"
        tarball "$arch"
        sh "$HERE/release/deb.sh" "$arch" "$VERSION" "$WORK" "$OUT" || die "no .deb for $arch"
        sh "$HERE/release/rpm.sh" "$arch" "$VERSION" "$WORK" "$OUT" || die "no .rpm for $arch"
        python3 "$HERE/release/sbom.py" "$WORK/tree-$arch" "$VERSION" "$arch" \
            >"$OUT/ncclspy-$VERSION-linux-$arch.spdx.json"
    done
    (cd "$OUT" && sha256sum -- ncclspy[-_]* >SHA256SUMS)
    say "in $OUT:"
    (cd "$OUT" && wc -c -- ncclspy[-_]* SHA256SUMS) >&2
}

ARCHES=
while [ $# -gt 0 ]; do
    case $1 in
    deps) exec "$HERE/release/deps.sh" "$CACHE" ;;
    --arch)
        case ${2:-} in
        x86_64 | aarch64) ARCHES="$ARCHES $2" ;;
        *) die "--arch wants x86_64 or aarch64" ;;
        esac
        shift
        ;;
    -h | --help)
        sed -n '4,10s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    -*) die "unknown option '$1'" ;;
    *) break ;;
    esac
    shift
done
[ $# -eq 1 ] || die "no OUTDIR; see --help"
[ -f "$CACHE/ready" ] || die "run first: tools/release.sh deps"
ARCHES=${ARCHES:-x86_64 aarch64}
mkdir -p "$1"
OUT=$(cd "$1" && pwd)
[ -z "$(ls -A "$OUT")" ] || die "$OUT is not empty"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/ncclspy-release.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
trap 'exit 1' HUP INT TERM
take_source
make_all
