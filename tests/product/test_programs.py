"""Generated programs train for real, on two processes.

Which programs: `--programs`. Every value of each option that shapes the program, and every pair of
values, by default; each program is run once, however many combinations give it.
"""

import ast
import shutil
import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ddpgen.asking.question import Answers
from product import programs, template
from product.combinations import combinations, identifier, pairs, values
from product.training import (
    SAVE_EVERY,
    STEPS,
    check_history,
    column,
    compare,
    stop_and_resume,
    train,
)

# Small enough to evaluate in a moment; of sample-wise augmentation each world size draws its own.
SOURCE = {
    "gpt": [f"data.source={ast.__file__}"],
    "resnet": ["data.rotate=0.0", "data.zoom=0.0", "data.shift=0.0"],
}
# These say what is computed; whatever else is chosen must not change the losses.
WHAT_IS_COMPUTED = ("model", "batch_norm", "amp")
# Of the loss, relative. Two ranks round differently from one, as their micro-batches are smaller.
TOLERANCE = {"off": 2e-5, "bf16": 2e-2, "fp16": 4e-3}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "answers" in metafunc.fixturenames:
        chosen = selected(metafunc.config.getoption("--programs"))
        metafunc.parametrize("answers", chosen, ids=[identifier(answers) for answers in chosen])


def selected(how_many: str) -> list[Answers]:
    """The programs to run, as `--programs` says."""
    if how_many == "all":
        return list(programs.programs().values())
    chosen = pairs(combinations(programs.options()))
    if how_many == "untracked":
        every = programs.programs().values()
        chosen += [row for row in every if row["tracker"] == "none" and row not in chosen]
    return chosen


@pytest.fixture(scope="session")
def reference(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Any]]:
    """The history of the plainest program that computes the same, on as many ranks."""

    @cache
    def history_of(ranks: int, frozen: tuple[tuple[str, Any], ...]) -> list[Any]:
        folder = tmp_path_factory.mktemp("reference")
        template.write(dict(frozen), folder)
        return train(folder, ranks, settings(dict(frozen), shared))

    return lambda ranks, answers: history_of(ranks, tuple(answers.items()))


def settings(answers: Answers, shared: Path) -> list[str]:
    """Overrides that make a run small: those of the project's own tests, and the shared data."""
    tree = ast.parse(template.text("tests/support/common.py", answers) or "")
    assigned = {ast.unparse(n.targets[0]): n.value for n in tree.body if isinstance(n, ast.Assign)}
    model = str(answers["model"])
    return [
        *ast.literal_eval(assigned["SMALL"]),
        *SOURCE.get(model, []),
        f"data.folder={shared / model}",
        f"train.max_steps={STEPS}",
        "run.name=run",
        "optim.lr_scaling=none",  # the batch at which lr holds depends on accumulation
        *([f"checkpoint.every_steps={SAVE_EVERY}"] if answers["checkpoint"] else []),
        *(["log.track=true"] if answers["tracker"] != "none" else []),
    ]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow's, with its tables: to make these takes longer than a small training."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    folder = tmp_path_factory.mktemp("mlflow")
    SqlAlchemyStore(f"sqlite:///{folder}/mlflow.db", str(folder)).engine.dispose()
    return folder / "mlflow.db"


def test_program(
    answers: Answers,
    tmp_path: Path,
    shared: Path,
    reference: Callable[..., list[Any]],
    request: pytest.FixtureRequest,
) -> None:
    """Two ranks train, evaluate, save, resume and record; the losses are the plain program's."""
    project = tmp_path / "project"
    template.write(answers, project)
    if answers["tracker"] == "mlflow":
        for folder in ("runs", "dropping"):
            (project / folder).mkdir()
            shutil.copy(request.getfixturevalue("empty_database"), project / folder)
    again = f"python -m pytest --programs=all '{__file__}::test_program[{identifier(answers)}]'"
    print(f"{project}\nto repeat: {again}")
    overrides = settings(answers, shared)
    rows = train(project, 2, overrides)
    check_history(rows)

    ranks, plain = plainest(answers)
    compare(rows, reference(ranks, plain), TOLERANCE[str(answers["amp"])])
    if answers["dynamic_graph"]:
        dropping = train(project, 2, [*overrides, "model.layer_drop=0.5"], "dropping")
        assert column(dropping, "train_loss") != column(rows, "train_loss")
    if answers["checkpoint"]:
        stop_and_resume(project, 2, overrides, rows)
    check_record(project, str(answers["tracker"]))
    shutil.rmtree(project)


def plainest(answers: Answers) -> tuple[int, Answers]:
    """Ranks and answers of the program to compare with: one process, nothing else switched on.

    Where each rank normalises its own micro-batch, as BatchNorm does (on CPUs the synchronised one
    too), the comparison keeps ranks and micro-batches, and asks only for what remains.
    """
    kept, ranks = {*WHAT_IS_COMPUTED}, 1
    if answers.get("batch_norm", "group") != "group":
        kept, ranks = kept | {"accumulation"}, 2
    asked = template.QUESTIONS
    return ranks, {n: v if n in kept else values(asked[n])[0] for n, v in answers.items()}


def check_record(project: Path, tracker: str) -> None:
    """The tracker has the losses of all steps."""
    run = project / "runs" / "run"
    if tracker == "tensorboard":
        events = EventAccumulator(str(run / "tensorboard")).Reload()
        assert [event.step for event in events.Scalars("train_loss")] == [1, 2, 3, 4, 5, 6]
    elif tracker == "mlflow":
        with sqlite3.connect(run.parent / "mlflow.db") as database:
            query = "select distinct step from metrics where key = 'train_loss' order by step"
            assert [step for (step,) in database.execute(query)] == [1, 2, 3, 4, 5, 6]
    elif tracker == "wandb":
        records = list(run.glob("wandb/offline-run-*/run-*.wandb"))
        assert records
        assert all(b"train_loss" in record.read_bytes() for record in records)
