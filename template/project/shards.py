"""Images in Parquet files and in tar files, as WebDataset writes these: listed by number."""

import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, takewhile
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

import config
import images

ENDINGS = (".parquet", ".tar")
TRAINING, TEST = {images.TRAINING, "training"}, {"test", "testing"}  # words in names of files
LABEL = ".cls"  # the ending of what names the class of an image, in a tar file
CONTENT = "images.bin"  # the images of Parquet files as they are: pages there are compressed
ROWS = 64  # of a Parquet file in memory at once


class Labelled(NamedTuple):
    """An image, and the name of its class, or the folders of which one names the class."""

    place: images.Place
    label: str
    folders: tuple[str, ...] = ()


def files(source: Path) -> list[Path]:
    """The shards that `source` is, or that lie in it or in folders of splits, in their order."""
    if source.is_file():
        return [source]
    folders = [source, *(source / name for name in ("data", *images.SPLITS))]
    found = [path for folder in folders for path in folder.glob("*.*") if path.suffix in ENDINGS]
    return sorted(path for path in found if not path.name.startswith(images.HIDDEN))


def find(cfg: config.Data, unpacked: Path) -> images.Found:
    """The classes, and the images of each split: by the names of files, or divided by chance.

    Places are below the source, or below the folder `unpacked`, where Parquet files go. Raises
    ConfigError with file, and member or row, for what cannot be read and for an image of no class.
    """
    source = Path(cfg.source)
    refuse_both(source)
    listed = _of_folders([[*_read(paths, cfg, unpacked)] for paths in _splits(source)])
    names = {image.label for image in listed[0]}
    if unknown := [image for image in listed[-1] if image.label not in names]:
        raise config.ConfigError(
            f"{unknown[0].place.name}: no training image is of the class {unknown[0].label!r}"
        )
    if len(names) < 2:
        raise config.ConfigError(f"{source} must hold several classes; found {sorted(names)}")
    if len(listed) == 1:
        labels = [image.label for image in listed[0]]
        shares = images.divide(labels, cfg.validation, cfg.split_seed)
        listed = [[listed[0][i] for i in share] for share in shares]
    classes = sorted(names, key=lambda name: (int(name) if name.isdecimal() else -1, name))
    numbers = {name: number for number, name in enumerate(classes)}
    places = [[i.place._replace(label=numbers[i.label]) for i in part] for part in listed]
    return images.Found(classes, places[0], places[1])


def refuse_both(source: Path) -> None:
    """Raise ConfigError for a folder of shards that holds images, too."""
    if loose := images.files_below(source):
        raise config.ConfigError(
            f"{source} holds {files(source)[0].name}, and also images such as {loose[0]}: "
            "move either elsewhere, or give the file itself"
        )


def _splits(source: Path) -> list[list[Path]]:
    """The shards of training and of validation, or of both."""
    found = files(source)
    if len({path.suffix for path in found}) > 1 or found[0].suffix not in ENDINGS:
        raise config.ConfigError(f"{source} must hold .tar files or .parquet files, and only these")
    names = {path: str(path.relative_to(source)).lower() for path in found}
    words = {path: {*re.split(r"[^a-z]+", name)} for path, name in names.items()}
    train = [path for path in words if words[path] & TRAINING]
    val = [path for path in words if words[path] & {*images.VALIDATION}]
    rest = [path for path in words if path not in {*train, *val} and not words[path] & TEST]
    if not train and not val and rest:
        return [rest]
    if not train or rest:
        raise config.ConfigError(
            f"{source}: is {(rest or found)[0].name} for training? Rename the files: all have "
            f"{images.TRAINING!r} or {images.VALIDATION[0]!r} in their names, or none has"
        )
    return [train, val] if val else [train]


def _read(paths: list[Path], cfg: config.Data, unpacked: Path) -> Iterator[Labelled]:
    """The images of one split."""
    for path in paths:
        if path.suffix == ".tar":
            below = str(path.relative_to(cfg.source))
            found, said = members(path)
            for key, place in found:
                yield _labelled(place._replace(path=below), key, said)
        else:
            yield from _rows(path, cfg.label, unpacked)


# --- Tar files ------------------------------------------------------------------------------------


def members(path: Path) -> tuple[list[tuple[str, images.Place]], dict[str, str]]:
    """The images of a tar file by their keys, and what key.cls says beside some of them."""
    found, said = list[tuple[str, images.Place]](), dict[str, str]()
    try:
        with tarfile.open(path, "r:") as archive:  # a compressed one could not be read by place
            for member in archive:
                key, ending = _key(member.name)
                if member.isfile() and ending == LABEL:
                    said[key] = _text(archive, member, path)
                elif member.isfile() and images.is_image(member.name):
                    name = f"{path}: {member.name}"
                    place = images.Place(str(path), 0, name, member.offset_data, member.size)
                    found.append((key, place))
            if path.stat().st_size < archive.offset + tarfile.BLOCKSIZE:  # for the mark of the end
                raise tarfile.ReadError("it has no end, as a file that was cut off")
    except (tarfile.TarError, ValueError) as error:  # an error of the disk is another one
        raise config.ConfigError(f"{path} cannot be read as a tar file: {error}") from error
    if not found:
        raise config.ConfigError(f"{path} holds no images")
    return found, said


