"""New images to predict for."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import config
import data
import images
import shards
from tools import trained

KIND = "images, folders of them, or .tar and .parquet files"
UNPACKED: list[Path] = []  # folders of this process

# {% set split = "data.Images" if model == "vision" else "data.ImageFiles" %}

def read(files: Sequence[Path], run: trained.Trained) -> tuple[{{ split }}, Any]:
    """The images as the model takes them, and where each is: a file, or member or row of one."""
    unpacked = Path(tempfile.mkdtemp())  # for Parquet files, whose pages are compressed
    UNPACKED.append(unpacked)
    places = [place for path in files for place in _places(path, unpacked)]
    shown = [os.fsencode(place.name or place.path).decode(errors="replace") for place in places]
    packed = images.pack([place._replace(label=data.IGNORE) for place in places])
    seen = {{ split }}(Path(), packed, run.{{ "shape.size" if model == "vision" else "cfg.data" }})
    return seen, pa.table({"file": shown})


def tidy() -> None:
    """Remove what was unpacked: a rank's end skips Python's own."""
    for folder in UNPACKED:
        shutil.rmtree(folder, ignore_errors=True)


def _places(path: Path, unpacked: Path) -> list[images.Place]:
    """A file itself, or all images in a folder, in a shard or in a folder of shards."""
    if path.is_file() and path.suffix not in shards.ENDINGS:
        return [images.Place(str(path), data.IGNORE)]
    if found := shards.files(path):
        shards.refuse_both(path)
        return [place for shard in found for place in _in_shard(shard, unpacked)]
    if not (loose := images.files_below(path)):
        raise config.ConfigError(f"{path} is neither a file nor a folder that holds images")
    return [images.Place(str(image), data.IGNORE) for image in sorted(loose)]


def _in_shard(path: Path, unpacked: Path) -> list[images.Place]:
    """The images of one file; those of a Parquet file go to a folder."""
    if path.suffix == ".tar":
        return [place for _, place in shards.members(path)[0]]
    with shards.opened(path) as file:
        rows = shards.unpack(path, file, [], unpacked)
        return [place._replace(path=str(unpacked / place.path)) for place, _ in rows]
