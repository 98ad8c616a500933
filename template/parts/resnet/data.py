"""Images: a bundled set in memory, or a folder of files that are decoded when they are needed."""

import hashlib
import math
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

import config
import images
import shards

UNIT = "samples"  # of the throughput
IGNORE = -100  # the target of an image that does not count: padding
FILES, PICTURES = "files.pt", "images"  # what is prepared
PROGRAM = ("images.py", "shards.py")  # what prepares


class Batch(NamedTuple):
    inputs: Tensor  # [B, channels, image_size, image_size] uint8, black is 0 and white 255
    targets: Tensor  # [B] int64


@dataclass(frozen=True)
class Shape:
    channels: int
    classes: int
    labels: list[str] = field(repr=False)  # of the classes
    doubts: str = field(default="", repr=False, compare=False)  # words about the images
    content: str = ""  # digits that follow from the images of both splits

    @property
    def names(self) -> list[str]:
        """Of classes and images: with others, images that were held out would be trained on."""
        return [*self.labels, f"values {self.content}"]

    def __str__(self) -> str:
        named = ": " + ", ".join(self.labels) if len(self.labels) <= images.FEW else ""
        return f"{len(self.labels):,} classes{named}{self.doubts}"


@dataclass(frozen=True)
class Augment:
    """Random turns, zooms, shifts and mirrorings of a batch of training images."""

    rotate: float
    zoom: float
    shift: float
    flip: bool

    def __call__(self, batch: Tensor) -> Tensor:
        """Images [B, channels, height, width] uint8 -> the same, each changed in its own way."""
        count = len(batch)
        # From torch's global generator, which the loader seeds for every batch by its place.
        angle = math.radians(self.rotate) * (2 * torch.rand(count) - 1)
        scale = 1 + self.zoom * (2 * torch.rand(count) - 1)
        mirror = 1 - 2.0 * (torch.rand(count) < 0.5 * self.flip)
        shift = 2 * self.shift * (2 * torch.rand(count, 2) - 1)  # coordinates run from -1 to 1
        cos, sin = scale * angle.cos(), scale * angle.sin()
        rows = (cos * mirror, -sin, shift[:, 0], sin * mirror, cos, shift[:, 1])
        maps = torch.stack(rows, dim=1).view(count, 2, 3)
        grid = F.affine_grid(maps, list(batch.shape), align_corners=False)
        changed = F.grid_sample(batch.float(), grid, padding_mode="border", align_corners=False)
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


class ImageFiles(Dataset[Batch]):
    """Images on disk, decoded at each use: with many of them, let DataLoader workers do it."""

    def __init__(
        self, root: Path, files: images.Files, cfg: config.Data, augment: Augment | None = None
    ) -> None:
        self.root, self.files, self.cfg, self.augment = root, files, cfg, augment

    def __len__(self) -> int:
        return len(self.files.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        inputs = torch.stack([self._read(self.files.place(index)) for index in indices])
        targets = self.files.targets[indices]
        return Batch(self.augment(inputs) if self.augment else inputs, targets)

    def _read(self, place: images.Place) -> Tensor:
        return images.square(self.root, place, _mode(self.cfg), self.cfg.image_size)


class Splits(NamedTuple):
    train: Images | ImageFiles
    val: Images | ImageFiles
    shape: Shape


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return targets != IGNORE


def prepare(cfg: config.Data) -> None:
    """Write the images' tensors, or look at every image and list all, once per node."""
    target = prepared_path(cfg)
    if target.exists():
        return
    if cfg.source == "digits":
        _prepare_digits(target)
        return
    with images.preparing(target) as folder:
        if shards.files(Path(cfg.source)):
            found = shards.find(cfg, folder / PICTURES)
        else:
            found = images.find(Path(cfg.source), cfg.validation, cfg.split_seed)
        notes = images.Notes(_root(cfg, folder))
        see = partial(notes.take, partial(_try, cfg, notes.root))
        for _ in images.look([*found.train, *found.val], see):
            pass  # a damaged image raises ConfigError
        images.save(found, notes, folder / FILES)


def _prepare_digits(target: Path) -> None:
    from sklearn import datasets  # only needed here, where the data is prepared

    pixels, labels = datasets.load_digits(return_X_y=True)
    tensors = torch.tensor(pixels, dtype=torch.uint8).view(-1, 1, 8, 8)
    unfinished = target.with_suffix(".partial")
    torch.save({"images": tensors, "targets": torch.tensor(labels)}, unfinished)
    unfinished.replace(target)  # the file appears whole


def _root(cfg: config.Data, prepared: Path) -> Path:
    """The folder of the images, or of what was unpacked of them."""
    unpacked = prepared / PICTURES
    return unpacked if unpacked.is_dir() else Path(cfg.source)


def _try(cfg: config.Data, root: Path, place: images.Place) -> None:
    images.decode(root, place, _mode(cfg), cfg.image_size)


def _mode(cfg: config.Data) -> str:
    """Pillow's name for grey, or for colours."""
    return "L" if cfg.channels == 1 else "RGB"


def open_splits(cfg: config.Data) -> Splits:
    """Read what was prepared, and hold out the same images on every rank and run."""
    augment = Augment(cfg.rotate, cfg.zoom, cfg.shift, cfg.flip)
    if cfg.source == "digits":
        return _open_digits(cfg, augment)
    folder = prepared_path(cfg)
    found = images.load(folder / FILES)
    classes, train, val, _, content = found
    root = _root(cfg, folder)
    return Splits(
        ImageFiles(root, train, cfg, augment),
        ImageFiles(root, val, cfg),
        Shape(cfg.channels, len(classes), classes, images.doubts(found), content),
    )


def _open_digits(cfg: config.Data, augment: Augment) -> Splits:
    prepared = torch.load(prepared_path(cfg), weights_only=True)
    pixels = prepared["images"] * (255 / 16)  # from 0..16
    sized = F.interpolate(pixels, (cfg.image_size, cfg.image_size), mode="bilinear")
    inputs, targets = sized.round().byte().expand(-1, cfg.channels, -1, -1), prepared["targets"]
    train, val = images.hold_out(len(targets), cfg.validation, cfg.split_seed)
    return Splits(
        Images(inputs[train], targets[train], augment),
        Images(inputs[val], targets[val]),
        Shape(cfg.channels, 10, [str(digit) for digit in range(10)]),
    )


def prepared_path(cfg: config.Data) -> Path:
    """The place of the tensors or of the list; other files, or another program, have another."""
    if cfg.source == "digits":
        return Path(cfg.folder) / "digits-images.pt"
    source = Path(cfg.source)
    places = shards.files(source) or images.folders(source)
    versions = [(str(path), path.stat().st_mtime_ns) for path in places]
    split = (cfg.source, cfg.label, cfg.validation, cfg.split_seed)
    program = [Path(__file__).with_name(name).read_bytes() for name in PROGRAM]
    key = repr((split, versions, program, version("pillow"), version("pyarrow")))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).name}-{digest}"
