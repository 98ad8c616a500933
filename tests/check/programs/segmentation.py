"""Labels of pixels, by a trainer class, with a confusion matrix, under PBS."""

FILES = {
    "data.py": """\
import random
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Streets(Dataset):
    def __init__(self, root: Path, split: str, crop: int | None = None):
        self.images = sorted((root / split / "images").glob("*.npy"))
        self.crop = crop

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        path = self.images[i]
        image = np.load(path)
        label = np.load(path.parents[1] / "labels" / path.name)
        if self.crop:
            y = random.randrange(image.shape[0] - self.crop + 1)
            x = random.randrange(image.shape[1] - self.crop + 1)
            image = image[y : y + self.crop, x : x + self.crop]
            label = label[y : y + self.crop, x : x + self.crop]
            if random.random() < 0.5:
                image, label = image[:, ::-1], label[:, ::-1]
        image = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
        return image, torch.from_numpy(np.ascontiguousarray(label)).long()


def seed_worker(worker: int):
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)


def loaders(root, batch, rank, world, seed):
    train, val = Streets(root, "train", 512), Streets(root, "val")
    sampler = DistributedSampler(train, world, rank, shuffle=True, seed=seed, drop_last=True)
    generator = torch.Generator()
    generator.manual_seed(seed * 977 + rank)
    training = DataLoader(
        train,
        batch_size=batch,
        sampler=sampler,
        num_workers=6,
        pin_memory=True,
        drop_last=True,
        worker_init_fn=seed_worker,
        generator=generator,
        persistent_workers=True,
    )
    own = torch.utils.data.Subset(val, range(rank, len(val), world))
    return training, sampler, DataLoader(own, batch_size=1, num_workers=4, pin_memory=True)
""",
    "job.pbs": """\
#!/bin/bash
#PBS -N segment
#PBS -l select=2:ncpus=32:ngpus=4:mpiprocs=1
#PBS -l walltime=24:00:00
#PBS -j oe
#PBS -k oed

set -euo pipefail
cd "$PBS_O_WORKDIR"
hosts=$(sort -u "$PBS_NODEFILE")
count=$(wc -l <<<"$hosts")
head=$(head -n 1 <<<"$hosts")
export OMP_NUM_THREADS=8
port=$((20000 + ${PBS_JOBID%%.*} % 40000))
mpiexec -n "$count" --ppn 1 torchrun \\
    --nnodes "$count" --nproc-per-node 4 \\
    --rdzv-backend c10d --rdzv-endpoint "$head:$port" --rdzv-id "${PBS_JOBID%%.*}" \\
    segment.py --data /lustre/city --out /lustre/runs/segment
""",
    "layers.py": """\
import torch
import torch.nn.functional as F
from torch import nn


def block(i, o, stride=1):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)
    )


class UNet(nn.Module):
    def __init__(self, classes: int, width: int = 32):
        super().__init__()
        self.down = nn.ModuleList(
            [block(3, width), block(width, 2 * width, 2), block(2 * width, 4 * width, 2)]
        )
        self.up = nn.ModuleList([block(6 * width, 2 * width), block(3 * width, width)])
        self.head = nn.Conv2d(width, classes, 1)
        self.aux = nn.Conv2d(4 * width, classes, 1)

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
        aux = self.aux(x)
        for layer, skip in zip(self.up, kept[-2::-1]):
            x = layer(torch.cat((F.interpolate(x, size=skip.shape[-2:]), skip), 1))
        return self.head(x), F.interpolate(aux, size=x.shape[-2:])
""",
    "metrics.py": '''\
import torch
import torch.distributed as dist


class Confusion:
    """Counts of (label, prediction), of all ranks after `reduced`."""

    def __init__(self, classes, device):
        self.classes = classes
        self.counts = torch.zeros(classes, classes, dtype=torch.int64, device=device)

    def add(self, label, prediction):
        known = label != 255
        cell = label[known] * self.classes + prediction[known]
        self.counts += torch.bincount(cell, minlength=self.classes**2).view_as(self.counts)

    def reduced(self):
        if dist.is_initialized():
            dist.all_reduce(self.counts)
        return self

    def mean_iou(self):
        counts = self.counts.double()
        hit = counts.diagonal()
        union = counts.sum(0) + counts.sum(1) - hit
        return (hit / union.clamp_min(1))[union > 0].mean()
''',
    "segment.py": """\
import argparse
import json
import logging
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

import data
from layers import UNet
from metrics import Confusion

log = logging.getLogger("segment")


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank = int(os.environ.get("RANK", 0))
        self.world = int(os.environ.get("WORLD_SIZE", 1))
        self.local = int(os.environ.get("LOCAL_RANK", 0))
        self.device = torch.device("cuda", self.local)
        torch.cuda.set_device(self.device)
        if self.world > 1:
            dist.init_process_group(
                "nccl", device_id=self.device, timeout=timedelta(minutes=20)
            )
        torch.manual_seed(args.seed)
        model = nn.SyncBatchNorm.convert_sync_batchnorm(UNet(19)).to(
            self.device, memory_format=torch.channels_last
        )
        self.raw = model
        self.model = DDP(model, device_ids=[self.local]) if self.world > 1 else model
        heads = list(model.head.parameters()) + list(model.aux.parameters())
        ids = {id(p) for p in heads}
        body = [p for p in model.parameters() if id(p) not in ids]
        self.opt = torch.optim.SGD(
            [{"params": body, "lr": args.lr}, {"params": heads, "lr": 10 * args.lr}],
            momentum=0.9,
            weight_decay=1e-4,
            nesterov=True,
        )
        self.scaler = torch.amp.GradScaler()
        self.train, self.sampler, self.val = data.loaders(
            args.data, args.batch, self.rank, self.world, args.seed
        )
        self.total = args.epochs * len(self.train)
        self.poly = torch.optim.lr_scheduler.PolynomialLR(self.opt, self.total, power=0.9)
        self.criterion = nn.CrossEntropyLoss(ignore_index=255)
        self.epoch, self.best = 0, 0.0
        self.resume()
        torch.manual_seed(args.seed + self.rank + 100_003 * self.epoch)

    def resume(self):
        path = self.args.out / "checkpoint.pt"
        if not path.is_file():
            return
        saved = torch.load(path, map_location="cpu", weights_only=True)
        self.raw.load_state_dict(saved["model"])
        self.opt.load_state_dict(saved["opt"])
        self.scaler.load_state_dict(saved["scaler"])
        self.poly.load_state_dict(saved["poly"])
        self.epoch, self.best = saved["epoch"], saved["best"]
        log.info("resumed at epoch %d", self.epoch)

    def save(self, name):
        path = self.args.out / name
        state = {
            "model": self.raw.state_dict(),
            "opt": self.opt.state_dict(),
            "scaler": self.scaler.state_dict(),
            "poly": self.poly.state_dict(),
            "epoch": self.epoch,
            "best": self.best,
        }
        with open(f"{path}.new", "wb") as f:
            torch.save(state, f)
            f.flush()
            os.fsync(f.fileno())
        os.rename(f"{path}.new", path)

    def run_epoch(self):
        self.model.train()
        self.sampler.set_epoch(self.epoch)
        losses = torch.zeros((), device=self.device)
        for number, (image, label) in enumerate(self.train, 1):
            image = (
                image.to(
                    self.device, non_blocking=True, memory_format=torch.channels_last
                ).float()
                / 255
            )
            label = label.to(self.device, non_blocking=True)
            with torch.amp.autocast("cuda", torch.float16):
                out, aux = self.model(image)
                loss = self.criterion(out, label) + 0.4 * self.criterion(aux, label)
            self.opt.zero_grad(set_to_none=True)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.opt)
            nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
            self.scaler.step(self.opt)
            scale = self.scaler.get_scale()
            self.scaler.update()
            if self.scaler.get_scale() >= scale:
                self.poly.step()
            losses += loss.detach()
            if number % 50 == 0:
                self.say(number, losses / 50)
                losses.zero_()

    def say(self, number, loss):
        if self.world > 1:
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        if self.rank == 0:
            log.info(
                "epoch %d  %d/%d  loss %.4f", self.epoch, number, len(self.train), loss.item()
            )

    @torch.inference_mode()
    def evaluate(self):
        self.model.eval()
        confusion = Confusion(19, self.device)
        for image, label in self.val:
            image = image.to(self.device).float() / 255
            out, _ = self.raw(image)
            confusion.add(label.to(self.device), out.argmax(1))
        return confusion.reduced().mean_iou().item()

    def fit(self):
        while self.epoch < self.args.epochs:
            began = time.monotonic()
            self.run_epoch()
            iou = self.evaluate()
            self.epoch += 1
            better = iou > self.best
            self.best = max(iou, self.best)
            if self.rank == 0:
                log.info(
                    "epoch %d: mIoU %.4f in %.0f s", self.epoch, iou, time.monotonic() - began
                )
                with open(self.args.out / "history.jsonl", "a") as f:
                    f.write(json.dumps({"epoch": self.epoch, "miou": iou}) + "\\n")
                self.save("checkpoint.pt")
                if better:
                    self.save("best.pt")
            if self.world > 1:
                dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO if int(os.environ.get("RANK", 0)) == 0 else logging.WARNING,
        stream=sys.stdout,
    )
    args.out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(args)
    trainer.fit()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
""",
}

