"""Two networks against each other, each with its optimizer, and mistakes put into their training.

A comprehension wraps them both.
"""

FILES = {
    "nets.py": """\
import torch
from torch import nn


def block(inside: int, outside: int, norm: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(inside, outside, 4, 2, 1, bias=not norm)]
    if norm:
        layers.append(nn.BatchNorm2d(outside))
    return nn.Sequential(*layers, nn.LeakyReLU(0.2, inplace=True))


class Critic(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(
            block(3, width, False), block(width, 2 * width), block(2 * width, 4 * width)
        )
        self.head = nn.Linear(4 * width, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images).mean((2, 3))).squeeze(1)


class Painter(nn.Module):
    def __init__(self, latent: int = 128, width: int = 64) -> None:
        super().__init__()
        self.enter = nn.Linear(latent, 4 * width * 8 * 8)
        self.body = nn.Sequential(
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 3, 3, padding=1),
            nn.Tanh(),
        )
        self.width = width

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.body(self.enter(z).view(len(z), 4 * self.width, 8, 8))
""",
    "train.py": '''\
"""Train a GAN on all GPUs of a node: torchrun --nproc-per-node=8 train.py --data /data/faces"""

import argparse
import json
import os
import pathlib
from datetime import timedelta

import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms

import nets

LATENT = 128


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="runs/gan", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--patience", type=int, default=5)
    parser.add_argument("--seed", type=int, default=3)
    return parser.parse_args()


def parallel(net, local_rank):
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net).cuda(local_rank)
    return DistributedDataParallel(net, device_ids=[local_rank], broadcast_buffers=False)


def penalty(critic, real, fake):
    mix = torch.rand(len(real), 1, 1, 1, device=real.device)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (gradient,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((gradient.flatten(1).norm(dim=1) - 1) ** 2).mean()


def score(critic, loader, device):
    """Mean score of held-out images over all ranks."""
    critic.eval()
    sums = torch.zeros(2, device=device, dtype=torch.float64)
    with torch.inference_mode():
        for images, _ in loader:
            found = critic.module(images.to(device))
            sums += torch.stack(
                [
                    found.double().sum(),
                    torch.tensor(float(len(found)), device=device, dtype=torch.float64),
                ]
            )
    critic.train()
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()


def main():
    args = arguments()
    rank, local_rank = (int(os.environ.get(name, 0)) for name in ("RANK", "LOCAL_RANK"))
    torch.cuda.set_device(local_rank)
    dist.init_process_group(
        backend="nccl",
        timeout=timedelta(minutes=10),
        device_id=torch.device("cuda", local_rank),
    )
    device = torch.device("cuda", local_rank)
    torch.manual_seed(args.seed)
    painter, critic = (
        parallel(net, local_rank) for net in (nets.Painter(LATENT), nets.Critic())
    )
    torch.manual_seed(args.seed + rank)
    opt_p = torch.optim.Adam(painter.parameters(), lr=args.lr, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=args.lr, betas=(0.0, 0.9))
    augment = transforms.Compose(
        [transforms.Resize(32), transforms.CenterCrop(32), transforms.ToTensor()]
    )
    folders = {
        split: torchvision.datasets.ImageFolder(f"{args.data}/{split}", augment)
        for split in ("train", "val")
    }
    sampler = DistributedSampler(folders["train"], seed=args.seed, drop_last=True)
    loader = DataLoader(
        folders["train"],
        args.batch,
        sampler=sampler,
        num_workers=8,
        pin_memory=True,
        drop_last=True,
    )
    held_out = DataLoader(
        folders["val"],
        args.batch,
        sampler=range(rank, len(folders["val"]), dist.get_world_size()),
        num_workers=4,
    )
    first, best, waited = 0, float("inf"), 0
    newest = args.out / "newest.pt"
    if newest.exists():
        saved = torch.load(newest, map_location=device, weights_only=True)
        painter.module.load_state_dict(saved["painter"])
        critic.module.load_state_dict(saved["critic"])
        opt_p.load_state_dict(saved["opt_p"])
        opt_c.load_state_dict(saved["opt_c"])
        first, best, waited = saved["epoch"] + 1, saved["best"], saved["waited"]
    if rank == 0:
        args.out.mkdir(parents=True, exist_ok=True)
    dist.barrier()

    for epoch in range(first, args.epochs):
        sampler.set_epoch(epoch)
        losses = torch.zeros(2, device=device)
        for number, (real, _) in enumerate(loader):
            real = real.to(device, non_blocking=True) * 2 - 1
            with torch.no_grad():
                fake = painter(torch.randn(len(real), LATENT, device=device))
            both = critic(torch.cat([real, fake]))
            loss_c = (
                both[len(real) :].mean()
                - both[: len(real)].mean()
                + 10 * penalty(critic.module, real, fake)
            )
            opt_c.zero_grad(set_to_none=True)
            loss_c.backward()
            opt_c.step()
            losses[0] += loss_c.detach()
            if number % 5 == 4:
                loss_p = -critic(painter(torch.randn(len(real), LATENT, device=device))).mean()
                opt_p.zero_grad(set_to_none=True)
                loss_p.backward()
                opt_p.step()
                losses[1] += loss_p.detach()
        dist.all_reduce(losses, op=dist.ReduceOp.AVG)
        value = abs(score(critic, held_out, device))
        best, waited = (value, 0) if value < best else (best, waited + 1)
        if rank == 0:
            mean_c, mean_p = (losses / len(loader)).tolist()
            with (args.out / "history.jsonl").open("a") as file:
                file.write(
                    json.dumps(
                        {"epoch": epoch, "critic": mean_c, "painter": mean_p, "score": value}
                    )
                    + "\\n"
                )
            state = {
                "painter": painter.module.state_dict(),
                "critic": critic.module.state_dict(),
                "opt_p": opt_p.state_dict(),
                "opt_c": opt_c.state_dict(),
                "epoch": epoch,
                "best": best,
                "waited": waited,
            }
            torch.save(state, newest.with_suffix(".tmp"))
            os.replace(newest.with_suffix(".tmp"), newest)
        dist.barrier()
        if waited >= args.patience:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
''',
}

