"""A program of several modules with helpers of its own, and mistakes put into it."""

from pathlib import Path

import pytest

from check.planted import replaced, reported

FILES = {
    "main.py": """\
import argparse
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, Subset

import ranks
from engine import evaluate, one_epoch
from network import build
from samples import splits

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", default=8, type=int)
parser.add_argument("--accumulate", default=4, type=int)
parser.add_argument("--address", default="env://")
parser.add_argument("--resume", default="")


def main(args):
    ranks.join(args)
    device = torch.device("cuda")
    torch.manual_seed(7 + ranks.number())
    bare = build()
    bare.to(device)
    model = bare
    if args.distributed:
        model = DistributedDataParallel(bare, device_ids=[args.gpu])
    optimizer = torch.optim.AdamW(bare.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 200)
    scaler = torch.amp.GradScaler("cuda")
    training, validation = splits()
    if args.distributed:
        sampler = DistributedSampler(training)
    else:
        sampler = RandomSampler(training)
    loader = DataLoader(training, args.batch_size, sampler=sampler, drop_last=True)
    share = range(ranks.number(), len(validation), ranks.count())
    held_out = DataLoader(Subset(validation, share), args.batch_size)
    first = 0
    if args.resume:
        state = torch.load(args.resume, map_location="cpu", weights_only=True)
        bare.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        scaler.load_state_dict(state["scaler"])
        first = state["epoch"] + 1
    for epoch in range(first, 100):
        if args.distributed:
            sampler.set_epoch(epoch)
        loss = one_epoch(model, loader, optimizer, scaler, device, args)
        schedule.step()
        accuracy = evaluate(model, held_out, device)
        state = {
            "model": bare.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "scaler": scaler.state_dict(),
            "epoch": epoch,
        }
        ranks.save(state, Path("state.pt"))
        if ranks.is_main():
            with open("log.txt", "a") as file:
                file.write(f"{epoch} {loss} {accuracy}")
    ranks.leave()


if __name__ == "__main__":
    main(parser.parse_args())
""",
    "engine.py": """\
import math

import torch

import ranks


def one_epoch(model, loader, optimizer, scaler, device, args):
    model.train()
    criterion = torch.nn.CrossEntropyLoss()
    mean = ranks.Mean()
    optimizer.zero_grad()
    for step, (images, labels) in enumerate(loader):
        images = images.to(device)
        labels = labels.to(device)
        update = (step + 1) % args.accumulate == 0 or step + 1 == len(loader)
        model.require_backward_grad_sync = update
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(images), labels) / args.accumulate
        scaler.scale(loss).backward()
        if update:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        mean.add(loss.detach())
    return mean.over_ranks()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    counts = torch.zeros(2, device=device)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        counts[0] += (model(images).argmax(1) == labels).sum()
        counts[1] += len(labels)
    ranks.add_up(counts)
    return (counts[0] / counts[1]).item()
""",
    "ranks.py": """\
import os
from datetime import timedelta

import torch
import torch.distributed as dist


class Mean:
    def __init__(self):
        self.total = torch.zeros((), device="cuda")
        self.count = 0

    def add(self, value):
        self.total = self.total + value
        self.count += 1

    def over_ranks(self):
        both = torch.stack([self.total, torch.full_like(self.total, self.count)])
        add_up(both)
        return (both[0] / both[1]).item()


def joined():
    return dist.is_available() and dist.is_initialized()


def number():
    return dist.get_rank() if joined() else 0


def count():
    return dist.get_world_size() if joined() else 1


def is_main():
    return number() == 0


def add_up(values):
    if joined():
        dist.all_reduce(values)


def save(state, path):
    if is_main():
        torch.save(state, path.with_suffix(".tmp"))
        os.replace(path.with_suffix(".tmp"), path)


def join(args):
    args.distributed = "RANK" in os.environ
    args.gpu = int(os.environ.get("LOCAL_RANK", 0))
    if args.distributed:
        torch.cuda.set_device(args.gpu)
        limit = timedelta(minutes=5)
        dist.init_process_group("nccl", init_method=args.address, timeout=limit)


def leave():
    if joined():
        dist.destroy_process_group()
""",
    "network.py": """\
from torch import nn


def build():
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(3072, 10))
""",
    "samples.py": """\
from torchvision import datasets, transforms


def splits():
    change = transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()])
    plain = transforms.Compose([transforms.Resize(32), transforms.ToTensor()])
    return datasets.ImageFolder("train", change), datasets.ImageFolder("val", plain)
""",
}
BACKWARD = "        scaler.scale(loss).backward()\n"
SYNC = "model.require_backward_grad_sync = update"
CLIPPED = (
    "            scaler.unscale_(optimizer)\n"
    "            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
)
LOGGED = (
    '        if ranks.is_main():\n            with open("log.txt", "a") as file:\n'
    '                file.write(f"{epoch} {loss} {accuracy}")\n'
)
# What is put in: the module, in turn what goes and what comes, and the row.
MISTAKES = {
    "no epoch": (
        "main",
        "        if args.distributed:\n            sampler.set_epoch(epoch)\n",
        "",
        "S2",
    ),
    "shuffled by each rank": ("main", "sampler=sampler, drop", "shuffle=True, drop", "S1 S4"),
    "one seed for all": ("main", "7 + ranks.number()", "7", "S6"),
    "rank 0 evaluates": (
        "main",
        "        accuracy = evaluate(model, held_out, device)\n",
        "        if ranks.is_main():\n            accuracy = evaluate(model, held_out, device)\n",
        "O3",
    ),
    "this rank's accuracy": ("engine", "    ranks.add_up(counts)\n", "", "O2"),
    "no schedule": ("main", '        schedule.load_state_dict(state["schedule"])\n', "", "K3"),
    "the last epoch comes again": ("main", 'state["epoch"] + 1', 'state["epoch"]', "K10"),
    "names of the wrap": ("main", '"model": bare.state', '"model": model.state', "K2"),
    "written in place": (
        "ranks",
        'path.with_suffix(".tmp"))\n        os.replace(path.with_suffix(".tmp"), path)\n',
        "path)\n",
        "K5",
    ),
    "all ranks write lines": (
        "main",
        LOGGED,
        LOGGED.replace("ranks.is_main()", "epoch >= 0"),
        "O1",
    ),
    "scaled gradients": ("engine", "            scaler.unscale_(optimizer)\n", "", "G7"),
    "cleared each time": ("engine", BACKWARD, f"        optimizer.zero_grad()\n{BACKWARD}", "G4"),
    "the window is off by one": ("engine", "(step + 1) % args", "step % args", "G3"),
    "quiet in the last micro-batch": ("engine", SYNC, SYNC.replace("= ", "= not "), "G1"),
    "quiet in every micro-batch": ("engine", SYNC, SYNC.replace("update", "False"), "G1"),
    "never quiet": ("engine", f"        {SYNC}\n", "", "G3"),
    "undivided": ("engine", "labels) / args.accumulate", "labels)", "G2"),
    "one rank skips": (
        "engine",
        BACKWARD,
        f"        if not math.isfinite(loss.item()):\n            continue\n{BACKWARD}",
        "G10",
    ),
    "one rank leaves": (
        "engine",
        BACKWARD,
        f"        if loss.isnan():\n            return 0.0\n{BACKWARD}",
        "G10",
    ),
    "losses with their graphs": ("engine", "mean.add(loss.detach())", "mean.add(loss)", "O14"),
    "evaluated in training mode": ("engine", "    model.eval()\n", "", "O8"),
    "the bare model trains": ("main", "one_epoch(model,", "one_epoch(bare,", "G1"),
    "one GPU": ("main", 'device("cuda")', 'device("cuda:0")', "D4"),
    "a fixed port": ("main", "env://", "tcp://127.0.0.1:23456", "D11"),
    "the rank is the GPU": ("ranks", 'get("LOCAL_RANK", 0)', 'get("RANK", 0)', "D4"),
    "rank 0 leaves the loop": (
        "main",
        LOGGED,
        f"        if ranks.is_main() and accuracy > 0.9:\n            break\n{LOGGED}",
        "K8",
    ),
}


def test_program_is_right(tmp_path: Path) -> None:
    assert reported(tmp_path, FILES) == []


@pytest.mark.parametrize("title", MISTAKES)
def test_mistake_is_reported(title: str, tmp_path: Path) -> None:
    module, *changes, row = MISTAKES[title]
    changed = {f"{module}.py": replaced(FILES[f"{module}.py"], *changes)}
    assert {*reported(tmp_path, FILES | changed)} == {*row.split()}
