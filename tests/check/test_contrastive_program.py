"""A contrastive training on a stream of files, with averaged weights, and mistakes put into it.

The loss is over the samples of all ranks, which gather their features; the stream deals its files
out to ranks and workers by itself.
"""

from pathlib import Path

import pytest

from check.planted import replaced, reported

PROGRAM = """\
import copy
import json
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from towers import ImageTower, TextTower


class Pairs(IterableDataset):
    def __init__(self, files, rank, world, seed):
        self.files, self.rank, self.world, self.seed = files, rank, world, seed
        self.epoch = 0

    def __iter__(self):
        info = get_worker_info()
        workers, worker = (info.num_workers, info.id) if info else (1, 0)
        order = torch.randperm(
            len(self.files), generator=torch.Generator().manual_seed(self.seed + self.epoch)
        )
        share = self.rank * workers + worker
        count = self.world * workers
        usable = len(order) // count * count
        for index in order[share:usable:count].tolist():
            with open(self.files[index]) as file:
                for line in file:
                    sample = json.loads(line)
                    yield torch.tensor(sample["image"]), torch.tensor(sample["text"])


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = ImageTower(), TextTower()
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, images, texts):
        return (
            F.normalize(self.image(images), dim=-1),
            F.normalize(self.text(texts), dim=-1),
            self.scale.exp(),
        )


def gather(features):
    parts = [torch.empty_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features.contiguous())
    parts[dist.get_rank()] = features
    return torch.cat(parts)


def contrastive(image, text, scale):
    images, texts = gather(image), gather(text)
    logits = scale * images @ texts.T
    labels = torch.arange(len(logits), device=logits.device)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    return loss * dist.get_world_size()


class Ema:
    def __init__(self, model, decay=0.999):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for own, new in zip(self.model.parameters(), model.parameters(), strict=True):
            own.lerp_(new, 1 - self.decay)
        for own, new in zip(self.model.buffers(), model.buffers(), strict=True):
            own.copy_(new)


stop_asked = False


def ask(signum, frame):
    global stop_asked
    stop_asked = True


def should_stop(device):
    flag = torch.tensor([int(stop_asked)], device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag.item())


@torch.no_grad()
def recall(model, loader, device):
    model.eval()
    images, texts = [], []
    for image, text in loader:
        image, text, _ = model(image.to(device), text.to(device))
        images.append(image)
        texts.append(text)
    everything = [None] * dist.get_world_size()
    dist.all_gather_object(everything, (torch.cat(images).cpu(), torch.cat(texts).cpu()))
    image = torch.cat([part[0] for part in everything])
    text = torch.cat([part[1] for part in everything])
    model.train()
    return ((image @ text.T).argmax(1) == torch.arange(len(image))).float().mean().item()


def main():
    rank = int(os.environ.get("RANK", 0))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=timedelta(minutes=10), device_id=device)
    world = dist.get_world_size()
    signal.signal(signal.SIGUSR1, ask)
    torch.manual_seed(3)
    raw = Clip().to(device)
    ema = Ema(raw)
    model = DDP(raw, device_ids=[local_rank])
    torch.manual_seed(3 + rank)
    decay = [p for p in raw.parameters() if p.ndim > 1]
    rest = [p for p in raw.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=5e-4
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-4, total_steps=10000)
    train = Pairs(sorted(Path("train").glob("*.jsonl")), rank, world, 3)
    loader = DataLoader(train, batch_size=32, num_workers=2, drop_last=True)
    held = DataLoader(Pairs(sorted(Path("val").glob("*.jsonl")), rank, world, 3), batch_size=32)
    step, epoch = 0, 0
    path = Path("runs/clip/state.pt")
    if path.exists():
        state = torch.load(path, map_location="cpu", weights_only=True)
        raw.load_state_dict(state["model"])
        ema.model.load_state_dict(state["ema"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        step, epoch = state["step"], state["epoch"]
        torch.set_rng_state(state["rng"][rank])
    while step < 10000:
        train.epoch = epoch
        for images, texts in loader:
            image, text, scale = model(images.to(device), texts.to(device))
            loss = contrastive(image, text, scale)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            ema.update(raw)
            with torch.no_grad():
                raw.scale.clamp_(0, 4.6052)
            step += 1
            if step % 100 == 0:
                shown = loss.detach() / world
                dist.all_reduce(shown, op=dist.ReduceOp.AVG)
                if rank == 0:
                    print(step, shown.item(), flush=True)
            stop = should_stop(device) if step % 20 == 0 else False
            if step % 1000 == 0 or stop:
                rngs = [None] * world
                dist.all_gather_object(rngs, torch.get_rng_state())
                if rank == 0:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    state = {
                        "model": raw.state_dict(),
                        "ema": ema.model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "schedule": schedule.state_dict(),
                        "step": step,
                        "epoch": epoch,
                        "rng": rngs,
                    }
                    torch.save(state, path.with_suffix(".tmp"))
                    os.replace(path.with_suffix(".tmp"), path)
                dist.barrier()
            if stop or step == 10000:
                break
        if stop:
            break
        epoch += 1
        found = recall(ema.model, held, device)
        if rank == 0:
            print(epoch, found, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
TOWERS = """\
from torch import nn


class ImageTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 64, 3, stride=2),
            nn.GroupNorm(8, 64),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(64 * 31 * 31, 128),
        )

    def forward(self, images):
        return self.net(images)


class TextTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30000, 128)
        self.layer = nn.TransformerEncoderLayer(128, 4, dropout=0.1, batch_first=True)

    def forward(self, texts):
        return self.layer(self.embedding(texts)).mean(1)
"""
SEEDED = """torch.randperm(
            len(self.files), generator=torch.Generator().manual_seed(self.seed + self.epoch)
        )"""
FORWARD = "            image, text, scale = model(images.to(device), texts.to(device))\n"
PUT_BACK = "parts[dist.get_rank()] = features"
SUMMED = "            stop = should_stop(device) if step % 20 == 0 else False\n"
STATES = """\
                rngs = [None] * world
                dist.all_gather_object(rngs, torch.get_rng_state())
"""
# What is put in: in turn the text that goes and the text that comes, and the row.
MISTAKES = {
    "a loss without gradients": (f"    {PUT_BACK}\n", "", "G1"),
    "features without a graph": (PUT_BACK, f"{PUT_BACK}.detach()", "G1"),
    "features at rank 0's place": ("parts[dist.get_rank()]", "parts[0]", "G1"),
    "features at the local rank's place": (
        "parts[dist.get_rank()]",
        "parts[int(os.environ.get('LOCAL_RANK', 0))]",
        "G1",
    ),
    "parts of the model around DDP": (
        FORWARD,
        """\
            image = model.module.image(images.to(device))
            text = model.module.text(texts.to(device))
            scale = model.module.scale.exp()
""",
        "G1",
    ),
    "a weight that rank 0 alone limits": (
        "            with torch.no_grad():\n                raw.scale.clamp_(0, 4.6052)\n",
        "            if rank == 0:\n                raw.scale.data.clamp_(0, 4.6052)\n",
        "G1",
    ),
    "an average on rank 0": (
        "            ema.update(raw)\n",
        "            if rank == 0:\n                ema.update(raw)\n",
        "O2",
    ),
    "batches by rank": ("train, batch_size=32", "train, batch_size=32 if rank else 64", "S7"),
    "shares of unequal lengths": (
        "usable = len(order) // count * count",
        "usable = len(order)",
        "S7",
    ),
    "an order of each worker": (SEEDED, "torch.randperm(len(self.files))", "S3"),
    "files as they come": (
        'sorted(Path("train").glob("*.jsonl"))',
        'list(Path("train").glob("*.jsonl"))',
        "S3",
    ),
    "an epoch that nobody sets": ("        train.epoch = epoch\n", "", "S2"),
    "workers that stay": ("drop_last=True)", "drop_last=True, persistent_workers=True)", "S2"),
    "shares by the local rank": ('glob("*.jsonl")), rank,', 'glob("*.jsonl")), local_rank,', "S1"),
    "one seed for all": ("    torch.manual_seed(3 + rank)\n", "", "S6"),
    "a file of each rank": (
        "runs/clip/state.pt",
        "runs/clip/state.pt').with_suffix(f'.{rank}",
        "K7",
    ),
    "weights of rank 0 alone": (
        '        raw.load_state_dict(state["model"])\n',
        '        if rank == 0:\n            raw.load_state_dict(state["model"])\n',
        "K7",
    ),
    "one random state": ('state["rng"][rank]', 'state["rng"][0]', "K4"),
    "random states that nobody reads": (
        '        torch.set_rng_state(state["rng"][rank])\n',
        "",
        "K4",
    ),
    "a schedule that stays": ("            schedule.step()\n", "", "G8"),
    "a schedule times the ranks": ("total_steps=10000", "total_steps=10000 * world", "G8"),
    "a schedule by the ranks": ("total_steps=10000", "total_steps=10000 // world", "G8"),
    "each rank's own signal": (SUMMED, "            stop = stop_asked\n", "K8"),
    "each rank's own clock": (
        "if stop or step == 10000:",
        "if stop or step == 10000 or time.time() > begun + 3600:",
        "K8",
    ),
}
# What may stand there instead: in turn the text that goes, and the text that comes.
RIGHT = {
    "as it is": (),
    "counts without a remainder": (
        "        usable = len(order) // count * count\n",
        "        order = order[: len(order) - len(order) % count]\n",
        "order[share:usable:count]",
        "order[share::count]",
    ),
    "a number that the process shares": (
        "drop_last=True)",
        "drop_last=True, persistent_workers=True)",
        "self.epoch = 0",
        "self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()",
    ),
    "a loss of the program's own": (
        FORWARD,
        f"{FORWARD}            loss = model.module.penalty(image) + loss\n",
    ),
    "a measurement of what was gathered": (
        f"    {PUT_BACK}\n",
        "",
        "images, texts = gather(image), gather(text)",
        "images, texts = gather(image.detach()), gather(text.detach())",
    ),
    "a clock that all agree on": (SUMMED, f"{SUMMED}            stop = should_stop(device)\n"),
}


@pytest.mark.parametrize("title", RIGHT)
def test_program_is_right(title: str, tmp_path: Path) -> None:
    program = replaced(PROGRAM, *RIGHT[title])
    assert reported(tmp_path, {"towers.py": TOWERS, "train.py": program}) == []


@pytest.mark.parametrize("title", MISTAKES)
def test_mistake_is_reported(title: str, tmp_path: Path) -> None:
    *changes, row = MISTAKES[title]
    program = replaced(PROGRAM, *changes)
    assert {*reported(tmp_path, {"towers.py": TOWERS, "train.py": program})} == {row}
