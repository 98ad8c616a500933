"""Images in folders of classes: how many, and of how many classes."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ddpgen.asking.found import number
from ddpgen.errors import DdpgenError, show

ENDINGS = {".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
VALIDATION = ("val", "valid", "validation", "dev")  # folders of images that are held out
SPLITS = ("train", "training", "test", "testing", *VALIDATION)  # names of splits, and of no class
PLUGINS = (".heic", ".heif", ".avif")  # images that not every Pillow reads
HIDDEN = (".", "__", "@eaDir")  # how names begin that programs keep for themselves
SYSTEM = {"Thumbs.db", "desktop.ini"}  # files that a system writes beside images
MOST_CLASSES = 10  # that are named
MOST_NAMES = 3  # of files that are not read, and of folders, in words


class Images(NamedTuple):
    """What was seen, in words, and how train.py is told."""

    words: str
    arguments: list[str]
    more: tuple[str, ...] = ()  # lines about what is not read


def in_folders(folder: Path) -> Images | None:
    """Images in one folder per class, perhaps below train/ and val/."""
    train = folder / "train"
    held_out = [folder / name for name in VALIDATION if (folder / name).is_dir()]
    alone = train.is_dir() and not held_out  # what else is there, such as test/, is no class
    if alone and (inside := in_folders(train)):
        left = [p.name for p in sorted(folder.glob("*/")) if _shown(p.name) and p != train]
        more = (f"left out: {', '.join(left)}",) if left else ()
        return inside._replace(more=(*inside.more, *more))
    parts = [train, held_out[0]] if train.is_dir() and held_out else [folder]
    classes = {p.name for part in parts for p in part.glob("*/") if not p.name.startswith(HIDDEN)}
    images = sum(1 for part in parts for _ in below(part))
    if images and len(parts) == 1:
        _refuse_splits(folder, [name for name in sorted(classes) if any(below(folder / name))])
    if len(classes) < 2 or not images:
        return None
    words = f"{images:,} images in {len(classes):,} classes"
    words += f", some of them in {parts[-1].name}/" if len(parts) > 1 else ""
    about = (*_about_classes(parts, sorted(classes)), *_passed_over(parts))
    return Images(words, [f"data.source={folder.absolute()}"], about)


def _about_classes(parts: Sequence[Path], classes: Sequence[str]) -> Iterator[str]:
    """Words about the names of few classes, and about folders that may not be what is meant."""
    if len(classes) <= MOST_CLASSES:
        yield f"classes: {', '.join(classes)}"
    deeper = [p for part in parts for p in sorted(part.glob("*/*/")) if any(below(p))]
    shown = [str(path.relative_to(path.parent.parent)) for path in deeper if _shown(path.name)]
    if shown := [name for name in shown if not name.startswith(HIDDEN)]:
        yield f"no classes of their own: {_first(shown)}: move these folders up if they are"
    train, val = parts[0], parts[-1]
    if unknown := [name for name in classes if not (train / name).is_dir()]:
        yield f"{val.name}/ has {_first(unknown)}, which {train.name}/ lacks: the program refuses"
    if unseen := [name for name in classes if train != val and not any(below(val / name))]:
        yield f"{val.name}/ has no images of {_first(unseen)}: nothing is measured of such"


def _first(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def _passed_over(parts: Sequence[Path]) -> Iterator[str]:
    """Words about files that are no images by their endings, and folders without images."""
    places = [place for part in parts for place in sorted(part.glob("*/")) if _shown(place.name)]
    walks = (os.walk(place) for place in places)
    files = [n for walk in walks for _, _, names in walk for n in names if _shown(n)]
    if others := sorted(n for n in files if not is_image(n) and n not in SYSTEM):
        yield f"not read, by ending: {len(others):,} of {len(files):,} files, {_first(others)}"
    roots = [parts[0].parent, *parts] if len(parts) > 1 else parts
    for path in (path for root in roots for path in root.glob("*.*") if is_image(path.name)):
        yield f"{path.name} lies in no class: move it, the program refuses it"
    for place in places:
        if not any(True for _ in below(place)):
            yield f"{place.name}/ holds no images: remove it, the program refuses such a class"


def _shown(name: str) -> bool:
    return not name.startswith(HIDDEN)


def _refuse_splits(folder: Path, classes: Sequence[str]) -> None:
    """Refuse folders with the names of splits, which a project would take for classes."""
    named = [name for name in classes if {*re.split(r"[^a-z]+", name.lower())} & {*SPLITS}]
    exactly = any(name.lower() in SPLITS for name in named)
    if not named or not (exactly or len(named) == len(classes)):
        return
    shown = " and ".join(f"{name}/" for name in named)
    raise DdpgenError(
        f"--data {show(str(folder))}: {show(shown)} would be classes, and have names of splits",
        remedy="call the folder for training train/ and the one for validation val/, in small "
        "letters, and move all others elsewhere; or give the one to train on: --data "
        + show(str(folder / max(named, key=_trains)), 1000),
    )


def _trains(name: str) -> bool:
    return "train" in name.lower()


def below(folder: Path) -> Iterator[Path]:
    """All images in a folder and below, also by links; no folder twice."""
    known = set[str]()
    for place, inside, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        inside[:] = sorted(n for n in inside if real not in known and not n.startswith(HIDDEN))
        if real not in known:
            yield from (Path(place, name) for name in names if is_image(name))
        known.add(real)


def is_image(name: str) -> bool:
    """Whether a name is that of an image, by its ending."""
    path = PurePosixPath(name)
    return path.suffix.lower() in ENDINGS and not path.name.startswith(HIDDEN)


def misplaced(folder: Path) -> str:
    """What is wrong with images or tar files in a folder that no family reads, or ""."""
    if deeper := sorted({path.parent.name for path in folder.glob("*/*.tar")}):
        return f"its tar files lie in folders that are no splits, such as {show(deeper[0])}"
    if not (images := loose(folder)):
        return ""
    found = number(images, "image")
    places = {path.parent for path in below(folder)}
    classes = {path.name for path in places}
    if len(classes) == 1 and folder not in places:
        return f"{found}, all in the class {show(classes.pop())}: two classes are the least"
    return f"{found}, but not in one folder for each class"


def unread(folder: Path) -> list[str]:
    """What is wrong with images of a kind that Pillow reads with a plugin only, and the way out."""
    files = [path for path in folder.rglob("*") if path.suffix.lower() in PLUGINS]
    if not files or loose(folder):
        return []
    ending = files[0].suffix.lower()
    wanted = f"{len(files):,} images with the ending {ending}, which are not read"
    plugin = ["import pillow_heif  # pip install pillow-heif", "pillow_heif.register_heif_opener()"]
    return [
        wanted,
        f"these lines of Python write each as .jpg beside it, then: --data {folder}",
        "  import pathlib",
        *(f"  {line}" for line in (plugin if ending != ".avif" else [])),
        "  from PIL import Image, ImageOps",
        f"  for path in pathlib.Path({str(folder.absolute())!r}).rglob('*'):",
        f"      if path.suffix.lower() == {ending!r}:",
        "          upright = ImageOps.exif_transpose(Image.open(path))",
        "          upright.convert('RGB').save(path.with_suffix('.jpg'), quality=95)",
    ]


def loose(folder: Path) -> int:
    """How many images lie in a folder and below."""
    return sum(1 for _ in below(folder))


def named_as_splits(folder: Path) -> list[str]:
    """The folders in a folder, where the names of all are those of splits or of images."""
    names = sorted(p.name for p in folder.glob("*/") if not p.name.startswith(HIDDEN))
    words = [{*re.split(r"[^a-z]+", name.lower())} for name in names]
    return names if all(part & {*SPLITS, "images"} for part in words) else []
