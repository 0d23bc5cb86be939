#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: deps.sh CACHE
# What tools/release.sh needs, on Debian or Ubuntu: packages, the source of cJSON (there is no static
# library of it), and zig, whose C compiler links against the symbols of an old C library.
set -eu

CACHE=$1
HERE=$(cd "$(dirname "$0")" && pwd)
ZIG=0.17.1

"$HERE/../bootstrap.sh" deps
dpkg --print-foreign-architectures | grep -qx arm64 || dpkg --add-architecture arm64
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends git ca-certificates \
    python3-venv dpkg-dev rpm xz-utils gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user \
    libzstd-dev:arm64 libxxhash-dev:arm64 libcjson-dev:arm64 zlib1g-dev:arm64 libunwind-dev:arm64 \
    liblzma-dev:arm64
mkdir -p "$CACHE"
cd "$CACHE"

# Sources of the same release as the packages, whether or not the machine has them enabled.
if [ ! -f cjson/cJSON.c ]; then
    rm -rf apt && mkdir -p apt/lists/partial
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ ! -f "$list" ] || sed -n 's/^deb /deb-src /p' "$list"
    done >apt/sources.list
    for list in /etc/apt/sources.list.d/*.sources; do
        [ ! -f "$list" ] || sed 's/^Types:.*/Types: deb-src/' "$list"
        echo
    done >apt/sources.sources
    for list in sources.list sources.sources; do
        set -- -o "Dir::Etc::sourcelist=$CACHE/apt/$list" -o Dir::Etc::sourceparts=- \
            -o "Dir::State::lists=$CACHE/apt/lists" -o "Dir::Cache::pkgcache=$CACHE/apt/pkg" \
            -o "Dir::Cache::srcpkgcache=$CACHE/apt/srcpkg" -o APT::Sandbox::User=root
        if apt-get "$@" update -q && apt-get "$@" source -q --download-only cjson; then
            break
        fi
    done
    mkdir -p cjson
    tar -xf cjson_*.orig.tar.* --strip-components=1 -C cjson
    rm -rf apt
fi

[ -x zig/bin/python ] || python3 -m venv zig
zig/bin/pip install -q "ziglang==$ZIG"
zig/bin/python -m ziglang version
touch ready
