#!/usr/bin/env bash
# Trains on this machine:  launch/local.sh [section.key=value ...]
#
#   NPROC=2 launch/local.sh                     two processes
#   CUDA_VISIBLE_DEVICES=1,3 launch/local.sh    these GPUs, one process each
#   PROGRAM=preflight.py launch/local.sh        the checks instead of the training
#   DEBUG=1 launch/local.sh                     with the environment of launch/nccl.debug.env
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

nproc=${NPROC:-1}
if [[ ${CUDA_VISIBLE_DEVICES:-} && ! ${NPROC:-} ]]; then
    nproc=$(wc -w <<<"${CUDA_VISIBLE_DEVICES//,/ }")
fi

. launch/env.sh
load_env launch/nccl.env
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(threads_for "$nproc")}
# After a signal torchrun (from torch 2.12 on) gives a save this many seconds instead of 30.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=300

# Downloads and conversions happen here, once, where no collective can time out over them.
python train.py --prepare-only "$@"
# --standalone takes a free port, so that several jobs can run on one machine.
exec torchrun --standalone --nproc-per-node="$nproc" "${PROGRAM:-train.py}" \
    ddp.expected_world_size="$nproc" "$@"
