"""The generator's own speed: whole commands in turn, and how many projects it renders."""

import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.tree import Times

ROOT = Path(__file__).resolve().parents[2]
# The names of the figures; the page and the goals read them.
HELP, BARE, NEW, COPY = "ddpgen --help", "import argparse", "ddpgen new", "copier copy"
MODELS = ("mlp", "resnet", "gpt", "text-classifier")
RENDER, MATRIX = "one project, by copier", "one project, in the matrix of tests"


def measure(build: Path, rounds: int) -> tuple[Times, str]:
    """Seconds of each command and of each rendering; or why there are none."""
    if not importlib.util.find_spec("copier"):
        return {}, "copier is not installed"
    target = build / "made"
    python = [sys.executable]
    # The version of the template, which a plain folder does not tell; ddpgen knows its own.
    tag = ["--data", "ddpgen_tag=v0"]
    copy = [*python, "-m", "copier", "copy", "--defaults", "--quiet", *tag, str(ROOT / "template")]
    commands = {
        HELP: [*python, "-m", "ddpgen", "--help"],
        BARE: [*python, "-c", "import argparse"],
        NEW: [*python, "-m", "ddpgen", "new", str(target), "--defaults"],
        COPY: [*copy, str(target)],
    }
    # All may keep their bytecode, as what is installed has it: argparse has it in any case, and a
    # ddpgen that is compiled at each start would be compared with one that is not.
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    rare = {NEW, COPY}  # they take seconds
    times: Times = {}
    for number in range(-1, 4 * rounds):
        for name, command in commands.items():
            if name not in rare or number < rounds:
                shutil.rmtree(target, ignore_errors=True)
                begin = time.perf_counter()
                subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
                if number >= 0:  # before, each command's bytecode is written
                    times.setdefault(name, []).append(time.perf_counter() - begin)
    for name, make in renderings(target).items():
        for number in range(2 * rounds + len(MODELS)):
            shutil.rmtree(target, ignore_errors=True)
            begin = time.perf_counter()
            make()
            if number >= len(MODELS):  # before, each model's templates are compiled
                times.setdefault(name, []).append(time.perf_counter() - begin)
    shutil.rmtree(target, ignore_errors=True)
    return times, ""


def renderings(target: Path) -> dict[str, Callable[[], None]]:
    """Both ways to put a project's files into a folder from one process."""
    from product import template

    from ddpgen.rendering.render import render

    models = itertools.cycle(MODELS)
    return {
        RENDER: lambda: render({"model": next(models)}, target),
        MATRIX: lambda: template.write({"model": next(models)}, target),
    }
