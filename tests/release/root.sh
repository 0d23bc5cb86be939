#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: root.sh ROOT TARBALL LIBNCCL [BUILD]
# A release in a root directory of another system that has python3 and no compiler: unpack, preload,
# run with the real libnccl, analyse; with BUILD also the 8-rank job on the stand-ins, one rank of
# which is killed. As root; nothing of the root directory is kept but the unpacked release. Made with,
# for example: debootstrap --variant=minbase --include=python3 bullseye ROOT
set -eu

ROOT=$1 TARBALL=$2 NCCL=$3 BUILD=${4:-}

# Inside, with mounts of our own.
if [ "${NSPY_IN_ROOT:-}" != yes ]; then
    NSPY_IN_ROOT=yes exec unshare -m -- "$0" "$@"
fi
mount --make-rprivate /
mount -t proc proc "$ROOT/proc"
mount -t tmpfs tmpfs "$ROOT/dev/shm" 2>/dev/null || { mkdir -p "$ROOT/dev/shm" && mount -t tmpfs tmpfs "$ROOT/dev/shm"; }
[ -e "$ROOT/dev/null" ] || mknod -m 666 "$ROOT/dev/null" c 1 3
mount -t tmpfs tmpfs "$ROOT/opt"
mkdir "$ROOT/opt/ncclspy" "$ROOT/opt/work"
tar -xzf "$TARBALL" -C "$ROOT/opt/ncclspy" --strip-components=1
cp "$NCCL" "$ROOT/opt/work/libnccl.so.2"

cat >"$ROOT/opt/work/job.py" <<'END'
import ctypes
nccl = ctypes.CDLL("/opt/work/libnccl.so.2")
number = ctypes.c_int()
assert nccl.ncclGetVersion(ctypes.byref(number)) == 0
unique = (ctypes.c_char * 128)()
print("version", number.value, "unique id", nccl.ncclGetUniqueId(unique))
comm = ctypes.c_void_p()
print("init", nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0))
END

run() {
    env -i PATH=/opt/ncclspy/bin:/usr/bin:/bin HOME=/root LC_ALL=C.UTF-8 \
        ${LIBRARIES:+"LD_LIBRARY_PATH=$LIBRARIES"} ${FAULT:+"NSPY_FAKE=$FAULT"} \
        "$(command -v chroot)" "$ROOT" "$@"
}

expect() {
    if ! grep -q -- "$1" "$ROOT/opt/work/out"; then
        cat "$ROOT/opt/work/out"
        echo "FAILED: nothing like '$1' above"
        exit 1
    fi
}

for compiler in gcc cc clang; do
    if run sh -c "command -v $compiler" >/dev/null; then
        echo "FAILED: there is a $compiler in $ROOT"
        exit 1
    fi
done
run sh -c 'ldd --version 2>/dev/null | head -n 1'

echo "== the real libnccl"
run ncclspy-run -o /opt/work/traces --job real -- python3 /opt/work/job.py
run ncclspy-analyze report --fail-on none /opt/work/traces/real >"$ROOT/opt/work/out"
expect 'VERDICT: '
run ncclspy-analyze dump /opt/work/traces/real >"$ROOT/opt/work/out"
expect ncclCommInitRank
run ncclspy explain TCP_FALLBACK >"$ROOT/opt/work/out"
expect 'How ncclspy knows'
run ncclspy-snapshot --json --interval 0 >"$ROOT/opt/work/out"
expect ncclspy.snapshot
run ncclspy-collect -o /opt/work/bundle >/dev/null 2>&1
run ncclspy-analyze report --fail-on none /opt/work/bundle >"$ROOT/opt/work/out"
expect "VERDICT: "
run ncclspy-top --once /opt/work/traces/real >/dev/null 2>&1 || [ $? -le 3 ]
run ncclspy-run --check -- python3 /opt/work/job.py >"$ROOT/opt/work/out" 2>&1
expect python3

if [ -n "$BUILD" ]; then
    echo "== an 8-rank job, rank 5 is killed"
    find "$BUILD/tests/fakes" "$BUILD/tests/trainjob" -maxdepth 1 ! -type d \( -name 'lib*.so*' -o \
        -name trainjob \) -exec cp -P {} "$ROOT/opt/work/" \;
    LIBRARIES=/opt/work FAULT='rank=5,op=all_reduce,nth=100,do=kill'
    run /opt/work/trainjob -n 8 --steps 40 --node-size 4 --timeout 8 --grace 6 \
        --launcher 'ncclspy-run -o /opt/work/traces --job demo --' >/dev/null 2>&1 || true
    LIBRARIES='' FAULT=''
    run ncclspy-analyze report --fail-on none /opt/work/traces/demo >"$ROOT/opt/work/out"
    expect '^\[FAIL\] P0 RANK_DIED rank 5 '
fi
echo "ok"
