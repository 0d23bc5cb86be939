#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run on each node: train.sh MASTER_ADDRESS NODE_RANK
# The workers inherit the preload from torchrun; torchrun itself calls no NCCL and writes nothing.
set -eu
master=${1:?address of node 0}
node_rank=${2:?rank of this node}

exec /opt/ncclspy/bin/ncclspy-run -o /shared/ncclspy --job my-run -- \
    torchrun --nnodes=4 --node-rank="$node_rank" --nproc-per-node=8 \
    --rdzv-backend=c10d --rdzv-endpoint="$master:29500" --rdzv-id=my-run \
    train.py
