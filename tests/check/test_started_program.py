"""A program that starts the ranks of its node itself, and mistakes put into it: each has its row.

Such programs compute the rank from the numbers of nodes and GPUs.
"""

from pathlib import Path

import pytest

from check.planted import replaced, reported

PROGRAM = """\
import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, models, transforms


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count())
    parser.add_argument("--head", default="localhost")
    parser.add_argument("--port", type=int, default=29411)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--resume", default="")
    return parser.parse_args()


def train(model, loader, optimizer, scaler, gpu):
    model.train()
    for images, labels in loader:
        images, labels = images.cuda(gpu), labels.cuda(gpu)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


@torch.inference_mode()
def evaluate(model, loader, gpu):
    model.eval()
    right = torch.zeros(2, device=gpu)
    for images, labels in loader:
        right[0] += (model(images.cuda(gpu)).argmax(1) == labels.cuda(gpu)).sum()
        right[1] += len(labels)
    dist.all_reduce(right)
    return (right[0] / right[1]).item()


def worker(gpu, args):
    rank = args.node_rank * args.gpus + gpu
    world_size = args.nodes * args.gpus
    torch.cuda.set_device(gpu)
    method, timeout = f"tcp://{args.head}:{args.port}", timedelta(minutes=5)
    dist.init_process_group("nccl", method, timeout, world_size, rank)
    torch.manual_seed(5 + rank)
    model = DistributedDataParallel(models.resnet18().cuda(gpu), device_ids=[gpu])
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    crop = transforms.Compose([transforms.RandomCrop(224), transforms.ToTensor()])
    whole = datasets.ImageFolder("train", crop)
    sampler = DistributedSampler(whole, world_size, rank)
    loader = DataLoader(whole, batch_size=64, sampler=sampler, num_workers=4)
    test_set = datasets.ImageFolder("test", transforms.ToTensor())
    test_sampler = DistributedSampler(test_set, world_size, rank, shuffle=False, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=64, sampler=test_sampler)
    start, best = 0, 0.0
    if args.resume:
        saved = torch.load(args.resume, map_location="cpu", weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scaler.load_state_dict(saved["scaler"])
        start, best = saved["epoch"], saved["best"]
    for epoch in range(start, args.epochs):
        sampler.set_epoch(epoch)
        train(model, loader, optimizer, scaler, gpu)
        best = max(best, evaluate(model, test_loader, gpu))
        if rank == 0:
            content = {
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scaler": scaler.state_dict(),
                "epoch": epoch + 1,
                "best": best,
            }
            torch.save(content, "last.tmp")
            os.replace("last.tmp", "last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    arguments = parse()
    mp.spawn(worker, args=(arguments,), nprocs=arguments.gpus)
"""
RANK = "rank = args.node_rank * args.gpus + gpu"
TRAINS = "        train(model, loader, optimizer, scaler, gpu)\n"
MOVES = "        images, labels = images.cuda(gpu), labels.cuda(gpu)\n"
BATCHES = f"    for images, labels in loader:\n{MOVES}"
MISSING = "        if batch is None:\n            continue\n        images, labels = batch\n"
# What is put in: in turn the text that goes and the text that comes, and the row.
MISTAKES = {
    "the number on the node for the rank": (RANK, "rank = gpu", "D10"),
    "nodes that count one rank": (RANK, "rank = args.node_rank + gpu", "D10"),
    "nodes for GPUs": (RANK, "rank = args.node_rank * args.nodes + gpu", "D10"),
    "the GPUs of a node for the world": (
        "world_size = args.nodes * args.gpus",
        "world_size = args.gpus",
        "D10",
    ),
    "nodes for the world": (
        "world_size = args.nodes * args.gpus",
        "world_size = args.nodes",
        "D10",
    ),
    "each node starts all": (
        "nprocs=arguments.gpus",
        "nprocs=arguments.nodes * arguments.gpus",
        "D10",
    ),
    "rank 0 at each node": ("tcp://{args.head}", "tcp://localhost", "D10"),
    "a file of each node": ('f"tcp://{args.head}:{args.port}"', '"file:///tmp/group"', "D10"),
    "a port of each rank": (
        "    torch.cuda.set_device(gpu)\n",
        "    torch.cuda.set_device(gpu)\n    args.port = random.randint(20000, 60000)\n",
        "D10",
    ),
    "the rank's GPU": ("torch.cuda.set_device(gpu)", "torch.cuda.set_device(rank)", "D4"),
    "the rank's GPU for DDP": ("device_ids=[gpu]", "device_ids=[rank]", "D4"),
    "a rate for the GPUs of a node": (
        "model.parameters(), 0.1",
        "model.parameters(), 0.1 * args.gpus",
        "G13",
    ),
    "another library's seed alone": (
        "    torch.manual_seed(5 + rank)\n",
        "    random.seed(5 + rank)\n    torch.manual_seed(5)\n",
        "S6",
    ),
    "the order set behind the epoch": (
        f"        sampler.set_epoch(epoch)\n{TRAINS}",
        f"{TRAINS}        sampler.set_epoch(epoch)\n",
        "S2",
    ),
    "the order of the test": ("sampler.set_epoch(epoch)", "test_sampler.set_epoch(epoch)", "S2"),
    "the test's last batch dropped": (
        "sampler=test_sampler)",
        "sampler=test_sampler, drop_last=True)",
        "S8",
    ),
    "a running sum reduced": (
        "        right[1] += len(labels)\n    dist.all_reduce(right)\n",
        "        right[1] += len(labels)\n        dist.all_reduce(right)\n",
        "O2",
    ),
    "a step without the scaler": ("scaler.step(optimizer)", "optimizer.step()", "G9"),
    "batches without labels passed over": (
        "        optimizer.zero_grad()\n",
        "        if labels.numel() == 0:\n            continue\n        optimizer.zero_grad()\n",
        "G10",
    ),
    "batches that are missing passed over": (
        BATCHES,
        BATCHES.replace("images, labels in", "batch in").replace(MOVES, f"{MISSING}{MOVES}"),
        "G10",
    ),
    "the epoch that is over": ('"epoch": epoch + 1', '"epoch": epoch', "K10"),
    "a checkpoint that rank 0 alone looks for": (
        "    if args.resume:\n",
        "    if rank == 0:\n        args.resume = os.environ.get('RESUME')\n    if args.resume:\n",
        "K7",
    ),
}
# What may stand there instead: in turn the text that goes, and the text that comes.
RIGHT = {
    "as it is": (),
    "one node": (RANK, "rank = gpu", "args.nodes * args.gpus", "args.gpus"),
    "a number that is written out": (
        RANK,
        "rank = args.node_rank * 8 + gpu",
        "args.nodes * args.gpus",
        "args.nodes * 8",
        "nprocs=arguments.gpus",
        "nprocs=8",
    ),
    "GPUs of all nodes": (
        RANK,
        "rank = args.node_rank * (args.gpus // args.nodes) + gpu",
        "args.nodes * args.gpus",
        "args.gpus",
        "nprocs=arguments.gpus",
        "nprocs=arguments.gpus // arguments.nodes",
    ),
    "handed over": (
        "def worker(gpu, args):",
        "def worker(gpu, args, per_node):",
        RANK,
        "rank = args.node_rank * per_node + gpu",
        "(arguments,)",
        "(arguments, arguments.gpus)",
    ),
    "an own port for all ranks": (
        "    arguments = parse()\n",
        "    arguments = parse()\n    arguments.port = random.randint(20000, 60000)\n",
    ),
    "a rate for all GPUs": ("model.parameters(), 0.1", "model.parameters(), 0.1 * world_size"),
    "an average of each turn": (
        "        right[1] += len(labels)\n    dist.all_reduce(right)\n",
        "        right[1] += len(labels)\n        dist.all_reduce(right, op=dist.ReduceOp.AVG)\n",
    ),
    "an error for all": (
        MOVES,
        f"        if images.numel() == 0:\n            raise ValueError(images)\n{MOVES}",
    ),
}


@pytest.mark.parametrize("title", RIGHT)
def test_program_is_right(title: str, tmp_path: Path) -> None:
    assert reported(tmp_path, {"main.py": replaced(PROGRAM, *RIGHT[title])}) == []


@pytest.mark.parametrize("title", MISTAKES)
def test_mistake_is_reported(title: str, tmp_path: Path) -> None:
    *changes, row = MISTAKES[title]
    assert {*reported(tmp_path, {"main.py": replaced(PROGRAM, *changes)})} == {row}
