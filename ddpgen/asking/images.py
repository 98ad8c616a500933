"""Images in folders of classes, and in tar and Parquet files: how many, and of how many classes."""

import json
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ddpgen.asking import parquet
from ddpgen.errors import DdpgenError, show

ENDINGS = {".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
SHARDS = (".tar", ".parquet")
VALIDATION = ("val", "valid", "validation")  # folders of images that are held out
SPLITS = ("train", "training", "test", "testing", *VALIDATION)  # names of splits, and of no class
HIDDEN = (".", "__", "@eaDir")  # how names begin that programs keep for themselves
LABELS = ("label", "labels", "class", "target", "y", "fine_label")  # columns of classes
SYSTEM = {"Thumbs.db", "desktop.ini"}  # files that a system writes beside images
MOST_NAMES = 3  # of files that are not read, in words
MEMBERS = 10_000  # of a tar file that are looked at


class Images(NamedTuple):
    """What was seen, in words, and how train.py is told."""

    words: str
    arguments: list[str]
    more: tuple[str, ...] = ()  # lines about what is not read


# --- Folders --------------------------------------------------------------------------------------


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
    images = sum(1 for part in parts for _ in _below(part))
    if images and len(parts) == 1:
        _refuse_splits(folder, [name for name in sorted(classes) if any(_below(folder / name))])
    if len(classes) < 2 or not images:
        return None
    words = f"{images:,} images in {len(classes):,} classes"
    words += f", some of them in {parts[-1].name}/" if len(parts) > 1 else ""
    return Images(words, [f"data.source={folder.absolute()}"], (*_passed_over(parts),))


def _passed_over(parts: Sequence[Path]) -> Iterator[str]:
    """Words about files that are no images by their endings, and folders without images."""
    places = [place for part in parts for place in sorted(part.glob("*/")) if _shown(place.name)]
    walks = (os.walk(place) for place in places)
    files = [n for walk in walks for _, _, names in walk for n in names if _shown(n)]
    if others := sorted(n for n in files if not _is_image(n) and n not in SYSTEM):
        more = ", ..." if len(others) > MOST_NAMES else ""
        shown = f"{', '.join(others[:MOST_NAMES])}{more}"
        yield f"not read, by ending: {len(others):,} of {len(files):,} files, {shown}"
    roots = [parts[0].parent, *parts] if len(parts) > 1 else parts
    for path in (path for root in roots for path in root.glob("*.*") if _is_image(path.name)):
        yield f"{path.name} lies in no class: move it, the program refuses it"
    for place in places:
        if not any(True for _ in _below(place)):
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


def _below(folder: Path) -> Iterator[Path]:
    """All images in a folder and below, also by links; no folder twice."""
    known = set[str]()
    for place, inside, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        inside[:] = sorted(n for n in inside if real not in known and not n.startswith(HIDDEN))
        if real not in known:
            yield from (Path(place, name) for name in names if _is_image(name))
        known.add(real)


def _is_image(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in ENDINGS and not path.name.startswith(HIDDEN)


def misplaced(folder: Path) -> str:
    """What is wrong with images or tar files in a folder that no family reads, or ""."""
    if deeper := sorted({path.parent.name for path in folder.glob("*/*.tar")}):
        return f"its tar files lie in folders that are no splits, such as {show(deeper[0])}"
    images = loose(folder)
    return f"{images:,} images, but not in one folder for each class" if images else ""


def loose(folder: Path) -> int:
    """How many images lie in a folder and below."""
    return sum(1 for _ in _below(folder))


def named_as_splits(folder: Path) -> list[str]:
    """The folders in a folder, where the names of all are those of splits or of images."""
    names = sorted(p.name for p in folder.glob("*/") if not p.name.startswith(HIDDEN))
    words = [{*re.split(r"[^a-z]+", name.lower())} for name in names]
    return names if all(part & {*SPLITS, "images"} for part in words) else []


# --- Shards ---------------------------------------------------------------------------------------


def in_shards(source: Path) -> Images | None:
    """Images in a tar or Parquet file, or in a folder of them.

    Raises:
        DdpgenError: the folder holds images, too, or both kinds; a file is damaged.
    """
    found = _shards(source)
    files = [path for path in found if not _words(path, source) & {"test", "testing"}]
    if not files:
        return None
    kinds = {path.suffix for path in found}
    look = _in_tar if files[0].suffix == ".tar" else _in_parquet
    seen = look(sorted(files, key=lambda path: "train" not in _words(path, source)))
    if not seen:
        return None
    given = f"--data {show(str(source))}"
    if loose := next(_below(source), None):
        raise DdpgenError(
            f"{given}: holds {found[0].name}, and also images such as {show(str(loose))}",
            remedy="move either elsewhere, or give the file itself",
        )
    if len(kinds) > 1:
        raise DdpgenError(f"{given}: holds {' and '.join(sorted(kinds))} files: give one kind")
    return seen._replace(arguments=[f"data.source={source.absolute()}", *seen.arguments])


def _shards(source: Path) -> list[Path]:
    """The files, where a project looks for them."""
    if source.is_file():
        return [source] if source.suffix in SHARDS else []
    folders = [source, *(source / name for name in ("data", *SPLITS))]
    found = [path for folder in folders for path in folder.glob("*.*") if path.suffix in SHARDS]
    return sorted(path for path in found if not path.name.startswith(HIDDEN))


def _words(path: Path, source: Path) -> set[str]:
    """The words in the name of a file, some of which name a split."""
    return {*re.split(r"[^a-z]+", str(path.relative_to(source)).lower())}


def _in_tar(files: Sequence[Path]) -> Images | None:
    """The images of the first file, in words."""
    images, said = list[tuple[str, tuple[str, ...]]](), dict[str, str]()
    try:
        with tarfile.open(files[0], "r:") as archive:
            for member in islice(archive, MEMBERS):
                folder, _, name = member.name.rpartition("/")
                key = f"{folder}/{name.partition('.')[0]}"
                if (
                    member.isfile()
                    and name.endswith(".cls")
                    and (file := archive.extractfile(member))
                ):
                    said[key] = file.read(99).decode(errors="replace").strip()
                elif member.isfile() and _is_image(member.name):
                    images.append((key, PurePosixPath(folder).parts))
            more = "more than " if archive.next() else ""
    except (OSError, tarfile.TarError) as error:
        reason = f"cannot be read as a tar file: {error}"
        raise DdpgenError(f"--data {show(str(files[0]))}: {reason}") from error
    if not images:
        return None
    inside = [folders for key, folders in images if folders and key not in said]
    same = takewhile(lambda names: len({*names}) == 1, zip(*inside, strict=False))
    around = len([*same])  # folders, which are no classes
    classes = {*said.values(), *(folders[min(around, len(folders) - 1)] for folders in inside)}
    words = f"{more}{len(images):,} images in {len(classes):,} classes"
    return Images(
        words if len(files) == 1 else f"{len(files):,} tar files; of the first: {words}", []
    )


def _in_parquet(files: Sequence[Path]) -> Images | None:
    """The images of all files, and the classes where Hugging Face notes their names."""
    first = parquet.read(files[0])
    columns = [column for column in first.columns if _holds_bytes(column)]
    if not columns:
        return None
    rows = first.rows + sum(parquet.read(path).rows for path in files[1:])
    others = [column.name for column in first.columns if column not in columns]
    label = next((name for name in (*LABELS, *others) if name in others), "")
    names = _names(first, label)
    words = f"{rows:,} images in {len(names):,} classes" if names else f"{rows:,} images"
    words += f", in {len(files):,} files" if len(files) > 1 else ""
    words += f"; classes in {label}" if label else "; data.label: no column can hold the classes"
    return Images(words, [f"data.label={label}"] if label != LABELS[0] else [])


def _holds_bytes(column: parquet.Column) -> bool:
    """Whether it may hold images: bytes, or Hugging Face's {bytes, path}."""
    return column.binary or any(part.name == "bytes" and part.binary for part in column.parts)


def _names(file: parquet.Parquet, label: str) -> list[str]:
    try:
        about = json.loads(file.notes.get("huggingface", b"{}"))
        return about["info"]["features"][label]["names"] or []
    except (LookupError, TypeError, ValueError):
        return []
