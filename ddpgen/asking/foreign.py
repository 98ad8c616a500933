"""Known kinds of data that no family reads: named, with the lines of Python that convert them."""

import re
from collections.abc import Sequence
from pathlib import Path

from ddpgen.asking import foreign_arrays, formats, images, packed, splits
from ddpgen.asking import foreign_lines as lines
from ddpgen.errors import DdpgenError, show

TRUSTED = "a pickle may run any code when it is read: do so only where you trust who wrote it"
PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth")
IDX = re.compile(r"(train|t10k)-(images-idx3|labels-idx1)-ubyte(\.gz)?")
NAMED = re.compile(r"([^\W\d_]+)[ ._-]*\(?\d+\)?")  # cat.0, dog_12, cat (3)
# Endings that are said by name; all else is for lines of the user's own.
NAMES = {
    ".mat": "a file of MATLAB",
    ".h5": "a file of HDF5",
    ".hdf5": "a file of HDF5",
    ".sqlite": "a database of SQLite",
    ".db": "a database",
    ".tfrecord": "records of TensorFlow",
    ".libsvm": "rows of LIBSVM",
    ".wav": "sound",
    ".mp3": "sound",
    ".flac": "sound",
    ".mp4": "a film",
}
OWN = (
    "write it as CSV, Parquet or images in one folder for each class, or read it in a data.py of "
    "your own: --data model=custom"
)
BOXES = (
    {"images", "labels"},
    {"images", "masks"},
    {"images", "annotations"},
    {"JPEGImages", "Annotations"},
)


def refuse(path: Path) -> None:
    """Refuse data of a known kind that no family reads.

    Raises:
        DdpgenError: the data are of such a kind; the message has the way out.
    """
    if path.is_dir():
        _refuse_folder(path)
    elif path.is_file():
        _refuse_file(path)


def _refuse(path: Path, reason: str, how: str, code: Sequence[str] = ()) -> None:
    raise DdpgenError(f"--data {show(str(path))}: {reason}", remedy="\n  ".join([how, *code]))


def _by_lines(path: Path, reason: str, code: Sequence[str], result: str, more: str = "") -> None:
    how = f"convert the data with these lines of Python, then: --data {result}"
    _refuse(path, reason, f"{more}; {how}" if more else how, code)


# --- Files ----------------------------------------------------------------------------------------


def _refuse_file(path: Path) -> None:
    ending = path.suffix.lower()
    table = f"{path.name.partition('.')[0]}.csv"
    if IDX.fullmatch(path.name):
        _refuse_folder(path.parent)
    elif ending == ".data":
        _refuse_rows(path, table)
    elif ending in PICKLES or (not ending and formats.first(path)[:1] == b"\x80"):
        code = lines.of_pickle(path, table)
        _by_lines(path, "is a pickle, which nothing here reads", code, table, TRUSTED)
    elif ending in (".xls", ".xlsx", ".ods"):
        code = lines.of_spreadsheet(path, table)
        _by_lines(path, "is a spreadsheet: save the table as CSV in UTF-8", code, table)
    elif ending in (".feather", ".arrow"):
        _by_lines(path, "is a file of Arrow", lines.of_arrow(path, table), table)
    elif ending == ".arff":
        _by_lines(path, "is a table of Weka (ARFF)", lines.of_arff(path, table), table)
    elif ending == ".npy":
        _refuse_arrays(path, [path])
    elif ending in NAMES:
        _refuse(path, f"is {NAMES[ending]}, which no family reads", OWN)
    packed.refuse(path, OWN)
    formats.refuse_labelled(path)


def _refuse_rows(path: Path, table: str) -> None:
    """Refuse a file of the UCI repository: rows with commas, semicolons or blanks."""
    encoding = formats.encoding_of(path)
    first = formats.first(path).decode(encoding, errors="replace").strip().partition("\n")[0]
    first = re.sub('"[^"]*"', "text", first)
    comma = next((mark for mark in ",;" if mark in first), "")
    headed = not any(re.match(r"[+-]?\.?\d", cell.strip()) for cell in first.split(comma or None))
    reason = "rows" if headed else "rows without names of columns"
    code = lines.of_rows(path, table, comma, encoding, named=headed)
    _by_lines(path, f"{reason}, in a file whose ending no family reads", code, table)


