"""One to four ranks compute what plain PyTorch computes on the joined batch; metrics, scikit-learn.

It is put into a generated project, whose own test_step.py demands losses, norms and weights of
whole batches in float64. Here are float32, gradients, and targets that are masked at random.
"""

import functools
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import config
import data
import model
import pytest
import steps
import torch
import train
from engine import distributed, loading
from support import common, processes, reference
from torch import Tensor, nn
from torch.distributed.elastic.utils.distributed import create_c10d_store
from torch.distributed.tensor import DTensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader, Subset

SAMPLES = 53  # of an epoch: four steps of 12, and one of 5
WORLDS = (1, 2, 3, 4)
# The global batch has 12 samples, whose sums are added up in another order: at most 12 roundings of
# eps / 2 here, and as many there. Measured: less than 2 eps, of all families and worlds.
SUMS = 12 * torch.finfo(torch.float32).eps
# AdamW divides by the gradient's size: where the gradient of an element is nothing but rounding,
# the element goes anywhere within a step of 1e-3, and all later gradients with the element. In
# float32 this is added to the size. Without, gradients differed by 2 to 70 eps, by the kind of CPU.
ADAM_EPS = 1e-3
WEIGHTS = 1e-6  # measured: less than 2e-7


class Case(NamedTuple):
    """How a training is computed, and what two of them may differ by."""

    double: bool
    masked: bool
    sums: float  # losses and norms, relative to them
    gradients: float  # of any element, relative to the norm
    weights: float


WHOLE = Case(double=False, masked=False, sums=SUMS, gradients=SUMS, weights=WEIGHTS)
CASES = {
    "float32": WHOLE,
    "float32, masked": WHOLE._replace(masked=True),
    "float64, masked": Case(double=True, masked=True, sums=1e-10, gradients=1e-10, weights=1e-10),
}


CLIPPING = ("clip_grad_norm_", "clip_grads_with_norm_")  # a project's step calls either
# What a case replaces.
REPLACED: list[tuple[Any, str]] = [
    (model, "build"),
    (reference, "in_double_precision"),
    (loading, "DataLoader"),
    (torch.optim.AdamW, "__init__"),
    *((nn.utils, name) for name in CLIPPING),
]


class Training(NamedTuple):
    """What a training did: the project's own record, and each step's clipped gradient."""

    record: reference.Record
    gradients: list[Tensor]


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


def mask(batch: data.Batch) -> data.Batch:
    """Keep a beginning of each sample's targets, or nothing, or all: its input says how much."""
    targets_of = batch.targets.view(len(batch.targets), -1)
    for sample, targets in zip(batch[0], targets_of, strict=True):
        number = zlib.crc32(sample.contiguous().numpy().tobytes())
        targets[number % (len(targets) + 2) :] = data.IGNORE
    return batch


def note_gradients() -> list[Tensor]:
    """The list that each step's gradient will be in, once it is clipped."""
    noted = list[Tensor]()
    for name in CLIPPING:
        common.replace(nn.utils, name, _noting(getattr(nn.utils, name), noted))
    return noted


def _noting(clip: Callable[..., Any], noted: list[Tensor]) -> Callable[..., Any]:
    """What clips, and then notes the gradient; the norm is given where it is known already."""

    def clip_and_note(parameters: Iterator[nn.Parameter], *rest: Any) -> Any:
        tensors = [p for p in parameters if p.grad is not None]
        norm = clip(tensors, *rest)
        noted.append(torch.cat([whole(p.grad).flatten() for p in tensors if p.grad is not None]))
        return norm

    return clip_and_note


def whole(tensor: Tensor) -> Tensor:
    """The tensor that the ranks share out, where they do."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def prepare(case: Case) -> None:
    """Compute as the case has it, from here on in this process."""
    if not case.double:
        common.replace(reference, "in_double_precision", in_single_precision)
        adam = torch.optim.AdamW
        common.replace(adam, "__init__", functools.partialmethod(adam.__init__, eps=ADAM_EPS))
    if case.masked:
        masking = functools.partial(DataLoader, collate_fn=mask)
        common.replace(loading, "DataLoader", masking)


@contextmanager
def alone(port: int) -> Iterator[None]:
    """What is done here to the project's modules ends here; ranks meet at a store of their own."""
    os.environ["MASTER_PORT"] = str(port)
    before = [(owner, name, getattr(owner, name)) for owner, name in REPLACED]
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


class Found(NamedTuple):
    """What a rank computed."""

    trainings: dict[str, Training]
    metrics: dict[str, float]
    outputs: Tensor
    targets: Tensor
    unit: float  # of errors, where a family reports them in the user's units


def record(cfg: config.Config, ports: list[int]) -> Found:
    """The project's steps, in all cases, and its evaluation."""
    trainings = {}
    for port, (name, case) in zip(ports, CASES.items(), strict=False):
        with alone(port):
            prepare(case)
            gradients = note_gradients()
            trainings[name] = Training(reference.record(cfg, SAMPLES), gradients)
    with alone(ports[-1]):
        return Found(trainings, *evaluated(cfg))


