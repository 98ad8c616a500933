# {% if checkpoint %}
# The time is nearly over, or somebody at a terminal ends the job: srun hands the signal to the tasks on all nodes.
told=0 child=""
trap 'told=1; kill -USR1 "$child" 2>/dev/null || true' USR1 INT

# {% endif %}
[[ -f train.py && ${SLURM_JOB_ID:-} && (${ENVIRONMENT:-} == BATCH || ${SLURM_STEP_ID:-4294967290} == 42949672??) ]] || # the numbers of SLURM's own steps
    { echo "train.py is not in $PWD, or this is no job, or a step of srun, in which steps wait without end: submit from the project's folder, sbatch {{ launch_folder }}/..." >&2 && exit 2; }
[[ ! ${SLURM_HET_SIZE:-} ]] || { echo "this job has $SLURM_HET_SIZE parts, and only the first would train: submit without ' : '" >&2 && exit 2; }

# What the submission has left out, or brought along from another allocation, decides nothing here.
export SLURM_EXPORT_ENV=ALL
unset SLURM_GPUS SLURM_GPUS_PER_TASK SLURM_GPU_BIND SLURM_CPU_BIND SLURM_CPUS_PER_GPU SLURM_NTASKS_PER_GPU NODE_RANK
# A step has the cores that it is told, and without a number of its own all memory of the job.
unset SLURM_TRES_PER_TASK SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE
# A node has one task, with the cores of all where there was to be a task per rank, or with those of the job on a node.
cores=$((${SLURM_CPUS_PER_TASK:-0} * ${SLURM_NTASKS_PER_NODE:-1}))
SLURM_CPUS_PER_TASK=$((cores > 0 ? cores : ${SLURM_JOB_CPUS_PER_NODE%%[!0-9]*})) SLURM_NTASKS_PER_NODE=1
unset SLURM_NTASKS SLURM_NPROCS SLURM_DISTRIBUTION SLURM_STEP_ID

# {% if modules %}
# The shell function `module` reads variables that are not set, and may not come along with the submission.
set +u
[[ $(type -t module) ]] || . /etc/profile || true
[[ $(type -t module) ]] || { echo "no command module on $HOSTNAME, not even after /etc/profile" >&2 && exit 2; }
module load {{ modules }}
set -u

# {% endif %}
# {% if container not in ("apptainer", "pyxis") %}
# There is a python on each PATH, but a torchrun only where the environment is active.
command -v torchrun >/dev/null || { echo "no torchrun on the PATH: activate the environment, then submit" >&2 && exit 2; }

# {% endif %}
read -ra program <<<"${PROGRAM:-train.py}"
# Clusters that share a file system count their jobs alike, and none goes on with another's run.
job=slurm-${SLURM_CLUSTER_NAME:+$SLURM_CLUSTER_NAME-}$SLURM_JOB_ID
# The allocation is what was granted, whatever the lines above say.
export NNODES=$SLURM_JOB_NUM_NODES
# {% if gpus_per_node %}
NPROC={{ "${SLURM_GPUS_ON_NODE:-${SLURM_GPUS_PER_NODE:-}}" if gpu_request == "gres" else "${SLURM_GPUS_PER_NODE:-${SLURM_GPUS_ON_NODE:-}}" }}
export NPROC=${NPROC##*:}
((NPROC > 0)) || { echo "SLURM tells of no GPUs of this job: ask for --gpus-per-node" >&2 && exit 2; }
# {% else %}
export NPROC={{ processes_per_node }}
# {% endif %}
read -r HEAD < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export HEAD
# Two jobs on one node must not share a port; below 32768, where the kernel takes its own.
PORT=$((20000 + SLURM_JOB_ID % 10000))
while (: <"/dev/tcp/localhost/$PORT") 2>/dev/null; do PORT=$((PORT + 1)); done
export PORT
