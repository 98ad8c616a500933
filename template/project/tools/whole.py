"""Writes a checkpoint as one file, for projects without `saves=shards`: `python -m tools.whole`."""

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import config
from engine import checkpoint, distributed, folders, report


def main(argv: Sequence[str] | None = None) -> None:
    """Copy a run with its newest checkpoint, as one file of the size of all the ranks' state."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("run", type=Path, help="the run's folder, such as runs/first")
    parser.add_argument("copy", type=Path, help="a new folder beside it, such as runs/first-whole")
    arguments = parser.parse_args(argv)
    path, target = copied(arguments.run, arguments.copy)
    print(f"wrote {target}, from {path}: continue with run.name={arguments.copy.name}")


def copied(run: Path, copy: Path) -> tuple[Path, Path]:
    """The newest checkpoint of a run, and the file that was made of it in a new folder."""
    if not (found := checkpoint.newest_good(run)):
        raise config.ConfigError(f"{run} has no checkpoints: train it first")
    path = Path(found)
    content = folders.whole(path)
    manifest = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    target = checkpoint.path_of(copy, content["step"])
    try:
        copy.mkdir()  # no run is overwritten
        shutil.copyfile(run / report.HISTORY, copy / report.HISTORY)
        checkpoint.write(target, content, manifest["world_size"])
    except OSError as error:
        raise config.ConfigError(f"{error.filename}: {error.strerror}") from error
    return path, target


if __name__ == "__main__":
    distributed.run(main)
