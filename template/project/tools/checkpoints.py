"""Lists, verifies and exports the checkpoints of a run: `python -m tools.checkpoints --help`."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch

import config
from engine import checkpoint, distributed


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
    paths = checkpoint.found(arguments.run / checkpoint.FOLDER)
    if not paths:
        raise config.ConfigError(f"{arguments.run} has no checkpoints")
    if arguments.command == "export":
        print(f"wrote {export_weights(arguments.run, arguments.output)}")
        return
    reasons = [checkpoint.problem(path) for path in paths]
    for path, reason in zip(paths, reasons, strict=True):
        print(f"{path.name}  {reason or describe(path)}")
    if arguments.command == "verify" and any(reasons):
        raise SystemExit(1)


def describe(path: Path) -> str:
    """A good checkpoint in a line: size, ranks, config, and whether its loss is the lowest."""
    manifest = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    size = f"{path.stat().st_size / 1e6:,.1f} MB"
    best = "  the best yet" if manifest["best_step"] == manifest["step"] else ""
    return f"{size}, by {manifest['world_size']} ranks, config {manifest['config'][:8]}{best}"


def export_weights(run: Path, output: Path) -> Path:
    """Write the weights of a run's newest good checkpoint."""
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise config.ConfigError("export needs safetensors: pip install safetensors") from error
    content = torch.load(checkpoint.newest_good(run), map_location="cpu", weights_only=True)
    # The format knows no tensor with two names: each name gets a copy.
    weights = {name: weight.clone().contiguous() for name, weight in content["model"].items()}
    save_file(weights, output, {"step": str(content["step"])})
    return output


if __name__ == "__main__":
    distributed.run(main)
