"""Gradients that travel in fewer bytes arrive, within the error that their type has."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import config
from engine import compression, distributed
from support import common, processes, reference

RANKS = 3
ROUNDING = {"bf16": 2.0**-8, "fp16": 2.0**-11}
LARGE = {"bf16": 1e4, "fp16": 1.0}  # bfloat16 has float32's range, float16 ends at 65504


def gradients(
    cfg: config.Config, passes: int, infinite: int = -1, scale: float = 1.0
) -> tuple[list[Tensor], list[Tensor]]:
    """A layer's gradients in each of several passes: this rank's own, and what DDP made of it.

    In the pass of the number `infinite` rank 0 finds no finite gradient.
    """
    own, reduced = [], []
    with distributed.session(cfg.ddp) as process:
        torch.manual_seed(process.rank)
        layer = nn.Linear(24, 16, bias=False, device=process.device)
        network = DistributedDataParallel(layer)
        compression.register(network, cfg.ddp)
        for number in range(passes):
            inputs = scale * torch.randn(5, 24, device=process.device)
            if (number, process.rank) == (infinite, 0):
                inputs.fill_(torch.inf)
            (plain,) = torch.autograd.grad(layer(inputs).square().sum(), layer.weight)
            own.append(plain.double().cpu())
            network.zero_grad()
            network(inputs).square().sum().backward()
            assert layer.weight.grad is not None
            reduced.append(layer.weight.grad.double().cpu())
    return own, reduced


@pytest.mark.parametrize("compress", ROUNDING)
def test_error_is_that_of_the_type(compress: str, tmp_path: Path) -> None:
    """At most one rounding per rank and one of the sum, of the mean magnitude."""
    cfg = common.settings(tmp_path, f"ddp.compress={compress}", "ddp.device=cpu")
    ranks = processes.run(RANKS, gradients, cfg, 2, -1, LARGE[compress])
    for step in range(2):
        each = torch.stack([own[step] for own, _ in ranks])
        bound = (RANKS + 1) * ROUNDING[compress] * each.abs().mean(0)
        for _, reduced in ranks:
            assert torch.equal(reduced[step], ranks[0][1][step]), "ranks differ"
            error = (reduced[step] - each.mean(0)).abs()
            assert bool((error <= bound + 1e-6).all()), "sent in another type than chosen"


def test_powersgd_loses_nothing_for_good(tmp_path: Path) -> None:
    """The values that were sent and those kept for the next step add up to the gradients.

    The first two passes send whole gradients; afterwards the sum of what arrived stays within one
    step's gradient of the sum that should have.
    """
    overrides = ["ddp.compress=powersgd", "ddp.powersgd_after=2", "ddp.powersgd_rank=2"]
    cfg = common.settings(tmp_path, *overrides)
    ranks = processes.run(RANKS, gradients, cfg, 12)
    means = [torch.stack([own[step] for own, _ in ranks]).mean(0) for step in range(12)]
    arrived = ranks[0][1]
    torch.testing.assert_close(arrived[0], means[0], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(arrived[4], means[4], rtol=1e-2), "nothing was left out"
    missing = sum(means) - sum(arrived)
    assert float(missing.norm()) < 3 * max(float(mean.norm()) for mean in means)
    for _, reduced in ranks:
        assert torch.equal(torch.stack(reduced), torch.stack(arrived)), "ranks differ"


def test_powersgd_forgets_what_is_not_finite(tmp_path: Path) -> None:
    """All ranks skip the step of a bad batch; its remainder is not added to the next steps."""
    overrides = ["ddp.compress=powersgd", "ddp.powersgd_after=2", "ddp.powersgd_rank=2"]
    cfg = common.settings(tmp_path, *overrides)
    for _, reduced in processes.run(RANKS, gradients, cfg, 6, 3):
        finite = [bool(gradient.isfinite().all()) for gradient in reduced]
        assert finite == [True, True, True, False, True, True], "every later step is skipped, too"


def test_powersgd_on_cpus_beside_gpus_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's hook would wait for a GPU, with the CPU as its number."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    network: Any = SimpleNamespace(device_type="cpu")
    with pytest.raises(config.ConfigError, match="CUDA_VISIBLE_DEVICES"):
        compression.register(network, common.settings(tmp_path, "ddp.compress=powersgd").ddp)


def hooks(cfg: config.Config) -> int:
    """How many hooks DDP is given when a training starts."""
    calls: list[int] = []
    common.replace(DistributedDataParallel, "register_comm_hook", lambda *_: calls.append(1))
    with reference.training(cfg):
        return len(calls)


def test_training_compresses_as_the_config_says(tmp_path: Path) -> None:
    """Its first step already; and not at all where nothing is chosen."""
    for compress, count in {"bf16": 1, "powersgd": 1, "none": 0}.items():
        found = processes.run(1, hooks, common.settings(tmp_path, f"ddp.compress={compress}"))
        assert found == [count], f"ddp.compress = {compress} is without effect, or with one"