def _key(name: str) -> tuple[str, str]:
    """What the files of a sample share, and the ending of this one."""
    folder, _, last = name.rpartition("/")
    stem, _, ending = last.partition(".")
    return f"{folder}/{stem}", f".{ending.lower()}"


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> str:
    """The content of a small file. Raises ConfigError where it is no text."""
    file = archive.extractfile(member)
    try:
        return file.read().decode().strip() if file else ""
    except UnicodeDecodeError as error:
        raise config.ConfigError(
            f"{path}: {member.name} is no text in UTF-8: write the name of a class, or its number"
        ) from error


def _labelled(place: images.Place, key: str, said: dict[str, str]) -> Labelled:
    """An image with what key.cls says, or with its folders."""
    folders = PurePosixPath(key.rpartition("/")[0]).parts
    label = said.get(key, "")
    if not label and not folders:
        raise config.ConfigError(
            f"{place.name} has no class: neither a file with the ending {LABEL} beside it, nor a "
            "folder"
        )
    return Labelled(place, label, () if label else folders)


def _of_folders(listed: list[list[Labelled]]) -> list[list[Labelled]]:
    """The images of both splits, of which the outermost folder is the class, as on a disk.

    Folders around all images of the training, as `tar` packs a folder, are none.
    """
    inside = [image.folders for image in listed[0] if image.folders]
    same = takewhile(lambda names: len({*names}) == 1, zip(*inside, strict=False))
    around = len([*same])
    return [[_of_folder(image, around) for image in split] for split in listed]


def _of_folder(image: Labelled, around: int) -> Labelled:
    if not image.folders:
        return image
    return image._replace(label=image.folders[min(around, len(image.folders) - 1)])


# --- Parquet files --------------------------------------------------------------------------------


def _rows(path: Path, label: str, unpacked: Path) -> Iterator[Labelled]:
    """The images of a Parquet file, each with what the column `label` says."""
    with opened(path) as file:
        names = _class_names(path, file.schema_arrow, label)
        for place, row in unpack(path, file, [label], unpacked):
            yield Labelled(place, _named(row[label], names, f"{place.name}: {label!r}"))


@contextmanager
def opened(path: Path) -> Iterator[parquet.ParquetFile]:
    """A Parquet file. Raises ConfigError for what cannot be read of the file, also later."""
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (OSError, ValueError, pa.ArrowException) as error:
        if getattr(error, "errno", None):
            raise  # of the disk; Arrow's errors of a file have no number
        raise config.ConfigError(f"{path} cannot be unpacked: {error}") from error


def unpack(
    path: Path, file: parquet.ParquetFile, others: list[str], unpacked: Path
) -> Iterator[tuple[images.Place, dict[str, Any]]]:
    """The images, each with other columns of its row, while they are written into one file."""
    unpacked.mkdir(exist_ok=True)
    column = _image_column(path, file.schema_arrow)
    batches = file.iter_batches(ROWS, columns=[column, *others])
    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
    with (unpacked / CONTENT).open("ab") as content:
        for number, row in enumerate(rows, start=1):
            name = f"{path}: row {number}"
            image = row[column]
            pixels = image.get("bytes") if isinstance(image, dict) else image
            if not pixels:
                raise config.ConfigError(f"{name} has no bytes of an image in {column!r}")
            yield images.Place(CONTENT, 0, name, content.tell(), content.write(pixels)), row


def _image_column(path: Path, schema: Any) -> str:
    """The column of the images: of bytes, or of Hugging Face's struct."""
    binary = (pa.types.is_binary, pa.types.is_large_binary)
    found = [
        field.name
        for field in schema
        if any(check(field.type) for check in binary)
        or (pa.types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0)
    ]
    if len(found) != 1:
        raise config.ConfigError(
            f"{path} must have one column of the bytes of images; has {_kinds(schema)}"
        )
    return str(found[0])


def _class_names(path: Path, schema: Any, label: str) -> list[str]:
    """The names for which the column of classes has numbers, as Hugging Face writes them."""
    if label not in schema.names:
        raise config.ConfigError(
            f"{path} must have one column of classes, data.label = {label!r}; has {_kinds(schema)}"
        )
    about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    names: list[str] = about.get("info", {}).get("features", {}).get(label, {}).get("names") or []
    return names


def _kinds(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def _named(value: Any, names: list[str], place: str) -> str:
    """The name of a class, which a number may stand for."""
    if isinstance(value, int) and names and 0 <= value < len(names):
        return names[value]
    number = isinstance(value, int) and not names and value >= 0
    if not (number or (isinstance(value, str) and value)):
        raise config.ConfigError(f"{place} is {value!r}, which is no class")
    return str(value)
