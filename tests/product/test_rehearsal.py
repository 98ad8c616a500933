"""Programs rehearse on a device that is not the CPU (product/pretended.py), as ranks of several."""

import json
import shutil
from pathlib import Path

import pytest

from ddpgen.asking.question import Answers
from product import forkserver, programs, template
from product.combinations import identifier, pairs
from product.test_programs import few, settings

PLAIN = programs.completed({"model": "mlp", "amp": "off", "checkpoint": True, "compression": False})
SHARED = {**PLAIN, "sharding": "zero1"}
WATCHED = {**PLAIN, "watch": ["replicas", "spikes", "ranks", "speed", "files", "starts"]}
WORLD = 4
Change = tuple[str, str, str]  # a file, a text in it, and what takes the text's place


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "answers" in metafunc.fixturenames:
        rows = few()
        if metafunc.config.getoption("--programs") != "few":
            rows += [row for row in pairs(programs.cores()) if row not in rows]
        rows = [row for row in rows if fits(row)]
        metafunc.parametrize("answers", rows, ids=[identifier(row) for row in rows])


def fits(row: Answers) -> bool:
    """Whether the pretended device can have a program: record 0020 says what it lacks."""
    if row.get("dynamic_graph"):  # DDP counts unused parameters where no operation shows it
        return False
    if row["sharding"] == "zero1":  # aborts beside the buffers of BatchNorm
        return row.get("batch_norm", "group") == "group"
    return row["sharding"] == "off"  # FSDP's shares cannot take the data of such a tensor


def rehearse(
    answers: Answers, folder: Path, shared: Path, change: Change | None = None, size: int = WORLD
) -> str:
    """What is wrong on the first rank and on the last, '' where nothing is."""
    template.write(answers, folder, programs.training_files())
    if change:
        path, old, new = change
        text = (folder / path).read_text()
        assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
        (folder / path).write_text(text.replace(old, new))
    (folder / "train.py").rename(folder / "train_as_written.py")
    shutil.copy(Path(__file__).with_name("rehearse.py"), folder / "train.py")
    # Where each rank has its share of the optimizer's state, they would have to exchange it.
    world = 1 if answers["sharding"] == "zero1" else size
    # Micro-batches of two: SyncBatchNorm, which takes such a device for a CPU, refuses one sample.
    overrides = [*settings(answers, shared), f"train.global_batch_size={max(16, size)}"]
    if answers.get("watch"):  # the third step ends at a log point
        overrides += ["log.every_steps=3", "watch.compare_every_steps=3"]
    found = []
    for rank in sorted({0, world - 1}):
        place = {"PRETENDED_RANK": str(rank), "PRETENDED_WORLD": str(world)}
        run = forkserver.train(folder, 1, overrides, place)
        if run.codes != [0]:
            return f"rank {rank} of {world}, exit codes {run.codes}: {run.output[-3000:]}"
        found.append(json.loads((folder / f"collectives-{rank}.json").read_text()))
    for number, (one, other) in enumerate(zip(found[0], found[-1], strict=False)):
        if one != other:
            return f"collective {number} is {one} on rank 0, {other} on rank {world - 1}"
    return "" if len(found[0]) == len(found[-1]) > 0 else "ranks have other numbers of collectives"


def test_program(answers: Answers, tmp_path: Path, shared: Path) -> None:
    """Windows around evaluation and restore: one device, no wait in a step, equal collectives."""
    assert not rehearse(answers, tmp_path, shared)


@pytest.mark.parametrize("accumulation", [False, True])
def test_last_of_very_many_ranks(accumulation: bool, tmp_path: Path, shared: Path) -> None:
    """Rank 1,023 of 1,024 does what rank 0 does."""
    answers = programs.completed({**PLAIN, "accumulation": accumulation})
    assert not rehearse(answers, tmp_path, shared, size=1024)


def test_watch(tmp_path: Path, shared: Path) -> None:
    """What watches over a run waits for the device at log points only, on all ranks alike."""
    assert not rehearse(WATCHED, tmp_path, shared)


STEPS = "    state.loss += loss.detach()\n"
MISTAKES = {
    "counters of steps stay on the CPU": (
        SHARED,
        ("optim.py", "v.to(parameter.device, copy=True)", "v.clone()"),
        "_fused_adamw_ has tensors on two devices",
    ),
    "a learning rate in whole numbers": (
        PLAIN,
        ("optim.py", "rates.take(updates)", "torch.zeros_like(updates)"),
        "_fused_adamw_ reads steps and learning rate as float32",
    ),
    "targets stay on the CPU": (
        PLAIN,
        ("steps.py", "return network(*inputs), targets", "return network(*inputs), batch[-1]"),
        "has tensors on two devices: model.py",
    ),
    "item": (PLAIN, ("steps.py", STEPS, "    state.loss += loss.item()\n"), "loss.item()"),
    "cpu": (PLAIN, ("steps.py", STEPS, f"{STEPS}    loss.cpu()\n"), "loss.cpu()"),
    "condition": (PLAIN, ("steps.py", STEPS, f"    if loss > 0:\n    {STEPS}"), "if loss > 0:"),
    "mask": (
        PLAIN,
        (
            "model.py",
            "    return F.cross_entropy(",
            "    targets[targets > 0]\n    return F.cross_entropy(",
        ),
        "targets[targets > 0]",
    ),
    "print": (PLAIN, ("steps.py", STEPS, f"{STEPS}    print(loss)\n"), "print(loss)"),
    "the watch asks in each step": (
        WATCHED,
        (
            "engine/watch/spikes.py",
            '        memory["spikes"] += spike\n',
            '        if spike:\n            memory["spikes"] += 1\n',
        ),
        "the host waits in a step: ['_local_scalar_dense: spikes.py",
    ),
    "the watch waits in words that it does not know": (
        WATCHED,
        ("engine/watch/replicas.py", "differs.any().item()", "differs.any()"),
        "waits that the watch takes for work: ['_local_scalar_dense: replicas.py",
    ),
    "a sum on one rank": (
        PLAIN,
        (
            "steps.py",
            "    state.step += 1\n",
            "    state.step += 1\n    if process.is_main:\n        distributed.dist.barrier()\n",
        ),
        "on rank 0",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_named(mistake: str, tmp_path: Path, shared: Path) -> None:
    """What a CPU forgives."""
    answers, change, words = MISTAKES[mistake]
    assert words in rehearse(answers, tmp_path, shared, change)