def by_hand(cfg: config.Config) -> dict[str, Training]:
    """The same steps in plain PyTorch: one process, the joined batch, the mean loss."""
    trainings = {}
    for name, case in CASES.items():
        with alone(0):
            prepare(case)
            gradients = note_gradients()
            trainings[name] = Training(reference.by_hand(cfg, SAMPLES), gradients)
    return trainings


@pytest.fixture(scope="module")
def cfg(tmp_path_factory: pytest.TempPathFactory) -> config.Config:
    return common.settings(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def expected(cfg: config.Config) -> dict[str, Training]:
    """The plain loop, in all cases."""
    found: dict[str, Training] = processes.run(1, by_hand, cfg)[0]
    return found


@pytest.fixture(scope="module")
def worlds(cfg: config.Config) -> dict[int, list[Found]]:
    """Every rank of every world: each is started once."""
    found = {}
    for size in WORLDS:
        stores = [open_store() for _ in [*CASES, "evaluation"]]
        found[size] = processes.run(size, record, cfg, [store.port for store in stores])
    return found


def open_store() -> Any:
    """As torchrun does it: the launcher serves the store, so a free port needs no luck."""
    return create_c10d_store(
        is_server=True, server_addr="127.0.0.1", server_port=0, wait_for_workers=False
    )


@pytest.mark.parametrize("name", CASES)
def test_ranks_equal_plain_loop(
    name: str, expected: dict[str, Training], worlds: dict[int, list[Found]]
) -> None:
    case = CASES[name]
    assert len(expected[name].gradients) == 5
    for size, of_ranks in worlds.items():
        for found in of_ranks:
            compare(found.trainings[name], expected[name], case, f"{size} ranks")


def compare(found: Training, expected: Training, case: Case, where: str) -> None:
    """Losses, norms, clipped gradients and weights are equal, as far as the case demands."""
    assert found.record.losses == pytest.approx(expected.record.losses, rel=case.sums), where
    assert found.record.norms == pytest.approx(expected.record.norms, rel=case.sums), where
    assert difference(found.record.weights, expected.record.weights) < case.weights, where
    for ours, theirs in zip(found.gradients, expected.gradients, strict=True):
        assert (ours - theirs).abs().max() < case.gradients * theirs.norm(), where


def difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference between two sets of weights."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def open_few(cfg: config.Data) -> data.Splits:
    """31 samples for validation, a number that no world of several ranks divides."""
    splits = common.open_splits(cfg)
    return splits._replace(val=Subset(splits.val, range(31)))


def within_bounds(build: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A model without the hook that makes outputs large: scikit-learn cuts small probabilities."""

    def build_within(*arguments: object) -> nn.Module:
        network = build(*arguments)
        network._forward_hooks.popitem()
        return network

    return build_within


def evaluated(cfg: config.Config) -> tuple[dict[str, float], Tensor, Tensor, float]:
    """The metrics of an untrained model, and this rank's outputs and targets, all in float64."""
    prepare(CASES["float64, masked"])
    reference.in_double_precision()
    common.replace(model, "build", within_bounds(model.build))
    with distributed.session(vars(cfg).get("ddp") or vars(cfg)["fsdp"]) as place:
        splits = open_few(cfg.data)
        loaders = loading.build(splits, cfg, place, loading.plan(cfg.train, place.world_size))
        network = train.start_state(cfg, splits.shape, place).model
        found = steps.evaluate(network, loaders.val, place.device)
        network.eval()
        with torch.no_grad():
            bare = getattr(network, "module", network)
            pairs = [steps.forward(bare, part, place.device) for part in loaders.val]
        outputs, targets = (torch.cat(tensors) for tensors in zip(*pairs, strict=True))
        counts = data.counts(targets)
        unit = getattr(splits.shape, "unit", 1.0)
        return found, outputs[counts], targets[counts], unit


def by_scikit_learn(outputs: Tensor, targets: Tensor, unit: float) -> dict[str, float]:
    """Every metric that a family may have."""
    from sklearn import metrics  # here alone: the ranks import this file, and have no use for it

    if targets.is_floating_point():
        error = metrics.mean_absolute_error(targets, outputs)
        return {
            "loss": metrics.mean_squared_error(targets, outputs),
            "absolute_error": error,
            "mae": unit * error,
            "rmse": unit * metrics.root_mean_squared_error(targets, outputs),
        }
    classes = range(outputs.size(-1))
    loss = metrics.log_loss(targets, outputs.softmax(-1).numpy(), labels=classes)
    bits = loss / torch.log(torch.tensor(2.0, dtype=torch.float64)).item()
    accuracy = metrics.accuracy_score(targets, outputs.argmax(-1))
    names = {"bits_per_byte": bits, "bits_per_token": bits, "accuracy": accuracy}
    return {"loss": loss, **names}


def test_metrics_are_those_of_scikit_learn(worlds: dict[int, list[Found]]) -> None:
    (whole,) = worlds[1]
    expected = by_scikit_learn(whole.outputs, whole.targets, whole.unit)
    for size, of_ranks in worlds.items():
        for found in of_ranks:
            assert len(found.metrics) >= 2
            wanted = {name: expected[name] for name in found.metrics}
            assert found.metrics == pytest.approx(wanted, rel=1e-10), f"{size} ranks"
