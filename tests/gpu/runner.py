"""Trains generated programs on the GPUs of this machine, and notes which do what they promise.

    python run.py                               programs with all pairs of options
    python run.py --programs=all --minutes=5    then all others, as far as the time goes
    python run.py --only=gpt-bf16               those with this in their names
    python run.py --own-tests                   first, whole projects' own tests and tools

It needs Python and PyTorch, nothing else; programs that import what is not installed are left out.
Several programs run at a time. Each row of the results is one program in one mode:

- one rank, with NCCL: finite losses; stopped and resumed, it ends with the same bits.
- two ranks on one GPU, with Gloo: the losses of one rank.
- one rank per GPU, with NCCL, where there are several: the losses of one rank; resumed as above.
- compiled, with DataLoader workers, one rank per GPU: the losses of the plain program; two programs
  per model.
- a whole project's own tests, and its tools.

A program or a project whose rows are in the results is not run again, so that a run that was
stopped goes on; where a row says "failed", the program or the project is.
"""

import argparse
import json
import multiprocessing
import os
import platform
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from product import training

HERE = Path(__file__).parent
EXACT = "run.deterministic=true"
# Of losses, relative. float32 products are in TF32, as the config says; float16 rounds to 3 digits.
TOLERANCE = {"off": 5e-3, "bf16": 3e-2, "fp16": 1e-2}


@dataclass(frozen=True)
class Program:
    """One of programs.json."""

    name: str
    answers: dict[str, Any]
    pairs: bool
    overrides: list[str]
    needs: list[str]
    files: dict[str, str]

    def write(self, folder: Path) -> Path:
        """Put its files together."""
        shutil.rmtree(folder, ignore_errors=True)
        for path, name in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HERE / "files" / name, folder / path)
        return folder


@dataclass(frozen=True)
class Mode:
    """A way to start a program."""

    name: str
    ranks: int
    overrides: tuple[str, ...] = ()
    resume: bool = True


def modes(device: str) -> list[Mode]:
    """What this machine can do; a CPU only shows that this script works."""
    if device == "cpu":
        cpu = ("{wrapper}.device=cpu",)
        workers = Mode("one rank, with workers", 1, (*cpu, "data.workers=2"), resume=False)
        return [Mode("one rank", 1, cpu), Mode("two ranks, Gloo", 2, cpu, resume=False), workers]
    several = torch.cuda.device_count()
    shared = Mode("two ranks on one GPU, Gloo", 2, ("{wrapper}.backend=gloo",), resume=False)
    found = [Mode("one rank, NCCL", 1), shared]
    if several > 1:
        found.append(Mode(f"{several} ranks, NCCL", several))
    fast = ("run.compile=true", "data.workers=2")
    return [*found, Mode("compiled, with workers", several, fast, resume=False)]


def skipped(program: Program, mode: Mode, compiled: bool) -> str:
    """Why a program is not run in a mode; empty where it is."""
    if missing := [name for name in program.needs if not find_spec(name)]:
        return f"not installed: {', '.join(missing)}"
    if mode.name.startswith("compiled") and not compiled:
        return "another program of this model is compiled"
    if "{wrapper}.backend=gloo" in mode.overrides and wrapper(program) == "fsdp":
        return "PyTorch cannot gather shares on GPUs over Gloo"
    return ""


def wrapper(program: Program) -> str:
    """The section of the config that says how ranks train together."""
    return "fsdp" if program.answers["sharding"] in ("fsdp", "hsdp") else "ddp"


def run(program: Program, mode: Mode, folder: Path, first: training.History) -> training.History:
    """Train, resume, compare with the first mode's history; raises AssertionError."""
    project = program.write(folder)
    texts = [*program.overrides, EXACT, *mode.overrides]
    overrides = [text.format(here=HERE, wrapper=wrapper(program)) for text in texts]
    rows = training.train(project, mode.ranks, overrides)
    training.check_history(rows)
    # BatchNorm of each rank by itself computes something else on another number of ranks. So does
    # the synchronised one on CPUs, and where several ranks' micro-batches are what one rank has.
    norm = program.answers.get("batch_norm", "group")
    on_cpu = "{wrapper}.device=cpu" in mode.overrides
    same = norm == "sync" and not on_cpu and not program.answers["accumulation"]
    if first and (mode.ranks == 1 or norm == "group" or same):
        training.compare(rows, first, TOLERANCE[program.answers["amp"]])
    if program.answers["checkpoint"] and mode.resume:
        training.stop_and_resume(project, mode.ranks, overrides, rows)
    return rows


def attempts(
    program: Program, device: str, compiled: bool, deadline: float
) -> list[dict[str, Any]]:
    """The program's rows of the results; none where the time is over."""
    return [*_attempts(program, device, compiled)] if time.time() < deadline else []


def _attempts(program: Program, device: str, compiled: bool) -> Iterator[dict[str, Any]]:
    first: training.History = []
    for mode in modes(device):
        row: dict[str, Any] = {"program": program.name, "mode": mode.name, "outcome": "passed"}
        begin = time.monotonic()
        if why := skipped(program, mode, compiled):
            row["outcome"] = "skipped"
        else:
            try:
                rows = run(program, mode, HERE / "work" / str(os.getpid()), first)
                first = first or rows
            except AssertionError as error:
                print(str(error)[-3000:], flush=True)
                row["outcome"], why = "failed", str(error).strip().rpartition("\n")[2][:300]
        yield row | {"why": why, "seconds": round(time.monotonic() - begin, 2)}


