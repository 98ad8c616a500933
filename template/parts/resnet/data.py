"""Images: a bundled set in memory, or a folder of files that are decoded when they are needed."""

import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

import config

UNIT = "samples"  # of the throughput
IGNORE = -100  # the target of an image that does not count: padding
ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}


class Batch(NamedTuple):
    inputs: Tensor  # [B, channels, image_size, image_size] uint8, black is 0 and white 255
    targets: Tensor  # [B] int64


@dataclass(frozen=True)
class Shape:
    channels: int
    classes: int
    labels: list[str] = field(repr=False)  # of the classes


@dataclass(frozen=True)
class Augment:
    """Random turns, zooms, shifts and mirrorings of a batch of training images."""

    rotate: float
    zoom: float
    shift: float
    flip: bool

    def __call__(self, images: Tensor) -> Tensor:
        """Images [B, channels, height, width] uint8 -> the same, each changed in its own way."""
        count = len(images)
        # From torch's global generator, which the loader seeds for every batch by its place.
        angle = math.radians(self.rotate) * (2 * torch.rand(count) - 1)
        scale = 1 + self.zoom * (2 * torch.rand(count) - 1)
        mirror = 1 - 2.0 * (torch.rand(count) < 0.5 * self.flip)
        shift = 2 * self.shift * (2 * torch.rand(count, 2) - 1)  # coordinates run from -1 to 1
        cos, sin = scale * angle.cos(), scale * angle.sin()
        rows = (cos * mirror, -sin, shift[:, 0], sin * mirror, cos, shift[:, 1])
        maps = torch.stack(rows, dim=1).view(count, 2, 3)
        grid = F.affine_grid(maps, list(images.shape), align_corners=False)
        changed = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
        return changed.round().byte()


class Images(Dataset[Batch]):
    """Images in memory. Indexed by a whole batch at a time, which spares a Python loop."""

    def __init__(self, inputs: Tensor, targets: Tensor, augment: Augment | None = None) -> None:
        self.inputs, self.targets, self.augment = inputs, targets, augment

    def __len__(self) -> int:
        return len(self.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        rows = torch.tensor(indices)
        inputs = self.inputs[rows]
        return Batch(self.augment(inputs) if self.augment else inputs, self.targets[rows])


class Files(NamedTuple):
    """Paths and classes, mapped into memory: a list would be in each rank and worker anew."""

    names: Tensor  # uint8, one path behind the other
    ends: Tensor  # of each path
    targets: Tensor  # the number of each file's class

    def path(self, index: int) -> str:
        """The path of one file."""
        begin = self.ends[index - 1] if index else 0
        return bytes(self.names[begin : self.ends[index]].tolist()).decode()


class ImageFiles(Dataset[Batch]):
    """Images on disk, decoded at each use: with many of them, let DataLoader workers do it."""

    def __init__(self, files: Files, cfg: config.Data, augment: Augment | None = None) -> None:
        self.files, self.cfg, self.augment = files, cfg, augment

    def __len__(self) -> int:
        return len(self.files.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        inputs = torch.stack([_decode(self.files.path(index), self.cfg) for index in indices])
        targets = self.files.targets[indices]
        return Batch(self.augment(inputs) if self.augment else inputs, targets)


class Splits(NamedTuple):
    train: Images | ImageFiles
    val: Images | ImageFiles
    shape: Shape


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return targets != IGNORE


def prepare(cfg: config.Data) -> None:
    """Write the images' tensors or the list of their files, once per node."""
    path = prepared_path(cfg)
    if path.exists():
        return
    partial = path.with_suffix(".partial")
    if cfg.source == "digits":
        from sklearn import datasets  # only needed here, where the data is prepared

        pixels, labels = datasets.load_digits(return_X_y=True)
        images = torch.tensor(pixels, dtype=torch.uint8).view(-1, 1, 8, 8)
        torch.save({"images": images, "targets": torch.tensor(labels)}, partial)
    else:
        torch.save(_list_files(cfg), partial)
    partial.replace(path)  # the file appears whole


def open_splits(cfg: config.Data) -> Splits:
    """Read what was prepared, and hold out the same images on every rank and run."""
    augment = Augment(cfg.rotate, cfg.zoom, cfg.shift, cfg.flip)
    if cfg.source == "digits":
        return _open_digits(cfg, augment)
    listed = torch.load(prepared_path(cfg), weights_only=True, mmap=True)
    return Splits(
        ImageFiles(Files(*listed["train"]), cfg, augment),
        ImageFiles(Files(*listed["val"]), cfg),
        Shape(cfg.channels, len(listed["classes"]), listed["classes"]),
    )


def _open_digits(cfg: config.Data, augment: Augment) -> Splits:
    prepared = torch.load(prepared_path(cfg), weights_only=True)
    pixels = prepared["images"] * (255 / 16)  # from 0..16
    sized = F.interpolate(pixels, (cfg.image_size, cfg.image_size), mode="bilinear")
    images, targets = sized.round().byte().expand(-1, cfg.channels, -1, -1), prepared["targets"]
    train, val = _hold_out(len(targets), cfg)
    return Splits(
        Images(images[train], targets[train], augment),
        Images(images[val], targets[val]),
        Shape(cfg.channels, 10, [str(digit) for digit in range(10)]),
    )


def _hold_out(count: int, cfg: config.Data) -> tuple[list[int], list[int]]:
    """Which of `count` samples are for training, and which for validation."""
    generator = torch.Generator().manual_seed(cfg.split_seed)
    order: list[int] = torch.randperm(count, generator=generator).tolist()
    held_out = max(1, round(cfg.validation * count))
    return order[held_out:], order[:held_out]


def prepared_path(cfg: config.Data) -> Path:
    """The place of the tensors or of the list; other files in the folders have another place."""
    if cfg.source == "digits":
        return Path(cfg.folder) / "digits-images.pt"
    root = Path(cfg.source)
    folders = sorted([*root.glob("*/"), *root.glob("train/*/"), *root.glob("val/*/")])
    changed = [(folder.name, folder.stat().st_mtime_ns) for folder in folders]
    key = repr((cfg.source, cfg.validation, cfg.split_seed, changed))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).name}-{digest}.pt"


