#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command on a machine made up of directories, in namespaces of its own, so that nothing of
# it is seen outside: machine.sh DIRECTORY COMMAND...
#   DIRECTORY/class   becomes /sys/class       DIRECTORY/dev     is added to /dev
#   DIRECTORY/shm.mb  size of /dev/shm in MiB
#   DIRECTORY/module  becomes /sys/module      DIRECTORY/dmi     becomes /sys/devices/virtual/dmi/id
# %r in DIRECTORY is the rank.
# Exit status 77: the kernel does not allow it.
set -eu
if [ "${1:-}" != inside ]; then
    unshare -Urm true 2>/dev/null || exit 77
    exec unshare -Urm "$0" inside "$@"
fi
root=$2
case $root in *%r*) root=${root%%\%r*}$RANK${root#*%r} ;; esac
shift 2
if [ -d "$root/class" ]; then
    mount -t tmpfs none /sys/class || exit 77
    cp -R "$root/class/." /sys/class/
fi
if [ -d "$root/module" ]; then
    mount -t tmpfs none /sys/module || exit 77
    cp -R "$root/module/." /sys/module/
fi
if [ -d "$root/dmi" ]; then
    # Not every machine has one to mount over.
    mount -t tmpfs none /sys/devices/virtual || exit 77
    mkdir -p /sys/devices/virtual/dmi
    cp -R "$root/dmi" /sys/devices/virtual/dmi/id
fi
if [ -d "$root/dev" ]; then
    mkdir -p "$root/newdev"
    mount -t tmpfs none "$root/newdev" || exit 77
    cp -R "$root/dev/." "$root/newdev/"
    for node in null zero urandom; do
        touch "$root/newdev/$node"
        mount --bind "/dev/$node" "$root/newdev/$node"
    done
    mkdir -p "$root/newdev/shm"
    mount --rbind /dev/shm "$root/newdev/shm"
    mount --move "$root/newdev" /dev
fi
if [ -f "$root/shm.mb" ]; then
    mount -t tmpfs -o "size=$(cat "$root/shm.mb")m" none /dev/shm || exit 77
fi
exec "$@"
