"""Counts what ranks send in worlds of 4 to 64, and writes docs/scale.md with its picture.

python -m scale_lab [SIZE ...]            in the folder tests: ten minutes
"""

import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from scale_lab import lab

ROOT = Path(__file__).parents[2]
SIZES = (4, 8, 16, 32, 64)
REQUEST = (
    91e-6  # seconds of a request, measured at one client; the server answers one after another
)
HEAD = """# What grows with the number of ranks

Nobody here has thousands of GPUs. So ranks are counted in worlds of {sizes} processes of one
machine: what each asks of the launcher's store, what it sends to other ranks, how many sockets and
how much memory it has. The nearest a + b log2 N + c N says what that comes to with {full:,} ranks.
Processes and store are real, and each request to the store is counted, also those of PyTorch's C++
code. The process group is PyTorch's "fake" one, which sends nothing: what NCCL does by itself, and
how long anything takes on a network, nobody has seen here.

Written by `make scale`; nothing here was typed by hand. All figures: [scale.json](scale.json).
torch {torch}.

![Requests to the store](scale.png)

## Requests to the store

Of the rank that asks most, but for the one that asks for all (rank 0, or the first that fails), and
of all ranks together. There are three steps and two saves. "Seconds" are those that the store needs
for all requests at {micro:.0f} µs each, one after the other.

"""
PREFLIGHT = """
At the end of `preflight` rank 0 looks until all have left; how often depends on how long that
takes, not on the number of ranks.

## Between ranks

Collectives of a rank, gradients included; sockets and private memory of the rank that has most.

| phase | collectives | sockets | MiB |
| --- | --- | --- | --- |
"""
GLOO = """
## Gloo's own full mesh

On CPUs the process group is Gloo's, in which each rank reads the addresses of all others and
connects to them. That is Gloo's own way; with NCCL there is no Gloo beside it.

| ranks | requests of a rank at start-up | sockets of a rank |
| --- | --- | --- |
"""


def rows(worlds: Sequence[lab.World]) -> list[dict[str, Any]]:
    """A row for each phase."""
    found = []
    sizes = [world.ranks for world in worlds]
    for phase in lab.PHASES:
        others = [world.others(phase, "requests") for world in worlds]
        sent = [world.others(phase, "requests bytes") for world in worlds]
        totals = [world.total(phase, "requests") for world in worlds]
        joint = [world.most(phase, "collectives") for world in worlds]
        found.append(
            {
                "phase": phase,
                "others": others,
                "bytes": sent,
                "totals": totals,
                "collectives": joint,
                "sockets": [world.most(phase, "sockets") for world in worlds],
                "MiB": [world.most(phase, "MiB") for world in worlds],
                "other": lab.at(lab.fit(sizes, others), lab.FULL),
                "byte": lab.at(lab.fit(sizes, sent), lab.FULL),
                "total": lab.at(lab.fit(sizes, totals), lab.FULL),
            }
        )
    return found


def page(worlds: Sequence[lab.World], meshes: Sequence[lab.World]) -> str:
    """docs/scale.md."""
    sizes = [world.ranks for world in worlds]
    text = HEAD.format(
        sizes=", ".join(map(str, sizes)),
        full=lab.FULL,
        torch=torch.__version__,
        micro=1e6 * REQUEST,
    )
    full, span = f"at {lab.FULL:,}", f"{sizes[0]} to {sizes[-1]} ranks"
    text += f"| phase | a rank, {span} | {full} | its bytes | {full} | all ranks | {full} "
    text += f"| seconds |\n|{' --- |' * 8}\n"
    table = rows(worlds)
    for row in table:
        each, sent, every = (
            f"{row[key][0]:,} to {row[key][-1]:,}" for key in ("others", "bytes", "totals")
        )
        text += f"| {row['phase']} | {each} | {row['other']:,.0f} | {sent} | {row['byte']:,.0f} "
        text += f"| {every} | {row['total']:,.0f} | {REQUEST * max(0, row['total']):.1f} |\n"
    text += PREFLIGHT
    for row in table:
        joint, sockets, memory = (
            f"{row[key][0]:,} to {row[key][-1]:,}" for key in ("collectives", "sockets", "MiB")
        )
        text += f"| {row['phase']} | {joint} | {sockets} | {memory} |\n"
    text += GLOO
    for world in meshes:
        asked, sockets = (world.most("start-up", kind) for kind in ("requests", "sockets"))
        text += f"| {world.ranks} | {asked} | {sockets} |\n"
    return text


def draw(worlds: Sequence[lab.World], file: Path) -> None:
    """Requests of a rank over the number of ranks, measured and fitted."""
    axes = (figure := Figure(figsize=(7, 4), layout="constrained")).add_subplot()
    sizes = [world.ranks for world in worlds]
    wide = [2**n for n in range(2, round(math.log2(lab.FULL)) + 1)]
    for row in rows(worlds):
        coefficients = lab.fit(sizes, row["others"])
        (line,) = axes.plot(wide, [lab.at(coefficients, n) for n in wide], label=row["phase"])
        axes.plot(sizes, row["others"], "o", color=line.get_color())
    axes.set(
        xscale="log", xlabel="ranks", ylabel="requests of a rank, but for one", ylim=(-0.5, None)
    )
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    figure.savefig(file, dpi=120)


def main(chosen: Sequence[str]) -> None:
    """Run all worlds."""
    sizes = [int(size) for size in chosen] or list(SIZES)
    build = ROOT / "build" / "scale"
    shutil.rmtree(build, ignore_errors=True)
    worlds, meshes = [], []
    for size in sizes:
        worlds.append(lab.run(size, build / f"world-{size}", build / "shared"))
        print(f"{size} ranks: {worlds[-1].total('step', 'requests')} requests in steps", flush=True)
    for size in sizes[:3]:
        meshes += [lab.run(size, build / f"mesh-{size}", build / "shared", "gloo")]
    content: Mapping[str, Any] = {"sizes": sizes, "phases": rows(worlds)}
    (ROOT / "docs" / "scale.json").write_text(json.dumps(content, indent=1) + "\n")
    (ROOT / "docs" / "scale.md").write_text(page(worlds, meshes))
    draw(worlds, ROOT / "docs" / "scale.png")


if __name__ == "__main__":
    main(sys.argv[1:])
