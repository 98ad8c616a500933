"""Pairs of images and texts, each rank's against those of all ranks, and mistakes put into that."""

FILES = {
    "gather.py": '''\
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather as gather_with_gradient
from torch.nn import functional as F


def everyones(features: Tensor) -> Tensor:
    """The features of all ranks, in the order of ranks; gradients flow back to each rank."""
    return torch.cat(gather_with_gradient(features))


def contrastive(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    """Each rank scores its own pairs against the pairs of all ranks."""
    all_a, all_b = everyones(a), everyones(b)
    first = dist.get_rank() * len(a)
    labels = torch.arange(first, first + len(a), device=a.device)
    of_images = F.cross_entropy(scale * a @ all_b.T, labels)
    of_texts = F.cross_entropy(scale * b @ all_a.T, labels)
    return (of_images + of_texts) / 2
''',
    "pretrain.py": '''\
"""torchrun --nnodes 2 --nproc-per-node 8 pretrain.py --data /lab/pairs --out /lab/runs"""

import argparse
import math
import os
import signal
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torch.utils.tensorboard import SummaryWriter

from gather import contrastive
from towers import TwoTowers


class Pairs(Dataset):
    def __init__(self, root: Path, split: str) -> None:
        self.files = sorted((root / split).glob("*.pt"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int):
        pair = torch.load(self.files[index], weights_only=True)
        return pair["image"], pair["tokens"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=32)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--warmup", type=int, default=2000)
    return parser.parse_args()


def rate(step: int, warmup: int, total: int) -> float:
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


class Stop:
    def __init__(self, device: torch.device) -> None:
        self.asked = torch.zeros(1, device=device)
        self.heard = False
        signal.signal(signal.SIGTERM, self.hear)
        signal.signal(signal.SIGUSR1, self.hear)

    def hear(self, *_) -> None:
        self.heard = True

    def together(self) -> bool:
        self.asked.fill_(float(self.heard))
        dist.all_reduce(self.asked, op=dist.ReduceOp.MAX)
        return bool(self.asked.item())


def save(path: Path, model, optimizer, schedule, scaler, epoch: int, step: int) -> None:
    if dist.get_rank() == 0:
        state = {
            "model": model.module.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "scaler": scaler.state_dict(),
            "epoch": epoch,
            "step": step,
        }
        torch.save(state, path.with_suffix(".tmp"))
        os.replace(path.with_suffix(".tmp"), path)
    dist.barrier()


@torch.no_grad()
def recall(model, loader, device) -> float:
    """How many images find their own text among those of their batch."""
    model.eval()
    counts = torch.zeros(2, device=device)
    for images, tokens in loader:
        a, b, _ = model.module(images.to(device), tokens.to(device))
        best = (a @ b.T).argmax(1)
        counts[0] += (best == torch.arange(len(a), device=device)).sum()
        counts[1] += len(a)
    dist.all_reduce(counts)
    model.train()
    return (counts[0] / counts[1]).item()


def main() -> None:
    args = arguments()
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    dist.init_process_group("nccl", timeout=timedelta(minutes=15), device_id=device)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)

    model = TwoTowers(49408).to(device)
    model = DistributedDataParallel(model, device_ids=[local_rank])
    torch.manual_seed(7 + rank)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.2}, {"params": others, "weight_decay": 0.0}],
        lr=args.lr,
        betas=(0.9, 0.98),
    )
    train, val = Pairs(args.data, "train"), Pairs(args.data, "val")
    sampler = DistributedSampler(train, shuffle=True, drop_last=True)
    loader = DataLoader(
        train, args.batch, sampler=sampler, num_workers=8, pin_memory=True, drop_last=True
    )
    held_out = DataLoader(
        val, args.batch, sampler=list(range(rank, len(val), world)), num_workers=4
    )
    total = args.epochs * len(loader)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: rate(s, args.warmup, total)
    )
    scaler = torch.amp.GradScaler("cuda")

    newest = args.out / "last.pt"
    first_epoch, step = 0, 0
    if rank == 0:
        args.out.mkdir(parents=True, exist_ok=True)
    dist.barrier()
    if newest.exists():
        state = torch.load(newest, map_location="cpu", weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        scaler.load_state_dict(state["scaler"])
        first_epoch, step = state["epoch"], state["step"]
    writer = SummaryWriter(args.out / "tb") if rank == 0 else None
    stop = Stop(device)

    for epoch in range(first_epoch, args.epochs):
        sampler.set_epoch(epoch)
        seen = torch.zeros(2, device=device)
        for images, tokens in loader:
            images = images.to(device, non_blocking=True)
            tokens = tokens.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.float16):
                a, b, scale = model(images, tokens)
            loss = contrastive(a.float(), b.float(), scale)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scale_before = scaler.get_scale()
            scaler.update()
            if scaler.get_scale() >= scale_before:
                schedule.step()
            with torch.no_grad():
                model.module.log_scale.clamp_(0, math.log(100))
            seen += torch.stack((loss.detach(), torch.ones_like(loss)))
            step += 1
            if step % 100 == 0:
                dist.all_reduce(seen)
                if writer:
                    writer.add_scalar("loss", (seen[0] / seen[1]).item(), step)
                seen.zero_()
                if stop.together():
                    break
        if stop.together():
            save(newest, model, optimizer, schedule, scaler, epoch, step)
            break
        accuracy = recall(model, held_out, device)
        if writer:
            writer.add_scalar("recall", accuracy, step)
        save(newest, model, optimizer, schedule, scaler, epoch + 1, step)
    if writer:
        writer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
''',
    "towers.py": '''\
"""Image and text towers that meet in one space."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ImageTower(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 4, 3), nn.GELU(), nn.Conv2d(64, 128, 3, 2, 1), nn.GELU()
        )
        self.project = nn.Linear(128, dim)

    def forward(self, images: Tensor) -> Tensor:
        return self.project(self.stem(images).mean((2, 3)))


class TextTower(nn.Module):
    def __init__(self, vocabulary: int, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        layer = nn.TransformerEncoderLayer(dim, 8, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.encoder(self.embed(tokens))[:, -1]


class TwoTowers(nn.Module):
    def __init__(self, vocabulary: int, dim: int = 256) -> None:
        super().__init__()
        self.image = ImageTower(dim)
        self.text = TextTower(vocabulary, dim)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a = F.normalize(self.image(images), dim=-1)
        b = F.normalize(self.text(tokens), dim=-1)
        return a, b, self.log_scale.exp()
''',
}

