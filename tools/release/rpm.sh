#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: rpm.sh ARCH VERSION WORK OUT: a package of WORK/tree-ARCH.
set -eu

arch=$1 version=$2 work=$3 out=$4
top=$work/rpm-$arch
mkdir -p "$top"
cat >"$top/ncclspy.spec" <<END
Name: ncclspy
Version: $version
Release: 1
Summary: Says why an NCCL job hangs, crawls or falls back to TCP
License: Apache-2.0
Group: Development/Tools
AutoReqProv: no
Requires: glibc >= 2.28

%description
A library that is preloaded into the ranks of a GPU training job records what NCCL, libfabric,
libibverbs and CUDA are asked for, and says live what is wrong. The analyzer correlates the traces
of all ranks and names the cause.

%install
cp -a $work/tree-$arch/usr %{buildroot}/usr

%files
%defattr(-,root,root)
$(cd "$work/tree-$arch" && find usr -type f | sort | sed 's|^|/|')
END
rpmbuild -bb --quiet --target "$arch" \
    --define "_topdir $top" --define "_rpmdir $out" --define "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm" \
    --define "_buildhost ncclspy" --define "use_source_date_epoch_as_buildtime 1" \
    --define "clamp_mtime_to_source_date_epoch 1" --define "_build_id_links none" \
    --define "__os_install_post %{nil}" --define "debug_package %{nil}" \
    --define "_binary_payload w9.xzdio" "$top/ncclspy.spec" >"$top/log" 2>&1 || {
    tail -n 20 "$top/log" >&2
    exit 1
}
