#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: deb.sh ARCH VERSION WORK OUT: a package of WORK/tree-ARCH.
set -eu

arch=$1 version=$2 work=$3 out=$4
case $arch in
x86_64) debian=amd64 ;;
aarch64) debian=arm64 ;;
esac
root=$work/deb-$arch
cp -a "$work/tree-$arch" "$root"
doc=$root/usr/share/doc/ncclspy
mkdir -p "$root/DEBIAN"
# Debian wants its names, and compressed what is seldom read.
mv "$doc/CHANGELOG.md" "$doc/changelog"
mv "$doc/LICENSE" "$doc/copyright"
gzip -9n "$doc/changelog"
find "$root/usr/share/man" -type f -exec gzip -9n {} +
cat >"$root/DEBIAN/control" <<END
Package: ncclspy
Version: $version
Architecture: $debian
Maintainer: ncclspy maintainers <maintainers@ncclspy.invalid>
Depends: libc6 (>= 2.28)
Section: utils
Priority: optional
Installed-Size: $(find "$root/usr" -type f -printf '%s\n' | awk '{ sum += $1 } END { print int(sum / 1024) + 1 }')
Description: says why an NCCL job hangs, crawls or falls back to TCP
 A library that is preloaded into the ranks of a GPU training job records what NCCL, libfabric,
 libibverbs and CUDA are asked for, and says live what is wrong. The analyzer correlates the traces
 of all ranks and names the cause.
END
(cd "$root" && find usr -type f | sort | xargs -d '\n' md5sum) >"$root/DEBIAN/md5sums"
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
chmod 755 "$root" "$root/DEBIAN"
dpkg-deb -Zxz --threads-max=1 --root-owner-group --build "$root" \
    "$out/ncclspy_${version}_$debian.deb" >/dev/null
