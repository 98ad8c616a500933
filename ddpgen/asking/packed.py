"""Archives and compressed files: how to unpack them; and NumPy's archives, by what is in them."""

import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ddpgen.asking.foreign_lines import at, indented
from ddpgen.errors import DdpgenError, show

ENDINGS = (".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar")
READ = (".csv", ".tsv")  # compressed with gzip or bzip2
MODULES = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
PROGRAMS = {".zst": "zstd -d", ".7z": "7z x", ".rar": "unrar x"}
TARGETS = ("y_train", "train_labels", "y", "labels", "label", "targets", "target")
IMAGE = (3, 4)  # how many sides the array of all images has


class Array(NamedTuple):
    """An array in NumPy's archive."""

    name: str
    kind: str  # as NumPy's header has it, such as |u1
    shape: tuple[int, ...]


def refuse(path: Path, own: str) -> None:
    """Refuse a compressed file or an archive that no family reads; say how to unpack either.

    Raises:
        DdpgenError: the file is such; `own` is the way out where no lines help.
    """
    inside = Path(path.stem)
    ending = path.suffix.lower()
    if ending == ".npz":
        _refuse_arrays(path, own)
    if ending not in ENDINGS or (ending in (".gz", ".bz2") and inside.suffix.lower() in READ):
        return
    whole = ending in (".zip", ".tgz") or inside.suffix.lower() == ".tar"
    target = inside.stem if inside.suffix.lower() == ".tar" else str(inside)
    if whole and ending in (".zip", ".tgz", ".gz", ".bz2", ".xz"):
        unpack = f"shutil.unpack_archive({at(path)}, {target!r})"
        how = _in_lines(["import shutil", unpack], target)
    elif ending in MODULES:
        module = MODULES[ending]
        copy = f"shutil.copyfileobj({module}.open({at(path)}), open({target!r}, 'wb'))"
        how = _in_lines([f"import {module}, shutil", copy], target)
    else:
        how = f"{PROGRAMS[ending]} {path.name}, then: --data with what is in it"
    raise DdpgenError(f"--data {show(str(path))}: is compressed: unpack it", remedy=how)


def _refuse_arrays(path: Path, own: str) -> None:
    """Refuse an archive of NumPy, with lines that write a table or images where it has such.

    Raises:
        DdpgenError: always.
    """
    arrays = list(_arrays(path))
    named = ", ".join(f"{a.name} {a.shape}" for a in arrays) or "no arrays that are known"
    reason = f"--data {show(str(path))}: is an archive of NumPy: {named}"
    for rows, target in _pairs(arrays):
        if len(rows.shape) == 2:
            table = f"{path.stem}.csv"
            raise DdpgenError(reason, remedy=_in_lines(_table(path, rows, target, table), table))
        if rows.kind == "|u1" and len(rows.shape) in IMAGE:
            raise DdpgenError(reason, remedy=_in_lines(_images(path, rows, target), "images"))
    raise DdpgenError(reason, remedy=own)


def _in_lines(lines: Sequence[str], target: str) -> str:
    how = f"these lines of Python do that, then: --data {target}"
    return "\n  ".join([how, *indented(lines)])


def _arrays(path: Path) -> Iterator[Array]:
    """The arrays of an archive, by their headers."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                header = file.read(1024).decode("latin-1")
            kind = re.search(r"'descr': '([^']+)'", header)
            shape = re.search(r"'shape': \(([\d, ]*)\)", header)
            if kind and shape:
                sides = tuple(map(int, re.findall(r"\d+", shape[1])))
                yield Array(name.removesuffix(".npy"), kind[1], sides)


def _pairs(arrays: Sequence[Array]) -> Iterator[tuple[Array, Array]]:
    """Arrays of samples, each with the array of their targets; those of the training first."""
    targets = [a for name in TARGETS for a in arrays if a.name.lower() == name]
    for target in targets:
        count = target.shape[:1]
        train = "train" in target.name.lower()
        same = [a for a in arrays if a != target and a.shape[:1] == count and len(a.shape) > 1]
        yield from ((a, target) for a in same if not train or "train" in a.name.lower())


def _table(path: Path, rows: Array, target: Array, table: str) -> list[str]:
    return [
        "import csv, numpy",
        f"arrays = numpy.load({at(path)})",
        f"rows, targets = arrays[{rows.name!r}], arrays[{target.name!r}].ravel()",
        "names = [f'column {n}' for n in range(1, rows.shape[1] + 1)]",
        f"file = csv.writer(open({table!r}, 'w', newline='', encoding='utf-8'))",
        "file.writerow([*names, 'target'])",
        "file.writerows([*row, y] for row, y in zip(rows.tolist(), targets.tolist()))",
    ]


def _images(path: Path, rows: Array, target: Array) -> list[str]:
    return [
        "import numpy, pathlib",
        "from PIL import Image",
        f"arrays = numpy.load({at(path)})",
        f"targets = arrays[{target.name!r}].ravel()",
        f"for n, (pixels, y) in enumerate(zip(arrays[{rows.name!r}], targets)):",
        "    folder = pathlib.Path('images', str(y))",
        "    folder.mkdir(parents=True, exist_ok=True)",
        "    Image.fromarray(pixels.squeeze()).save(folder / f'{n}.png')",
    ]
