"""A student that learns from a teacher and from tar files, with compiled DDP; mistakes put into it.

An operator of Kubernetes starts it.
"""

FILES = {
    "streams.py": '''\
import io
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

import torch
from PIL import Image
from torch.utils.data import IterableDataset, get_worker_info


class Shards(IterableDataset):
    """Samples of tar files: each worker of each rank has files of its own."""

    def __init__(self, folder: Path, rank: int, world: int, seed: int, transform):
        self.files = sorted(folder.glob("*.tar"))
        self.rank, self.world, self.seed, self.transform = rank, world, seed, transform
        self.epoch = 0

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        order = list(self.files)
        random.Random(f"{self.seed} {self.epoch}").shuffle(order)
        own = order[self.rank * workers + number :: self.world * workers]
        while True:
            for file in own:
                yield from self.samples(file)

    def samples(self, file: Path):
        with tarfile.open(file) as archive:
            for member in archive:
                if member.name.endswith(".jpg"):
                    label = int(member.name.split("/")[-1].split("_")[0])
                    with Image.open(io.BytesIO(archive.extractfile(member).read())) as image:
                        yield self.transform(image.convert("RGB")), label
''',
    "loop.py": """\
import dataclasses
import functools
import os
import sys
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import timm
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from torchvision.transforms import v2

from streams import Shards


@dataclasses.dataclass
class Config:
    shards: Path = Path("/scratch/imagenet")
    out: Path = Path("/shared/distill")
    student: str = "resnet50"
    teacher: str = "vit_large_patch16_224"
    steps: int = 50_000
    steps_per_epoch: int = 1250
    micro: int = 64
    windows: int = 2
    lr: float = 1e-3
    heat: float = 4.0
    tasks: tuple[str, ...] = ("label", "teacher")
    compile: bool = True
    every: int = 50


class Student(nn.Module):
    def __init__(self, name: str, classes: int = 1000) -> None:
        super().__init__()
        self.body = timm.create_model(name, num_classes=0)
        self.heads = nn.ModuleDict(
            {task: nn.Linear(self.body.num_features, classes) for task in ("label", "teacher")}
        )

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        features = checkpoint(self.body, images, use_reentrant=False)
        return {task: head(features) for task, head in self.heads.items()}


def lr_at(step: int, total: int) -> float:
    warm = total // 20
    return (step + 1) / warm if step < warm else max(0.0, (total - step) / (total - warm))


def losses(
    outputs: dict[str, Tensor], labels: Tensor, wise: Tensor, heat: float
) -> dict[str, Tensor]:
    soft = F.kl_div(
        F.log_softmax(outputs["teacher"].float() / heat, -1),
        F.softmax(wise.float() / heat, -1),
        reduction="batchmean",
    )
    return {
        "label": F.cross_entropy(outputs["label"].float(), labels),
        "teacher": soft * heat**2,
    }


class Logger:
    def __init__(self, folder: Path, active: bool) -> None:
        self.writer = SummaryWriter(folder) if active else None

    def __call__(self, step: int, **values: float) -> None:
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(name, value, step)


def run(cfg: Config) -> int:
    local = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", timeout=timedelta(minutes=10))
    rank, world, device = dist.get_rank(), dist.get_world_size(), torch.device(f"cuda:{local}")
    if local == 0:
        timm.create_model(cfg.teacher, pretrained=True)
    dist.barrier()
    teacher = (
        timm.create_model(cfg.teacher, pretrained=True).to(device).eval().requires_grad_(False)
    )
    torch.manual_seed(0)
    student = Student(cfg.student).to(device)
    ema = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    model = DDP(student, device_ids=[local])
    torch.manual_seed(1 + rank)
    if cfg.compile:
        model = torch.compile(model)
    optimizer = torch.optim.SGD(
        student.parameters(), lr=cfg.lr * world, momentum=0.9, weight_decay=5e-5
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, functools.partial(lr_at, total=cfg.steps)
    )
    scaler = torch.amp.GradScaler("cuda")
    transform = v2.Compose(
        [
            v2.PILToTensor(),
            v2.RandomResizedCrop(224),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
        ]
    )
    data = Shards(cfg.shards, rank, world, seed=11, transform=transform)
    loader = DataLoader(
        data, batch_size=cfg.micro, num_workers=8, pin_memory=True, drop_last=True
    )
    logger = Logger(cfg.out / "tb", rank == 0)
    step = 0
    path = cfg.out / "last.pt"
    if path.is_file():
        state = torch.load(path, map_location="cpu", weights_only=True)
        student.load_state_dict(state["student"])
        ema.load_state_dict(state["ema"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        scaler.load_state_dict(state["scaler"])
        step = state["step"]
    dist.barrier()
    while step < cfg.steps:
        data.epoch = step // cfg.steps_per_epoch
        stream = iter(loader)
        for _ in range(min(cfg.steps_per_epoch - step % cfg.steps_per_epoch, cfg.steps - step)):
            sums = dict.fromkeys(cfg.tasks, torch.zeros((), device=device))
            for micro in range(cfg.windows):
                images, labels = (x.to(device, non_blocking=True) for x in next(stream))
                with torch.no_grad(), torch.autocast("cuda", torch.float16):
                    wise = teacher(images)
                sync = nullcontext() if micro == cfg.windows - 1 else model.no_sync()
                with sync:
                    with torch.autocast("cuda", torch.float16):
                        outputs = model(images)
                    parts = losses(outputs, labels, wise, cfg.heat)
                    loss = sum(parts[task] for task in cfg.tasks) / cfg.windows
                    scaler.scale(loss).backward()
                sums = {
                    task: sums[task] + parts[task].detach() / cfg.windows for task in cfg.tasks
                }
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(student.parameters(), 5.0)
            scale = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            if scaler.get_scale() >= scale:
                scheduler.step()
            ema.update_parameters(student)
            step += 1
            if step % cfg.every == 0:
                packed = torch.stack([*sums.values(), norm])
                dist.all_reduce(packed, dist.ReduceOp.SUM)
                values = (packed / world).tolist()
                logger(step, **dict(zip([*cfg.tasks, "norm"], values)))
        if rank == 0:
            state = {
                "student": student.state_dict(),
                "ema": ema.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "scaler": scaler.state_dict(),
                "step": step,
            }
            partial = path.with_name("last.partial")
            torch.save(state, partial)
            os.replace(partial, path)
        dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(run(Config()))
""",
    "job.yaml": """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: distill
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: pytorch
              image: registry.example/distill:1.4
              command: [torchrun, --nnodes=4, --nproc-per-node=8, loop.py]
              resources: {limits: {nvidia.com/gpu: 8, memory: 400Gi}}
              volumeMounts: [{name: shm, mountPath: /dev/shm}]
          volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}]
    Worker:
      replicas: 3
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: pytorch
              image: registry.example/distill:1.4
              command: [torchrun, --nnodes=4, --nproc-per-node=8, loop.py]
              resources: {limits: {nvidia.com/gpu: 8, memory: 400Gi}}
              volumeMounts: [{name: shm, mountPath: /dev/shm}]
          volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}]
""",
}

# Changes of the program that are right.
RIGHT: dict[str, tuple[str, ...]] = {
    "other dealing": (
        "own = order[self.rank * workers + number :: self.world * workers]",
        "own = order[number * self.world + self.rank :: self.world * workers]",
    ),
}

# What is replaced in turn, and the row that is reported.
MISTAKES = {
    "the loss is not scaled": (
        "scaler.scale(loss).backward()",
        "loss.backward()",
        "G9",
    ),
    "the scaler is not saved": (
        """\
                "scaler": scaler.state_dict(),
""",
        "",
        """\
        scaler.load_state_dict(state["scaler"])
""",
        "",
        "G9",
    ),
    "the average is not saved": (
        """\
                "ema": ema.state_dict(),
""",
        "",
        """\
        ema.load_state_dict(state["ema"])
""",
        "",
        "K3",
    ),
    "fewer pods than nodes": (
        "      replicas: 3",
        "      replicas: 2",
        "L2",
    ),
    "the schedule is longer by the ranks": (
        "total=cfg.steps)",
        "total=cfg.steps * world)",
        "G8",
    ),
}
