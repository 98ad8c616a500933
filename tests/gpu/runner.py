"""Trains generated programs on the GPUs of this machine, and notes which do what they promise.

    python run.py                    programs with all pairs of options
    python run.py --programs=all     all programs
    python run.py --only=gpt-bf16    those with this in their names

It needs Python and PyTorch, nothing else. Each row of the results is one program in one mode:

- one rank, with NCCL: finite losses; stopped and resumed, it ends with the same bits.
- two ranks on one GPU, with Gloo: the losses of one rank.
- one rank per GPU, with NCCL, where there are several: the losses of one rank; resumed as above.
- compiled, with DataLoader workers: the losses of the plain program; one program per model.

Programs whose rows are in the results are not run again, so that a run that was stopped goes on;
those that failed are.
"""

import argparse
import json
import platform
import shutil
import sys
import time
from collections.abc import Iterator
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
        cpu = ("ddp.device=cpu",)
        return [Mode("one rank", 1, cpu), Mode("two ranks, Gloo", 2, cpu, resume=False)]
    several = torch.cuda.device_count()
    shared = Mode("two ranks on one GPU, Gloo", 2, ("ddp.backend=gloo",), resume=False)
    found = [Mode("one rank, NCCL", 1), shared]
    if several > 1:
        found.append(Mode(f"{several} ranks, NCCL", several))
    fast = ("run.compile=true", "data.workers=2")
    return [*found, Mode("compiled, with workers", 1, fast, resume=False)]


def skipped(program: Program, mode: Mode, compiled: set[str]) -> str:
    """Why a program is not run in a mode; empty where it is."""
    if program.answers["model"] == "text-classifier" and not find_spec("transformers"):
        return "transformers is not installed"
    if mode.name.startswith("compiled"):
        if program.answers["model"] in compiled:
            return "another program of this model was compiled"
        if program.answers.get("dynamic_graph"):
            return "what is skipped differs from step to step: compiled again and again"
        compiled.add(program.answers["model"])
    return ""


def run(program: Program, mode: Mode, folder: Path, first: training.History) -> training.History:
    """Train, resume, compare with the first mode's history; raises AssertionError."""
    project = program.write(folder)
    overrides = [*program.overrides, EXACT, *mode.overrides]
    rows = training.train(project, mode.ranks, overrides)
    training.check_history(rows)
    # BatchNorm of each rank by itself computes something else on another number of ranks.
    local = program.answers.get("batch_norm", "group") == "local" and mode.ranks > 1
    on_cpu = "ddp.device=cpu" in mode.overrides and program.answers.get("batch_norm") == "sync"
    if first and not local and not on_cpu:
        training.compare(rows, first, TOLERANCE[program.answers["amp"]])
    if program.answers["checkpoint"] and mode.resume:
        training.stop_and_resume(project, mode.ranks, overrides, rows)
    return rows


def attempts(program: Program, device: str, compiled: set[str]) -> Iterator[dict[str, Any]]:
    """The program's rows of the results."""
    first: training.History = []
    for mode in modes(device):
        row: dict[str, Any] = {"program": program.name, "mode": mode.name, "outcome": "passed"}
        begin = time.monotonic()
        if why := skipped(program, mode, compiled):
            row["outcome"] = "skipped"
        else:
            try:
                rows = run(program, mode, HERE / "work" / "project", first)
                first = first or rows
            except AssertionError as error:
                row["outcome"], why = "failed", str(error)[-3000:]
        yield row | {"why": why, "seconds": round(time.monotonic() - begin, 2)}


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
    parser.add_argument("--only", default="", help="part of the programs' names")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("error: no GPU here; --device=cpu tries the script itself", file=sys.stderr)
        return 2
    listed = [Program(**entry) for entry in json.loads((HERE / "programs.json").read_text())]
    programs = [
        program
        for program in listed
        if (program.pairs or arguments.programs == "all") and arguments.only in program.name
    ]
    rows = json.loads(arguments.results.read_text())["rows"] if arguments.results.exists() else []
    failed = {row["program"] for row in rows if row["outcome"] == "failed"}
    rows = [row for row in rows if row["program"] not in failed]
    done, compiled = {row["program"] for row in rows}, set[str]()
    for program in programs:
        if program.name in done:
            continue
        for row in attempts(program, arguments.device, compiled):
            rows.append(row)
            print(f"{row['outcome']:8}{row['seconds']:7.1f} s  {row['program']}: {row['mode']}")
            print(row["why"], end="\n" * bool(row["why"]), flush=True)
        content = {**machine(arguments.device), "rows": rows}
        arguments.results.write_text(json.dumps(content, indent=1) + "\n")
    bad = sum(row["outcome"] == "failed" for row in rows)
    print(f"{len(rows)} rows, {bad} failed: {arguments.results}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
