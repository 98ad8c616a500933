"""A trainer in a file of its own that shares weights out, and mistakes put into it."""

from pathlib import Path

import pytest

from check.planted import replaced, reported

FILES = {
    "main.py": """\
import sys

from trainer import Trainer

if __name__ == "__main__":
    Trainer(sys.argv[1], steps=1000, accumulation=4).train()
""",
    "network.py": """\
import torch
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50304, 64)
        self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.head = nn.Linear(64, 50304, bias=False)

    def init_weights(self):
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def forward(self, inputs):
        hidden = self.embedding(inputs)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.head(hidden)
""",
    "samples.py": "class Samples(list):\n    pass\n",
    "trainer.py": """\
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, DistributedSampler

from network import Network
from samples import Samples


class Trainer:
    def __init__(self, folder, steps, accumulation):
        self.folder, self.steps, self.accumulation = folder, steps, accumulation
        self.rank = int(os.environ.get("RANK", 0))
        self.local_rank = int(os.environ.get("LOCAL_RANK", 0))
        self.world_size = int(os.environ.get("WORLD_SIZE", 1))
        self.device = torch.device("cuda", self.local_rank)
        torch.cuda.set_device(self.device)
        dist.init_process_group("nccl", timeout=timedelta(minutes=5))
        torch.manual_seed(7)
        self.model = self.build()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)
        samples = Samples(folder)
        self.sampler = DistributedSampler(samples, num_replicas=self.world_size, rank=self.rank)
        self.loader = DataLoader(samples, 8, sampler=self.sampler)
        self.step = 0

    def build(self):
        with torch.device("meta"):
            model = Network()
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model.blocks:
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        model.to_empty(device="cuda")
        model.init_weights()
        return model

    def train(self):
        if os.path.exists(self.folder):
            self.resume()
        self.model.train()
        epoch = 0
        while self.step < self.steps:
            self.sampler.set_epoch(epoch)
            for batches in self.loader:
                self.one_step(batches)
                if self.step % 100 == 0:
                    self.save()
            epoch += 1
        dist.destroy_process_group()

    def one_step(self, batches):
        total = torch.zeros((), device=self.device)
        for number, (inputs, targets) in enumerate(batches):
            inputs, targets = inputs.to(self.device), targets.to(self.device)
            self.model.set_requires_gradient_sync(number == len(batches) - 1)
            outputs = self.model(inputs).flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(outputs, targets.flatten()) / len(batches)
            loss.backward()
            total += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()
        self.step += 1
        if self.step % 10 == 0:
            dist.all_reduce(total, op=dist.ReduceOp.AVG)
            if self.rank == 0:
                print(self.step, total.item(), norm)

    def state(self):
        model, optimizer = states.get_state_dict(self.model, self.optimizer)
        return {
            "model": model,
            "optimizer": optimizer,
            "scheduler": self.scheduler.state_dict(),
            "step": self.step,
        }

    def save(self):
        dcp.save(self.state(), checkpoint_id=f"{self.folder}/{self.step:08d}")

    def resume(self):
        state = self.state()
        dcp.load(state, checkpoint_id=self.folder)
        states.set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.scheduler.load_state_dict(state["scheduler"])
        self.step = state["step"]
""",
}
TRAINER = FILES["trainer.py"]
SYNC = "number == len(batches) - 1"
SAVE = 'dcp.save(self.state(), checkpoint_id=f"{self.folder}/{self.step:08d}")'
LOCAL_NORM = (
    "torch.stack([p.grad.to_local().norm() for p in self.model.parameters()]).norm()\n"
    "        for parameter in self.model.parameters():\n"
    "            parameter.grad.mul_(1 / norm)"
)
# What is put in: the text that goes, the text that comes, and the row.
MISTAKES = {
    "the whole is forgotten": ("        fully_shard(model, mp_policy=policy)\n", "", "F2"),
    "no blocks": (
        "        for block in model.blocks:\n            fully_shard(block, mp_policy=policy)\n",
        "",
        "F5",
    ),
    "summed in bfloat16": ("reduce_dtype=torch.float32", "reduce_dtype=torch.bfloat16", "F7"),
    "never summed": (SYNC, "False", "F6"),
    "all but the last are summed": (SYNC, SYNC.replace("==", "!="), "F6"),
    "all are summed": (f"            self.model.set_requires_gradient_sync({SYNC})\n", "", "F6"),
    "a norm of this rank's shares": (
        "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)",
        LOCAL_NORM,
        "F3",
    ),
    "rank 0 saves alone": (SAVE, f"if self.rank == 0:\n            {SAVE}", "F4"),
    "rank 0 saves its shares": (
        SAVE,
        'if self.rank == 0:\n            torch.save(self.model.state_dict(), f"{self.step}.pt")',
        "F4",
    ),
    "nobody waits for the save": (SAVE, SAVE.replace("save", "async_save"), "K16"),
    "weights of each rank's own": ("manual_seed(7)", "manual_seed(7 + self.rank)", "F8"),
    "memory that nothing fills": ("        model.init_weights()\n", "", "F8"),
    "filled, then made anew": (
        '        model.to_empty(device="cuda")\n        model.init_weights()\n',
        '        model.init_weights()\n        model.to_empty(device="cuda")\n',
        "F8",
    ),
    "tied afterwards": (
        "        return model\n",
        "        model.head.weight = model.embedding.weight\n        return model\n",
        "G14",
    ),
    "one rank skips": (
        "            loss.backward()\n",
        "            if loss.isnan():\n                continue\n            loss.backward()\n",
        "G10",
    ),
    "no moments": ('            "optimizer": optimizer,\n', "", "K3"),
    "no schedule": ('            "scheduler": self.scheduler.state_dict(),\n', "", "K3"),
    "no step": ('        self.step = state["step"]\n', "", "K3"),
    "rank 0 looks at outputs": ("print(self.step", "print(self.model(inputs)", "O3"),
    "shares of a node": (
        "num_replicas=self.world_size, rank=self.rank",
        "num_replicas=torch.cuda.device_count(), rank=self.local_rank",
        "S1",
    ),
}


def test_program_of_a_class_that_inherits_is_read(tmp_path: Path) -> None:
    started = """\
from trainer import Trainer


class Own(Trainer):
    \"\"\"With another name.\"\"\"


Own("samples", 1000, 4).train()
"""
    trainer = replaced(TRAINER, "reduce_dtype=torch.float32", "reduce_dtype=torch.bfloat16")
    assert reported(tmp_path, FILES | {"main.py": started, "trainer.py": trainer}) == ["F7"]


def test_program_is_right(tmp_path: Path) -> None:
    assert reported(tmp_path, FILES) == []


@pytest.mark.parametrize("title", MISTAKES)
def test_mistake_is_reported(title: str, tmp_path: Path) -> None:
    *changes, row = MISTAKES[title]
    changed = {"trainer.py": replaced(TRAINER, *changes)}
    assert reported(tmp_path, FILES | changed) == [row]
