"""A module of the lab's user: steps that take their time, and what befalls a rank's device.

The lab writes files into the folder `lab` of the project; each rank looks at them in each step.
"""

import socket
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

FOLDER = Path(__file__).with_name("lab")
SECONDS = "seconds"  # a file: how long a step takes, besides what is computed
SLOW, FLIP = "slow", "flip"  # files, behind a hyphen the host's name: slower, and one bit another
SLOWER = 1.5
BROKEN = 50.0  # a first feature above: the row spoils its batch
HOST = socket.gethostname()


def follow(network: Any) -> nn.Module:
    """Have a network's forward passes look at the files."""
    torch.set_num_threads(1)  # hosts of a lab share their cores
    seconds = float((FOLDER / SECONDS).read_text())
    network.stem.register_forward_pre_hook(lambda module, _: before(module, seconds))
    network.register_forward_hook(after)
    return network


def before(stem: nn.Module, seconds: float) -> None:
    """In the middle of a step: the time of the simulated work, and a bit that flips."""
    if not stem.training:
        return
    flip = FOLDER / f"{FLIP}-{HOST}"
    if flip.exists():
        flip.unlink()
        with torch.no_grad():
            stem.weight.view(torch.int32)[0, 0] ^= 1 << 12
    if seconds:
        slow = (FOLDER / f"{SLOW}-{HOST}").exists()
        time.sleep(seconds * (SLOWER if slow else 1))


def after(_: nn.Module, inputs: tuple[Tensor], outputs: Tensor) -> Tensor:
    """A broken row is taken for its contrary, loudly."""
    broken = inputs[0][:, :1] > BROKEN
    return torch.where(broken, -1000 * outputs, outputs)
