"""docs/bench.md and its pictures, from the file of results: python -m bench.page RESULTS."""

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import answering, commands, figures, saving
from bench.tree import Times

SIDES = {
    "generated": "generated project",
    "plain": "plain loop",
    "again": "plain loop, again",
    "accelerate": "Accelerate",
    "lightning": "Lightning",
    "trainer": "HF Trainer",
    "parallel": "DataParallel, one process",
}
PARTS = {
    "generated": "generated project",
    "uncounted": "targets counted, but not over all ranks",
    "unlogged": "no log points",
    "unseeded": "no seed for each step",
    "bare": "without these three",
    "again": "plain loop, again",
}
KINDS = {"cpu": "On CPUs", "cuda": "On GPUs"}
VERDICT = {True: "met", False: "**not met**", None: "not measured"}

HEAD = """# Side by side

The generated project beside the plainest hand-written loop and beside libraries: the same model,
data, precision, batch, optimizer, clipping, schedule and log interval, each as a process tree of
its own. All trees of a case are alive at once and take turns, a block of steps each, so that
whatever else the machine does hits all alike. Ratios are taken round by round, beside the plain
loop; they are medians, with the quartiles in brackets. Above 1 is faster in "speed" and slower in
all other ratios; "processor" is the processor time of one rank's steps, which hardly depends on
what else the machine does. "Waits" are those of the host for the device; on CPUs, where there are
none, reads of tensors that would be on the device. Why it is done so:
[decision 12](decisions/0012-side-by-side.md).

Written by `make bench`; nothing here was typed by hand. All figures: [bench.json](bench.json).
"""
PAGE = """In Chromium: from a click on a choice of the page of `ddpgen web` until its effect is
drawn, with all differences and the open file; and until a fresh profile shows the first file of
the static page, where Python runs in the browser.

"""
# What renders projects has a description, not a command, for its name.
COMMANDS = (commands.HELP, commands.BARE, commands.NEW, commands.COPY)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def section(kind: str, device: figures.Device) -> str:
    """All that was measured on one kind of device."""
    loads = [case["load"] for case in device["cases"]]
    versions = ", ".join(f"{name} {version}" for name, version in device["versions"].items())
    text = f"## {KINDS[kind]}\n\n{device['device']}, {device['cores']} cores, {versions}. "
    text += f"Load average before the cases: {min(loads):.1f} to {max(loads):.1f}"
    # It still counts the case before, whose ranks keep the cores busy.
    busy = min(loads) > 1.5 * device["cores"]
    text += (
        "; the machine was busy with other things, so spreads are wide.\n\n" if busy else ".\n\n"
    )
    text += "### Goals\n\n" + table(
        ["goal", "measured", ""],
        [[g.words, g.figure, VERDICT[g.met]] for g in figures.goals(device)],
    )
    plotted = [case for case in device["cases"] if figures.compared(case)]
    if plotted:
        text += f"### Training\n\n![Speed beside the plain loop](bench-{kind}-speed.png)\n\n"
        text += "".join(map(training, plotted))
        text += "### A save, a load\n\n" + SAVING
        text += f"![A save beside torch.save](bench-{kind}-save.png)\n\n"
        text += "".join(saved(case) for case in plotted)
    if saves := device.get(saving.NAME):
        text += "### Large saves\n\n" + stalls(saves)
    if parts := figures.case(device, "parts"):
        text += "### What the generated step does that the plain one does not\n\n" + PRICES
        text += prices(parts)
    if several := figures.case(device, "accumulation"):
        text += "### Accumulation\n\n" + accumulating(several)
    if unused := figures.case(device, "unused"):
        text += "### Parameters without a gradient\n\n" + searching(unused)
    if device["commands"]:
        text += "### The generator\n\n" + generating(device["commands"])
    if answers := device.get(answering.NAME):
        text += "### The page\n\n" + PAGE + answered(answers)
    if device["own tests"]:
        text += "### Own tests of generated projects\n\n" + owning(device["own tests"])
    return text


def beside(times: Times, plain: Times, name: str) -> str:
    """The ratio to the plain loop's; nothing where a side has no such figure."""
    return str(figures.ratio(times[name], plain[name])) if name in times else ""