RIGHT = {
    "worker not seeded numpy": (
        """\
        worker_init_fn=seed_worker,
""",
        "",
    ),
    "evaluate through DDP": (
        "out, _ = self.raw(image)",
        "out, _ = self.model(image)",
    ),
    "no fsync": (
        """\
            f.flush()
            os.fsync(f.fileno())
""",
        "",
    ),
    "autocast around backward": (
        """\
                loss = self.criterion(out, label) + 0.4 * self.criterion(aux, label)
            self.opt.zero_grad(set_to_none=True)
            self.scaler.scale(loss).backward()
""",
        """\
                loss = self.criterion(out, label) + 0.4 * self.criterion(aux, label)
                self.opt.zero_grad(set_to_none=True)
                self.scaler.scale(loss).backward()
""",
    ),
}

# What is replaced in turn, and the row that is reported.
MISTAKES = {
    "workers draw alike": (
        "    generator.manual_seed(seed * 977 + rank)",
        "    generator.manual_seed(seed * 977)",
        "S6",
    ),
    "a seed of the worker alone": (
        "    seed = torch.initial_seed() % 2**32",
        "    seed = worker",
        "S6",
    ),
    "the score of one rank": (
        "        return confusion.reduced().mean_iou().item()",
        "        return confusion.mean_iou().item()",
        "O2",
    ),
    "a mean of scores": (
        "        return confusion.reduced().mean_iou().item()",
        """\
        iou = confusion.mean_iou()
        dist.all_reduce(iou)
        return (iou / self.world).item()""",
        "G6",
    ),
    "measured with the batch's statistics": (
        """\
        self.model.eval()
        confusion""",
        "        confusion",
        "O8",
    ),
    "each node saves": (
        """\
            if self.rank == 0:
                log.info(
""",
        """\
            if self.local == 0:
                log.info(
""",
        "K1",
    ),
    "written in place": (
        '        with open(f"{path}.new", "wb") as f:',
        '        with open(path, "wb") as f:',
        """\
        os.rename(f"{path}.new", path)
""",
        "",
        "K5",
    ),
    "counted up behind the save": (
        """\
            self.epoch += 1
            better""",
        "            better",
        """\
            if self.world > 1:
                dist.barrier()
""",
        """\
            if self.world > 1:
                dist.barrier()
            self.epoch += 1
""",
        "K10",
    ),
    "no schedule": (
        """\
            "poly": self.poly.state_dict(),
""",
        "",
        """\
        self.poly.load_state_dict(saved["poly"])
""",
        "",
        "K3",
    ),
    "the best is forgotten": (
        """\
            "best": self.best,
""",
        "",
        'self.epoch, self.best = saved["epoch"], saved["best"]',
        'self.epoch = saved["epoch"]',
        "K3",
    ),
    "the schedule is not read": (
        """\
        self.poly.load_state_dict(saved["poly"])
""",
        "",
        "K3",
    ),
    "nothing goes on": (
        """\
        self.resume()
        torch.manual_seed""",
        "        torch.manual_seed",
        "K3",
    ),
    "the rate stays": (
        """\
            if self.scaler.get_scale() >= scale:
                self.poly.step()
""",
        "",
        "G8",
    ),
    "the rate is a step ahead": (
        """\
            self.scaler.step(self.opt)
""",
        """\
            self.poly.step()
            self.scaler.step(self.opt)
""",
        """\
            if self.scaler.get_scale() >= scale:
                self.poly.step()
""",
        "",
        "G8",
    ),
    "rank 0's own loss is shown": (
        """\
        if self.world > 1:
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
""",
        "",
        "O2",
    ),
    "a sum of losses is shown": (
        "op=dist.ReduceOp.AVG",
        "op=dist.ReduceOp.SUM",
        "O2",
    ),
    "losses keep their graphs": (
        "losses += loss.detach()",
        "losses = losses + loss",
        "O14",
    ),
}
