"""Files of images: found by class, looked at once, and decoded when they are needed."""

import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import config

TRAINING, VALIDATION = "train", ("val", "valid", "validation")  # folders of the splits
SPLITS = {TRAINING, "training", "test", "testing", *VALIDATION}  # no names of classes
HIDDEN = (".", "__")  # how names of files and folders begin that programs keep for themselves
READERS = 16  # threads that look at files; Pillow decodes beside them
WIDE = {"I", "I;16", "I;16B", "I;16L", "I;16N"}  # Pillow's names for one channel of 16 bits
UPPER_HALVES = [value >> 8 for value in range(2**16)]
ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
NARROWEST = 3 / 4  # width by height of a random part; the widest is the other way round


class Files(NamedTuple):
    """Paths and classes, mapped into memory: a list would be in each rank and worker anew."""

    names: Tensor  # uint8, one path behind the other
    ends: Tensor  # of each path
    targets: Tensor  # the number of each file's class

    def path(self, index: int) -> str:
        """The path of one file."""
        begin = self.ends[index - 1] if index else 0
        return bytes(self.names[begin : self.ends[index]].tolist()).decode()


class Found(NamedTuple):
    """Classes in their order, and the files of both splits with the numbers of their classes."""

    classes: list[str]
    train: list[tuple[str, int]]  # paths below the source's folder
    val: list[tuple[str, int]]


# --- Finding --------------------------------------------------------------------------------------


def find(root: Path, validation: float, split_seed: int) -> Found:
    """The classes, and the files of each split: from train/ and val/, or divided by chance.

    Raises ConfigError for folders that are no classes, and for files that lie in none.
    """
    split_folders = _parts(root)
    classes = _subfolders(split_folders[0])
    _check_classes(root, split_folders, classes)
    listed = [_list(root, part, classes) for part in split_folders]
    if empty := {*range(len(classes))} - {label for _, label in listed[0]}:
        raise config.ConfigError(
            f"{split_folders[0] / classes[min(empty)]} holds no images: remove the folder, or add "
            f"images with one of the endings {', '.join(sorted(ENDINGS))}"
        )
    if len(listed) == 1:
        shares = _hold_out(len(listed[0]), validation, split_seed)
        listed = [[listed[0][i] for i in share] for share in shares]
    return Found(classes, *listed)


def folders(root: Path) -> list[Path]:
    """All folders that images are looked for in: each changes when a file comes or goes."""
    return [place for part in _parts(root) for place, _ in _walk(part)]


def files_below(folder: Path) -> list[Path]:
    """The paths of all images in a folder and below."""
    return [
        place / name for place, names in _walk(folder) for name in sorted(names) if _is_image(name)
    ]


def pack(files: Sequence[tuple[str, int]]) -> Files:
    """Paths and classes as tensors."""
    names = [path.encode() for path, _ in files]
    ends = torch.tensor([len(name) for name in names]).cumsum(0)
    targets = torch.tensor([label for _, label in files])
    return Files(torch.frombuffer(bytearray(b"".join(names)), dtype=torch.uint8), ends, targets)


def _parts(root: Path) -> list[Path]:
    """The folders whose folders are the classes: of training and validation, or of both."""
    held_out = [root / name for name in VALIDATION if (root / name).is_dir()]
    return [root / TRAINING, held_out[0]] if held_out and (root / TRAINING).is_dir() else [root]


def _subfolders(folder: Path) -> list[str]:
    """The names of the folders in a folder, if there is one, but for those of programs."""
    found = (path.name for path in folder.glob("*/"))
    return sorted(name for name in found if not name.startswith(HIDDEN))


def _walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """A folder and all below, each with the names of its files."""
    for place, inside, names in os.walk(folder):
        inside[:] = sorted(name for name in inside if not name.startswith(HIDDEN))
        yield Path(place), names


def _is_image(name: str) -> bool:
    return Path(name).suffix.lower() in ENDINGS and not name.startswith(HIDDEN)


def _check_classes(root: Path, split_folders: list[Path], classes: list[str]) -> None:
    """Refuse folders that are no classes, and images that are in none."""
    source = f"data.source = {str(root)!r}"
    if not root.is_dir():
        raise config.ConfigError(f"{source}: there is no such folder, and only 'digits' is bundled")
    several = [name for name in VALIDATION if (root / name).is_dir()]
    if len(split_folders) > 1 and len(several) > 1:
        raise config.ConfigError(f"{source} has several folders for validation: {several}")
    splits = [name for name in classes if name.lower() in SPLITS]
    if len(split_folders) == 1 and splits:
        raise config.ConfigError(
            f"{source}: the folders {splits} would be classes, and have the names of splits: "
            f"rename the folders of training and validation to {TRAINING!r} and {VALIDATION[0]!r}; "
            f"or give one of them, such as {str(root / splits[-1])!r}, of which "
            "data.validation is held out"
        )
    if len(classes) < 2:
        raise config.ConfigError(
            f"{source} must be 'digits', or a folder that holds one folder of images per class "
            f"(directly, or in train/ and val/); found the classes {classes}"
        )
    last = split_folders[-1]
    if unknown := sorted({*_subfolders(last)} - {*classes}):
        raise config.ConfigError(
            f"{last / unknown[0]} is no class: {split_folders[0]} has none such"
        )
    for folder in {root, *split_folders}:
        if loose := sorted(path for path in folder.glob("*.*") if _is_image(path.name)):
            raise config.ConfigError(f"{loose[0]} is in the folder of no class: move the file")


