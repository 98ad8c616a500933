#!/usr/bin/env bash
# What one node does in a job of several: torchrun with this node's ranks. The launch files start it once per node, in the
# project's folder, with the arguments for train.py and these variables:
#
#   NNODES, NPROC    nodes of the job, and processes (GPUs) per node
#   NODE_RANK        0 on the node where all meet
#   HEAD, PORT       that node's name and a port on it
#   JOB              a name that only this job uses
set -euo pipefail

. launch/env.sh
load_env launch/nccl.env
node_rank=$NODE_RANK
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(threads_for "$NPROC")}

# is_host is stated because torchrun's guess from names and addresses fails on nodes with several networks. 600 s: nodes
# do not all start at once. Restarting is left to the launcher: torchrun alone often does not recover from a lost node.
command=(
    torchrun --nnodes="$NNODES" --nproc-per-node="$NPROC" --max-restarts=0
    --rdzv-backend=c10d --rdzv-endpoint="$HEAD:$PORT" --rdzv-id="$JOB"
    --rdzv-conf="is_host=$((node_rank == 0)),read_timeout=600,join_timeout=600"
    "${PROGRAM:-train.py}" ddp.expected_world_size="$((NNODES * NPROC))" "$@"
)

# USR1 means: save and end, in the time that the scheduler grants. It must go past torchrun, which would die of it, or (on
# SIGTERM) grant its workers 30 s. A worker that is still importing ignores it, therefore it is repeated.
pass_on() {
    local workers
    while kill -0 "$torchrun" 2>/dev/null; do
        read -ra workers <"/proc/$torchrun/task/$torchrun/children" || true
        kill -USR1 "${workers[@]}" 2>/dev/null || true
        sleep 1
    done
}

# On SIGTERM torchrun (from torch 2.12 on) gives a save this many seconds instead of 30.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=300
(
    trap '' USR1
    exec "${command[@]}"
) &
torchrun=$!
trap pass_on USR1
trap 'kill -TERM "$torchrun"' TERM INT HUP
# A signal interrupts wait: only when torchrun has gone is its status the answer.
while kill -0 "$torchrun" 2>/dev/null; do
    wait "$torchrun" || true
done
wait "$torchrun"
