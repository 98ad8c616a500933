"""Trains the defaults of every model family and compares what they reach with the goals.

measure.py [FAMILY ...]    writes docs/quality.md and the README's table when all were measured
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runs import column, history

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "quality"
PAGE = ROOT / "docs" / "quality.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- quality: written by `make quality` -->\n", "<!-- end of quality -->\n"
RANKS = 2
SECONDS = 600  # the longest training that a goal allows


@dataclass(frozen=True)
class Goal:
    """What the embedded default of a family has to reach in its last evaluation."""

    metric: str  # name in metrics.jsonl
    bound: Callable[[Path], float]
    higher: bool
    words: str
    data: str
    form: str


def always(value: float) -> Callable[[Path], float]:
    """A bound that does not depend on the data."""
    return lambda _: value


def said(project: Path, program: str) -> float:
    """The number that a few lines of Python print, with the project's config as `cfg`."""
    load = "import pathlib, config, data; cfg = config.load(pathlib.Path('config.toml')).data\n"
    done = subprocess.run(
        [sys.executable, "-c", load + program],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def beyond_majority(project: Path) -> float:
    """The share of the commonest class in the validation split, plus 20 points."""
    program = (
        "counts = data.open_splits(cfg).val.targets.bincount()\n"
        "print(float(counts.max() / counts.sum()))"
    )
    return said(project, program) + 0.20


def below_median(project: Path) -> float:
    """Four fifths of the mean absolute error of who always says the training median."""
    program = (
        "train, val, shape = data.open_splits(cfg)\n"
        "errors = val.rows.targets - train.rows.targets.median()\n"
        "print(shape.unit * float(errors.abs().mean()))"
    )
    return 0.8 * said(project, program)


def below_unigrams(project: Path) -> float:
    """Three fourths of the loss of who knows only how frequent each token is in answers."""
    program = (
        "import torch\n"
        "train, val, shape = data.open_splits(cfg)\n"
        "known = [t[data.counts(t)].long() for t in (train.targets, val.targets)]\n"
        "odds = torch.bincount(known[0], minlength=shape.vocabulary) + 1.0\n"
        "print(float(-(odds / odds.sum()).log()[known[1]].mean()))"
    )
    return 0.75 * said(project, program)


GOALS = {
    "mlp": Goal("val_accuracy", always(0.95), True, "accuracy", "digits, 1,797 rows", ".1%"),
    "table": Goal(
        "val_mae",
        below_median,
        False,
        "mean absolute error; goal: median predictor less 20 %",
        "diabetes, 442 patients",
        ".1f",
    ),
    "resnet": Goal("val_accuracy", always(0.98), True, "accuracy", "digits, 8 × 8 images", ".1%"),
    "vision": Goal(
        "val_accuracy",
        always(0.95),
        True,
        "accuracy",
        "digits, 8 × 8 images, network from scratch",
        ".1%",
    ),
    "gpt": Goal(
        "val_bits_per_byte",
        always(1.8),
        False,
        "bits per byte",
        "the standard library's source, held-out files",
        ".2f",
    ),
    "causal-lm": Goal(
        "val_loss",
        below_unigrams,
        False,
        "nats per token of an answer; goal: entropy of single tokens less a fourth",
        "what functions of the standard library do, network from scratch",
        ".2f",
    ),
    "text-classifier": Goal(
        "val_accuracy",
        beyond_majority,
        True,
        "accuracy; goal: commonest class + 20 points",
        "docstrings by topic, network from scratch",
        ".1%",
    ),
}


@dataclass(frozen=True)
class Row:
    """One family's result."""

    family: str
    reached: float
    bound: float
    seconds: float
    computing: float  # seconds of processor time of one rank

    @property
    def goal(self) -> Goal:
        """What it is compared with."""
        return GOALS[self.family]

    @property
    def good(self) -> bool:
        """Whether the bound was reached in the time that is allowed."""
        within = self.reached >= self.bound if self.goal.higher else self.reached < self.bound
        return within and self.seconds <= SECONDS

    def cells(self) -> list[str]:
        """The row of the table."""
        sign = "≥" if self.goal.higher else "<"
        shown = f"**{self.reached:{self.goal.form}}**"
        return [
            f"`{self.family}`",
            self.goal.data,
            self.goal.words,
            f"{sign} {self.bound:{self.goal.form}}",
            shown if self.good else f"{shown} (missed)",
            f"{self.seconds:.0f} s",
            f"{self.computing:.0f} s",
        ]


def measure(family: str) -> Row:
    """Generate, train with the defaults on two processes, and read the last evaluation."""
    project = BUILD / family
    generate = ["--defaults", "--data", f"model={family}"]
    program([sys.executable, "-m", "ddpgen", "new", str(project), *generate], ROOT)
    program([sys.executable, "train.py", "--prepare-only"], project)
    begin, used = time.monotonic(), computed()
    train = [sys.executable, "train.py", "--processes", str(RANKS), "run.name=quality"]
    program([*train, "checkpoint.keep=1"], project)
    seconds, computing = time.monotonic() - begin, (computed() - used) / RANKS
    goal = GOALS[family]
    reached = column(history(project / "runs" / "quality"), goal.metric)[-1]
    return Row(family, reached, goal.bound(project), seconds, computing)


def computed() -> float:
    """Seconds of processor time of all programs that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def program(command: Sequence[str], folder: Path) -> None:
    """Run to the end, with what it says in the terminal."""
    print(f"--- {' '.join(command[1:])}", flush=True)
    subprocess.run(command, cwd=folder, check=True)


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    head = ["model", "data", "validation", "goal", "reached", "time", "computing"]
    lines = [head, ["---"] * len(head), *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page(text: str) -> str:
    """What docs/quality.md says around the table."""
    import torch

    device = "GPU" if torch.cuda.is_available() else "CPU"
    return f"""# Quality of the defaults

What `ddpgen new --defaults --data model=...` reaches without a change to any file, on data that
every installation has. It is the value of the last evaluation, not the best one.

{text}
Written by `make quality`: {RANKS} processes on {os.cpu_count()} cores ({device}),
torch {torch.__version__}. "Time" is that of `train.py` with all
evaluations, start and end; a goal counts only when it is reached within {SECONDS // 60} minutes.
"Computing" is the processor time of one of the processes: where it is much shorter, the machine was
busy with other things, or the time went into starting. Another machine or another torch
gives slightly different figures.
"""


def main() -> int:
    """Measure, print, and write what was measured."""
    families = sys.argv[1:] or list(GOALS)
    subprocess.run(["rm", "-rf", *(str(BUILD / family) for family in families)], check=True)
    rows = [measure(family) for family in families]
    text = table(rows)
    print(f"\n{text}")
    if families == list(GOALS):
        PAGE.write_text(page(text), encoding="utf-8")
        before, rest = README.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        README.write_text(before + BEGIN + text + END + after, encoding="utf-8")
    missed = [row.family for row in rows if not row.good]
    if missed:
        print(f"below the goal: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