def _list(root: Path, folder: Path, classes: list[str]) -> list[tuple[str, int]]:
    files = [
        (str(path.relative_to(root)), label)
        for label, name in enumerate(classes)
        for path in files_below(folder / name)
    ]
    if len(files) < 2:
        raise config.ConfigError(f"{folder} holds {len(files)} images in the folders {classes}")
    return files


def _hold_out(count: int, validation: float, split_seed: int) -> tuple[list[int], list[int]]:
    """The numbers of the samples for training, and of those for validation, of `count` in all."""
    generator = torch.Generator().manual_seed(split_seed)
    order: list[int] = torch.randperm(count, generator=generator).tolist()
    held_out = max(1, round(validation * count))
    return order[held_out:], order[:held_out]


# --- Looking --------------------------------------------------------------------------------------


class Colours(NamedTuple):
    """Mean and standard deviation of red, green and blue, from 0 to 255."""

    mean: list[float]
    deviation: list[float]


def measure(root: Path, found: Found, size: int) -> Colours:
    """The colours of the training images, as an evaluation sees them.

    Every file of both splits is decoded: a damaged one would end the run hours later. Raises
    ConfigError with its path.
    """
    paths = [root / path for path, _ in [*found.train, *found.val]]
    sums, squares = torch.zeros(3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)
    with ThreadPoolExecutor(READERS) as pool:
        for number, seen in enumerate(pool.map(partial(_sums, size=size), paths), start=1):
            if number <= len(found.train):
                sums += seen[0]
                squares += seen[1]
            if sys.stderr.isatty() and (number % 1000 == 0 or number == len(paths)):
                last = "\n" if number == len(paths) else ""
                print(f"\rlooked at {number:,} of {len(paths):,} images", end=last, file=sys.stderr)
    pixels = len(found.train) * size**2
    mean = sums.double() / pixels
    variance = squares.double() / pixels - mean**2
    return Colours(mean.tolist(), variance.clamp(min=1).sqrt().tolist())


def _sums(path: Path, size: int) -> Tensor:
    """Sums of the pixels and of their squares [2, 3] int64, which no order of adding changes."""
    pixels = read(path, size).long()
    return torch.stack((pixels.sum((1, 2)), pixels.square().sum((1, 2))))


# --- Reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Augment:
    """Random parts, mirrorings and colours, from torch's global generator.

    The loader seeds that generator for every batch by its place.
    """

    crop: float
    flip: bool
    jitter: float

    def box(self, width: int, height: int) -> tuple[float, float, float, float]:
        """Left, upper, right and lower edge of a part of random area, shape and place."""
        area, form, x, y = torch.rand(4).tolist()
        pixels = width * height * (1 - self.crop * area)
        down = min(height, math.sqrt(pixels * NARROWEST ** (2 * form - 1)))
        across = min(width, pixels / down)
        down = min(height, pixels / across)  # which a rounding takes beyond the height
        left, upper = x * (width - across), y * (height - down)
        return left, upper, min(width, left + across), min(height, upper + down)

    def __call__(self, images: Tensor) -> Tensor:
        """Images [B, 3, height, width] uint8 -> the same, mirrored and in other colours."""
        if self.flip:
            chosen = torch.rand(len(images), 1, 1, 1) < 0.5
            images = torch.where(chosen, images.flip(3), images)
        if not self.jitter:
            return images
        factors = 1 + self.jitter * (2 * torch.rand(3, len(images), 1, 1, 1) - 1)
        pixels = images * factors[0]
        for factor, dimensions in ((factors[1], (1, 2, 3)), (factors[2], (1,))):
            grey = pixels.mean(dimensions, keepdim=True)  # of the image; of each pixel
            pixels = grey + factor * (pixels - grey)
        return pixels.round().clamp(0, 255).byte()


def read(path: Path, size: int, augment: Augment | None = None) -> Tensor:
    """An image [3, size, size] uint8, upright: a square around its centre, or a random part."""
    from PIL import Image, ImageOps

    random_part = augment is not None and augment.crop > 0
    wanted = math.ceil(size / math.sqrt(1 - augment.crop)) if augment else size
    with _open(path) as image:
        image.draft("RGB", (wanted, wanted))  # lets the JPEG decoder reduce while it reads
        upright = _opaque(ImageOps.exif_transpose(image)).convert("RGB")
        if augment and random_part:
            box = augment.box(*upright.size)
            square = upright.resize((size, size), Image.Resampling.BICUBIC, box)
        else:
            square = ImageOps.fit(upright, (size, size))
    values = torch.frombuffer(bytearray(square.tobytes()), dtype=torch.uint8)
    return values.view(size, size, 3).permute(2, 0, 1)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Pillow's image; ConfigError with the path for what Pillow cannot open or decode."""
    from PIL import Image

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


def _opaque(image: Any) -> Any:
    """An image of 8 bits per channel, on white where the file is transparent."""
    from PIL import Image

    if image.mode in WIDE:  # convert("RGB") would take all above 255 for white
        return image.convert("I").point(UPPER_HALVES, "L")
    if image.mode in {"LA", "PA", "RGBA"} or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA"))
    return image
