"""Measures the generated project beside other ways to train the same; writes docs/bench.md.

    python -m bench                    in the folder tests; all cases of this machine's device
    python -m bench --quick            a minute, one case, to see that it works; writes build/bench
    python -m bench --only mlp gpt     these cases; the others keep the figures of the last run
    python -m bench --only "own tests" how long the tests of generated projects take
    python -m bench --only answers     how soon the page of ddpgen web answers
    python -m bench --only saves       how long a large save holds training up
    python -m bench --only gpt --sides generated plain again   these sides of it
    python -m bench --prepare cuda     only generate the projects, for a machine without ddpgen

It needs torch; sides whose libraries are missing are left out, and the page says so.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bench import answering, cases, commands, own_tests, page, saving, tree
from bench.cases import Case
from bench.commands import ROOT

BUILD = ROOT / "build" / "bench"
PACKAGES = ("torch", "accelerate", "pytorch-lightning", "transformers")


def prepare(case: Case) -> Path:
    """Generate the case's project, unless that has been done, and prepare its data.

    A project that was generated on another machine finds its data there, or another source of it.
    """
    project = BUILD / "projects" / case.name.replace(", ", "-")
    if not (project / "data").exists():
        from ddpgen.rendering.render import render

        shutil.rmtree(project, ignore_errors=True)
        project.parent.mkdir(parents=True, exist_ok=True)
        render(case.answers, project)
    overrides = tree.task_of("plain", case, 1, project).overrides
    command = [sys.executable, "train.py", "--prepare-only", *overrides]
    subprocess.run(command, cwd=project, check=True)
    return project


def missing(side: str) -> str:
    """The package that a side lacks here."""
    package = cases.LIBRARIES.get(side)
    return (
        f"{package} is not installed" if package and not importlib.util.find_spec(package) else ""
    )


def starts(
    case: Case, sides: Sequence[str], project: Path, ranks: int
) -> tuple[dict[str, tree.Times], dict[str, str]]:
    """The times of all starts one after the other, without sides that failed in one of them."""
    times: dict[str, tree.Times] = {}
    failures: dict[str, str] = {}
    for _ in range(case.starts):
        working = [side for side in sides if side not in failures]
        found, failed = tree.measure(case, working, project, ranks, BUILD / "runs")
        failures |= failed
        for side, figures in found.items():
            for name, values in figures.items():
                times.setdefault(side, {}).setdefault(name, []).extend(values)
    return {side: found for side, found in times.items() if side not in failures}, failures


def measure(case: Case, ranks: int, asked: Sequence[str]) -> dict[str, Any]:
    """One case, as it stands in the file of results."""
    load = os.getloadavg()[0]
    left_out = {side: missing(side) for side in case.sides if missing(side)}
    if asked:
        left_out |= {side: "not asked for" for side in case.sides if side not in asked}
    sides = [side for side in case.sides if side not in left_out]
    project = prepare(case)
    begin = time.monotonic()
    extra = ["matmul"] if "accelerate" in case.sides else []
    times, failures = starts(case, [*sides, *extra], project, ranks)
    for side, words in failures.items():
        print(f"  {case.name}: {side} failed\n{words}", file=sys.stderr)
        if side not in cases.LIBRARIES:
            raise SystemExit(f"without {side} there is nothing to compare with")
        left_out[side] = "failed: " + (words.strip().splitlines() or [""])[-1][:200]
    return {
        "name": case.name,
        "words": case.words,
        "micro_batch": case.micro_batch,
        "precision": case.amp,
        "ranks": ranks,
        "block": case.block,
        "starts": case.starts,
        "accumulate": case.accumulate,
        "load": load,
        "seconds": time.monotonic() - begin,
        "times": {side: rounded(found) for side, found in times.items()},
        "left_out": left_out,
    }


def rounded(times: tree.Times) -> tree.Times:
    """Six digits."""
    return {name: [float(f"{v:.6g}") for v in values] for name, values in times.items()}


def store(results: dict[str, Any], path: Path) -> None:
    """As JSON with one line for each list of figures."""
    text = json.dumps(results, indent=1)
    text = re.sub(r'\[[^][{}"]*\]', lambda found: " ".join(found[0].split()), text)
    path.write_text(text + "\n", encoding="utf-8")


def machine(kind: str) -> dict[str, Any]:
    """What it was measured on."""
    name = torch.cuda.get_device_name() if kind == "cuda" else platform.machine()
    versions = {}
    for package in PACKAGES:
        if importlib.util.find_spec(package.replace("-", "_")):
            versions[package] = importlib.metadata.version(package)
    return {"device": name, "cores": os.cpu_count(), "versions": versions}


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="CASE", default=[])
    parser.add_argument("--sides", nargs="+", metavar="SIDE", default=[])
    parser.add_argument("--prepare", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    kind = arguments.prepare or ("cuda" if torch.cuda.is_available() else "cpu")
    chosen = [c for c in cases.TABLE[kind] if not arguments.only or c.name in arguments.only]
    if arguments.quick and not arguments.only:
        chosen = chosen[:1]
    if arguments.prepare:
        print(*map(prepare, chosen), sep="\n")
        return 0
    ranks = 2 if kind == "cpu" else torch.cuda.device_count()
    folder = BUILD if arguments.quick else ROOT / "docs"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bench.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    before = results.get(kind, {}).get("cases", []) if arguments.only else []
    none = {
        "commands": {},
        "no_commands": "not measured",
        "own tests": {},
        "answers": {},
        saving.NAME: {},
    }
    device = results[kind] = none | results.get(kind, {}) | machine(kind) | {"cases": before}
    for case in chosen:
        print(f"{case.name}: {case.words}", flush=True)
        figures = measure(cases.quick(case) if arguments.quick else case, ranks, arguments.sides)
        before[:] = [one for one in before if one["name"] != case.name] + [figures]
        store(results, path)
    if not (arguments.only and device["commands"]):
        print("the generator's commands", flush=True)
        times, device["no_commands"] = commands.measure(BUILD, 1 if arguments.quick else 5)
        device["commands"] = rounded(times)
        store(results, path)
    if not arguments.quick and arguments.only in ([], [own_tests.NAME]):
        print(f"{own_tests.NAME} of generated projects", flush=True)
        device["own tests"] = rounded(own_tests.measure(BUILD))
        store(results, path)
    if not arguments.quick and arguments.only in ([], [saving.NAME]):
        print("large saves", flush=True)
        device[saving.NAME] = rounded(saving.measure(folder=BUILD))
        store(results, path)
    if arguments.only in ([], [answering.NAME]):
        print("the page of ddpgen web", flush=True)
        times, device["no_answers"] = answering.measure(BUILD, 1 if arguments.quick else 5)
        device[answering.NAME] = rounded(times)
        store(results, path)
    page.write(results, folder)
    print(f"{folder / 'bench.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
