"""New images to predict for."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import config
import data
import images
from tools import trained

KIND = "images, or folders of them"


def read(files: Sequence[Path], run: trained.Trained) -> tuple[data.ImageFiles, Any]:
    """The images as the model takes them, and their paths."""
    paths = [str(path) for file in files for path in _find(file)]
    names = [os.fsencode(path).decode(errors="replace") for path in paths]
    packed = images.pack([images.Place(path, data.IGNORE) for path in paths])
    return data.ImageFiles(Path(), packed, run.cfg.data), pa.table({"file": names})


def _find(path: Path) -> list[Path]:
    """A file itself, or all images in a folder."""
    if path.is_file():
        return [path]
    found = images.files_below(path)
    if not found:
        raise config.ConfigError(f"{path} is neither a file nor a folder that holds images")
    return sorted(found)