# Changes of the program that are right.
RIGHT: dict[str, tuple[str, ...]] = {}

# What is replaced in turn, and the row that is reported.
MISTAKES = {
    "the critic around DDP": (
        "both = critic(torch.cat([real, fake]))",
        "both = critic.module(torch.cat([real, fake]))",
        "G1",
    ),
    "the painter around DDP": (
        "loss_p = -critic(painter(torch.randn",
        "loss_p = -critic(painter.module(torch.randn",
        "G1",
    ),
    "one of two optimizers is never cleared": (
        """\
            opt_c.zero_grad(set_to_none=True)
""",
        "",
        "G4",
    ),
    "own loss decides": (
        """\
            if number % 5 == 4:
""",
        """\
            if loss_c.item() < 0.5:
""",
        "G10",
    ),
    "own draw decides": (
        """\
            if number % 5 == 4:
""",
        """\
            if torch.rand(()) < 0.2:
""",
        "G10",
    ),
    "score of one rank": (
        """\
    dist.all_reduce(sums)
    return""",
        "    return",
        "O2",
    ),
    "stays in evaluation mode": (
        """\
    critic.train()
    dist.all_reduce(sums)""",
        "    dist.all_reduce(sums)",
        "O8",
    ),
    "sampler of another split": (
        'sampler = DistributedSampler(folders["train"], seed=args.seed, drop_last=True)',
        'sampler = DistributedSampler(folders["val"], seed=args.seed, drop_last=True)',
        "S3",
    ),
    "one network's weights for both": (
        'critic.module.load_state_dict(saved["critic"])',
        'critic.module.load_state_dict(saved["painter"])',
        "K3",
    ),
    "resume on rank 0 alone": (
        """\
    if newest.exists():
""",
        """\
    if rank == 0 and newest.exists():
""",
        "K7",
    ),
    "nobody steps the painter": (
        "                opt_p.step()\n",
        "",
        "G1",
    ),
    "both optimizers are the painter's": (
        "opt_c = torch.optim.Adam(critic.parameters()",
        "opt_c = torch.optim.Adam(painter.parameters()",
        "G1",
    ),
    "a mean of each rank's score": (
        "    dist.all_reduce(sums)\n    return (sums[0] / sums[1]).item()",
        """\
    mean = sums[0] / sums[1]
    dist.all_reduce(mean)
    return (mean / dist.get_world_size()).item()""",
        "G6",
    ),
    "rank 0's own losses are written": (
        "        dist.all_reduce(losses, op=dist.ReduceOp.AVG)\n",
        "",
        "O2",
    ),
}
