"""Generated programs train for real, on two processes.

Every core (product/programs.py), and every form of what is separable, in ranks that stay
(product/pool.py); every pair of values in ranks of their own, from their start to their exit.
`--programs` chooses more, or fewer.
"""

import ast
import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import filterfalse
from pathlib import Path

import filelock
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ddpgen.asking.question import Answers
from product import forkserver, programs, template
from product.combinations import identifier, values
from product.pool import Pool
from product.training import (
    SAVE_EVERY,
    STEPS,
    History,
    Starter,
    check_history,
    column,
    compare,
    stop_and_resume,
    train,
)

# Small enough to evaluate in a moment, some 33 samples where that is long, which two ranks share
# unevenly; of sample-wise augmentation each world size draws its own.
SOURCE = {
    "mlp": ["data.source=wine"],
    "gpt": [f"data.source={ast.__file__}"],
    "causal-lm": ["data.validation=0.02"],
    "text-classifier": ["data.validation=0.0066"],
    "resnet": ["data.validation=0.0184", "data.rotate=0.0", "data.zoom=0.0", "data.shift=0.0"],
    "vision": ["data.validation=0.0184", "data.crop=0.0", "data.jitter=0.0", "model.width=32"],
    "custom": ["data.validation=0.05"],
}
# These say what is computed; whatever else is chosen must not change the losses.
WHAT_IS_COMPUTED = ("model", "lora", "batch_norm", "amp")
# Warnings of DDP, whose first pass may happen to use all parameters, and inside MLflow.
UNAVOIDABLE = "find_unused_parameters=True was specified|SADeprecationWarning"
# Of the loss, relative. Two ranks round differently from one, as their micro-batches are smaller.
TOLERANCE = {"off": 2e-5, "bf16": 2e-2, "fp16": 4e-3}
# FSDP gathers weights in bfloat16, so that each rank's gradients are rounded to 8 bits before they
# are summed. The loss stays near; the norm of a gradient that has become small does not.
NORMS_OF_SHARES = 1e-1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "answers" in metafunc.fixturenames:
        how_many = metafunc.config.getoption("--programs")
        choose = resident if metafunc.function is test_program else processes
        chosen = choose(how_many)
        metafunc.parametrize("answers", chosen, ids=[identifier(answers) for answers in chosen])


def resident(how_many: str) -> list[Answers]:
    """The programs that are trained in ranks that stay."""
    if how_many == "few":
        return few()
    if how_many == "pairs":
        return []
    if how_many == "all":
        return [*programs.alone(), *programs.forms()]
    return [*programs.cores(), *programs.parts()]


def processes(how_many: str) -> list[Answers]:
    """The programs that are trained in ranks of their own."""
    return few()[:1] if how_many == "few" else programs.every_pair()


def few() -> list[Answers]:
    """The default program of each model."""
    named = programs.options()
    contexts = [template.context({"model": m}) for m in template.QUESTIONS["model"].values]
    defaults = [{name: seen[name] for name in named} for seen in contexts]
    rows = programs.cores()
    return [next(row for row in rows if row.items() <= default.items()) for default in defaults]


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """The ranks of this worker."""
    ranks = Pool()
    yield ranks
    ranks.close()


@pytest.fixture(scope="session")
def reference(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., History]:
    """The history of the plainest program that computes the same, on as many ranks.

    Answers that give the same files, as how to save where nothing is saved, have one. It is trained
    once, for all workers.
    """
    paths = programs.training_files()

    @cache
    def history_of(ranks: int, frozen: str) -> History:
        answers: Answers = json.loads(frozen)  # as a text, because an answer may be a list
        overrides = settings(answers, shared)
        decides = ranks, overrides, dict(template.project(answers, paths))
        digest = hashlib.sha256(repr(decides).encode()).hexdigest()[:16]
        kept = shared / f"reference-{digest}.json"
        with filelock.FileLock(kept.with_suffix(".lock")):
            if not kept.exists():
                folder = tmp_path_factory.mktemp("reference")
                template.write(answers, folder, paths)
                rows = train(folder, ranks, overrides)
                kept.write_text(json.dumps(rows))
        found: History = json.loads(kept.read_text())
        return found

    return lambda ranks, answers: history_of(ranks, json.dumps(answers))


def settings(answers: Answers, shared: Path) -> list[str]:
    """Overrides that make a run small: those of the project's own tests, and the shared data."""
    model = str(answers["model"])
    return [
        *_small(template.text("tests/support/common.py", answers) or ""),
        *SOURCE.get(model, []),
        f"data.folder={shared / model}",
        f"train.max_steps={STEPS}",
        "run.name=run",
        "optim.lr_scaling=none",  # the batch at which lr holds depends on accumulation
        *([f"checkpoint.every_steps={SAVE_EVERY}"] if answers["checkpoint"] else []),
        *(["log.track=true"] if answers["tracker"] != "none" else []),
    ]


