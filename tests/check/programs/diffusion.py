"""A diffusion model in the methods of a class, with an average of its weights, and mistakes put in.

Its fields have short names: `place.rank`, `place.local`, `place.world`.
"""

FILES = {
    "main.py": """\
import contextlib
import functools
import logging
import random
import signal
import time
from datetime import timedelta
from pathlib import Path

import click
import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from latents import Latents
from net import Average, UNet
from settings import Place, Settings

log = logging.getLogger("diffusion")


@contextlib.contextmanager
def world(place: Place):
    torch.cuda.set_device(place.local)
    dist.init_process_group("nccl", timeout=timedelta(minutes=20))
    try:
        yield torch.device("cuda", place.local)
    finally:
        dist.destroy_process_group()


def seeded(cfg: Settings, place: Place) -> torch.Generator:
    random.seed(cfg.seed + place.rank)
    np.random.seed(cfg.seed + place.rank)
    torch.manual_seed(cfg.seed)
    return torch.Generator(device="cuda").manual_seed(cfg.seed * 1000 + place.rank)


def schedule(cfg: Settings, step: int) -> float:
    return min(1.0, (step + 1) / cfg.optim.warmup)


class Diffusion:
    def __init__(self, cfg: Settings, place: Place, device: torch.device):
        self.cfg, self.place, self.device = cfg, place, device
        self.noise = seeded(cfg, place)
        net = UNet().to(device)
        self.average = Average(net, cfg.ema)
        self.net = DDP(net, device_ids=[place.local], gradient_as_bucket_view=True)
        self.optimizer = torch.optim.AdamW(
            self.net.parameters(), lr=cfg.optim.rate, weight_decay=cfg.optim.decay
        )
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, functools.partial(schedule, cfg)
        )
        self.step = 0
        self.stop = False
        signal.signal(signal.SIGTERM, self.ask)
        self.alphas = torch.cos(torch.linspace(0, torch.pi / 2, 1000, device=device)) ** 2

    def ask(self, *_):
        self.stop = True

    @functools.cached_property
    def loader(self) -> DataLoader:
        data = Latents(self.cfg.root)
        self.sampler = DistributedSampler(
            data, shuffle=True, seed=self.cfg.seed, drop_last=True
        )
        return DataLoader(
            data,
            batch_size=self.cfg.batch,
            sampler=self.sampler,
            num_workers=self.cfg.workers,
            pin_memory=True,
            drop_last=True,
            persistent_workers=True,
        )

    def batches(self):
        epoch = self.step * self.cfg.accumulate // len(self.loader)
        while True:
            self.sampler.set_epoch(epoch)
            yield from self.loader
            epoch += 1

    def loss(self, latents: torch.Tensor) -> torch.Tensor:
        latents = latents.to(self.device, non_blocking=True)
        t = torch.randint(0, 1000, (len(latents),), device=self.device, generator=self.noise)
        noise = torch.randn(latents.shape, device=self.device, generator=self.noise)
        alpha = self.alphas[t][:, None, None, None]
        noisy = alpha.sqrt() * latents + (1 - alpha).sqrt() * noise
        match self.cfg.precision:
            case "bf16":
                context = torch.autocast("cuda", torch.bfloat16)
            case _:
                context = contextlib.nullcontext()
        with context:
            predicted = self.net(noisy, t)
        return F.mse_loss(predicted.float(), noise)

    def update(self, batches) -> torch.Tensor:
        total = torch.zeros((), device=self.device)
        for micro in range(self.cfg.accumulate):
            last = micro + 1 == self.cfg.accumulate
            with contextlib.nullcontext() if last else self.net.no_sync():
                loss = self.loss(next(batches)) / self.cfg.accumulate
                loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.average.update(self.net.module)
        self.step += 1
        return total

    def agreed_stop(self) -> bool:
        flag = torch.tensor(int(self.stop), device=self.device)
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return bool(flag.item())

    def state(self) -> dict:
        return {
            "net": self.net.module.state_dict(),
            "average": self.average.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "step": self.step,
        }

    def save(self) -> None:
        if self.place.chief:
            path = self.cfg.out / f"step_{self.step:07d}.pt"
            partial = path.with_suffix(".partial")
            torch.save(self.state(), partial)
            partial.replace(path)
        dist.barrier()

    def restore(self) -> None:
        if not (found := sorted(self.cfg.out.glob("step_*.pt"))):
            return
        state = torch.load(found[-1], map_location="cpu", weights_only=True)
        self.net.module.load_state_dict(state["net"])
        self.average.model.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.step = state["step"]
        self.noise.manual_seed(self.cfg.seed * 1000 + self.place.rank + 7 * self.step)

    @torch.no_grad()
    def sample(self) -> None:
        x = torch.randn(16, 4, 32, 32, device=self.device)
        for t in reversed(range(0, 1000, 20)):
            times = torch.full((16,), t, device=self.device)
            x = x - 0.05 * self.average.model(x, times)
        torch.save(x.cpu(), self.cfg.out / f"samples_{self.step:07d}.pt")

    def fit(self) -> None:
        batches, begin = self.batches(), time.perf_counter()
        running = torch.zeros((), device=self.device)
        while self.step < self.cfg.steps:
            running += self.update(batches)
            if self.step % 100 == 0:
                dist.all_reduce(running)
                mean = running.item() / (100 * self.place.world)
                running.zero_()
                if self.place.chief:
                    log.info(
                        "step %d loss %.4f %.1f s", self.step, mean, time.perf_counter() - begin
                    )
                if self.agreed_stop():
                    break
            if self.step % self.cfg.save_every == 0:
                self.save()
            if self.step % self.cfg.sample_every == 0 and self.place.chief:
                self.sample()
        self.save()


@click.command()
@click.option("--root", type=click.Path(path_type=Path), default=None)
@click.option("--steps", type=int, default=100_000)
def main(root, steps):
    place = Place.here()
    logging.basicConfig(level=logging.INFO if place.chief else logging.WARNING)
    cfg = Settings().replace(steps=steps, **({"root": root} if root else {}))
    if place.chief:
        cfg.out.mkdir(parents=True, exist_ok=True)
    with world(place) as device:
        run = Diffusion(cfg, place, device)
        run.restore()
        run.fit()


if __name__ == "__main__":
    main()
""",
    "train.sbatch": """\
#!/bin/bash
#SBATCH --job-name=diffusion
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@300
#SBATCH --requeue
set -euo pipefail
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
srun --kill-on-bad-exit=1 --wait=60 bash -c 'exec torchrun --nnodes=$SLURM_NNODES \\
  --nproc-per-node=8 --node-rank=$SLURM_NODEID \\
  --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT main.py --steps 200000'
""",
    "latents.py": """\
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Latents(Dataset):
    def __init__(self, root: Path):
        self.files = sorted(root.glob("*.npy"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        latents = torch.from_numpy(np.load(self.files[index])).float()
        return latents.flip(-1) if torch.rand(()) < 0.5 else latents
""",
    "settings.py": """\
from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Optim:
    rate: float = 2e-4
    decay: float = 0.01
    warmup: int = 500


@dataclass(frozen=True, slots=True)
class Settings:
    root: Path = Path("/data/latents")
    out: Path = Path("/shared/runs/diffusion")
    steps: int = 100_000
    batch: int = 32  # of each rank
    accumulate: int = 2
    ema: float = 0.9999
    precision: str = "bf16"
    seed: int = 17
    workers: int = 4
    save_every: int = 1000
    sample_every: int = 5000
    optim: Optim = field(default_factory=Optim)

    def replace(self, **changes: object) -> Settings:
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True)
class Place:
    rank: int
    local: int
    world: int

    @classmethod
    def here(cls) -> Place:
        return cls(
            *(
                int(os.environ.get(n, d))
                for n, d in [("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)]
            )
        )

    @property
    def chief(self) -> bool:
        return self.rank == 0
""",
    "net.py": '''\
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(width, width)

    def forward(self, x, t):
        return x + self.conv(F.silu(self.norm(x) + self.time(t)[:, :, None, None]))


class UNet(nn.Module):
    def __init__(self, channels: int = 4, width: int = 128, depth: int = 6):
        super().__init__()
        self.enter = nn.Conv2d(channels, width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.leave = nn.Conv2d(width, channels, 3, padding=1)
        self.register_buffer(
            "freqs", torch.exp(-math.log(10_000) * torch.arange(width // 2) / (width // 2))
        )

    def forward(self, x, t):
        angles = t[:, None].float() * self.freqs[None]
        embedding = torch.cat([angles.sin(), angles.cos()], dim=-1)
        x = self.enter(x)
        for block in self.blocks:
            x = block(x, embedding)
        return self.leave(x)


class Average:
    """Exponential moving average of the weights."""

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for own, new in zip(self.model.parameters(), model.parameters()):
            own.lerp_(new.detach(), 1 - self.decay)
        for own, new in zip(self.model.buffers(), model.buffers()):
            own.copy_(new)
''',
}

