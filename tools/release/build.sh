#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: build.sh ARCH SRC TREE CACHE
# Builds SRC for ARCH and puts what is to be shipped into TREE/usr. The library is what the tests
# test: the distribution's compiler, the symbols of glibc 2.28 that it confines itself to. The tools
# use what the C library offers, so zig links them against the symbols of 2.28, all else static.
set -eu

ARCH=$1 SRC=$2 TREE=$3 CACHE=$4
GLIBC=2.28
TOOLS="analyzer/ncclspy-analyze tools/run/ncclspy-run tools/top/ncclspy-top
    tools/snapshot/ncclspy-snapshot tools/ctl/ncclspy-ctl tools/collect/ncclspy-redact
    interpose/ncclspy-probe"
PATH=/usr/bin:$PATH
export PATH
unset CFLAGS LDFLAGS CC || true

case $ARCH in
x86_64)
    strip=strip cpu=x86_64
    cross=
    ;;
aarch64)
    strip=aarch64-linux-gnu-strip cpu=aarch64
    cross=tools/cross/aarch64.ini
    ;;
esac
libraries=/usr/lib/$ARCH-linux-gnu
cd "$SRC"

# The same names wherever the source lies.
map=-ffile-prefix-map=$SRC=/usr/src/ncclspy
meson setup "build-library-$ARCH" ${cross:+--cross-file "$cross"} --prefix=/usr --libdir=lib \
    -Dtests=disabled -Dman=enabled -Dc_args="$map"
meson compile -C "build-library-$ARCH"
DESTDIR=$TREE meson install -C "build-library-$ARCH" --no-rebuild

prefix=$SRC/static-$ARCH
mkdir -p "$prefix/include/cjson" "$prefix/lib/pkgconfig"
export NSPY_ZIG="$CACHE/zig/bin/python" NSPY_ZIG_TARGET="$ARCH-linux-gnu" NSPY_ZIG_GLIBC="$GLIBC"
export ZIG_GLOBAL_CACHE_DIR="$CACHE/zig-cache" ZIG_LOCAL_CACHE_DIR="$CACHE/zig-cache"
cp "$CACHE/cjson/cJSON.h" "$prefix/include/cjson/"
cp /usr/include/zstd.h /usr/include/zstd_errors.h /usr/include/zlib.h /usr/include/xxhash.h \
    "$prefix/include/"
for header in /usr/include/zconf.h "/usr/include/$ARCH-linux-gnu/zconf.h"; do
    [ ! -f "$header" ] || cp "$header" "$prefix/include/"
done
cp "$libraries/libzstd.a" "$libraries/libz.a" "$prefix/lib/"
tools/release/zigcc -O2 "$map" -c "$CACHE/cjson/cJSON.c" -o "$prefix/cJSON.o"
"$NSPY_ZIG" -m ziglang ar rcsD "$prefix/lib/libcjson.a" "$prefix/cJSON.o"
for library in libzstd:-lzstd libcjson:-lcjson zlib:-lz libxxhash:; do
    printf '%s\n' "Name: ${library%%:*}" 'Description: static' 'Version: 99' \
        "Cflags: -I$prefix/include" "Libs: -L$prefix/lib ${library#*:}" \
        >"$prefix/lib/pkgconfig/${library%%:*}.pc"
done
cat >"$prefix/cross.ini" <<END
[binaries]
c = '$SRC/tools/release/zigcc'
ar = ['$NSPY_ZIG', '-m', 'ziglang', 'ar']
strip = '$strip'
pkgconfig = 'pkg-config'
[properties]
pkg_config_libdir = ['$prefix/lib/pkgconfig']
[host_machine]
system = 'linux'
cpu_family = '$cpu'
cpu = '$cpu'
endian = 'little'
END
meson setup "build-tools-$ARCH" --cross-file "$prefix/cross.ini" --prefix=/usr -Dtests=disabled \
    -Dman=disabled -Dcompletions=disabled -Dc_args="$map"
# shellcheck disable=SC2086 # a list of targets
ninja -C "build-tools-$ARCH" $TOOLS
for tool in $TOOLS; do
    place=$(find "$TREE/usr" -type f -name "$(basename "$tool")" ! -path '*/completions/*' -perm -100)
    install -m 755 "build-tools-$ARCH/$tool" "$place"
done

find "$TREE/usr" -type f | while read -r file; do
    case $(head -c 4 "$file" | od -An -tx1) in
    ' 7f 45 4c 46') "$strip" --strip-unneeded "$file" ;;
    esac
done
doc=$TREE/usr/share/doc/ncclspy
mkdir -p "$doc/third-party"
cp README.md CHANGELOG.md LICENSE "$doc/"
cp -r docs/*.md "$doc/"
cp -r examples "$doc/examples"
find "$doc/examples" -name meson.build -delete
cp "$CACHE/cjson/LICENSE" "$doc/third-party/cJSON"
for package in libzstd-dev zlib1g-dev libxxhash-dev libunwind-dev liblzma-dev libjs-chart.js; do
    cp "/usr/share/doc/$package/copyright" "$doc/third-party/$package"
done
chmod -R u+rwX,go+rX,go-w "$TREE"
