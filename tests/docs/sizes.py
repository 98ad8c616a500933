"""Writes into docs/howto/beyond.md what GPTs of three sizes need, as the tool `memory` counts.

cd tests && ../.venv/bin/python -m docs.sizes
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from array import array
from pathlib import Path
from typing import Any

from ddpgen.rendering.render import render
from docs.page import DOCS

PAGE = DOCS / "howto/beyond.md"
BEGIN, END = "<!-- written by tests/docs/sizes.py -->\n", "<!-- end -->"
WORTH = ("<!-- worth: written by tests/docs/sizes.py -->\n", "<!-- end of worth -->\n")
# Runs of docs/scaling.json: what they differ by, and their names there.
RUNS = (
    ("500 Mbit/s", "cables", "2 ranks, 500 Mbit/s, 1 MiB buckets, width 512"),
    ("500 Mbit/s, half the width", "cables", "width 256"),
    ("500 Mbit/s, four times the samples", "cables", "four times the samples"),
    ("500 Mbit/s, gradients as bfloat16", "cables", "bfloat16 travels"),
    ("500 Mbit/s, twice the ranks", "cables", "4 ranks"),
    ("inside one machine", "loopback", "2 ranks, loopback, 1 MiB buckets, width 512"),
)
# GPT-2, GPT-2 XL, and a model of LLaMA's width and depth: width, layers, heads.
MODELS = {"124 M": (768, 12, 12), "1.5 B": (1600, 48, 25), "7 B": (4096, 32, 32)}
GIB = (24, 80, 141)
# GPUs compute in bfloat16, and this CPU may not.
AS_ON_A_GPU = """
import runpy, steps
steps.autocasts = lambda device: True
runpy.run_module("tools.memory", run_name="__main__")
"""
# What is chosen, one after the other.
LEVERS: dict[str, dict[str, Any]] = {
    "micro-batch of 1": {},
    "and activation checkpointing": {"activation_checkpointing": True},
    "and ZeRO-1 over 8 ranks": {"activation_checkpointing": True, "optimizer_sharding": "zero1"},
}


def needed(model: str, lever: str, folder: Path) -> float:
    """GiB on each of eight ranks, with windows of 1,024 tokens of GPT-2's vocabulary."""
    project = folder / lever.replace(" ", "-")
    if not project.exists():
        render(
            {"model": "gpt", "accumulation": True, "tools": ["memory"], **LEVERS[lever]}, project
        )
    tokens = folder / "tokens"
    tokens.mkdir(exist_ok=True)
    for name in ("train", "val"):
        (tokens / f"{name}.bin").write_bytes(array("H", range(4096)).tobytes())
    width, layers, heads = MODELS[model]
    values = {"model.width": width, "model.layers": layers, "model.heads": heads}
    values |= {"data.source": tokens, "data.vocabulary": 50257, "data.window": 1024}
    values |= {"train.global_batch_size": 8, "train.micro_batch_size": 1}
    done = subprocess.run(
        [sys.executable, "-c", AS_ON_A_GPU, "--ranks", "8", "--gib", "80"]
        + [f"{key}={value}" for key, value in values.items()],
        cwd=project,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"([\d,.]+) MiB  in all", done.stdout)
    if not found:
        raise RuntimeError(done.stdout + done.stderr)
    return float(found[1].replace(",", "")) / 1024


def row(model: str, lever: str, folder: Path) -> str:
    """A line of the table."""
    gib = needed(model, lever, folder)
    fits = " | ".join("fits" if gib < size else "does not fit" for size in GIB)
    return f"| {model} | {lever} | {gib:.1f} GiB | {fits} |\n"


def table(folder: Path) -> str:
    """All sizes and levers."""
    sizes = " | ".join(f"{size} GiB" for size in GIB)
    head = (
        f"| parameters | chosen | each rank needs | {sizes} |\n|---|---|---|{'---|' * len(GIB)}\n"
    )
    return head + "".join(row(m, lever, folder) for m in MODELS for lever in LEVERS)


def worth() -> str:
    """What ranks do together beside one that is alone, as `make scaling` has measured it."""
    measured = json.loads((DOCS / "scaling.json").read_text(encoding="utf-8"))
    lines = "| network | ranks | of a step waits | the work of one rank, times |\n"
    lines += "|---|---|---|---|\n"
    for network, kind, words in RUNS:
        (run,) = (run for run in measured[kind] if run["words"] == words)
        waits = 1 - run["alone"] / run["measured"]
        times = run["ranks"] * run["alone"] / run["measured"]
        lines += f"| {network} | {run['ranks']} | {waits:.0%} | {times:.2f} |\n"
    return lines


def put(text: str, begin: str, end: str, found: str) -> str:
    """The page with another text between two marks."""
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{found}{end}{rest.partition(end)[2]}"


def main() -> None:
    """Compute, and write the page."""
    with tempfile.TemporaryDirectory() as folder:
        found = table(Path(folder))
    text = put(PAGE.read_text(encoding="utf-8"), BEGIN, END, found)
    PAGE.write_text(put(text, *WORTH, worth()), encoding="utf-8")


if __name__ == "__main__":
    main()