@cache
def _small(common: str) -> list[str]:
    body = ast.parse(common).body
    lines = [node for node in body if isinstance(node, ast.Assign | ast.AugAssign)]
    parts = [node.value for node in lines if ast.unparse(node).startswith("SMALL ")]
    return [override for part in parts for override in ast.literal_eval(part)]


@pytest.fixture(scope="session")
def empty_database(shared: Path) -> Path:
    """MLflow's, with its tables: to make these takes longer than a small training.

    It is made once, for all workers.
    """
    folder = shared / "mlflow"
    made = folder / "mlflow.db"
    with filelock.FileLock(shared / "mlflow.lock"):
        if not made.exists():
            from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

            folder.mkdir(exist_ok=True)
            begun = folder / "begun.db"
            SqlAlchemyStore(f"sqlite:///{begun}", str(folder)).engine.dispose()
            begun.rename(made)
    return made


def test_program(
    answers: Answers,
    tmp_path: Path,
    shared: Path,
    reference: Callable[..., History],
    pool: Pool,
    request: pytest.FixtureRequest,
) -> None:
    """Two ranks that stay train, evaluate, save, resume, record; losses are the plain program's."""
    project = write(answers, tmp_path / "project", request)
    prove(answers, project, shared, reference, pool.train)
    shutil.rmtree(project)


def test_program_from_start_to_exit(
    answers: Answers,
    tmp_path: Path,
    shared: Path,
    reference: Callable[..., History],
    request: pytest.FixtureRequest,
) -> None:
    """The same in two ranks of its own: the group is set up and torn down, the curve is drawn."""
    project = write(answers, tmp_path / "project", request)
    prove(answers, project, shared, reference, forkserver.train, ["log.curve=true"])
    assert (project / "runs" / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")
    shutil.rmtree(project)


@pytest.fixture
def trained(tmp_path: Path, shared: Path, pool: Pool) -> tuple[Path, list[str], History]:
    """A program, its overrides and its history."""
    overrides = settings(few()[0], shared)
    template.write(few()[0], tmp_path, programs.training_files())
    return tmp_path, overrides, train(tmp_path, 2, overrides, start=pool.train)


def test_other_losses_are_noticed(
    trained: tuple[Path, list[str], History], pool: Pool, reference: Callable[..., History]
) -> None:
    project, overrides, rows = trained
    expected = reference(*plainest(few()[0]))
    compare(rows, expected, TOLERANCE["bf16"])
    others = train(project, 2, [*overrides, "run.seed=1"], "others", pool.train)
    with pytest.raises(AssertionError, match="train_loss is"):
        compare(others, expected, TOLERANCE["bf16"])


def test_resume_that_ends_differently_is_noticed(
    trained: tuple[Path, list[str], History], pool: Pool
) -> None:
    """By its checkpoint alone: its losses are the same, as they are rounded."""
    project, overrides, rows = trained
    stop_and_resume(project, 2, overrides, rows, pool.train)
    changed = [*overrides, "optim.beta2=0.99900001"]
    with pytest.raises(AssertionError, match="other bits than without a stop"):
        stop_and_resume(project, 2, changed, rows, pool.train)


def write(answers: Answers, project: Path, request: pytest.FixtureRequest) -> Path:
    """The program's files, and how to repeat its test."""
    template.write(answers, project, programs.training_files())
    if answers["tracker"] == "mlflow":
        for folder in ("runs", "dropping"):
            (project / folder).mkdir()
            shutil.copy(request.getfixturevalue("empty_database"), project / folder)
    again = f"{__file__}::{request.function.__name__}[{identifier(answers)}]"
    print(f"{project}\nto repeat: python -m pytest --programs=all '{again}'")
    return project


def prove(
    answers: Answers,
    project: Path,
    shared: Path,
    reference: Callable[..., History],
    start: Starter,
    more: Sequence[str] = (),
) -> None:
    """Train, evaluate, save, resume and record; raises AssertionError where something is wrong."""
    overrides = [*settings(answers, shared), *more]
    rows = train(project, 2, overrides, start=start)
    check_history(rows)
    warnings = re.findall(r".*Warning: .*", (project / "output.txt").read_text())
    assert not [*filterfalse(re.compile(UNAVOIDABLE).search, warnings)], "read in each run"

    ranks, plain = plainest(answers)
    rounded = answers["amp"] == "bf16" and answers["sharding"] in ("fsdp", "hsdp")
    of_norms = NORMS_OF_SHARES if rounded else 0.0
    compare(rows, reference(ranks, plain), TOLERANCE[str(answers["amp"])], of_norms)
    if answers.get("dynamic_graph"):
        skipping = [*overrides, "model.layer_drop=0.5"]
        dropping = train(project, 2, skipping, "dropping", start)
        assert column(dropping, "train_loss") != column(rows, "train_loss")
    if answers["checkpoint"]:
        stop_and_resume(project, 2, overrides, rows, start)
    check_record(project, str(answers["tracker"]))


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
