"""The need of memory, computed before the run, counts all tensors, and grows as it must."""

from pathlib import Path

import torch

import config
import data
import model
from support import common
from tools.memory import __main__ as memory
from tools.memory import accounting

CPU = torch.device("cpu")


def test_estimate_counts_what_is_there(tmp_path: Path) -> None:
    """Weights and a micro-batch are counted byte for byte; what is zero is not said."""
    cfg = common.settings(tmp_path)
    found = memory.estimate(cfg, 2, CPU)
    splits = data.open_splits(cfg.data)
    network = model.build(cfg.model, splits.shape)
    weights = sum(map(memory.nbytes, network.parameters()))
    trained = sum(memory.nbytes(p) for p in network.parameters() if p.requires_grad)
    buffers = sum(map(memory.nbytes, network.buffers()))
    batch = splits.val.__getitems__(list(range(found.micro_batch)))
    assert found.parts["parameters"] == weights + buffers
    assert found.parts["gradients"] >= trained
    assert found.parts["batch"] == sum(map(memory.nbytes, batch))
    assert found.parts["activations"] > 0
    assert found.total >= sum(found.parts.values())
    said = memory.table(found, CPU)
    assert all((words in said) == (found.parts[name] > 0) for name, words in memory.WORDS.items())


def test_what_fits_fits(tmp_path: Path) -> None:
    """The largest micro-batch takes what is usable, and one for no memory does not exist."""
    cfg = common.settings(tmp_path)
    room = 10 * memory.estimate(cfg, 2, CPU).total
    largest = memory.fitting(cfg, 2, CPU, room)
    needed = memory.estimate(cfg, 2, CPU, largest).total
    assert 0.8 * room * memory.USABLE < needed < 1.05 * room * memory.USABLE
    assert memory.fitting(cfg, 2, CPU, 0) == 0


def test_accounting_forgets_what_was_freed(tmp_path: Path) -> None:
    """A tensor counts once, views or not, as long as it lives."""
    cfg: config.Config = common.settings(tmp_path)
    splits = data.open_splits(cfg.data)
    network = model.build(cfg.model, splits.shape)
    with accounting.Accounting(network, splits.val.__getitems__([0]), CPU) as book:
        values = torch.zeros(1000)
        view = values[:10]
        assert book.alive["activations"] == 4000
        del values
        assert book.alive["activations"] == 4000
        del view
        assert book.alive["activations"] == 0
        assert book.fullest["activations"] == 4000
