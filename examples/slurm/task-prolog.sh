#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# TaskProlog=/etc/slurm/ncclspy-task-prolog.sh: every task is recorded without a change to any script.
# What a line "export NAME=value" on standard output says is in the task's environment. A user who does
# not want it submits with NCCLSPY=0; another preload of the user's stays, behind ours.
library=/opt/ncclspy/lib/libncclspy.so
traces=/shared/ncclspy

[ "${NCCLSPY:-}" != 0 ] && [ -f "$library" ] || exit 0
case " ${LD_PRELOAD:-} " in
*libncclspy.so*) exit 0 ;;
esac
printf 'export LD_PRELOAD=%s\n' "$library${LD_PRELOAD:+:$LD_PRELOAD}"
[ -n "${NCCLSPY_DIR:-}" ] || printf 'export NCCLSPY_DIR=%s\n' "$traces/${SLURM_JOB_USER:-$(id -un)}"
