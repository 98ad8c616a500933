"""Files of checkpoints: written whole, described by a manifest, verified before they are used.

It is also a program: `python -m engine.checkpoint_files --help`.
"""

import argparse
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch

import config
from engine import distributed

FOLDER = "checkpoints"  # in the run's folder
FORMAT = 1  # what this program writes, and the newest that it reads


def path_of(run: Path, step: int) -> Path:
    """Where the checkpoint of a step is; its manifest is beside it, as .json."""
    return run / FOLDER / f"step_{step:08d}.pt"


def write(path: Path, content: dict[str, Any], world_size: int) -> None:
    """The file first, then its manifest: what has no manifest was never finished."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_whole(path, lambda file: _save(content, file))
    manifest = {
        "format": FORMAT,
        "step": content["step"],
        "best_step": content["best_step"],
        "world_size": world_size,
        "torch": torch.__version__,
        "config": hashlib.sha256(json.dumps(content["config"]).encode()).hexdigest(),
        "sha256": _digest(path),
    }
    text = json.dumps(manifest, indent=2) + "\n"
    _write_whole(path.with_suffix(".json"), lambda file: file.write(text.encode()))


def _save(content: dict[str, Any], file: BinaryIO) -> None:
    try:
        torch.save(content, file)
    except RuntimeError as error:
        # torch's writer covers up what the file has said, for example that the disk is full.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def _write_whole(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Create or replace a file so that after a crash it is there whole, or as it was before."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # the new name, too, must survive a power cut
    os.close(folder)


def rotate(newest: Path, keep: int, best_step: int) -> None:
    """Delete what is neither the best nor among the last `keep` up to the one just written.

    What lies ahead of that was passed over on resume, and will be written again.
    """
    for leftover in newest.parent.glob("*.partial"):
        leftover.unlink()  # of a save that was interrupted
    for path in [path for path in found(newest.parent) if path <= newest][:-keep]:
        if path.stem != f"step_{best_step:08d}":
            # The manifest first, so that none promises a file that is gone.
            path.with_suffix(".json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def found(folder: Path) -> list[Path]:
    """All checkpoints in a folder, good or not, the oldest first."""
    files = [*folder.glob("step_*.pt"), *folder.glob("step_*.json")]
    return sorted({path.with_suffix(".pt") for path in files})


def problem(path: Path) -> str:
    """What is wrong with a checkpoint; '' if its content is what was written."""
    try:
        manifest = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if manifest["format"] > FORMAT:
            return f"a newer program wrote it, in format {manifest['format']}"
        return "" if _digest(path) == manifest["sha256"] else "its content is not what was written"
    except FileNotFoundError as error:
        return f"it was never finished, {Path(error.filename).name} is missing"
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError):
        return "its manifest is damaged, or another program's"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def newest_good(run: Path) -> str:
    """The newest good checkpoint, '' where none was ever finished; says what it passes over.

    Raises ConfigError where none is good any more: to begin anew would overwrite the run.
    """
    for path in reversed(paths := found(run / FOLDER)):
        if not (reason := problem(path)):
            return str(path)
        print(f"passed over {path}: {reason}", flush=True)
    if any(path.with_suffix(".json").exists() for path in paths):
        raise config.ConfigError(f"no checkpoint of {run} is good: choose another run.name")
    return ""


def main(argv: Sequence[str] | None = None) -> None:
    """List, verify or export the checkpoints of a run."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("ls", help="list them")
    commands.add_parser("verify", help="look for damaged ones; exit code 1 if there are")
    export = commands.add_parser("export", help="write the newest weights as safetensors")
    export.add_argument("--output", type=Path, default=Path("model.safetensors"))
    for command in commands.choices.values():
        command.add_argument("run", type=Path, help="the run's folder, such as runs/001")
    arguments = parser.parse_args(argv)
    paths = found(arguments.run / FOLDER)
    if not paths:
        raise config.ConfigError(f"{arguments.run} has no checkpoints")
    if arguments.command == "export":
        print(f"wrote {_export(arguments.run, arguments.output)}")
        return
    reasons = [problem(path) for path in paths]
    for path, reason in zip(paths, reasons, strict=True):
        print(f"{path.name}  {reason or _describe(path)}")
    if arguments.command == "verify" and any(reasons):
        raise SystemExit(1)


def _describe(path: Path) -> str:
    manifest = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    size = f"{path.stat().st_size / 1e6:,.1f} MB"
    best = "  the best yet" if manifest["best_step"] == manifest["step"] else ""
    return f"{size}, by {manifest['world_size']} ranks, config {manifest['config'][:8]}{best}"


def _export(run: Path, output: Path) -> Path:
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise config.ConfigError("export needs safetensors: pip install safetensors") from error
    content = torch.load(newest_good(run), map_location="cpu", weights_only=True)
    # The format knows no tensor with two names: each gets a copy.
    weights = {name: weight.clone().contiguous() for name, weight in content["model"].items()}
    save_file(weights, output, {"step": str(content["step"])})
    return output


if __name__ == "__main__":
    distributed.run(main)
