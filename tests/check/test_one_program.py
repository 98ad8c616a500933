"""One program without functions around its loop, and mistakes put into it: each has its row.

Such programs set a name in two branches, `if ddp:` and `else:`, and unwrap with
`model.module if ddp else model`.
"""

from pathlib import Path

import pytest

from check.planted import replaced, reported

PROGRAM = '''\
import os
from contextlib import nullcontext
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from network import Network

accumulation, batch_size, length, steps = 8, 12, 1024, 1000
ddp = "RANK" in os.environ
if ddp:
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    device = f"cuda:{local_rank}"
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=timedelta(minutes=5))
    main = rank == 0
else:
    rank = 0
    device = "cuda"
    main = True

torch.manual_seed(7 + rank)
tokens = torch.from_numpy(np.load("tokens.npy"))


def batch():
    """Draw samples."""
    starts = torch.randint(len(tokens) - length, (batch_size,))
    inputs = torch.stack([tokens[start : start + length] for start in starts])
    targets = torch.stack([tokens[start + 1 : start + 1 + length] for start in starts])
    return inputs.to(device), targets.to(device)


step, best = 0, 1e9
model = Network().to(device)
optimizer = torch.optim.AdamW(model.parameters())
if os.path.exists("state.pt"):
    state = torch.load("state.pt", map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
model = torch.compile(model)
if ddp:
    model = DDP(model, device_ids=[local_rank])
bare = model.module if ddp else model


@torch.no_grad()
def evaluate():
    """Return the mean loss over all ranks."""
    model.eval()
    total = torch.zeros((), device=device)
    for _ in range(10):
        _, loss = model(*batch())
        total += loss / 10
    if ddp:
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
    model.train()
    return total.item()


while step < steps:
    if step % 100 == 0:
        found = evaluate()
        if main:
            state = {
                "model": bare._orig_mod.state_dict(),
                "optimizer": optimizer.state_dict(),
                "step": step,
            }
            torch.save(state, "state.tmp")
            os.replace("state.tmp", "state.pt")
    for micro_step in range(accumulation):
        inputs, targets = batch()
        last = micro_step == accumulation - 1
        with model.no_sync() if ddp and not last else nullcontext():
            _, loss = model(inputs, targets)
            loss = loss / accumulation
            loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    step += 1
if ddp:
    dist.destroy_process_group()
'''
NETWORK = """\
import torch
from torch import nn
from torch.nn import functional


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50304, 64)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(64, 50304)

    def forward(self, inputs, targets):
        outputs = self.head(self.drop(self.embedding(inputs)))
        return outputs, functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
"""
DRAWS = PROGRAM[PROGRAM.index("torch.manual_seed") : PROGRAM.index("    inputs = torch.stack")]
DRAWS_OF_NUMPY = (
    DRAWS.replace("torch.manual_seed(7 + rank)", "torch.manual_seed(7 + rank)\nnp.random.seed(7)")
    .replace("torch.randint", "np.random.randint")
    .replace("(batch_size,)", "batch_size")
)
LOSS = "            loss.backward()\n"
# What is put in: the text that goes, the text that comes, and the row.
MISTAKES = {
    "one GPU in the branch with DDP": ('f"cuda:{local_rank}"', '"cuda:0"', "D4"),
    "the global rank's device": ("device_ids=[local_rank]", "device_ids=[rank]", "D4"),
    "rank 0 at each node": (
        'ddp = "RANK" in os.environ\n',
        'ddp = "RANK" in os.environ\nos.environ["MASTER_ADDR"] = "localhost"\n',
        "D10",
    ),
    "one seed for all": ("7 + rank", "7", "S6"),
    "numpy's draws, with one seed": (DRAWS, DRAWS_OF_NUMPY, "S1"),
    "seeded anew for each evaluation": (
        "    model.eval()",
        "    torch.manual_seed(0)\n    model.eval()",
        "S6",
    ),
    "forward of the bare model": (
        "_, loss = model(inputs, targets)",
        "_, loss = bare(inputs, targets)",
        "G1",
    ),
    "quiet in every micro-batch": ("if ddp and not last", "if ddp", "G1"),
    "quiet in the last micro-batch": ("if ddp and not last", "if ddp and last", "G1"),
    "weights that are not sent": (
        "device_ids=[local_rank]",
        "device_ids=[local_rank], init_sync=False",
        "G1",
    ),
    "undivided": ("            loss = loss / accumulation\n", "", "G2"),
    "cleared in each micro-batch": (LOSS, f"            optimizer.zero_grad()\n{LOSS}", "G4"),
    "clipped in each micro-batch": (
        LOSS,
        f"{LOSS}            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
        "G7",
    ),
    "no number is skipped": (
        LOSS,
        f"            if loss.isnan():\n                continue\n{LOSS}",
        "G10",
    ),
    "each rank's own metric ends the training": (
        "        found = evaluate()\n",
        "        losses = [loss_of(batch())]\n        if losses[0] > best:\n            break\n",
        "G10",
    ),
    "the first rank of each node saves": ("main = rank == 0", "main = local_rank == 0", "K1"),
    "names of the compiled model": ("bare._orig_mod.state_dict()", "bare.state_dict()", "K2"),
    "no moments": ('                "optimizer": optimizer.state_dict(),\n', "", "K3"),
    "the step is not read": ('    step = state["step"]\n', "", "K3"),
    "losses with their graphs": (
        LOSS,
        f"{LOSS}            history.append(loss)\n",
        "O14",
    ),
}


# What may stand there instead: in turn the text that goes, and the text that comes.
RIGHT = {
    "as it is": (),
    "not compiled": ("model = torch.compile(model)\n", "", "bare._orig_mod", "bare"),
    "unwrapped where there is a wrap": (
        "if ddp else model",
        'if hasattr(model, "module") else model',
    ),
    "told by the attribute": (
        "        with model.no_sync() if ddp and not last else nullcontext():\n",
        "        model.require_backward_grad_sync = last\n        if inputs is not None:\n",
    ),
    "counted from one": ("micro_step == accumulation - 1", "(micro_step + 1) % accumulation == 0"),
    "a generator of its own": (
        "    model.eval()",
        "    draws = torch.Generator().manual_seed(0)\n    model.eval()",
    ),
}


@pytest.mark.parametrize("title", RIGHT)
def test_program_is_right(title: str, tmp_path: Path) -> None:
    program = replaced(PROGRAM, *RIGHT[title])
    assert reported(tmp_path, {"network.py": NETWORK, "train.py": program}) == []


@pytest.mark.parametrize("title", MISTAKES)
def test_mistake_is_reported(title: str, tmp_path: Path) -> None:
    *changes, row = MISTAKES[title]
    program = replaced(PROGRAM, *changes)
    assert reported(tmp_path, {"network.py": NETWORK, "train.py": program}) == [row]