def training(case: Any) -> str:
    """One case: a row for each side."""
    products = case["times"]["matmul"]
    unit = "tokens" if products["units of a sample"][0] > 1 else "samples"
    units = products["units of a sample"][0] * case["micro_batch"] * case["ranks"] * case["block"]
    plain = case["times"]["plain"]
    rows = []
    for side, shown in SIDES.items():
        if times := case["times"].get(side):
            block = statistics.median(times["block"])
            over = block - statistics.median(plain["block"])
            rows.append(
                [
                    shown,
                    f"{units / block:,.0f}",
                    str(figures.speed(case, side, "plain")),
                    f"{1000 * block / case['block']:.2f} ms",
                    f"{1e6 * over / case['block']:+.0f} µs",
                    beside(times, plain, "processor"),
                    beside(times, plain, "evaluation"),
                    f"{statistics.median(times['start-up']):.1f} s",
                    f"{statistics.median(times['first step']):.1f} s",
                    f"{statistics.median(times['memory']):.2f} GiB",
                    f"{statistics.median(times['reads']):.2g}",
                ]
            )
    head = ["", f"{unit}/s", "speed", "step", "beside plain", "processor"]
    head += ["evaluation", "start-up", "first step", "peak memory", "waits per step"]
    text = (
        f"**{case['name']}**: {case['words']}, {products['parameters'][0] / 1e6:.2f} M parameters"
    )
    text += (
        f", {case['ranks']} ranks × {case['micro_batch']} samples, precision {case['precision']}"
    )
    text += f", {case['starts']} starts" if case["starts"] > 1 else ""
    text += f"; utilisation of the generated project {figures.utilisation(case):.0%}.\n\n"
    missing = [f"{SIDES.get(side, side)}: {why}" for side, why in case["left_out"].items()]
    return text + table(head, rows) + "".join(f"Left out: {line}\n\n" for line in missing)


SAVING = """Beside the plain loop's `torch.save` and `torch.load` of the same states; in the case
fsdp each rank writes its share, the plain loop by `torch.distributed.checkpoint`. The generated
project also writes through to the disk, keeps a checksum, and verifies before it loads; the others
do not.

"""
STALLS = f"""A save of {saving.PARAMETERS / 1e6:.0f} million parameters and their two moments, by a
process whose steps sleep: how long training stands still, and what the steps beside the writing
lose. `torch.save` writes through to the disk here, and so does `async_save`, the asynchronous save
of `torch.distributed.checkpoint`; only the generated project keeps a checksum.

"""


def saved(case: Any) -> str:
    """One case: what a save and a load cost."""
    plain, rows = case["times"]["plain"], []
    for side, shown in SIDES.items():
        if times := case["times"].get(side):
            row = [shown]
            for name in ("save", "load"):
                middle = f"{1000 * statistics.median(times[name]):.1f} ms" if name in times else ""
                row += [middle, beside(times, plain, name)]
            rows.append(row)
    return f"**{case['name']}**\n\n" + table(["", "save", "ratio", "load", "ratio"], rows)


def stalls(times: Times) -> str:
    """One row for each way to save."""
    names = {
        saving.BLOCKING: "generated project",
        saving.BACKGROUND: "generated project, in background",
    }
    names |= {saving.PLAIN: "`torch.save` and `fsync`", saving.ASYNC: "`async_save`"}
    rows = []
    for way in saving.WAYS:
        beside = statistics.median(times[f"{way}, steps beside"])
        ratio = saving.share(times, way, saving.BLOCKING)
        held = statistics.median(times[way])
        rows.append([names[way], f"{held:.3f} s", f"{ratio:.2f}", f"{beside:.3f} s"])
    return STALLS + table(["", "training stands still", "ratio", "steps beside lose"], rows)


PRICES = """The MLP's step is the shortest here, so it shows best what is added to each. A row is
the generated project with a part left out, beside the plain loop; the last is a second process tree
of the plain loop itself, so whatever it differs by is chance. The plain loop divides by the targets
of a rank's own micro-batch, and prints the loss of rank 0 alone. What is left without these three
is smaller work and chance, and was not taken apart.

"""


def prices(case: Any) -> str:
    """One row for each part that is left out."""
    plain, rows = case["times"]["plain"], []
    for side, shown in PARTS.items():
        times = case["times"][side]
        over = statistics.median(times["block"]) - statistics.median(plain["block"])
        rows.append(
            [
                shown,
                str(figures.speed(case, side, "plain")),
                f"{1e6 * over / case['block']:+.0f} µs",
                beside(times, plain, "processor"),
            ]
        )
    return table(["", "speed", "step, beside plain", "processor"], rows)


