"""Writes docs/goodput.md and its picture."""

import os
from pathlib import Path

import torch

from goodput.lab import HOSTS, SAVE, STEP, TIMEOUT
from goodput.measure import Result

DOCS = Path(__file__).resolve().parents[2] / "docs"
HEAD = """\
# Goodput

A job of `launch/ssh.sh` on {hosts} hosts, each with a network and an sshd of its own, and nobody
who looks after the job. Seven faults happen, one of each kind, at times and on hosts drawn by
chance; and broken rows of the data make spikes, for which {skipped} steps were skipped or gone back
over. **{share:.1f} % of {hours:.2f} hours went into steps that count**; the run itself says
{own:.1f} %.

![Steps over time, with the faults](goodput.png)

| minute | what happened | named after | next new step after | the log says |
|---:|---|---:|---:|---|
"""
FOOT = """\

Weights, moments and counters at the end equal, bit for bit, those of a run with the same data to
which nothing happened: both skip the same steps and go back over the same windows.

"Steps that count" are updates that are in the weights at the end, each with the median time of a
step ({step:.0f} ms, of which {work:.0f} are simulated work); starts, saves, waiting, slow steps,
and steps that were done again, skipped or gone back over are lost time. Llama 3's training had a
failure in 3.1 hours on 16,384 GPUs (419 in 54 days, arXiv:2407.21783); here a fault comes in
{every:.0f} minutes, and a start takes {cores} cores that all hosts share.

Collectives end after {timeout} s in place of the default of 600, and who is waited for is said
after {patience} s in place of 60: otherwise a rank that hangs would cost ten minutes. A checkpoint
is written every {save} steps. Written by `make goodput`, seed {seed}, torch {torch}.
"""


def write(result: Result, seed: int) -> None:
    """The page, and a picture beside it."""
    draw(result, DOCS / "goodput.png")
    rows = "".join(
        f"| {one.at / 60:.0f} | {one.fault}, {one.host} | {one.named:.0f} s | "
        f"{one.next_step:.0f} s | `{shown(one.words)}` |\n"
        for one in result.happened
    )
    figures = {
        "hosts": {4: "four"}[len(HOSTS)],
        "skipped": result.skipped,
        "share": 100 * result.goodput,
        "own": 100 * result.own,
        "hours": result.seconds / 3600,
        "step": 1000 * result.step_seconds,
        "work": 1000 * STEP,
        "every": result.seconds / 60 / len(result.happened),
        "timeout": TIMEOUT,
        "save": SAVE,
        "patience": TIMEOUT // 2,
        "cores": os.cpu_count(),
        "seed": seed,
        "torch": torch.__version__,
    }
    (DOCS / "goodput.md").write_text((HEAD + rows + FOOT).format(**figures))


def shown(words: str) -> str:
    """A line of the log, short enough for a table."""
    text = words.replace("|", "/").replace("`", "'").replace("{", "(").replace("}", ")")
    return text if len(text) < 150 else f"{text[:145]} ..."


def draw(result: Result, path: Path) -> None:
    """Steps over time; where a fault cost time the line is flat, or falls back to a save."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([at / 60 for at, _ in result.steps], [step for _, step in result.steps], color="C0")
    top = max(step for _, step in result.steps)
    for number, one in enumerate(result.happened):
        axes.axvspan(one.at / 60, (one.at + one.next_step) / 60, color="C3", alpha=0.4, linewidth=0)
        height = (0.98 - 0.07 * (number % 7)) * top
        axes.annotate(f" {one.fault}", (one.at / 60, height), fontsize=8, va="top")
    axes.set(xlabel="minutes", ylabel="step", ylim=(0, 1.02 * top))
    axes.set_title(
        f"{100 * result.goodput:.1f} % of the time went into steps that count", fontsize=11
    )
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
