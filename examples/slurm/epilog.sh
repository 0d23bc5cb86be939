#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Epilog=/etc/slurm/ncclspy-epilog.sh: runs on each node when a job has ended there, however it did.
# Traces that lay on the node are moved to the shared directory, so that a node that is taken away
# next does not take them along; what is left in memory of ranks that were killed is saved first.
# Runs as the job's user; always succeeds, for a failing epilog drains the node.
PATH=/opt/ncclspy/bin:/usr/bin:/bin
traces=/tmp/ncclspy-${SLURM_JOB_UID:-none}
shared=/shared/ncclspy/left/${SLURM_JOB_ID:-none}

[ -d "$traces/${SLURM_JOB_ID:-none}" ] || exit 0
as_user() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid="$SLURM_JOB_UID" --clear-groups -- "$@"
    else
        "$@"
    fi
}
# One small file a node; the limit keeps a slow file system from holding the node.
umask 077
timeout 60 mkdir -p -- "$shared" 2>/dev/null || exit 0
chown "$SLURM_JOB_UID" "$shared" 2>/dev/null
as_user timeout 120 ncclspy-analyze summarize -o "$shared" "$traces/$SLURM_JOB_ID" >/dev/null 2>&1
exit 0
