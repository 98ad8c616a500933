"""A training by a class with callbacks, and mistakes put into it: each has its row.

The class keeps all that a run has; its callbacks reach in, and a method calls them by name.
"""

FILES = {
    "trainer.py": """\
import logging
import os
import random
import time
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

log = logging.getLogger("trainer")


@dataclass
class TrainerConfig:
    epochs: int = 90
    batch_size: int = 64
    accumulate: int = 4
    lr: float = 0.1
    clip: float = 1.0
    seed: int = 17
    workers: int = 8
    ema_decay: float = 0.9998
    out_dir: str = "runs/seg"
    resume: str | None = None
    amp: bool = True
    patience: int = 10
    classes: int = 21
    log_every: int = 50


@dataclass
class State:
    epoch: int = 0
    step: int = 0
    best: float = 0.0
    bad: int = 0
    logs: dict = field(default_factory=dict)


class Callback:
    def on_fit_start(self, trainer): ...
    def on_step_end(self, trainer, loss): ...
    def on_epoch_end(self, trainer): ...


class Ema(Callback):
    def __init__(self, decay):
        self.decay = decay
        self.shadow = None

    def on_fit_start(self, trainer):
        if self.shadow is None:
            self.shadow = deepcopy(trainer.raw_model).eval().requires_grad_(False)

    @torch.no_grad()
    def on_step_end(self, trainer, loss):
        source = trainer.raw_model.state_dict()
        for name, value in self.shadow.state_dict().items():
            if value.dtype.is_floating_point:
                value.mul_(self.decay).add_(source[name].detach(), alpha=1 - self.decay)
            else:
                value.copy_(source[name])


class Progress(Callback):
    def __init__(self, every):
        self.every = every
        self.total = None

    def on_step_end(self, trainer, loss):
        self.total = loss if self.total is None else self.total + loss
        if trainer.state.step % self.every:
            return
        mean = self.total / self.every
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        self.total = None
        if trainer.is_main:
            log.info("step %d loss %.4f", trainer.state.step, mean.item())


class EarlyStopping(Callback):
    def __init__(self, patience):
        self.patience = patience

    def on_epoch_end(self, trainer):
        state = trainer.state
        state.bad = 0 if state.logs["miou"] > state.best else state.bad + 1
        stop = torch.tensor(int(state.bad >= self.patience), device=trainer.device)
        dist.broadcast(stop, src=0)
        trainer.stop = bool(stop.item())


class Checkpoint(Callback):
    def __init__(self, folder):
        self.folder = folder

    def on_epoch_end(self, trainer):
        state = trainer.state
        better = state.logs["miou"] > state.best
        state.best = max(state.best, state.logs["miou"])
        rng = [None] * trainer.world_size
        dist.all_gather_object(rng, trainer.rng_state())
        if trainer.is_main:
            payload = {
                "model": trainer.raw_model.state_dict(),
                "ema": trainer.ema.shadow.state_dict(),
                "optimizer": trainer.optimizer.state_dict(),
                "scheduler": trainer.scheduler.state_dict(),
                "scaler": trainer.scaler.state_dict(),
                "epoch": state.epoch + 1,
                "step": state.step,
                "best": state.best,
                "bad": state.bad,
                "rng": rng,
            }
            os.makedirs(self.folder, exist_ok=True)
            self.write(payload, "last.pt")
            if better:
                self.write(payload, "best.pt")
        dist.barrier()

    def write(self, payload, name):
        target = os.path.join(self.folder, name)
        torch.save(payload, target + ".tmp")
        os.replace(target + ".tmp", target)


class Trainer:
    def __init__(self, config, model, loss_fn, train_set, val_set, callbacks=()):
        self.config = config
        self.rank = dist.get_rank()
        self.local_rank = int(os.environ.get("LOCAL_RANK", 0))
        self.world_size = dist.get_world_size()
        self.is_main = self.rank == 0
        self.device = torch.device("cuda", self.local_rank)
        self.state = State()
        self.stop = False
        self.seed_everything(config.seed)
        self.raw_model = model.to(self.device)
        self.loss_fn = loss_fn.to(self.device)
        self.ema = Ema(config.ema_decay)
        self.callbacks = [self.ema, *callbacks]
        self.train_loader = self.build_loader(train_set, train=True)
        self.val_loader = self.build_loader(val_set, train=False)
        self.configure_optimizers()
        self.scaler = torch.amp.GradScaler("cuda", enabled=config.amp)
        if config.resume:
            self.ema.on_fit_start(self)
            self.load(config.resume)
        self.model = DistributedDataParallel(self.raw_model, device_ids=[self.local_rank])

    def seed_everything(self, seed):
        torch.manual_seed(seed + self.rank)
        np.random.seed(seed + self.rank)
        random.seed(seed + self.rank)

    def rng_state(self):
        return {"torch": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state()}

    def build_loader(self, dataset, train):
        if train:
            sampler = DistributedSampler(
                dataset, shuffle=True, seed=self.config.seed, drop_last=True
            )
        else:
            sampler = range(self.rank, len(dataset), self.world_size)
        return DataLoader(
            dataset,
            batch_size=self.config.batch_size,
            sampler=sampler,
            num_workers=self.config.workers,
            pin_memory=True,
            drop_last=train,
        )

    def configure_optimizers(self):
        self.optimizer = torch.optim.SGD(
            self.raw_model.parameters(),
            lr=self.config.lr * self.world_size * self.config.batch_size / 256,
            momentum=0.9,
            weight_decay=1e-4,
        )
        steps = -(-len(self.train_loader) // self.config.accumulate) * self.config.epochs
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=steps)

    def call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def fit(self):
        self.call("on_fit_start")
        for epoch in range(self.state.epoch, self.config.epochs):
            self.state.epoch = epoch
            self.train_loader.sampler.set_epoch(epoch)
            self.train_epoch()
            self.state.logs = self.evaluate(self.ema.shadow)
            self.call("on_epoch_end")
            if self.stop:
                break

    def train_epoch(self):
        self.model.train()
        count = len(self.train_loader)
        started = time.perf_counter()
        for index, batch in enumerate(self.train_loader):
            first = index - index % self.config.accumulate
            window = min(self.config.accumulate, count - first)
            last = index + 1 == first + window
            loss = self.training_step(batch, window, sync=last)
            if last:
                self.optimizer_step()
                self.call("on_step_end", loss)
        if self.is_main:
            log.info("epoch took %.1f s", time.perf_counter() - started)

    def training_step(self, batch, window, sync):
        images, masks = (part.to(self.device, non_blocking=True) for part in batch)
        context = nullcontext() if sync else self.model.no_sync()
        with context:
            with torch.autocast("cuda", dtype=torch.float16, enabled=self.config.amp):
                logits = self.model(images)
                loss = self.loss_fn(logits, masks)
            self.scaler.scale(loss / window).backward()
        return loss.detach()

    def optimizer_step(self):
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.scaler.get_scale() >= scale:
            self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.state.step += 1

    @torch.inference_mode()
    def evaluate(self, model):
        model.eval()
        classes = self.config.classes
        confusion = torch.zeros(classes, classes, dtype=torch.long, device=self.device)
        loss_sum = torch.zeros(2, dtype=torch.float64, device=self.device)
        for images, masks in self.val_loader:
            images, masks = images.to(self.device), masks.to(self.device)
            logits = model(images)
            loss = self.loss_fn(logits, masks)
            loss_sum[0] += loss.double() * len(images)
            loss_sum[1] += len(images)
            guess = logits.argmax(1)
            both = (masks * classes + guess).flatten()
            confusion += torch.bincount(both, minlength=classes**2).view(classes, classes)
        dist.all_reduce(confusion)
        dist.all_reduce(loss_sum)
        hits = confusion.diag().double()
        union = confusion.sum(0) + confusion.sum(1) - confusion.diag()
        total, count = loss_sum.tolist()
        return {"miou": (hits / union.clamp(min=1)).mean().item(), "loss": total / count}

    def load(self, path):
        saved = torch.load(path, map_location="cpu", weights_only=True)
        self.raw_model.load_state_dict(saved["model"])
        self.ema.shadow.load_state_dict(saved["ema"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scheduler.load_state_dict(saved["scheduler"])
        self.scaler.load_state_dict(saved["scaler"])
        self.state.epoch = saved["epoch"]
        self.state.step = saved["step"]
        self.state.best = saved["best"]
        self.state.bad = saved["bad"]
        mine = saved["rng"][self.rank]
        torch.set_rng_state(mine["torch"])
        torch.cuda.set_rng_state(mine["cuda"])
""",
    "train.py": """\
import argparse
import logging
import os
from dataclasses import fields
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
import yaml
from torch import nn
from torchvision.transforms import v2

from data import Folder
from trainer import Checkpoint, EarlyStopping, Progress, Trainer, TrainerConfig


class Net(nn.Module):
    def __init__(self, classes, width=64):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.drop = nn.Dropout2d(0.1)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, images):
        return self.head(self.drop(self.stem(images)))


class Weighted(nn.Module):
    def __init__(self, classes):
        super().__init__()
        weight = torch.ones(classes)
        weight[0] = 0.2
        self.register_buffer("weight", weight)

    def forward(self, logits, masks):
        losses = F.cross_entropy(logits, masks, reduction="none")
        return (losses * self.weight[masks]).mean()


def read_config():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--resume")
    args = parser.parse_args()
    with open(args.config) as file:
        values = yaml.safe_load(file)
    known = {field.name for field in fields(TrainerConfig)}
    config = TrainerConfig(**{key: value for key, value in values.items() if key in known})
    if args.resume:
        config.resume = args.resume
    return config


def main():
    config = read_config()
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl", timeout=timedelta(minutes=15))
    logging.basicConfig(level=logging.INFO if dist.get_rank() == 0 else logging.ERROR)
    augment = v2.Compose([v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)])
    train_set = Folder("data/train", augment)
    val_set = Folder("data/val", v2.ToDtype(torch.float32, scale=True))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(Net(config.classes))
    loss_fn = Weighted(config.classes)
    callbacks = [
        Progress(config.log_every),
        EarlyStopping(config.patience),
        Checkpoint(config.out_dir),
    ]
    trainer = Trainer(config, model, loss_fn, train_set, val_set, callbacks)
    trainer.fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
""",
    "data.py": """\
from pathlib import Path

from torch.utils.data import Dataset
from torchvision.io import read_image


class Folder(Dataset):
    def __init__(self, root, transform):
        self.images = sorted(Path(root, "images").glob("*.png"))
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        path = self.images[index]
        mask = read_image(str(path).replace("images", "masks"))[0].long()
        return self.transform(read_image(str(path))), mask
""",
}
# What is put in: in turn the text that goes and the text that comes, and the row.
MISTAKES = {
    "unwrapped forward": (
        """\
logits = self.model(images)
""",
        """\
logits = self.raw_model(images)
""",
        "G1",
    ),
    "module forward": (
        """\
logits = self.model(images)
""",
        """\
logits = self.model.module(images)
""",
        "G1",
    ),
    "load after wrap on rank 0": (
        """\
        if config.resume:
            self.ema.on_fit_start(self)
            self.load(config.resume)
        self.model = DistributedDataParallel(self.raw_model, device_ids=[self.local_rank])
""",
        """\
        self.model = DistributedDataParallel(self.raw_model, device_ids=[self.local_rank])
        if config.resume and self.is_main:
            self.ema.on_fit_start(self)
            self.load(config.resume)
""",
        "K7",
    ),
    "load on rank 0 before wrap": (
        """\
        if config.resume:
""",
        """\
        if config.resume and self.is_main:
""",
        "K7",
    ),
    "wrap before move": (
        """\
        self.raw_model = model.to(self.device)
""",
        """\
        self.raw_model = model
""",
        "D1",
    ),
    "masks stay": (
        """\
        images, masks = (part.to(self.device, non_blocking=True) for part in batch)
""",
        """\
        images, masks = batch
        images = images.to(self.device, non_blocking=True)
""",
        "D3",
    ),
    "device by rank": (
        'torch.device("cuda", self.local_rank)',
        'torch.device("cuda", self.rank)',
        "D4",
    ),
    "device 0": ('torch.device("cuda", self.local_rank)', 'torch.device("cuda:0")', "D4"),
    "device_ids rank": ("device_ids=[self.local_rank]", "device_ids=[self.rank]", "D4"),
    "no set_device": (
        """\
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
""",
        "",
        "D5",
    ),
    "no destroy": (
        """\
    trainer.fit()
    dist.destroy_process_group()
""",
        """\
    trainer.fit()
""",
        "D8",
    ),
    "no timeout": (", timeout=timedelta(minutes=15)", "", "D9"),
    "seed equal": (
        """\
torch.manual_seed(seed + self.rank)
        np.random.seed(seed + self.rank)
        random.seed(seed + self.rank)""",
        """\
torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)""",
        "S6",
    ),
    "sampler seed by rank": (
        "seed=self.config.seed, drop_last",
        "seed=self.config.seed + self.rank, drop_last",
        "S3",
    ),
    "sampler for one replica": (
        "dataset, shuffle=True, seed",
        "dataset, num_replicas=1, rank=0, shuffle=True, seed",
        "S1",
    ),
    "sampler by local rank": (
        "dataset, shuffle=True, seed",
        """\
dataset, num_replicas=self.world_size, rank=self.local_rank, shuffle=True, seed""",
        "S1",
    ),
    "no set_epoch": (
        """\
            self.train_loader.sampler.set_epoch(epoch)
""",
        "",
        "S2",
    ),
    "set_epoch of a constant": (
        "sampler.set_epoch(epoch)",
        "sampler.set_epoch(self.config.seed)",
        "S2",
    ),
    "set_epoch after": (
        """\
            self.train_loader.sampler.set_epoch(epoch)
            self.train_epoch()
""",
        """\
            self.train_epoch()
            self.train_loader.sampler.set_epoch(epoch)
""",
        "S2",
    ),
    "val sampler pads": (
        "sampler = range(self.rank, len(dataset), self.world_size)",
        "sampler = DistributedSampler(dataset, shuffle=False)",
        "S8",
    ),
    "val share by local rank": (
        "range(self.rank, len(dataset), self.world_size)",
        "range(self.local_rank, len(dataset), self.world_size)",
        "S1",
    ),
    "no sync never": (
        """\
        context = nullcontext() if sync else self.model.no_sync()
""",
        """\
        context = nullcontext()
""",
        "G3",
    ),
    "no sync inverted": (
        "nullcontext() if sync else self.model.no_sync()",
        "self.model.no_sync() if sync else nullcontext()",
        "G1",
    ),
    "forward outside no_sync": (
        """\
        with context:
            with torch.autocast("cuda", dtype=torch.float16, enabled=self.config.amp):
                logits = self.model(images)
                loss = self.loss_fn(logits, masks)
            self.scaler""",
        """\
        with torch.autocast("cuda", dtype=torch.float16, enabled=self.config.amp):
            logits = self.model(images)
            loss = self.loss_fn(logits, masks)
        with context:
            self.scaler""",
        "G3",
    ),
    "zero in training_step": (
        "        images, masks = (part",
        """\
        self.optimizer.zero_grad()
        images, masks = (part""",
        "G4",
    ),
    "never cleared": (
        """\
        self.optimizer.zero_grad(set_to_none=True)
""",
        "",
        "G4",
    ),
    "last window dropped": (
        """\
            first = index - index % self.config.accumulate
            window = min(self.config.accumulate, count - first)
            last = index + 1 == first + window
""",
        """\
            window = self.config.accumulate
            last = (index + 1) % window == 0
""",
        "G5",
    ),
    "not divided": ("self.scaler.scale(loss / window)", "self.scaler.scale(loss)", "G2"),
    "clip scaled": (
        """\
        self.scaler.unscale_(self.optimizer)
""",
        "",
        "G7",
    ),
    "clip after step": (
        """\
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
""",
        """\
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
""",
        "G7",
    ),
    "scheduler in training_step": (
        """\
        return loss.detach()
""",
        """\
        self.scheduler.step()
        return loss.detach()
""",
        "G8",
    ),
    "scheduler times world": (
        """\
* self.config.epochs
""",
        """\
* self.config.epochs * self.world_size
""",
        "G8",
    ),
    "scheduler of micro-batches": (
        "-(-len(self.train_loader) // self.config.accumulate) * self.config.epochs",
        "len(self.train_loader) * self.config.epochs",
        "G8",
    ),
    "no update": (
        """\
        self.scaler.update()
""",
        "",
        "G9",
    ),
    "optimizer.step besides scaler": (
        "self.scaler.step(self.optimizer)",
        "self.optimizer.step()",
        "G9",
    ),
    "scaler not saved": (
        """\
                "scaler": trainer.scaler.state_dict(),
""",
        "",
        "G9",
    ),
    "bf16 with scaler": ("dtype=torch.float16", "dtype=torch.bfloat16", "G9"),
    "nan skipped by one rank": (
        """\
            self.scaler.scale(loss / window).backward()
""",
        """\
            if not torch.isfinite(loss):
                return loss.detach()
            self.scaler.scale(loss / window).backward()
""",
        "G10",
    ),
    "oom skipped by one rank": (
        """\
            loss = self.training_step(batch, window, sync=last)
""",
        """\
            try:
                loss = self.training_step(batch, window, sync=last)
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
                continue
""",
        "G10",
    ),
    "find_unused": (
        "device_ids=[self.local_rank])",
        "device_ids=[self.local_rank], find_unused_parameters=True)",
        "G11",
    ),
    "no sync bn after wrap": (
        """\
        self.model = DistributedDataParallel(self.raw_model, device_ids=[self.local_rank])
""",
        """\
        self.model = DistributedDataParallel(self.raw_model, device_ids=[self.local_rank])
        self.model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(self.model)
""",
        "B1",
    ),
    "all save": (
        """\
        if trainer.is_main:
            payload""",
        """\
        if True:
            payload""",
        "K1",
    ),
    "local rank saves": (
        """\
        if trainer.is_main:
            payload""",
        """\
        if trainer.local_rank == 0:
            payload""",
        "K1",
    ),
    "save wrapped": (
        '"model": trainer.raw_model.state_dict()',
        '"model": trainer.model.state_dict()',
        "K2",
    ),
    "optimizer not saved": (
        """\
                "optimizer": trainer.optimizer.state_dict(),
""",
        "",
        "K3",
    ),
    "scheduler not loaded": (
        """\
        self.scheduler.load_state_dict(saved["scheduler"])
""",
        "",
        "K3",
    ),
    "ema not loaded": (
        """\
        self.ema.shadow.load_state_dict(saved["ema"])
""",
        "",
        "K3",
    ),
    "ema not saved": (
        """\
                "ema": trainer.ema.shadow.state_dict(),
""",
        "",
        "K3",
    ),
    "best not loaded": (
        """\
        self.state.best = saved["best"]
""",
        "",
        "K3",
    ),
    "step not loaded": (
        """\
        self.state.step = saved["step"]
""",
        "",
        "K3",
    ),
    "rng of rank 0": ('saved["rng"][self.rank]', 'saved["rng"][0]', "K4"),
    "rng not gathered": (
        """\
        rng = [None] * trainer.world_size
        dist.all_gather_object(rng, trainer.rng_state())
""",
        """\
        rng = trainer.rng_state()
""",
        "K4",
    ),
    "rng gathered by rank 0": (
        """\
        rng = [None] * trainer.world_size
        dist.all_gather_object(rng, trainer.rng_state())
        if trainer.is_main:
""",
        """\
        if trainer.is_main:
            rng = [None] * trainer.world_size
            dist.all_gather_object(rng, trainer.rng_state())
""",
        "K8",
    ),
    "not atomic": (
        """\
        torch.save(payload, target + ".tmp")
        os.replace(target + ".tmp", target)
""",
        """\
        torch.save(payload, target)
""",
        "K5",
    ),
    "map_location missing": (
        ', map_location="cpu", weights_only=True',
        ", weights_only=True",
        "K7",
    ),
    "unsafe": (", weights_only=True", ", weights_only=False", "K7"),
    "barrier for the better": (
        """\
            if better:
                self.write(payload, "best.pt")
        dist.barrier()
""",
        """\
            if better:
                self.write(payload, "best.pt")
            dist.barrier()
""",
        "K8",
    ),
    "stop by rank 0": (
        """\
        stop = torch.tensor(int(state.bad >= self.patience), device=trainer.device)
        dist.broadcast(stop, src=0)
        trainer.stop = bool(stop.item())
""",
        """\
        if trainer.is_main:
            trainer.stop = state.bad >= self.patience
""",
        "K8",
    ),
    "resumes the saved epoch": ('"epoch": state.epoch + 1', '"epoch": state.epoch', "K10"),
    "skips an epoch": (
        'self.state.epoch = saved["epoch"]',
        'self.state.epoch = saved["epoch"] + 1',
        "K10",
    ),
    "prints on all": (
        """\
        if trainer.is_main:
            log.info("step""",
        """\
        if True:
            print("step""",
        "O1",
    ),
    "tqdm on all": (
        """\
from torch.utils.data import DataLoader, DistributedSampler
""",
        """\
from torch.utils.data import DataLoader, DistributedSampler
from tqdm import tqdm
""",
        "enumerate(self.train_loader):",
        "enumerate(tqdm(self.train_loader)):",
        "O1",
    ),
    "loss summed": ("dist.all_reduce(mean, op=dist.ReduceOp.AVG)", "dist.all_reduce(mean)", "O2"),
    "reduced by rank 0": (
        """\
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        self.total = None
        if trainer.is_main:
""",
        """\
        self.total = None
        if trainer.is_main:
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
""",
        "K8",
    ),
    "confusion of own": (
        """\
        dist.all_reduce(confusion)
""",
        "",
        "O2",
    ),
    "eval on rank 0": (
        """\
            self.state.logs = self.evaluate(self.ema.shadow)
""",
        """\
            if self.is_main:
                self.state.logs = self.evaluate(self.ema.shadow)
""",
        "O3",
    ),
    "eval without no_grad": (
        """\
    @torch.inference_mode()
    def evaluate""",
        "    def evaluate",
        "O8",
    ),
    "folder by time": ('"runs/seg"', 'f"runs/{time.time():.0f}"', "O5"),
    "frozen after wrap": (
        """\
    def fit(self):
""",
        """\
    def fit(self):
        for p in self.raw_model.stem.parameters():
            p.requires_grad = False
""",
        "G1",
    ),
    "glob unsorted with own split": (
        'sorted(Path(root, "images").glob("*.png"))',
        'list(Path(root, "images").glob("*.png"))',
        "S3",
    ),
    "shuffled by each rank": (
        """\
        self.transform = transform
""",
        """\
        self.transform = transform
        random.shuffle(self.images)
""",
        "S3",
    ),
    "dp": (
        "DistributedDataParallel(self.raw_model, device_ids=[self.local_rank])",
        "torch.nn.DataParallel(self.raw_model)",
        "D7",
    ),
    "prefix load": ('saved["model"])', 'saved["model"], strict=False)', "K3"),
}
# What may stand there instead: in turn the text that goes, and the text that comes.
RIGHT = {
    "manual sync flag": (
        """\
        context = nullcontext() if sync else self.model.no_sync()
        with context:
""",
        """\
        self.model.require_backward_grad_sync = sync
        if True:
""",
    ),
    "step in one method": (
        """\
    def call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)
""",
        """\
    def call(self, hook, *args):
        [getattr(c, hook)(self, *args) for c in self.callbacks]
""",
    ),
    "rank as property": (
        """\
        self.is_main = self.rank == 0
""",
        "",
        "    def seed_everything",
        """\
    @property
    def is_main(self):
        return self.rank == 0

    def seed_everything""",
    ),
    "unwrapped property": (
        "trainer.raw_model.state_dict(),",
        """\
(trainer.model.module if hasattr(trainer.model, 'module') else trainer.model).state_dict(),""",
    ),
    "batch moved by a method": (
        """\
        images, masks = (part.to(self.device, non_blocking=True) for part in batch)
""",
        """\
        images, masks = self.transfer(batch)
""",
        "    def optimizer_step",
        """\
    def transfer(self, batch):
        return tuple(map(lambda t: t.to(self.device, non_blocking=True), batch))

    def optimizer_step""",
    ),
    "evaluates with gathered objects": (
        """\
        dist.all_reduce(confusion)
""",
        """\
        every = [None] * self.world_size
        dist.all_gather_object(every, confusion.cpu())
        confusion = sum(every)
""",
    ),
    "stacked gather": (
        """\
        dist.all_reduce(confusion)
""",
        """\
        every = [torch.zeros_like(confusion) for _ in range(self.world_size)]
        dist.all_gather(every, confusion)
        confusion = torch.stack(every).sum(0)
""",
    ),
    "all agree on nan": (
        """\
            self.scaler.scale(loss / window).backward()
""",
        """\
            bad = (~torch.isfinite(loss)).float()
            dist.all_reduce(bad, op=dist.ReduceOp.MAX)
            if bad:
                loss = torch.nan_to_num(loss) * 0
            self.scaler.scale(loss / window).backward()
""",
    ),
    "step after the loop": (
        """\
        if self.is_main:
            log.info("epoch""",
        """\
        torch.cuda.synchronize()
        if self.is_main:
            log.info("epoch""",
    ),
    "early return of others": (
        """\
        if trainer.is_main:
            log.info("step %d loss %.4f", trainer.state.step, mean.item())
""",
        """\
        if not trainer.is_main:
            return
        log.info("step %d loss %.4f", trainer.state.step, mean.item())
""",
    ),
    "manual average": (
        """\
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
""",
        """\
        dist.all_reduce(mean)
        mean /= trainer.world_size
""",
    ),
    "broadcast list": (
        """\
        stop = torch.tensor(int(state.bad >= self.patience), device=trainer.device)
        dist.broadcast(stop, src=0)
        trainer.stop = bool(stop.item())
""",
        """\
        box = [state.bad >= self.patience]
        dist.broadcast_object_list(box, src=0)
        trainer.stop = box[0]
""",
    ),
    "stop by reduced metrics": (
        """\
        stop = torch.tensor(int(state.bad >= self.patience), device=trainer.device)
        dist.broadcast(stop, src=0)
        trainer.stop = bool(stop.item())
""",
        """\
        trainer.stop = state.bad >= self.patience
""",
    ),
    "padding cut": (
        "sampler = range(self.rank, len(dataset), self.world_size)",
        """\
even = range(len(dataset) // self.world_size * self.world_size)
            sampler = DistributedSampler(Subset(dataset, even), shuffle=False)""",
        """\
from torch.utils.data import DataLoader, DistributedSampler
""",
        """\
from torch.utils.data import DataLoader, DistributedSampler, Subset
""",
    ),
    "islice window": (
        """\
            first = index - index % self.config.accumulate
            window = min(self.config.accumulate, count - first)
            last = index + 1 == first + window
""",
        """\
            rest = count % self.config.accumulate
            window = self.config.accumulate if index < count - rest else rest
            last = (index + 1) % self.config.accumulate == 0 or index + 1 == count
""",
    ),
    "writes with pathlib": (
        """\
        torch.save(payload, target + ".tmp")
        os.replace(target + ".tmp", target)
""",
        """\
        part = f"{target}.part"
        torch.save(payload, part)
        os.rename(part, target)
""",
    ),
    "mmap load": (
        'torch.load(path, map_location="cpu", weights_only=True)',
        """\
torch.load(path, map_location=lambda storage, _: storage, weights_only=True)""",
    ),
    "destroy in finally": (
        """\
    trainer.fit()
    dist.destroy_process_group()
""",
        """\
    try:
        trainer.fit()
    finally:
        dist.destroy_process_group()
""",
    ),
}
