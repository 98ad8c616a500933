"""One to four ranks compute in float32 what plain PyTorch computes on the joined batch.

It is put into a generated project, whose own test_equality.py demands the same in float64.
"""

from pathlib import Path

import common
import config
import model
import pytest
import ranks
import reference
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

STEPS = 5
# The global batch has 12 samples, whose sums are added up in another order: at most 12 roundings of
# eps / 2 here, and as many there. Measured: less than 2 eps, of all families and worlds.
SUMS = 12 * torch.finfo(torch.float32).eps
# AdamW divides by the gradient's size, so that an element whose gradient is almost nothing may go
# anywhere within one step of 1e-3. Measured: less than 1e-5, and mostly one bit.
WEIGHTS = 1e-4


def in_single_precision() -> None:
    """The model as it is, but normalised as in float64: by its running statistics."""
    build = model.build

    def build_frozen(*arguments: object) -> nn.Module:
        network = build(*arguments)
        for module in network.modules():
            if isinstance(module, _BatchNorm):
                module.register_forward_pre_hook(reference.freeze)
        return network

    common.replace(model, "build", build_frozen)


def record(cfg: config.Config, first: int) -> reference.Record:
    """The project's steps."""
    common.replace(reference, "in_double_precision", in_single_precision)
    return reference.record(cfg, first, STEPS)


def by_hand(cfg: config.Config, first: int) -> reference.Record:
    """The same in plain PyTorch: one process, the joined batch, the mean loss."""
    common.replace(reference, "in_double_precision", in_single_precision)
    return reference.by_hand(cfg, first, STEPS)


@pytest.mark.parametrize("first", [0, -2], ids=["first steps", "end of the epoch"])
def test_ranks_equal_plain_loop(first: int, tmp_path: Path) -> None:
    cfg = common.settings(tmp_path)
    (expected,) = ranks.run(1, by_hand, cfg, first)
    for size in (1, 2, 3, 4):
        for found in ranks.run(size, record, cfg, first):
            assert found.losses == pytest.approx(expected.losses, rel=SUMS), size
            assert found.norms == pytest.approx(expected.norms, rel=SUMS), size
            assert common.difference(found.weights, expected.weights) < WEIGHTS, size
