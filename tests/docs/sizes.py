"""Writes into docs/howto/beyond.md what GPTs of three sizes need, as the tool `memory` counts.

cd tests && ../.venv/bin/python -m docs.sizes
"""

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
# GPT-2, GPT-2 XL, and a model of LLaMA's width and depth: width, layers, heads.
MODELS = {"124 M": (768, 12, 12), "1.5 B": (1600, 48, 25), "7 B": (4096, 32, 32)}
GIB = (24, 80, 141)
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
        [sys.executable, "-m", "tools.memory", "--ranks", "8", "--gib", "80"]
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


def main() -> None:
    """Compute, and write the page."""
    with tempfile.TemporaryDirectory() as folder:
        found = table(Path(folder))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}{found}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