# Changes of the program that are right.
RIGHT: dict[str, tuple[str, ...]] = {}

# What is replaced in turn, and the row that is reported.
MISTAKES = {
    "noise of all ranks from one seed": (
        "manual_seed(cfg.seed * 1000 + place.rank)",
        "manual_seed(cfg.seed * 1000)",
        "S6",
    ),
    "seed of the local rank": (
        "manual_seed(cfg.seed * 1000 + place.rank)",
        "manual_seed(cfg.seed * 1000 + place.local)",
        "S6",
    ),
    "device of the global rank": (
        "torch.cuda.set_device(place.local)",
        "torch.cuda.set_device(place.rank)",
        "D4",
    ),
    "device ids of the global rank": (
        "device_ids=[place.local]",
        "device_ids=[place.rank]",
        "D4",
    ),
    "never reduced": (
        "with contextlib.nullcontext() if last else self.net.no_sync():",
        "with self.net.no_sync():",
        "G1",
    ),
    "the first micro-batch reduces": (
        "last = micro + 1 == self.cfg.accumulate",
        "last = micro == 0",
        "G1",
    ),
    "gradients of a window added up": (
        "self.loss(next(batches)) / self.cfg.accumulate",
        "self.loss(next(batches))",
        "G2",
    ),
    "losses with their graphs": (
        "total += loss.detach()",
        "total += loss",
        "O14",
    ),
    "the forward around DDP in another method": (
        "predicted = self.net(noisy, t)",
        "predicted = self.net.module(noisy, t)",
        "G1",
    ),
    "the smallest stop flag": (
        "op=dist.ReduceOp.MAX",
        "op=dist.ReduceOp.MIN",
        "K8",
    ),
    "in place": (
        """\
            torch.save(self.state(), partial)
            partial.replace(path)
""",
        """\
            torch.save(self.state(), path)
""",
        "K5",
    ),
    "the average is not saved": (
        """\
            "average": self.average.model.state_dict(),
""",
        "",
        """\
        self.average.model.load_state_dict(state["average"])
""",
        "",
        "K3",
    ),
    "the place is not saved": (
        """\
            "step": self.step,
""",
        "",
        """\
        self.step = state["step"]
""",
        "",
        "K3",
    ),
    "the oldest checkpoint": (
        "torch.load(found[-1]",
        "torch.load(found[0]",
        "K7",
    ),
    "sampler by the local rank": (
        "seed=self.cfg.seed, drop_last=True",
        "seed=self.cfg.seed, drop_last=True, rank=self.place.local",
        "S1",
    ),
    "checkpoints in any order": (
        'sorted(self.cfg.out.glob("step_*.pt"))',
        'list(self.cfg.out.glob("step_*.pt"))',
        "K7",
    ),
    "nobody steps the schedule": (
        """\
        self.scheduler.step()
""",
        "",
        "G8",
    ),
    "a loss that is no number skips its backward": (
        """\
                loss = self.loss(next(batches)) / self.cfg.accumulate
                loss.backward()""",
        """\
                loss = self.loss(next(batches)) / self.cfg.accumulate
                if loss.isfinite():
                    loss.backward()""",
        "G10",
    ),
    "one task for four nodes": (
        "#SBATCH --nodes=4",
        """\
#SBATCH --nodes=4
#SBATCH --ntasks=1""",
        "L2",
    ),
    "a signal that torchrun does not know": (
        "--signal=TERM@300",
        "--signal=USR1@300",
        "signal.SIGTERM",
        "signal.SIGUSR1",
        "L3",
    ),
}
