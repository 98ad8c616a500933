"""Launch files in other people's ways: marked lines are reported, and nothing else is."""

from pathlib import Path

import pytest

from check.test_pages import MARK
from ddpgen.checking import driver

# The first line is the name of the file. `@` stands for how torchrun joins nodes.
JOINED = "--nnodes=$SLURM_NNODES --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint"
SCRIPTS = {
    "the host's name, where each node expands the name itself": """\
job.sbatch
#SBATCH --nodes=2
srun -K bash -c 'torchrun @=$(hostname):$PORT train.py'  # <-- D10
""",
    "the same, kept from the batch shell": """\
job.sbatch
#SBATCH --nodes=2
srun -K bash -c "torchrun @=\\$HOSTNAME:$PORT train.py"  # <-- D10
""",
    "the host's name, where the first node expands the name for all": """\
job.sbatch
#SBATCH --nodes=2
srun -K torchrun @=$(hostname):$PORT train.py
""",
    "arguments of the launcher from a variable": """\
job.sbatch
#SBATCH --nodes=2
srun -K torchrun $DISTRIBUTED_ARGS train.py
""",
    "torchrun behind ssh, without numbers of nodes": """\
job.sbatch
#SBATCH --nodes=2
for host in $(scontrol show hostnames); do
    ssh "$host" "torchrun --nnodes=$SLURM_NNODES --master-addr=$HEAD train.py" &  # <-- L2
done
wait
""",
    "nodes that are numbered one by one": """\
start.sh
ssh a torchrun --nnodes=2 --node-rank=0 --master-addr=a train.py &
ssh b torchrun --nnodes=2 --node-rank=1 --master-addr=a train.py
wait
""",
    "one launcher per node, of a job with several tasks": """\
job.sbatch
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
srun -K --ntasks-per-node=1 torchrun @=$HEAD train.py
""",
    "a short task on the first node": """\
job.sbatch
#SBATCH --nodes=2
srun -K -N1 -w $HEAD python prepare.py &
srun -K torchrun @=$HEAD train.py
""",
    "the loopback interface on a machine by itself": """\
job.sbatch
#SBATCH --nodes=1
export GLOO_SOCKET_IFNAME=lo
torchrun --standalone --nproc-per-node=2 train.py
""",
    "a GPU for each process": """\
job.sh
export CUDA_VISIBLE_DEVICES=0,1
torchrun --standalone --nproc-per-node=2 train.py
""",
    "a GPU for another command": """\
job.sh
torchrun --standalone --nproc-per-node=2 train.py
CUDA_VISIBLE_DEVICES=0 python list.py
""",
    "too few for the command itself": """\
job.sh
CUDA_VISIBLE_DEVICES=0 torchrun --standalone --nproc-per-node=2 train.py  # <-- D6
CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --standalone --nproc-per-node=4 train.py
""",
    "GPUs with their type": """\
job.sbatch
#SBATCH --gpus-per-node=a100:4
torchrun --standalone --nproc-per-node=8 train.py  # <-- L1
""",
    "GPUs of a pod": """\
job.yaml
command:
  - torchrun
  - --standalone
  - --nproc-per-node=8  # <-- L1
resources:
  limits:
    nvidia.com/gpu: 1
""",
    "pods at once": """\
job.yaml
completions: 4
parallelism: 4
command: [torchrun, --nnodes=4, --rdzv-endpoint=head:1234, train.py]
""",
    "pods that need no others": """\
job.yaml
completions: 40
parallelism: 4
command: [python, prepare.py]
""",
    "a training on each node by itself": """\
job.sbatch
#SBATCH --nodes=2
for seed in 1 2; do
    srun -K -N1 -n1 torchrun --nproc-per-node=8 train.py seed=$seed &
done
wait
""",
    "half of the GPUs for each of two trainings": """\
job.sbatch
#SBATCH --gpus-per-node=8
CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --standalone --nproc-per-node=4 train.py seed=1 &
CUDA_VISIBLE_DEVICES=4,5,6,7 torchrun --standalone --nproc-per-node=4 train.py seed=2 &
while [[ -n $(jobs -r) ]]; do sleep 60; done
""",
    "SkyPilot on two nodes": """\
task.yaml
num_nodes: 2
run: |
  torchrun --nproc-per-node=8 train.py  # <-- D10
""",
    "SkyPilot on two nodes, which know of each other": """\
task.yaml
num_nodes: 2
run: |
  torchrun --nnodes=$SKYPILOT_NUM_NODES --node-rank=$SKYPILOT_NODE_RANK --master-addr=$HEAD train.py
""",
    "a head that is everywhere, by hand": """\
start.sh
for host in a b; do
    ssh $host torchrun --nnodes=2 --rdzv-endpoint=localhost:$PORT train.py &  # <-- D10
done
wait
""",
    "PBS on two nodes": """\
job.pbs
#PBS -l select=2:ngpus=4
cd $PBS_O_WORKDIR
torchrun --nnodes=$NODES --nproc-per-node=4 --rdzv-endpoint=$HEAD train.py  # <-- L2
""",
    "PBS, whose first request is about time": """\
job.pbs
#PBS -l walltime=10:00:00
#PBS -l select=2:ncpus=32:ngpus=8
cd $PBS_O_WORKDIR
mpiexec -n 2 --ppn 1 torchrun @=$HEAD train.py
mpiexec -n 2 --ppn 1 torchrun --nproc-per-node=4 --nnodes=2 --rdzv-endpoint=$HEAD train.py  # <-- L1
""",
    "PBS, with a path of a variable": """\
job.pbs
#PBS -l select=1:ngpus=4
torchrun --standalone --nproc-per-node=4 $HOME/project/train.py
""",
    "LSF on two nodes": """\
job.lsf
#BSUB -n 16
#BSUB -R "span[ptile=8]"
blaunch torchrun --nproc-per-node=8 train.py  # <-- D10
""",
    "something beside the training": """\
job.sbatch
#SBATCH --nodes=1
python monitor.py &
srun python train.py
""",
    "training in the background, and a shell that waits": """\
job.sbatch
#SBATCH --nodes=1
srun python train.py &
wait "$!"
""",
    "a pipe that keeps the status": """\
job.sbatch
#SBATCH --nodes=1
set -o pipefail
srun python train.py | tee log.txt
""",
    "a pipe before the training": """\
job.sbatch
#SBATCH --nodes=1
python list.py | grep -v old > files.txt
srun python train.py
""",
}


@pytest.mark.parametrize("title", SCRIPTS)
def test_script(title: str, tmp_path: Path) -> None:
    name, _, text = SCRIPTS[title].replace("@", JOINED).partition("\n")
    for program in ("train.py", "prepare.py", "monitor.py", "list.py"):
        (tmp_path / program).touch()
    (tmp_path / name).write_text(MARK.sub("", text))
    marks = ((number, MARK.search(line)) for number, line in enumerate(text.splitlines(), 1))
    expected = [(number, mark[1]) for number, mark in marks if mark]
    found = driver.check([tmp_path]).findings
    assert [(f.line, f.id) for f in found] == expected, found
