"""The report of tools.scaling: the table, the plot, and the remedies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.scaling import measure, prediction

LARGEST = 16384
# The least efficiency that is usual, by the number of ranks.
USUAL = {2: 0.9, 4: 0.85, 8: 0.8, 16: 0.75}

# Beyond these, more ranks bring little: computing in relation to communication by itself, at
# least, and the part of a step that waits for gradients, at most.
COMPUTE, WAITED = 10.0, 0.3


@dataclass(frozen=True)
class Row:
    """One line of the table: a world that was measured, or one that was not."""

    ranks: int
    measured: bool
    samples_per_second: float
    efficiency: float  # 1: each rank is as fast as one rank by itself
    step: float  # seconds, and so are the rest
    compute: float
    host: float
    data: float
    waited: float  # for gradients
    predicted: float  # by the model, which was fitted to the largest measured world


def measured(worlds: Sequence[measure.Measurement], here: prediction.Network) -> list[Row]:
    """The measurement, and the model's prediction beside it."""
    rows = []
    for world in worlds:
        speed = world.samples / world.step
        alone = world.alone
        predicted = prediction.seconds(worlds[-1].alone, world.ranks, here)
        times = (world.step, alone.compute, alone.host, alone.data, world.waited, predicted)
        rows.append(Row(world.ranks, True, speed, speed / world.ranks / of_one(worlds), *times))
    return rows


def of_one(worlds: Sequence[measure.Measurement]) -> float:
    """Samples per second of one rank; where none was measured alone, of one that never waits."""
    return worlds[0].samples / worlds[0].ranks / worlds[0].alone.total


def extrapolated(worlds: Sequence[measure.Measurement], beyond: prediction.Network) -> list[Row]:
    """Powers of two beyond what was measured."""
    last, alone = worlds[-1], worlds[-1].alone
    rows = []
    for ranks in (2**n for n in range(1, LARGEST.bit_length())):
        if ranks > last.ranks:
            waited = prediction.exposed(alone, ranks, beyond)
            step = alone.total + waited
            speed = last.samples / last.ranks / step
            times = (step, alone.compute, alone.host, alone.data, waited, step)
            rows.append(Row(ranks, False, speed * ranks, speed / of_one(worlds), *times))
    return rows


def show(world: measure.Measurement, rows: Sequence[Row], here: prediction.Network) -> None:
    """The table, times in milliseconds."""
    print(f"{world.samples // world.ranks} samples per step on each {world.device} rank")
    print(
        "   ranks    samples/s  efficiency      step   compute      host      data   waited   model"
    )
    for row in rows:
        times = (row.step, row.compute, row.host, row.data, row.waited, row.predicted)
        columns = "".join(f"{1e3 * seconds:10.2f}" for seconds in times)
        mark = " " if row.measured else "~"
        print(
            f"{mark}{row.ranks:7} {row.samples_per_second:12,.0f} {row.efficiency:11.1%}{columns}"
        )
    if world.ranks > 1:
        print(
            f"links: {here.between.bandwidth / 1e9:.3g} GB/s, {here.between.latency * 1e6:.3g} us; "
            f"collectives beside a backward pass take {here.slowdown:.2f} times as long"
        )


def advice(
    world: measure.Measurement, rows: Sequence[Row], ranks: int, network: prediction.Network | None
) -> list[str]:
    """The remedies on this number of ranks, and the figures below the usual."""
    lines = [
        f"{row.ranks} ranks: {row.efficiency:.0%} is less than the usual {USUAL[row.ranks]:.0%}"
        for row in rows
        if row.measured and row.efficiency < USUAL.get(row.ranks, 0.0)
    ]
    alone = world.alone
    if alone.data > 0.05 * alone.total:
        lines.append(f"data: {1e3 * alone.data:.1f} ms of a step wait for them; try data.workers")
    if not network:
        return [
            *lines,
            "no prediction: give --bandwidth and --latency; there is none for PowerSGD",
        ]
    lines += worth(alone, ranks, network)
    step = prediction.seconds(alone, ranks, network)
    lines.append(
        f"{ranks} ranks, {1e3 * step:.2f} ms per step, of which "
        f"{1e3 * (step - alone.total):.2f} wait for gradients. Samples per second would be"
    )
    best = [(gain, what) for gain, what in prediction.levers(alone, ranks, network) if gain > 1.02]
    lines += [f"  {gain:.2f} times as many: {what}" for gain, what in best]
    return lines if best else [*lines[:-1], f"{ranks} ranks: no lever brings more than 2 %"]


def worth(alone: prediction.Step, ranks: int, network: prediction.Network) -> list[str]:
    """Whether so many ranks are too many for what they compute, and how many are not."""
    lines = []
    sends = prediction.communication(alone, ranks, network)
    if alone.compute < COMPUTE * sends:
        lines.append(
            f"{ranks} ranks: a step computes {alone.compute / sends:.2g} times as long as it would "
            f"communicate by itself; from {COMPUTE:g} times on, communication is hidden"
        )
    speed: dict[int, float] = {}
    share: dict[int, float] = {}
    for fewer in {ranks, *(2**n for n in range(ranks.bit_length()) if 2**n < ranks)}:
        step = prediction.seconds(alone, fewer, network)
        speed[fewer], share[fewer] = fewer / step, 1 - alone.total / step
    if share[ranks] > WAITED:
        best = max(fewer for fewer in speed if share[fewer] <= WAITED)
        lines.append(
            f"{ranks} ranks: {share[ranks]:.0%} of a step waits for gradients, over {WAITED:.0%}: "
            f"{best} would give {speed[best] / speed[ranks]:.0%} of their samples per second"
        )
    return lines


def draw(rows: Sequence[Row], path: Path) -> None:
    """Efficiency by ranks, and what steps consist of, where matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print(f"no {path}: matplotlib is not installed")
        return
    figure = Figure(figsize=(10, 4), layout="constrained")
    speed, parts = figure.subplots(1, 2)
    for name, chosen, style in (("measured", True, "o"), ("predicted", False, "--")):
        points = [(row.ranks, row.efficiency) for row in rows if row.measured == chosen]
        if points:
            speed.plot(*zip(*points, strict=True), style, label=name)
    speed.set_xscale("log", base=2)
    speed.set(
        xlabel="ranks", ylabel="efficiency", ylim=(0, max(1.05, *(row.efficiency for row in rows)))
    )
    speed.legend()
    speed.grid(alpha=0.3)
    known = [row for row in rows if row.measured]
    bottom = [0.0] * len(known)
    for name in ("compute", "host", "data", "waited"):
        heights = [1e3 * getattr(row, name) for row in known]
        parts.bar([str(row.ranks) for row in known], heights, bottom=bottom, label=name)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    parts.set(xlabel="ranks", ylabel="milliseconds of a step")
    parts.legend()
    figure.savefig(path, dpi=120)