def _refuse_arrays(path: Path, files: Sequence[Path]) -> None:
    """Refuse files of NumPy: tokens, a table, or more."""
    header = formats.first(files[0])
    whole = re.search(rb"'descr': '[<>|][iu]\d'", header)
    shape = (re.search(rb"'shape': \(([\d, ]*)\)", header) or [b"", b""])[1]
    sides = len(re.findall(rb"\d+", shape))
    if sides == 1 and whole:
        result = str(path if path.is_dir() else path.with_suffix(".bin"))
        _by_lines(path, "tokens of NumPy", foreign_arrays.of_tokens(files), result)
    if sides == 2 and len(files) == 1:
        table = f"{path.stem}.csv"
        _by_lines(path, "a table of NumPy", foreign_arrays.of_array(files[0], table), table)
    _refuse(path, "holds arrays of NumPy, which no family reads", OWN)


# --- Folders --------------------------------------------------------------------------------------


def _refuse_folder(folder: Path) -> None:
    inside = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    names = {path.name for path in inside}
    files = [path for path in inside if path.is_file()]
    if found := next((name for name in names if IDX.fullmatch(name)), ""):
        code = foreign_arrays.of_idx(folder, packed=found.endswith(".gz"))
        _by_lines(folder, "images and labels in MNIST's files (idx)", code, "images")
    if {"batches.meta", "meta"} & names and {"data_batch_1", "train"} & {p.name for p in files}:
        code = foreign_arrays.of_cifar(folder, hundred="meta" in names)
        _by_lines(folder, "CIFAR's images in pickles", code, "images", TRUSTED)
    if {"batches.meta.txt", "fine_label_names.txt"} & names and any(_ends(files, ".bin")):
        code = foreign_arrays.of_cifar_bytes(folder, hundred="fine_label_names.txt" in names)
        _by_lines(folder, "CIFAR's images in binary files", code, "images")
    if any(pair <= names for pair in BOXES) and images.loose(folder):
        reason = "images with boxes or masks beside them, which no family learns"
        how = "where classes are what you want to predict, give the folder of the images alone; "
        _refuse(folder, reason, f"{how}else {OWN}")
    if any("=" in path.name and path.is_dir() and any(path.rglob("*.parquet")) for path in inside):
        code = lines.of_partitions(folder, f"{folder.name}.parquet")
        _by_lines(folder, "a Parquet table in folders by value", code, f"{folder.name}.parquet")
    if files and len(arrays := _ends(files, ".npy")) == len(files):
        _refuse_arrays(folder, arrays)
    if len(files) == 1 == len(inside):
        _refuse_file(files[0])
    pictures = [path for path in files if path.suffix.lower() in images.ENDINGS]
    if not any(_names(path, pictures) for path in [*_ends(files, ".csv"), *_ends(files, ".tsv")]):
        _refuse_flat(folder, pictures)
    _refuse_texts(folder, [path for path in inside if path.is_dir()])


def _ends(files: Sequence[Path], ending: str) -> list[Path]:
    return [path for path in files if path.suffix == ending]


def _names(table: Path, pictures: Sequence[Path]) -> bool:
    """Whether a table names images, of which it may say other classes than their names do."""
    cells = {*re.split(rb'[,;\t\r\n"]+', formats.first(table))}
    names = {name.encode() for path in pictures for name in (path.name, path.stem)}
    return len(cells & names) > 1


def _refuse_flat(folder: Path, found: Sequence[Path]) -> None:
    """Refuse images in one folder, whose names begin with their classes."""
    matches = [NAMED.fullmatch(path.stem) for path in found]
    classes = {match[1] for match in matches if match}
    if all(matches) and 1 < len(classes) <= len(found) / 2:
        shown = f"{', '.join(sorted(classes)[:3])}{', ...' if len(classes) > 3 else ''}"
        reason = f"{len(found):,} images in one folder, with classes in their names: {shown}"
        _by_lines(folder, reason, foreign_arrays.of_flat(folder), "sorted")


def _refuse_texts(folder: Path, inside: Sequence[Path]) -> None:
    """Refuse texts without an ending in one folder for each class, as 20 Newsgroups has them."""
    parts, _ = splits.for_training(inside)
    named = [path for path in parts if splits.words(path) & splits.TRAINING]
    base = named[0] if len(named) == 1 else folder
    classes = sorted(path for path in base.glob("*/") if not path.name.startswith("."))
    firsts = [next((p for p in sorted(path.iterdir()) if p.is_file()), None) for path in classes]
    bare = len(classes) > 1 and all(first and _is_bare_text(first) for first in firsts)
    if bare and not images.loose(folder):
        reason = f"texts in one folder for each class: {', '.join(p.name for p in classes[:3])}"
        more = ", ..." if len(classes) > 3 else ""
        _by_lines(folder, reason + more, lines.of_texts(base), "texts.csv")


def _is_bare_text(path: Path) -> bool:
    begin = formats.first(path)
    bare = not path.suffix or path.suffix[1:].isdecimal()
    return bare and bool(begin) and b"\0" not in begin and begin[:1] != b"\x80"
