"""docs/scaling.md and its plot, from the file of results."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HEAD = """# How well scaling is predicted

In projects `tools.scaling` measures how training scales and [predicts it for more
ranks](code/tools.md#scaling). Here its model predicts steps that it was not fitted to, and they are
then measured. Bandwidth, latency and slowdown come from one run of two ranks, the first row of each
table. For each other row the model gets what a rank does by itself, measured in that run under
`no_sync` because the ranks share the cores of one machine, and for another rate the bandwidth in
proportion; it says how long the ranks wait for gradients, and so how long a step takes.

Written by `make scaling`; nothing here was typed by hand. All figures:
[scaling.json](scaling.json).
"""
GROUPS = {
    "cables": "Hosts with cables of a known rate",
    "loopback": "Ranks that share cores and memory",
}
WORDS = {
    "cables": "Each rank in a network namespace of its own, behind a cable whose rate `tc` limits.",
    "loopback": "All communication is copying, by the cores that compute as well.",
}


BUSY = 1.5  # load for each rank; it still counts those of the run before

LEVERS = """## What the levers of `[ddp]` bring

Two ranks, an MLP with 34 MB of gradients, every lever by itself; [what each
does](code/step.md#how-gradients-travel). A step, the part of it that waits for gradients, and the
step beside that with the defaults. The last row is the first one again: what it differs by is
chance.

"""

PUBLISHED = """## A published run

ResNet-50 on 256 GPUs, 8 to a node, 50 Gbit/s between nodes ([Goyal et al.
2017](https://arxiv.org/abs/1706.02677)): the paper states the size of the gradients, the time of
the backward pass and an efficiency of about {measured:.0%} in relation to one node. From these and
from assumed values for what is not stated (`published` in `tests/scaling_lab/__main__.py`), the
model gives {predicted:.0%}: {error:+.0f} points. By the model the network hides all but the last
bucket; it knows no rank that is slower than the others, and the slowest of 256 sets the pace.
"""


def error(row: dict[str, Any]) -> float:
    """Of the predicted step, relative."""
    return float(row["predicted"] / row["measured"] - 1)


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """The errors of what was not fitted to."""
    errors = [abs(error(row)) for row in rows[1:]]
    naive = [abs(row["alone"] / row["measured"] - 1) for row in rows[1:]]
    return (
        f"Error of the predicted step: median {statistics.median(errors):.1%}, "
        f"largest {max(errors):.1%}, over {len(errors)} runs. Taking communication for free, it "
        f"would be {statistics.median(naive):.1%} and {max(naive):.1%}."
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown, times in milliseconds."""
    lines = [
        "| run | ranks | alone | wait, predicted | measured | step, predicted | measured | error |",
        "| --- " * 8 + "|",
    ]
    for number, row in enumerate(rows):
        alone, measured, predicted = (1e3 * row[k] for k in ("alone", "measured", "predicted"))
        found = f"{error(row):+.1%}" if number else "fitted"
        lines.append(
            f"| {row['words']} | {row['ranks']} | {alone:.1f} | {predicted - alone:.1f} | "
            f"{measured - alone:.1f} | {predicted:.1f} | {measured:.1f} | {found} |"
        )
    return "\n".join(lines)


def section(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """One group of runs."""
    fitted = rows[0]
    loads = [row["load"] for row in rows]
    text = (
        f"## {GROUPS[name]}\n\n{WORDS[name]} Fitted: {fitted['bandwidth'] / 1e6:.3g} MB/s, "
        f"{fitted['latency'] * 1e6:.3g} µs, slowdown {fitted['slowdown']:.2f}"
    )
    if fitted["mbit"]:
        text += f"; the cable's rate is {fitted['mbit'] / 8:.3g} MB/s"
    text += f". Load average {min(loads):.1f} to {max(loads):.1f}"
    if min(loads) > BUSY * max(row["ranks"] for row in rows):
        text += "; the machine was busy with other things, so little can be said"
    text += ".\n\n"
    return f"{text}**{summary(rows)}**\n\nTimes in milliseconds:\n\n{table(rows)}\n\n"


def lever_table(networks: dict[str, Sequence[dict[str, Any]]]) -> str:
    """Markdown: a row for each lever, three columns for each network."""
    head = [f"{name}: step | waits | beside the defaults" for name in networks]
    lines = [f"| lever | {' | '.join(head)} |", "| --- " * (1 + 3 * len(networks)) + "|"]
    firsts = [rows[0] for rows in networks.values()]
    for rows in zip(*networks.values(), strict=True):
        cells = [rows[0]["words"]]
        for row, first in zip(rows, firsts, strict=True):
            cells += [f"{1e3 * row['step']:.0f} ms", f"{row['waited'] / row['step']:.0%}"]
            cells += [f"{row['step'] / first['step']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n"


def draw(groups: dict[str, Sequence[dict[str, Any]]], path: Path) -> None:
    """Predicted against measured."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    axes = (figure := Figure(figsize=(5, 5), layout="constrained")).add_subplot()
    for (name, rows), marker in zip(groups.items(), "os", strict=False):
        points = [(1e3 * row["measured"], 1e3 * row["predicted"]) for row in rows[1:]]
        axes.plot(*zip(*points, strict=True), marker, label=name, alpha=0.7)
    low, high = axes.get_xlim()
    axes.axline((low, low), (high, high), color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="measured, ms", ylabel="predicted, ms")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def write(results: dict[str, Any], folder: Path) -> None:
    """The page and its plot."""
    groups = {name: results[name] for name in GROUPS if name in results}
    text = (
        f"{HEAD}\nMeasured on {results['machine']}.\n\n![Predicted and measured](scaling.png)\n\n"
    )
    text += "".join(section(name, rows) for name, rows in groups.items())
    text += LEVERS + lever_table(results["levers"])
    found = results["published"]
    text += PUBLISHED.format(error=100 * (found["predicted"] - found["measured"]), **found)
    (folder / "scaling.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    draw(groups, folder / "scaling.png")
