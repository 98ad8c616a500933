"""Tables that name images: no family reads them, and here is how to sort the images by class."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ddpgen.asking.column import Column
from ddpgen.asking.found import ROWS
from ddpgen.asking.images import ENDINGS
from ddpgen.errors import DdpgenError, show

MOST_OTHERS = 2  # columns that are no names: with more of them it is a table with images beside
LONGEST = 99  # characters of a name
SORTED = "sorted"  # the folder that the lines below make


def refuse(path: Path, columns: Sequence[Column], delimiter: str) -> None:
    """Refuse a table with a column of images' names, which a model would learn nothing from.

    Raises:
        DdpgenError: there is such a column; the message has lines that sort the images.
    """
    for column in columns:
        others = [c for c in columns if c is not column and not c.tells_rows_apart]
        few = len(others) <= MOST_OTHERS
        if few and (first := _first(path.parent, column)) is not None:
            raise DdpgenError(
                f"--data {show(str(path))}: {column.name} names images, which are read from one "
                "folder for each class",
                remedy=_how_to_sort(path, columns, column, delimiter, first),
            )


def _first(folder: Path, column: Column) -> Path | None:
    """The first image that a column names; None where it names no images."""
    cell = column.cells[0].strip() if column.cells and not column.dates else ""
    if not cell.isprintable() or not 1 < len(cell) < LONGEST:
        return None
    cells = column.cells[:ROWS]
    named = sum(map(_is_image, cells))
    places = [folder, *_folders(folder)]
    if 2 * named > len(cells):
        found = [place / cell for place in places if (place / cell).is_file()]
        return [*found, folder / cell][0]
    if not column.tells_rows_apart:
        return None
    endings = sorted(ENDINGS)
    found = [p / f"{cell}{ending}" for p in places for ending in endings]
    return next((path for path in found if path.is_file()), None)


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/") if not path.name.startswith("."))


def _is_image(cell: str) -> bool:
    return PurePosixPath(cell.strip()).suffix.lower() in ENDINGS


def _how_to_sort(
    path: Path, columns: Sequence[Column], names: Column, delimiter: str, first: Path
) -> str:
    """Lines of Python that copy each image into the folder of its class."""
    others = [c for c in columns if c is not names and c.values > 1 and not c.tells_rows_apart]
    labels = [column for column in others if 2 * column.values <= len(column.cells)]
    if not labels:
        return "copy each image into a folder that is called as its class, and give their folder"
    # What stands before and behind the name of the first image does so for all.
    before, _, after = str(first.absolute()).rpartition(names.cells[0].strip())
    told = f", delimiter={delimiter!r}" if delimiter != "," else ""
    place = f"{SORTED!r}, row[{labels[-1].name!r}]"
    source = f"{before!r} + row[{names.name!r}]" + (f" + {after!r}" if after else "")
    lines = [
        f"copy them with these lines of Python, then: --data {SORTED}",
        "  import csv, os, shutil",
        f"  for row in csv.DictReader(open({str(path.absolute())!r}){told}):",
        f"      os.makedirs(os.path.join({place}), exist_ok=True)",
        f"      shutil.copy({source}, os.path.join({place}))",
    ]
    return "\n  ".join(lines)