RIGHT = {
    "gather without gradient, own part put back": (
        "    return torch.cat(gather_with_gradient(features))",
        """\
    parts = [torch.zeros_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features)
    parts[dist.get_rank()] = features
    return torch.cat(parts)""",
    ),
    "mkdir by all": (
        """\
    if rank == 0:
        args.out.mkdir(parents=True, exist_ok=True)
    dist.barrier()
""",
        """\
    args.out.mkdir(parents=True, exist_ok=True)
""",
    ),
    "no barrier before exists": (
        """\
    dist.barrier()
    if newest""",
        "    if newest",
    ),
}

# What is replaced in turn, and the row that is reported.
MISTAKES = {
    "gathered without a gradient": (
        "from torch.distributed.nn.functional import all_gather as gather_with_gradient",
        "",
        "    return torch.cat(gather_with_gradient(features))",
        """\
    parts = [torch.zeros_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features)
    return torch.cat(parts)""",
        "G1",
    ),
    "gathered into a tensor, without a gradient": (
        "    return torch.cat(gather_with_gradient(features))",
        """\
    every = features.new_empty(dist.get_world_size() * len(features), features.shape[1])
    dist.all_gather_into_tensor(every, features)
    return every""",
        "G1",
    ),
    "labels of rank 0": (
        """\
    first = dist.get_rank() * len(a)
    labels = torch.arange(first, first + len(a), device=a.device)""",
        "    labels = torch.arange(len(a), device=a.device)",
        "G1",
    ),
    "rank 0 alone limits the scale": (
        """\
            with torch.no_grad():
                model.module.log_scale""",
        """\
            if rank == 0:
                model.module.log_scale""",
        "G1",
    ),
    "losses keep their graphs": (
        "seen += torch.stack((loss.detach(), torch.ones_like(loss)))",
        "seen = seen + torch.stack((loss, torch.ones_like(loss)))",
        "O14",
    ),
    "reduced where the writer is": (
        """\
                dist.all_reduce(seen)
                if writer:
""",
        """\
                if writer:
                    dist.all_reduce(seen)
""",
        "K8",
    ),
    "rank 0's own loss is shown": (
        """\
                dist.all_reduce(seen)
                if writer:
""",
        """\
                if writer:
""",
        "O2",
    ),
    "all must have got the signal": (
        "op=dist.ReduceOp.MAX",
        "op=dist.ReduceOp.MIN",
        "K8",
    ),
    "the epoch is saved for nothing": (
        'first_epoch, step = state["epoch"], state["step"]',
        'step = state["step"]',
        "K3",
    ),
    "the epoch that is over": (
        """\
            save(newest, model, optimizer, schedule, scaler, epoch, step)
            break""",
        "            break",
        "epoch + 1, step)",
        "epoch, step)",
        "K10",
    ),
    "evaluated where the writer is": (
        """\
        accuracy = recall(model, held_out, device)
        if writer:
""",
        """\
        if writer:
            accuracy = recall(model, held_out, device)
""",
        "K8",
    ),
    "measured with dropout": (
        """\
    model.eval()
    counts""",
        "    counts",
        "O8",
    ),
    "dropout stays off": (
        """\
    model.train()
    return""",
        "    return",
        "O8",
    ),
    "pairs as the disk has them": (
        'sorted((root / split).glob("*.pt"))',
        'list((root / split).glob("*.pt"))',
        "S3",
    ),
    "the schedule is longer by the ranks": (
        "total = args.epochs * len(loader)",
        "total = args.epochs * len(loader) * world",
        "G8",
    ),
    "the schedule counts all samples": (
        "total = args.epochs * len(loader)",
        "total = args.epochs * len(train) // args.batch",
        "G8",
    ),
    "gathered without gradients": (
        "    all_a, all_b = everyones(a), everyones(b)",
        """\
    with torch.no_grad():
        all_a, all_b = everyones(a), everyones(b)""",
        "G1",
    ),
    "detached before the gathering": (
        "    all_a, all_b = everyones(a), everyones(b)",
        "    all_a, all_b = everyones(a.detach()), everyones(b.detach())",
        "G1",
    ),
    "the rate grows twice": (
        """\
        lr=args.lr,
        betas""",
        """\
        lr=args.lr * world * world,
        betas""",
        "G13",
    ),
}
