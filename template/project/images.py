"""Images: found by class, looked at once, and decoded when they are needed."""

import hashlib
import io
import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

import config

TRAINING, VALIDATION = "train", ("val", "valid", "validation", "dev")  # folders of the splits
SPLITS = {TRAINING, "training", "test", "testing", *VALIDATION}  # no names of classes
HIDDEN = (".", "__", "@eaDir")  # how names begin that programs keep for themselves
SYSTEM = {"Thumbs.db", "desktop.ini"}  # files that a system writes beside images
READERS = 16  # threads that look at files; Pillow decodes beside them
PATIENCE = 10  # seconds between words about progress
WIDE = {"I", "I;16", "I;16B", "I;16L", "I;16N"}  # Pillow's names for one channel of 16 bits
BITS_12 = 2**12  # more than each pixel of many cameras and scanners has, in files of 16 bits
UPPER_HALVES = [value >> 8 for value in range(2**16)]
# Of Pillow, for a file: those of the disk are raised before Pillow sees the content.
BROKEN = (OSError, SyntaxError, ValueError, ArithmeticError, EOFError)
ENDINGS = {".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
FEW = 10  # up to so many classes are named to the user
LFS = b"version https://git-lfs"  # the begin of what Git LFS has in a file's place

Seen = TypeVar("Seen")


class Place(NamedTuple):
    """Where the bytes of an image are, and the number of its class."""

    path: str  # of a file, below a folder that the reader knows
    label: int
    name: str = ""  # for people, of an image that has no file of its own
    begin: int = 0  # of its bytes in the file
    size: int = -1  # their number; -1: all


class Files(NamedTuple):
    """Places, mapped into memory: a list would be in each rank and worker anew."""

    texts: Tensor  # uint8, path and name of one place behind those of the other
    ends: Tensor  # of each place's text
    targets: Tensor  # the number of each image's class
    spans: Tensor  # [N, 2] int64, begin and size of each image in its file

    def place(self, index: int) -> Place:
        """Where one image is."""
        first = self.ends[index - 1] if index else 0
        text = os.fsdecode(bytes(self.texts[first : self.ends[index]].tolist()))
        path, _, name = text.partition("\0")
        begin, size = self.spans[index].tolist()
        return Place(path, int(self.targets[index]), name, begin, size)


class Found(NamedTuple):
    """Classes in their order, and the images of both splits."""

    classes: list[str]
    train: list[Place]
    val: list[Place]
    passed: tuple[str, ...] = ()  # names of files that are no images by their endings


class Opened(NamedTuple):
    """What was found, as it was saved."""

    classes: list[str]
    train: Files
    val: Files
    notes: str  # words about the images
    content: str  # digits that follow from the images of both splits


def pack(places: Sequence[Place]) -> Files:
    """Places as tensors."""
    texts = [os.fsencode(f"{place.path}\0{place.name}") for place in places]
    return Files(
        torch.frombuffer(bytearray(b"".join(texts)), dtype=torch.uint8),
        torch.tensor([len(text) for text in texts]).cumsum(0),
        torch.tensor([place.label for place in places]),
        torch.tensor([(place.begin, place.size) for place in places]),
    )


def save(found: Found, notes: "Notes", partial: Path) -> None:
    """Write what was found to a file in a folder that is not complete yet (see `preparing`)."""
    splits = {"train": tuple(pack(found.train)), "val": tuple(pack(found.val))}
    about = {"notes": notes.words(found), "content": notes.digest(found)}
    torch.save({"classes": found.classes, **about, **splits}, partial)


def load(path: Path) -> Opened:
    """Map what was saved into memory."""
    saved = torch.load(path, weights_only=True, mmap=True)
    splits = (Files(*saved["train"]), Files(*saved["val"]))
    return Opened(saved["classes"], *splits, saved["notes"], saved["content"])


def doubts(found: Opened) -> str:
    """Words about the images, and about classes of which none is held out to measure."""
    held_out = {*found.val.targets.tolist()}
    unseen = [name for label, name in enumerate(found.classes) if label not in held_out]
    more = f", ... ({len(unseen):,} classes)" if len(unseen) > FEW else ""
    words = f"; no image held out is of {', '.join(unseen[:FEW])}{more}" if unseen else ""
    alike = dict[str, list[str]]()
    for name in found.classes:
        alike.setdefault(unicodedata.normalize("NFC", name).casefold(), []).append(name)
    same = (names for names in alike.values() if len(names) > 1)
    words += "".join(f"; {' and '.join(names)} are different classes" for names in same)
    return words + found.notes


@contextmanager
def preparing(target: Path) -> Iterator[Path]:
    """A folder to write to, which becomes `target` when all is there."""
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a preparation that was cut off
    partial.mkdir()
    try:
        yield partial
    except config.ConfigError:
        shutil.rmtree(partial)
        raise
    partial.replace(target)


# --- Finding --------------------------------------------------------------------------------------


def find(root: Path, validation: float, split_seed: int) -> Found:
    """The classes, and the files of each split: from train/ and val/, or divided by chance.

    Raises ConfigError for folders that are no classes, and for files that lie in none.
    """
    split_folders = _parts(root)
    classes = _subfolders(split_folders[0])
    _check_classes(root, split_folders, classes)
    listed = [_list(root, part, classes) for part in split_folders]
    if empty := {*range(len(classes))} - {place.label for place in listed[0]}:
        raise config.ConfigError(
            f"{split_folders[0] / classes[min(empty)]} holds no images: remove the folder, or add "
            f"images with one of the endings {', '.join(sorted(ENDINGS))}"
        )
    if len(listed) == 1:
        labels = [place.label for place in listed[0]]
        listed = [[listed[0][i] for i in part] for part in divide(labels, validation, split_seed)]
    # A name may have any bytes; text that is written shows those that are no UTF-8 by number.
    shown = [os.fsencode(name).decode(errors="backslashreplace") for name in classes]
    return Found(shown, listed[0], listed[1], _passed_over(split_folders))


def _passed_over(split_folders: list[Path]) -> tuple[str, ...]:
    """The names of files in folders of classes that are no images by their endings."""
    walks = (_walk(part / name) for part in split_folders for name in _subfolders(part))
    names = (name for walk in walks for _, inside in walk for name in inside)
    return tuple(
        sorted(n for n in names if not (is_image(n) or n in SYSTEM or n.startswith(HIDDEN)))
    )


def folders(root: Path) -> list[Path]:
    """All folders that images are looked for in: each changes when a file comes or goes."""
    return [place for part in _parts(root) for place, _ in _walk(part)]


def files_below(folder: Path) -> list[Path]:
    """The paths of all images in a folder and below. ConfigError names a pipe or a device."""
    found = [
        place / name for place, names in _walk(folder) for name in sorted(names) if is_image(name)
    ]
    if special := [path for path in found if not path.is_file() and path.exists()]:
        raise config.ConfigError(f"{special[0]} is a pipe or a device, and no file: remove it")
    return found


def is_image(name: str) -> bool:
    """Whether a file is an image, by its name."""
    return Path(name).suffix.lower() in ENDINGS and not Path(name).name.startswith(HIDDEN)


def hold_out(count: int, validation: float, split_seed: int) -> tuple[list[int], list[int]]:
    """The numbers of the samples for training, and of those for validation, of `count` in all."""
    generator = torch.Generator().manual_seed(split_seed)
    order: list[int] = torch.randperm(count, generator=generator).tolist()
    held_out = max(1, round(validation * count))
    return order[held_out:], order[:held_out]


def divide(labels: Sequence[object], validation: float, split_seed: int) -> list[list[int]]:
    """As `hold_out`, but that each class keeps an image for training, where it would have none.

    Raises ConfigError where nothing is left to hold out.
    """
    train, val = hold_out(len(labels), validation, split_seed)
    known = {labels[i] for i in train}
    lost = {labels[i]: i for i in reversed(val) if labels[i] not in known}
    kept = set(lost.values())
    if len(kept) == len(val):
        raise config.ConfigError(
            f"data.validation = {validation}: {len(labels)} images of {len({*labels})} classes are "
            "too few images to hold any out, as each class needs one for training: add images, or "
            f"make a folder {VALIDATION[0]}/ beside {TRAINING}/"
        )
    return [train + sorted(kept), [i for i in val if i not in kept]]


def _parts(root: Path) -> list[Path]:
    """The folders whose folders are the classes: of training and validation, or of both."""
    held_out = [root / name for name in VALIDATION if (root / name).is_dir()]
    return [root / TRAINING, held_out[0]] if held_out and (root / TRAINING).is_dir() else [root]


def _subfolders(folder: Path) -> list[str]:
    """The names of the folders in a folder, if there is one, but for those of programs."""
    found = (path.name for path in folder.glob("*/"))
    return sorted(name for name in found if not name.startswith(HIDDEN))


def _walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """A folder and all below, also by links, each once with the names of its files."""
    known = set[str]()  # a link may lead to a folder above
    for place, inside, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        new = real not in known
        known.add(real)
        inside[:] = sorted(name for name in inside if new and not name.startswith(HIDDEN))
        if new:
            yield Path(place), names


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
        links = sorted(path for path in folder.glob("*") if not path.name.startswith(HIDDEN))
        if gone := [path for path in links if not path.exists()]:
            raise config.ConfigError(f"{gone[0]} is a link that leads nowhere: mend or remove it")
        if loose := sorted(path for path in folder.glob("*.*") if is_image(path.name)):
            raise config.ConfigError(f"{loose[0]} is in the folder of no class: move the file")


def _list(root: Path, folder: Path, classes: list[str]) -> list[Place]:
    places = [
        Place(str(path.relative_to(root)), label)
        for label, name in enumerate(classes)
        for path in files_below(folder / name)
    ]
    if len(places) < 2:
        raise config.ConfigError(f"{folder} holds {len(places)} images in the folders {classes}")
    return places


# --- Looking and reading --------------------------------------------------------------------------


def look(places: Sequence[Place], see: Callable[[Place], Seen]) -> Iterator[Seen]:
    """What is seen at each place, in their order: a damaged image would end the run hours later."""
    said = time.monotonic()
    with ThreadPoolExecutor(READERS) as pool:
        for done, seen in enumerate(pool.map(see, places), start=1):
            yield seen
            if time.monotonic() > said + PATIENCE:
                said = time.monotonic()
                print(f"looked at {done:,} of {len(places):,} images", file=sys.stderr, flush=True)


class Notes:
    """What is noted of all images while they are looked at."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.digests = dict[Place, bytes]()  # of the contents
        self.wide = list[bool]()  # of images of 16 bits: whether they may use all of these

    def take(self, see: Callable[[Place], Seen], place: Place) -> Seen:
        """What is seen at a place; several threads take notes at once.

        Raises ConfigError for a file that cannot be opened.
        """
        from PIL import Image

        try:
            content = _read(self.root, place)
        except (FileNotFoundError, PermissionError) as error:
            shown = self.root / place.path
            raise config.ConfigError(
                f"{shown} cannot be read: {error.strerror}: remove the file, or let it be read"
            ) from error
        seen = see(place)  # a damaged image raises ConfigError
        self.digests[place] = hashlib.sha256(content).digest()
        with Image.open(io.BytesIO(content)) as image:
            if image.mode in WIDE:
                highest: Any = image.getextrema()[1]
                self.wide.append(highest >= BITS_12)
        return seen

    def digest(self, found: Found) -> str:
        """Eight digits that follow from the images of both splits, whatever the files' names."""
        every = (*found.train, *found.val)
        parts = (self.digests[place] + place.label.to_bytes(4) for place in every)
        return hashlib.sha256(b"".join(parts)).hexdigest()[:8]

    def words(self, found: Found) -> str:
        """Words about copies, about images that look nearly black, and about other files."""
        known = {self.digests[place] for place in found.train}
        again = sum(self.digests[place] in known for place in found.val)
        words = ""
        if again:
            words = f"; {again:,} of the {len(found.val):,} held out are for training, too"
        labels = {(self.digests[p], p.label) for p in (*found.train, *found.val)}
        if both := len(labels) - len({digest for digest, _ in labels}):
            words += f"; {both:,} images are in several classes"
        if self.wide and not any(self.wide):
            words += f"; no pixel of the {len(self.wide):,} images of 16 bits is above"
            words += f" {BITS_12 - 1:,}, so that they look nearly black: multiply them by 16"
        if found.passed:
            words += f"; {len(found.passed):,} files are not read, by their endings, such as"
            words += f" {found.passed[0]}"
        return words


def _read(root: Path, place: Place) -> bytes:
    with (root / place.path).open("rb") as file:
        file.seek(place.begin)
        return file.read(place.size)


def decode(root: Path, place: Place, mode: str, size: int) -> Any:
    """Pillow's image, upright, of the mode "L" or "RGB", and of `size` pixels or more each way.

    Raises ConfigError with the place for what Pillow cannot open or decode, and OSError for what
    the disk does not give.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    content = io.BytesIO(_read(root, place))
    reason: object
    try:
        with Image.open(content) as image:
            _check_range(image)
            image.draft(mode, (size, size))  # lets the JPEG decoder reduce while it reads
            return _opaque(ImageOps.exif_transpose(image)).convert(mode)
    except UnidentifiedImageError:
        reason = "Pillow knows no such format" if content.getvalue() else "the file is empty"
        if content.getvalue().startswith(LFS):
            reason = "the file only says where the image is: fetch it with git lfs pull"
    except (*BROKEN, Image.DecompressionBombError) as error:
        reason = error
    shown = place.name or root / place.path
    raise config.ConfigError(f"{shown} cannot be read as an image: {reason}")


def square(root: Path, place: Place, mode: str, size: int) -> Tensor:
    """An image [channels, size, size] uint8, cut to a square around its centre."""
    from PIL import ImageOps

    return pixels(ImageOps.fit(decode(root, place, mode, size), (size, size)))


def pixels(image: Any) -> Tensor:
    """Pillow's image as a tensor [channels, height, width] uint8."""
    values = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return values.view(image.height, image.width, -1).permute(2, 0, 1)


def _check_range(image: Any) -> None:
    """Refuse pixels of which nothing says which number is white."""
    # "I" are numbers of 16 bits in PNG and PPM, but of 32 bits in others.
    if image.mode == "F" or (image.mode == "I" and image.format not in {"PNG", "PPM"}):
        raise ValueError(
            f"pixels of the mode {image.mode!r} have no fixed range: save the image with 8 or 16 "
            "bits per channel"
        )


def _opaque(image: Any) -> Any:
    """An image of 8 bits per channel, on white where the file is transparent."""
    from PIL import Image

    if image.mode in WIDE:  # convert("RGB") would take all above 255 for white
        return image.convert("I").point(UPPER_HALVES, "L")
    if image.mode in {"LA", "PA", "RGBA"} or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA"))
    return image
