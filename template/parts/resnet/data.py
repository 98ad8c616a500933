"""Images: a bundled set in memory, or a folder of files that are decoded when they are needed."""

import hashlib
import math
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
TRAINING, VALIDATION = "train", ("val", "valid", "validation")  # folders of the splits
SPLITS = {TRAINING, "training", "test", "testing", *VALIDATION}  # no names of classes
HIDDEN = (".", "__")  # how names of files and folders begin that programs keep for themselves
FEW = 10  # classes, that are named to the user
READERS = 16  # threads that look at files: they mostly wait for the disk
WIDE = {"I", "I;16", "I;16B", "I;16L", "I;16N"}  # Pillow's names for one channel of 16 bits
UPPER_HALVES = [value >> 8 for value in range(2**16)]
ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}


class Batch(NamedTuple):
    inputs: Tensor  # [B, channels, image_size, image_size] uint8, black is 0 and white 255
    targets: Tensor  # [B] int64


@dataclass(frozen=True)
class Shape:
    channels: int
    classes: int
    labels: list[str] = field(repr=False)  # of the classes

    def __str__(self) -> str:
        named = ": " + ", ".join(self.labels) if len(self.labels) <= FEW else ""
        return f"{len(self.labels):,} classes{named}"


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
    """The numbers of the samples for training, and of those for validation, of `count` in all."""
    generator = torch.Generator().manual_seed(cfg.split_seed)
    order: list[int] = torch.randperm(count, generator=generator).tolist()
    held_out = max(1, round(cfg.validation * count))
    return order[held_out:], order[:held_out]


def prepared_path(cfg: config.Data) -> Path:
    """The place of the tensors or of the list; other files in the folders have another place."""
    if cfg.source == "digits":
        return Path(cfg.folder) / "digits-images.pt"
    classes = [part / name for part in _parts(cfg) for name in _subfolders(part)]
    places = [place for folder in classes for place, _ in _walk(folder)]
    changed = [(str(place), place.stat().st_mtime_ns) for place in places]
    key = repr((cfg.source, cfg.validation, cfg.split_seed, changed))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).name}-{digest}.pt"


def _list_files(cfg: config.Data) -> dict[str, Any]:
    """The classes, and the files of each split: from train/ and val/, or divided by chance."""
    parts = _parts(cfg)
    classes = _subfolders(parts[0])
    _check_classes(cfg, parts, classes)
    listed = [_list_folder(part, classes) for part in parts]
    if empty := {*range(len(classes))} - {label for _, label in listed[0]}:
        raise config.ConfigError(
            f"{parts[0] / classes[min(empty)]} holds no images: remove the folder, or add images "
            f"with one of the endings {', '.join(sorted(ENDINGS))}"
        )
    _check_headers([path for files in listed for path, _ in files])
    if len(parts) == 1:
        shares = _hold_out(len(listed[0]), cfg)
        listed = [[listed[0][i] for i in share] for share in shares]
    train, val = map(packed, listed)
    return {"classes": classes, "train": train, "val": val}


def _parts(cfg: config.Data) -> list[Path]:
    """The folders whose folders are the classes: of training and validation, or of both."""
    root = Path(cfg.source)
    held_out = [root / name for name in VALIDATION if (root / name).is_dir()]
    return [root / TRAINING, held_out[0]] if held_out and (root / TRAINING).is_dir() else [root]


def _subfolders(folder: Path) -> list[str]:
    """The names of the folders in a folder, if there is one, but for those of programs."""
    found = (path.name for path in folder.glob("*/"))
    return sorted(name for name in found if not name.startswith(HIDDEN))


