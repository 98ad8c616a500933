"""Lists, verifies and exports the checkpoints of a run: `python -m tools.checkpoints --help`."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import config
from engine import checkpoint, distributed
from tools import export


def main(argv: Sequence[str] | None = None) -> None:
    """List, verify or export the checkpoints of a run."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("ls", help="list the checkpoints")
    commands.add_parser("verify", help="look for damaged files; exit code 1 if there are any")
    writing = commands.add_parser("export", help="write a folder that other programs read")
    writing.add_argument("--output", type=Path, help="the folder (default: RUN/export)")
    writing.add_argument("--newest", action="store_true", help="not the best checkpoint")
    for command in commands.choices.values():
        command.add_argument("run", type=Path, help="the run's folder, such as runs/001")
    arguments = parser.parse_args(argv)
    if arguments.command == "export":
        folder = arguments.output or arguments.run / "export"
        print(f"wrote {folder}, step {export.write(arguments.run, folder, arguments.newest)}")
        return
    paths = checkpoint.found(arguments.run / checkpoint.FOLDER)
    if not paths:
        raise config.ConfigError(f"{arguments.run} has no checkpoints")
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


if __name__ == "__main__":
    distributed.run(main)