def _list_files(cfg: config.Data) -> dict[str, Any]:
    """The classes, and the files of each split: from train/ and val/, or divided by chance."""
    root = Path(cfg.source)
    parts = [root / "train", root / "val"]
    divided = all(part.is_dir() for part in parts)
    folders = parts[0] if divided else root
    classes = sorted(path.name for path in folders.glob("*/"))
    if len(classes) < 2:
        raise config.ConfigError(
            f"data.source = {cfg.source!r} must be 'digits', or a folder that holds one folder of "
            f"images per class (directly, or in train/ and val/); found the classes {classes}"
        )
    if divided:
        train, val = (_list_folder(part, classes) for part in parts)
    else:
        files = _list_folder(root, classes)
        train, val = ([files[i] for i in share] for share in _hold_out(len(files), cfg))
    return {"classes": classes, "train": packed(train), "val": packed(val)}


def packed(files: list[tuple[str, int]]) -> tuple[Tensor, ...]:
    """What Files holds."""
    names = [path.encode() for path, _ in files]
    ends = torch.tensor([len(name) for name in names]).cumsum(0)
    targets = torch.tensor([label for _, label in files])
    return torch.frombuffer(bytearray(b"".join(names)), dtype=torch.uint8), ends, targets


def _list_folder(folder: Path, classes: list[str]) -> list[tuple[str, int]]:
    files = [
        (str(path.resolve()), label)
        for label, name in enumerate(classes)
        for path in sorted((folder / name).rglob("*"))
        if path.suffix.lower() in ENDINGS
    ]
    if len(files) < 2:
        raise config.ConfigError(f"{folder} holds {len(files)} images in the folders {classes}")
    return files


def _decode(path: str, cfg: config.Data) -> Tensor:
    """One file, cropped to a square around its centre, as Batch.inputs[i]."""
    from PIL import Image, ImageOps  # only needed for image files

    size = (cfg.image_size, cfg.image_size)
    mode = "L" if cfg.channels == 1 else "RGB"
    try:
        with Image.open(path) as image:
            image.draft(mode, size)  # lets the JPEG decoder reduce the image while it reads
            pixels = ImageOps.fit(image.convert(mode), size).tobytes()
    except OSError as error:
        raise config.ConfigError(f"{path} cannot be read as an image: {error}") from error
    values = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(*size, cfg.channels)
    return values.permute(2, 0, 1)