QUICK = ["train.py", "train.max_steps=8"]
# What is started in a whole project, if it has a file.
TOOLS = {
    "own tests": ("tests/conftest.py", ["-m", "pytest", "-q", "-p", "no:cacheprovider"]),
    "preflight": ("tools/preflight/__main__.py", ["-m", "tools.preflight"]),
    "memory": ("tools/memory/__main__.py", ["-m", "tools.memory"]),
    "scaling": ("tools/scaling/__main__.py", ["-m", "tools.scaling"]),
    "profile": ("engine/profiling.py", [*QUICK, "run.name=profiled", "profile.steps=[3,6]"]),
    "compiled": ("train.py", [*QUICK, "run.name=compiled", "run.compile=true"]),
    "resumed": ("engine/checkpoint.py", ["train.py", "train.max_steps=12", "run.name=compiled"]),
    "HSDP": ("engine/sharding.py", [*QUICK, "run.name=hsdp", "fsdp.shard_over=node"]),
}


def used(project: Path, deadline: float, before: set[str]) -> list[dict[str, Any]]:
    """The rows of a whole project: its own tests, and its tools, but for modes that ran before."""
    rows = []
    for name, (file, arguments) in TOOLS.items():
        if name in before or not (project / file).exists() or time.time() > deadline:
            continue
        row: dict[str, Any] = {"program": f"{project.name}, whole", "mode": name, "why": ""}
        begin = time.monotonic()
        if "pytest" in arguments and not find_spec("pytest"):
            row |= {"outcome": "skipped", "why": "not installed: pytest"}
        else:
            command = [sys.executable, *arguments]
            done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
            lines = (done.stdout + done.stderr).strip().splitlines()
            failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
            if done.returncode:
                print("\n".join(lines[-60:]), flush=True)
                row["why"] = "; ".join(failures or lines[-1:])[:600]
            row["outcome"] = "failed" if done.returncode else "passed"
        rows.append(row | {"seconds": round(time.monotonic() - begin, 2)})
    return rows


def chosen(programs: Sequence[Program], only: str, how_many: str) -> list[Program]:
    """Those with all pairs, then others in an order in which any part of them has all kinds."""
    named = [program for program in programs if only in program.name]
    others = [program for program in named if not program.pairs]
    random.Random(0).shuffle(others)
    return [program for program in named if program.pairs] + others * (how_many == "all")


def compiled_ones(programs: Sequence[Program]) -> set[str]:
    """The name of a program of each model, with and without activation checkpointing.

    Those whose graph is the same in each step, and whose BatchNorm has more than a few samples:
    over four of them, rounding grows to other losses within a step or two.
    """
    chosen = {}
    for program in reversed(programs):
        answers = program.answers
        few = answers["accumulation"] and answers.get("batch_norm") in ("local", "sync")
        if not answers.get("dynamic_graph") and not few:
            chosen[answers["model"], answers["activation_checkpointing"]] = program.name
    return set(chosen.values())


def machine(device: str) -> dict[str, Any]:
    """Versions and devices."""
    cuda = device == "cuda"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if cuda else None,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if cuda else None,
        "device": torch.cuda.get_device_name(0) if cuda else "CPU",
        "devices": torch.cuda.device_count() if cuda else 0,
    }


def main() -> int:
    """Run what was asked for; the results are written after each row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", choices=["pairs", "all"], default="pairs")
    parser.add_argument("--own-tests", action="store_true", help="of projects")
    parser.add_argument("--only", default="", help="part of the programs' names")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--minutes", type=float, default=30, help="then nothing new begins")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("error: no GPU here; --device=cpu tries the script itself", file=sys.stderr)
        return 2
    listed = [Program(**entry) for entry in json.loads((HERE / "programs.json").read_text())]
    programs = chosen(listed, arguments.only, arguments.programs)
    rows = json.loads(arguments.results.read_text())["rows"] if arguments.results.exists() else []
    failed = {row["program"] for row in rows if row["outcome"] == "failed"}
    rows = [row for row in rows if row["program"] not in failed]
    done, compiled = {row["program"] for row in rows}, compiled_ones(programs)
    deadline = time.time() + 60 * arguments.minutes
    # What is imported before ranks are forked may ask for GPUs, but must not open a context on one.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    spawn = multiprocessing.get_context("spawn")  # a process that has touched CUDA cannot fork
    with ProcessPoolExecutor(arguments.workers, spawn) as pool:
        whole = sorted((HERE / "projects").glob("*")) if arguments.own_tests else []
        futures = [
            pool.submit(
                used,
                project,
                deadline,
                {row["mode"] for row in rows if row["program"] == f"{project.name}, whole"},
            )
            for project in whole
            if arguments.only in project.name
        ]
        futures += [
            pool.submit(attempts, program, arguments.device, program.name in compiled, deadline)
            for program in programs
            if program.name not in done
        ]
        for future in as_completed(futures):
            for row in future.result():
                rows.append(row)
                print(f"{row['outcome']:8}{row['seconds']:7.1f} s  {row['program']}: {row['mode']}")
                print(row["why"], end="\n" * bool(row["why"]), flush=True)
            content = {**machine(arguments.device), "rows": rows}
            arguments.results.write_text(json.dumps(content, indent=1) + "\n")
    bad = sum(row["outcome"] == "failed" for row in rows)
    left = len({program.name for program in programs} - {row["program"] for row in rows})
    print(f"{len(rows)} rows, {bad} failed, {left} programs left for time: {arguments.results}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
