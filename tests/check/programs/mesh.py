"""A training whose weights the ranks of each node share out, and mistakes put into it.

Its stream deals out shards of tokens; a batch script starts the program, and a signal stops it.
"""

FILES = {
    "pretrain.py": """\
import json
import os
import signal
import sys
import time
from collections import deque
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ROOT = Path(os.environ.get("RUN_DIR", "runs/pre"))
STEPS, WARMUP, MICRO, ACCUM, LENGTH = 20000, 500, 4, 8, 1024
PEAK, FLOOR, SAVE, LOG = 3e-4, 3e-5, 500, 20


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )
        self.heads = heads

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, words=50304, width=1024, heads=16, layers=24):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def init_weights(self):
        for part in self.modules():
            if isinstance(part, (nn.Linear, nn.Embedding)):
                nn.init.normal_(part.weight, std=0.02)
                if getattr(part, "bias", None) is not None:
                    nn.init.zeros_(part.bias)
            elif isinstance(part, nn.LayerNorm):
                part.reset_parameters()


class Shards(IterableDataset):

    def __init__(self, paths, seed):
        self.paths = sorted(paths)
        self.seed = seed
        self.start = 0

    def __iter__(self):
        rank, world = dist.get_rank(), dist.get_world_size()
        worker = get_worker_info()
        workers = worker.num_workers if worker else 1
        share = rank * workers + (worker.id if worker else 0)
        shares = world * workers
        source = torch.Generator().manual_seed(self.seed * 100003 + share)
        mine = self.paths[share::shares]
        source_start = self.start
        taken = 0
        while True:
            for number in torch.randperm(len(mine), generator=source).tolist():
                tokens = torch.from_file(mine[number], dtype=torch.int32, size=10**8)
                for place in torch.randint(len(tokens) - LENGTH - 1, (256,), generator=source):
                    taken += 1
                    if taken > source_start:
                        window = tokens[place : place + LENGTH + 1].long()
                        yield window[:-1], window[1:]


class Application(Stateful):
    def __init__(self, model, optimizer, progress):
        self.model, self.optimizer, self.progress = model, optimizer, progress

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "progress": dict(self.progress)}

    def load_state_dict(self, saved):
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=saved["model"],
            optim_state_dict=saved["optimizer"],
        )
        self.progress.update(saved["progress"])


def rate(step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    done = min(1.0, (step - WARMUP) / (STEPS - WARMUP))
    return FLOOR + (PEAK - FLOOR) * (1 - done)


def newest(folder):
    box = [None]
    if dist.get_rank() == 0:
        done = [p for p in folder.glob("step-*") if (p / ".metadata").exists()]
        box = [str(max(done, default="", key=lambda p: int(p.name.split("-")[1])))]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def store(application, step):
    target = ROOT / f"step-{step:07d}"
    dcp.save({"app": application}, checkpoint_id=str(target))
    if dist.get_rank() == 0:
        old = sorted(ROOT.glob("step-*"))[:-3]
        for folder in old:
            for part in folder.iterdir():
                part.unlink()
            folder.rmdir()
    dist.barrier()


asked = False


def on_signal(number, frame):
    global asked
    asked = True


def anybody(flag, device):
    value = torch.tensor(float(flag), device=device)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item() > 0


def main():
    local = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl", timeout=timedelta(minutes=20))
    signal.signal(signal.SIGUSR1, on_signal)
    rank, world = dist.get_rank(), dist.get_world_size()
    per_node = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    mesh = init_device_mesh(
        "cuda", (world // per_node, per_node), mesh_dim_names=("replicate", "shard")
    )

    torch.manual_seed(11)
    with torch.device("meta"):
        model = Model()
    apply_activation_checkpointing(
        model,
        checkpoint_wrapper_fn=lambda part: checkpoint_wrapper(
            part, checkpoint_impl=CheckpointImpl.NO_REENTRANT
        ),
        check_fn=lambda part: isinstance(part, Block),
    )
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device=device)
    model.init_weights()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, betas=(0.9, 0.95), weight_decay=0.1)
    torch.manual_seed(11 + rank)

    progress = {"step": 0, "tokens": 0}
    application = Application(model, optimizer, progress)
    found = newest(ROOT)
    if found:
        dcp.load({"app": application}, checkpoint_id=found)
    dataset = Shards([str(path) for path in Path("tokens").glob("*.bin")], seed=11)
    dataset.start = progress["step"] * MICRO * ACCUM // 2
    loader = DataLoader(dataset, batch_size=MICRO, num_workers=2, pin_memory=True)
    batches = iter(loader)
    recent = deque(maxlen=LOG)
    model.train()
    for step in range(progress["step"], STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        total = torch.zeros((), device=device)
        for micro in range(ACCUM):
            ids, targets = next(batches)
            ids, targets = ids.to(device), targets.to(device)
            model.set_requires_gradient_sync(micro == ACCUM - 1)
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / ACCUM
            loss.backward()
            total += loss.detach()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        progress["step"] = step + 1
        progress["tokens"] += MICRO * ACCUM * LENGTH * world
        recent.append(total)
        if (step + 1) % LOG == 0:
            mean = torch.stack(list(recent)).mean()
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
            norm = norm.full_tensor()
            if rank == 0:
                line = {"step": step + 1, "loss": mean.item(), "norm": norm.item()}
                print(json.dumps(line), flush=True)
        stop = anybody(asked, device) if (step + 1) % 10 == 0 else False
        if (step + 1) % SAVE == 0 or stop:
            store(application, step + 1)
        if stop:
            break
    dist.destroy_process_group()
    sys.exit(75 if stop else 0)


if __name__ == "__main__":
    main()
""",
    "pretrain.sbatch": """\
#!/bin/bash
#SBATCH --job-name=pre
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=96
#SBATCH --time=24:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --output=logs/%j.out
set -uo pipefail

export RUN_DIR="$SLURM_SUBMIT_DIR/runs/pre"
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export OMP_NUM_THREADS=12
export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"

srun --kill-on-bad-exit=1 torchrun \\
    --nnodes="$SLURM_JOB_NUM_NODES" \\
    --nproc_per_node=8 \\
    --rdzv_backend=c10d \\
    --rdzv_id="$SLURM_JOB_ID" \\
    --rdzv_endpoint="$MASTER_ADDR:$MASTER_PORT" \\
    --signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT \\
    pretrain.py
status=$?
if [ "$status" -eq 75 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
""",
}
# What is put in: in turn the text that goes and the text that comes, and the row.
MISTAKES = {
    "mesh swapped": (
        "(world // per_node, per_node), mesh_dim_names",
        "(per_node, world // per_node), mesh_dim_names",
        "F5",
    ),
    "optimizer before sharding": (
        "    policy = Mixed",
        """\
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK)
    policy = Mixed""",
        """\
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, betas=(0.9, 0.95), weight_decay=0.1)
""",
        "",
        "F1",
    ),
    "one piece": (
        """\
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
""",
        "",
        "F5",
    ),
    "root first": (
        """\
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
""",
        """\
    fully_shard(model, mesh=mesh, mp_policy=policy)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
""",
        "F5",
    ),
    "sums in bf16": ("reduce_dtype=torch.float32", "reduce_dtype=torch.bfloat16", "F7"),
    "sums default": (", reduce_dtype=torch.float32", "", "F7"),
    "checkpoint after sharding": (
        "impl=CheckpointImpl.NO_REENTRANT",
        "impl=CheckpointImpl.REENTRANT",
        "G12",
    ),
    "seed by rank first": (
        """\
    torch.manual_seed(11)
    with""",
        """\
    torch.manual_seed(11 + rank)
    with""",
        "F8",
    ),
    "one seed": (
        """\
    torch.manual_seed(11 + rank)
""",
        "",
        "S6",
    ),
    "sync never": (
        """\
            model.set_requires_gradient_sync(micro == ACCUM - 1)
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / ACCUM
            loss.backward()
""",
        """\
            model.set_requires_gradient_sync(False)
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / ACCUM
            loss.backward()
""",
        "F6",
    ),
    "sync inverted": (
        """\
            model.set_requires_gradient_sync(micro == ACCUM - 1)
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / ACCUM
            loss.backward()
""",
        """\
            model.set_requires_gradient_sync(micro != ACCUM - 1)
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / ACCUM
            loss.backward()
""",
        "F6",
    ),
    "sync after forward": ("micro == ACCUM - 1", "micro == ACCUM", "F6"),
    "sync each": (
        """\
            model.set_requires_gradient_sync(micro == ACCUM - 1)
""",
        "",
        "F6",
    ),
    "not divided": ("targets.flatten()) / ACCUM", "targets.flatten())", "G2"),
    "zero in micro": (
        """\
            ids, targets = ids.to(device), targets.to(device)
""",
        """\
            ids, targets = ids.to(device), targets.to(device)
            optimizer.zero_grad()
""",
        "G4",
    ),
    "never cleared": (
        """\
        optimizer.zero_grad()
""",
        "",
        "G4",
    ),
    "clip in micro": (
        """\
            total += loss.detach()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
""",
        """\
            total += loss.detach()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
""",
        "G7",
    ),
    "norm on rank 0": (
        """\
            norm = norm.full_tensor()
            if rank == 0:
""",
        """\
            if rank == 0:
                norm = norm.full_tensor()
""",
        "F4",
    ),
    "targets stay": (
        "ids, targets = ids.to(device), targets.to(device)",
        "ids = ids.to(device)",
        "D3",
    ),
    "gpu 0": ('torch.device("cuda", local)', 'torch.device("cuda", 0)', "D4"),
    "gpu of rank": (
        """\
    local = int(os.environ.get("LOCAL_RANK", 0))
""",
        """\
    local = int(os.environ.get("RANK", 0))
""",
        "D4",
    ),
    "gpu rank modulo 4": (
        """\
    local = int(os.environ.get("LOCAL_RANK", 0))
""",
        """\
    local = int(os.environ["SLURM_PROCID"])
""",
        "D4",
    ),
    "shares without workers": (
        """\
        share = rank * workers + (worker.id if worker else 0)
        shares = world * workers
""",
        """\
        share, shares = rank, world
""",
        "S5",
    ),
    "shares of workers alone": (
        """\
        share = rank * workers + (worker.id if worker else 0)
        shares = world * workers
""",
        """\
        share, shares = (worker.id if worker else 0), workers
""",
        "S5",
    ),
    "swapped shares": (
        "share = rank * workers + (worker.id if worker else 0)",
        "share = (worker.id if worker else 0) * workers + rank",
        "S5",
    ),
    "shares collide": (
        "share = rank * workers + (worker.id if worker else 0)",
        "share = rank + (worker.id if worker else 0)",
        "S5",
    ),
    "share times world": (
        "share = rank * workers + (worker.id if worker else 0)",
        "share = rank * world + (worker.id if worker else 0)",
        "S5",
    ),
    "shares added": ("shares = world * workers", "shares = world + workers", "S5"),
    "whole": (
        "mine = self.paths[share::shares]",
        "mine = self.paths",
        "source = torch.Generator().manual_seed(self.seed * 100003 + share)",
        "source = torch.Generator().manual_seed(self.seed)",
        "S5",
    ),
    "own order before shares": (
        """\
        self.paths = sorted(paths)
""",
        """\
        self.paths = list(paths)
        import random
        random.shuffle(self.paths)
""",
        "S3",
    ),
    "as they come": (
        """\
        self.paths = sorted(paths)
""",
        """\
        self.paths = list(paths)
""",
        "S3",
    ),
    "ends": (
        """\
        while True:
            for number in torch.randperm(len(mine), generator=source).tolist():
""",
        """\
        if True:
            for number in torch.randperm(len(mine), generator=source).tolist():
""",
        "S7",
    ),
    "bad window skipped": (
        "            ids, targets = ids.to(device)",
        """\
            if (targets < 0).any():
                continue
            ids, targets = ids.to(device)""",
        "G10",
    ),
    "nan skipped": (
        """\
            loss.backward()
""",
        """\
            if torch.isnan(loss):
                break
            loss.backward()
""",
        "G10",
    ),
    "stop of own": (
        """\
        stop = anybody(asked, device) if (step + 1) % 10 == 0 else False
""",
        """\
        stop = asked
""",
        "K8",
    ),
    "stop of 0": (
        """\
        stop = anybody(asked, device) if (step + 1) % 10 == 0 else False
""",
        """\
        stop = rank == 0 and asked
""",
        "K8",
    ),
    "stop by clock": (
        """\
        stop = anybody(asked, device) if (step + 1) % 10 == 0 else False
""",
        """\
        stop = time.time() - begun > 86000
""",
        """\
    model.train()
""",
        """\
    begun = time.time()
    model.train()
""",
        "K8",
    ),
    "saves in handler": (
        """\
    global asked
    asked = True
""",
        """\
    store(application, 0)
    sys.exit(75)
""",
        "K9",
    ),
    "saves on 0": (
        """\
            store(application, step + 1)
""",
        """\
            if rank == 0:
                store(application, step + 1)
""",
        "K8",
    ),
    "async save": ("    dcp.save(", "    dcp.async_save(", "K16"),
    "async save at the end": (
        """\
    dcp.save({"app": application}, checkpoint_id=str(target))
""",
        """\
    pending = dcp.async_save({"app": application}, checkpoint_id=str(target))
""",
        "K16",
    ),
    "folder of each rank": (
        """\
checkpoint_id=str(target))
    if""",
        """\
checkpoint_id=str(target / str(dist.get_rank())))
    if""",
        "K16",
    ),
    "folder by time": (
        'target = ROOT / f"step-{step:07d}"',
        'target = ROOT / time.strftime("%H%M%S")',
        "O5",
    ),
    "loads on 0": (
        """\
    if found:
""",
        """\
    if found and rank == 0:
""",
        "F4",
    ),
    "loss summed": ("dist.all_reduce(mean, op=dist.ReduceOp.AVG)", "dist.all_reduce(mean)", "O2"),
    "loss on 0": (
        """\
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
            norm = norm.full_tensor()
            if rank == 0:
""",
        """\
            norm = norm.full_tensor()
            if rank == 0:
                dist.all_reduce(mean, op=dist.ReduceOp.AVG)
""",
        "K8",
    ),
    "prints on all": (
        """\
            if rank == 0:
                line""",
        """\
            if True:
                line""",
        "O1",
    ),
    "item each micro": (
        """\
            total += loss.detach()
""",
        """\
            total += loss.item()
""",
        "O4",
    ),
    "graph kept": ("total += loss.detach()", "total += loss", "O14"),
    "tied after": (
        """\
    model.to_empty(device=device)
""",
        """\
    model.head.weight = model.words.weight
    model.to_empty(device=device)
""",
        "G14",
    ),
    "no timeout": (", timeout=timedelta(minutes=20)", "", "D9"),
    "no teardown": (
        """\
    dist.destroy_process_group()
    sys""",
        "    sys",
        "D8",
    ),
    "SBATCH space": ("#SBATCH --nodes=4", "# SBATCH --nodes=4", "L1"),
    "time 24": ("--time=24:00:00", "--time=24", "L1"),
    "ntasks 8": ("#SBATCH --ntasks-per-node=1", "#SBATCH --ntasks-per-node=8", "L2"),
    "no kill": ("srun --kill-on-bad-exit=1 torchrun", "srun torchrun", "L4"),
    "gpus per task": ("#SBATCH --gpus-per-node=8", "#SBATCH --gpus-per-task=1", "L1"),
    "nproc 4": ("--nproc_per_node=8", "--nproc_per_node=4", "L1"),
    "nnodes 2": ('--nnodes="$SLURM_JOB_NUM_NODES"', "--nnodes=2", "L1"),
    "localhost": (
        'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "MASTER_ADDR=localhost",
        "D10",
    ),
    "fixed port": ("MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))", "MASTER_PORT=29500", "D11"),
    "node rank": (
        """\
    --rdzv_id="$SLURM_JOB_ID" \\
""",
        """\
    --node_rank="$SLURM_NODEID" \\
""",
        "L2",
    ),
    "signal to batch": ("--signal=USR1@300", "--signal=B:USR1@300", "L3"),
    "run dir tmp": ('RUN_DIR="$SLURM_SUBMIT_DIR/runs/pre"', 'RUN_DIR="/tmp/pre"', "K13"),
    "run dir by job": (
        'RUN_DIR="$SLURM_SUBMIT_DIR/runs/pre"',
        'RUN_DIR="/tmp/$SLURM_JOB_ID"',
        "K13",
    ),
    "unknown env": ("export OMP_NUM_THREADS=12", "export NCCL_TIMEOUT=1800", "D9"),
    "typo env": ("export OMP_NUM_THREADS=12", "export NCCL_SOCKET_IFNAMES=ib0", "L5"),
    "debug": ("export OMP_NUM_THREADS=12", "export NCCL_DEBUG=TRACE", "L6"),
    "blocking": ("export OMP_NUM_THREADS=12", "export CUDA_LAUNCH_BLOCKING=1", "L6"),
    "missing script": (
        """\
    pretrain.py
""",
        """\
    train.py
""",
        "L1",
    ),
    "single quoted": (
        '--rdzv_endpoint="$MASTER_ADDR:$MASTER_PORT"',
        "--rdzv_endpoint='$MASTER_ADDR:$MASTER_PORT'",
        "L1",
    ),
    "exit lost": (
        """\
exit "$status"
""",
        """\
exit 0
""",
        "L8",
    ),
    "status of echo": (
        """\
    pretrain.py
status=$?
""",
        """\
    pretrain.py
echo finished
status=$?
""",
        "L8",
    ),
}
# What may stand there instead: in turn the text that goes, and the text that comes.
RIGHT = {
    "random id": (
        '--rdzv_id="$SLURM_JOB_ID"',
        "--rdzv_id=$RANDOM",
    ),
    "random port": (
        "MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))",
        "MASTER_PORT=$((20000 + RANDOM % 20000))",
    ),
    "hostname": (
        'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "MASTER_ADDR=$(hostname)",
    ),
    "last by a name": (
        """\
            model.set_requires_gradient_sync(micro == ACCUM - 1)
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / ACCUM
            loss.backward()
""",
        """\
            last = micro + 1 == ACCUM
            model.set_requires_gradient_sync(last, recurse=True)
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / ACCUM
            loss.backward()
""",
    ),
    "last by is_last_backward": (
        """\
            model.set_requires_gradient_sync(micro == ACCUM - 1)
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / ACCUM
            loss.backward()
""",
        """\
            model.set_requires_gradient_sync(micro + 1 >= ACCUM)
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / ACCUM
            loss.backward()
""",
    ),
    "mesh by parts": (
        """\
    mesh = init_device_mesh(
        "cuda", (world // per_node, per_node), mesh_dim_names=("replicate", "shard")
    )
""",
        """\
    nodes = world // per_node
    names = ("dp_replicate", "dp_shard")
    mesh = init_device_mesh("cuda", mesh_shape=(nodes, per_node), mesh_dim_names=names)
""",
    ),
    "mesh of one dimension": (
        """\
    mesh = init_device_mesh(
        "cuda", (world // per_node, per_node), mesh_dim_names=("replicate", "shard")
    )
""",
        """\
    mesh = init_device_mesh("cuda", (world,))
""",
    ),
    "mesh from nodes": (
        "(world // per_node, per_node), mesh",
        '(int(os.environ.get("SLURM_NNODES", 1)), per_node), mesh',
    ),
    "wrap by modules": (
        """\
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
""",
        """\
    for part in reversed(list(model.modules())):
        if isinstance(part, Block):
            fully_shard(part, mesh=mesh, mp_policy=policy)
""",
    ),
    "checkpoint by function": (
        """\
            x = block(x)
""",
        """\
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
""",
    ),
    "norm in float": (
        """\
            norm = norm.full_tensor()
""",
        """\
            norm = norm.full_tensor() if hasattr(norm, 'full_tensor') else norm
""",
    ),
    "shares the other way": (
        """\
        share = rank * workers + (worker.id if worker else 0)
        shares = world * workers
""",
        """\
        share = (worker.id if worker else 0) * world + rank
        shares = workers * world
""",
    ),
    "shares in two steps": (
        """\
        mine = self.paths[share::shares]
""",
        """\
        of_rank = self.paths[rank::world]
        mine = of_rank[worker.id :: workers] if worker else of_rank
""",
    ),
    "shares by islice": (
        """\
        mine = self.paths[share::shares]
""",
        """\
        from itertools import islice
        mine = list(islice(self.paths, share, None, shares))
""",
    ),
    "shares by enumeration": (
        """\
        mine = self.paths[share::shares]
""",
        """\
        mine = [path for number, path in enumerate(self.paths) if number % shares == share]
""",
    ),
    "shares by divmod": (
        """\
        share = rank * workers + (worker.id if worker else 0)
        shares = world * workers
""",
        """\
        number = worker.id if worker else 0
        share, shares = rank * workers + number, world * workers
""",
    ),
    "shuffled by a seed": (
        """\
        self.paths = sorted(paths)
""",
        """\
        import random
        self.paths = sorted(paths)
        random.Random(seed).shuffle(self.paths)
""",
    ),
    "async with a wait": (
        """\
    dcp.save({"app": application}, checkpoint_id=str(target))
""",
        """\
    pending = dcp.async_save({"app": application}, checkpoint_id=str(target))
    pending.result()
""",
    ),
    "reader and writer": (
        'dcp.save({"app": application}, checkpoint_id=str(target))',
        """\
dcp.save({"app": application}, storage_writer=dcp.FileSystemWriter(str(target)))""",
    ),
    "stop by broadcast": (
        """\
        stop = anybody(asked, device) if (step + 1) % 10 == 0 else False
""",
        """\
        flag = torch.tensor([int(asked)], device=device)
        dist.broadcast(flag, src=0)
        stop = bool(flag.item())
""",
    ),
    "stop by objects": (
        """\
        stop = anybody(asked, device) if (step + 1) % 10 == 0 else False
""",
        """\
        flags = [None] * world
        dist.all_gather_object(flags, asked)
        stop = any(flags)
""",
    ),
    "clock of all": (
        """\
        stop = anybody(asked, device) if (step + 1) % 10 == 0 else False
""",
        """\
        stop = anybody(asked or time.time() - begun > 86000, device)
""",
        """\
    model.train()
""",
        """\
    begun = time.time()
    model.train()
""",
    ),
    "mean by hand": (
        """\
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
""",
        """\
            dist.all_reduce(mean)
            mean = mean / dist.get_world_size()
""",
    ),
    "mean of objects": (
        """\
            mean = torch.stack(list(recent)).mean()
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
""",
        """\
            mean = torch.stack(list(recent)).mean().div_(world)
            dist.all_reduce(mean)
""",
    ),
    "time in days": (
        "--time=24:00:00",
        "--time=1-00:00:00",
    ),
    "time in minutes": (
        "--time=24:00:00",
        "--time=1440",
    ),
    "torch.distributed.run": (
        """\
torchrun \\
""",
        """\
python -m torch.distributed.run \\
""",
    ),
    "gres": (
        "#SBATCH --gpus-per-node=8",
        "#SBATCH --gres=gpu:h100:8",
    ),
    "nproc gpu": (
        "--nproc_per_node=8",
        "--nproc-per-node=gpu",
    ),
    "static ranks by bash -c": (
        """\
srun --kill-on-bad-exit=1 torchrun \\
    --nnodes="$SLURM_JOB_NUM_NODES" \\
    --nproc_per_node=8 \\
    --rdzv_backend=c10d \\
    --rdzv_id="$SLURM_JOB_ID" \\
    --rdzv_endpoint="$MASTER_ADDR:$MASTER_PORT" \\
    --signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT \\
    pretrain.py
""",
        """\
srun --kill-on-bad-exit=1 bash -c 'torchrun \\
    --nnodes=$SLURM_NNODES --nproc_per_node=8 --node_rank=$SLURM_NODEID \\
    --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT \\
    --signals-to-handle=SIGTERM,SIGINT pretrain.py'
""",
    ),
    "shared scratch": (
        'RUN_DIR="$SLURM_SUBMIT_DIR/runs/pre"',
        'RUN_DIR="/scratch/$USER/pre"',
    ),
}