def _walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """A folder and all below, each with the names of its files."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(HIDDEN))
        yield Path(place), names


def find_images(folder: Path) -> list[Path]:
    """The paths of all images in a folder and below."""
    return [
        place / name
        for place, names in _walk(folder)
        for name in sorted(names)
        if Path(name).suffix.lower() in ENDINGS and not name.startswith(HIDDEN)
    ]


def _check_classes(cfg: config.Data, parts: list[Path], classes: list[str]) -> None:
    """Refuse folders that are no classes: none, those of splits, and those of one split alone."""
    source = f"data.source = {cfg.source!r}"
    if not Path(cfg.source).is_dir():
        raise config.ConfigError(f"{source}: there is no such folder, and only 'digits' is bundled")
    several = [name for name in VALIDATION if Path(cfg.source, name).is_dir()]
    if len(parts) > 1 and len(several) > 1:
        raise config.ConfigError(f"{source} has several folders for validation: {several}")
    splits = [name for name in classes if name.lower() in SPLITS]
    if len(parts) == 1 and splits:
        raise config.ConfigError(
            f"{source}: the folders {splits} would be classes, and have the names of splits: "
            f"rename the folders of training and validation to {TRAINING!r} and {VALIDATION[0]!r}; "
            f"or give one of them, such as {str(parts[0] / splits[-1])!r}, of which "
            "data.validation is held out"
        )
    if len(classes) < 2:
        raise config.ConfigError(
            f"{source} must be 'digits', or a folder that holds one folder of images per class "
            f"(directly, or in train/ and val/); found the classes {classes}"
        )
    if unknown := sorted({*_subfolders(parts[-1])} - {*classes}):
        raise config.ConfigError(f"{parts[-1] / unknown[0]} is no class: {parts[0]} has none such")


def packed(files: list[tuple[str, int]]) -> tuple[Tensor, ...]:
    """The arrays that Files holds."""
    names = [path.encode() for path, _ in files]
    ends = torch.tensor([len(name) for name in names]).cumsum(0)
    targets = torch.tensor([label for _, label in files])
    return torch.frombuffer(bytearray(b"".join(names)), dtype=torch.uint8), ends, targets


def _list_folder(folder: Path, classes: list[str]) -> list[tuple[str, int]]:
    files = [
        (str(path.resolve()), label)
        for label, name in enumerate(classes)
        for path in find_images(folder / name)
    ]
    if len(files) < 2:
        raise config.ConfigError(f"{folder} holds {len(files)} images in the folders {classes}")
    return files


def _check_headers(paths: list[str]) -> None:
    """Open every file once, without its pixels: a wrong one would end the run hours later."""
    with ThreadPoolExecutor(READERS) as pool:
        for number, _ in enumerate(pool.map(_check_header, paths), start=1):
            if sys.stderr.isatty() and (number % 1000 == 0 or number == len(paths)):
                last = "\n" if number == len(paths) else ""
                print(f"\rlooked at {number:,} of {len(paths):,} images", end=last, file=sys.stderr)


def _check_header(path: str) -> None:
    with _open(path):
        pass


@contextmanager
def _open(path: str) -> Iterator[Any]:
    """Pillow's image; ConfigError with the path for what Pillow cannot open or decode."""
    from PIL import Image  # only needed for image files

    try:
        with Image.open(path) as image:
            # "I" are numbers of 16 bits in PNG and PPM, but of 32 bits in others.
            if image.mode == "F" or (image.mode == "I" and image.format not in {"PNG", "PPM"}):
                raise ValueError(
                    f"pixels of the mode {image.mode!r} have no fixed range: save the image with 8 "
                    "or 16 bits per channel"
                )
            yield image
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise config.ConfigError(f"{path} cannot be read as an image: {error}") from error


def _decode(path: str, cfg: config.Data) -> Tensor:
    """One file, upright and cropped to a square around its centre, as Batch.inputs[i]."""
    from PIL import ImageOps

    size = (cfg.image_size, cfg.image_size)
    mode = "L" if cfg.channels == 1 else "RGB"
    with _open(path) as image:
        image.draft(mode, size)  # lets the JPEG decoder reduce the image while it reads
        upright = _opaque(ImageOps.exif_transpose(image))
        pixels = ImageOps.fit(upright.convert(mode), size).tobytes()
    values = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(*size, cfg.channels)
    return values.permute(2, 0, 1)


def _opaque(image: Any) -> Any:
    """An image of 8 bits per channel, on white where the file is transparent."""
    from PIL import Image

    if image.mode in WIDE:  # convert("L") would take all above 255 for white
        return image.convert("I").point(UPPER_HALVES, "L")
    if image.mode in {"LA", "PA", "RGBA"} or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA"))
    return image
