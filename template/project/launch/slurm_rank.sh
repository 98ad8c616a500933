#!/usr/bin/env bash
# One rank of launch/slurm_direct.sbatch: SLURM's variables under the names that the program knows.
set -euo pipefail

. launch/env.sh
network_env
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS
export LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE=$NPROC
export MASTER_ADDR=$HEAD MASTER_PORT=$PORT
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$SLURM_CPUS_PER_TASK}

# A rank that is still importing must not die of the signal that means: save and end.
trap '' USR1
exec python "${PROGRAM:-train.py}" "$@"