def accumulating(case: Any) -> str:
    """Whether several micro-batches cost one reduction."""
    middles = {side: statistics.median(times["block"]) for side, times in case["times"].items()}
    ours, step, micro = (
        f"{1000 * middles[side] / case['block']:.1f} ms" for side in ("generated", "plain", "micro")
    )
    return (
        f"{case['words']}: a micro-step without reduction takes {micro}, a whole step of one "
        f"micro-batch {step}, the generated step of {case['accumulate']} micro-batches {ours}. "
        f"That is {figures.accumulation(case)} of what these two add up to.\n\n"
    )


def searching(case: Any) -> str:
    """What `find_unused_parameters` costs where every parameter has a gradient."""
    speed, again = (figures.speed(case, side, "plain") for side in ("searched", "again"))
    return (
        f"{case['words']}: with `find_unused_parameters=True`, DDP walks through the graph of each "
        f"step. The plain loop then has {speed} of its speed, and {figures.search(case)} times its "
        f"processor time; a second plain loop has {again} of the speed, by chance.\n\n"
    )


def generating(times: dict[str, list[float]]) -> str:
    """Commands, and renderings in one process."""
    rows = []
    for name, values in times.items():
        middle = statistics.median(values)
        command = f"`{name}`" if name in COMMANDS else name
        rows.append([command, f"{middle:.3f} s", f"{1 / middle:.1f}"])
    both = ((commands.HELP, commands.BARE), (commands.NEW, commands.COPY))
    found = [f"`{a}` / `{b}`: {figures.ratio(times[a], times[b])}" for a, b in both]
    return table(["", "median", "per second"], rows) + ", ".join(found) + ".\n"


def answered(times: Times) -> str:
    """How soon the page shows something, in Chromium."""
    rows = []
    for name, values in times.items():
        low, middle, high = (f"{1000 * quantile:.0f}" for quantile in quartiles(values))
        rows.append([name, str(len(values)), f"{middle} ms ({low}…{high})"])
    return table(["", "tried", "median, quartiles"], rows)


def quartiles(values: Sequence[float]) -> list[float]:
    """Return the quartiles, of a single value too."""
    return statistics.quantiles(values, method="inclusive") if len(values) > 1 else [*values] * 3


def owning(times: Times) -> str:
    """Whole runs of pytest, one after the other."""
    rows = [[name, f"{max(values):.0f} s"] for name, values in times.items()]
    return table(["project", "`pytest`, or as its README says `pytest -n 2`"], rows)


def draw(kind: str, device: figures.Device, folder: Path) -> None:
    """Bars beside the plain loop, with quartiles."""
    from matplotlib.figure import Figure

    shown = [case for case in device["cases"] if figures.compared(case)]
    for name, measured, label in (
        ("speed", "block", "speed, plain loop = 1"),
        ("save", "save", "seconds of a save, torch.save = 1"),
    ):
        axes = (figure := Figure(figsize=(8, 3.2), layout="constrained")).add_subplot()
        sides = [side for side in SIDES if side != "plain"]
        for place, side in enumerate(sides):
            points = []
            for number, case in enumerate(shown):
                if measured in case["times"].get(side, {}):
                    mine, plain = case["times"][side][measured], case["times"]["plain"][measured]
                    pair = (plain, mine) if name == "speed" else (mine, plain)
                    points.append((number, figures.ratio(*pair)))
            if points:
                height = [found.middle for _, found in points]
                below = [found.middle - found.low for _, found in points]
                above = [found.high - found.middle for _, found in points]
                where = [number + 0.17 * (place - 2) for number, _ in points]
                axes.bar(where, height, 0.16, yerr=(below, above), label=SIDES[side], capsize=2)
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set_xticks(range(len(shown)), [case["name"] for case in shown])
        axes.set_ylabel(label)
        axes.margins(y=0.2)  # room for the legend
        axes.legend(ncols=5, fontsize="small")
        figure.savefig(folder / f"bench-{kind}-{name}.png", dpi=90)


def write(results: dict[str, Any], folder: Path) -> None:
    """Write page and pictures."""
    parts = [section(kind, results[kind]) for kind in KINDS if kind in results]
    (folder / "bench.md").write_text(HEAD + "\n" + "\n".join(parts), encoding="utf-8")
    try:
        for kind in KINDS:
            if kind in results:
                draw(kind, results[kind], folder)
    except ImportError:
        print("no pictures: matplotlib is not installed")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    write(json.loads(path.read_text()), path.parent)
