"""Images in tar and Parquet files: how many, and of how many classes."""

import json
import re
import tarfile
from collections.abc import Sequence
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath

from ddpgen.asking import parquet
from ddpgen.asking.images import HIDDEN, SPLITS, Images, below, is_image
from ddpgen.errors import DdpgenError, show

SHARDS = (".tar", ".parquet")
LABELS = ("label", "labels", "class", "target", "y", "fine_label")  # columns of classes
MEMBERS = 10_000  # of a tar file that are looked at


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
    if loose := next(below(source), None):
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
                elif member.isfile() and is_image(member.name):
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
