"""Files whose content is something else than their ending says: known by their first bytes."""

import codecs
import csv
import re
from pathlib import Path

from ddpgen.asking import foreign_lines
from ddpgen.asking.cells import is_number
from ddpgen.errors import DdpgenError, show

FIRST = 2**16  # bytes of a text that are looked at
FEWEST_LINES = 10  # of a text that is a table with commas or semicolons, and not one of sentences
PLAIN = (".txt", ".md", ".log", ".rst", ".tex", ".text", ".tokens")  # texts to be continued
TEXTS = {".csv", ".tsv", ".json", ".jsonl", *PLAIN}
SMALL = {".bin", ".json", ".jsonl", ".tar"}  # endings that projects know in small letters only
MARK = b"\xef\xbb\xbf"  # what some programs write before UTF-8
UTF_16 = "is in UTF-16: save the file in UTF-8"
HTML = "is a page of HTML, not the file that it links: download that file itself"
UTF_16_BARE = "is in UTF-16 without a mark at its beginning: save the file in UTF-8"
NO_TEXT = "holds bytes of zeros, as no text does"
NO_UTF_8 = "is not text in UTF-8: save the file in UTF-8"
WESTERN = "cp1252"  # of Windows, and of Latin-1 all that is printed
CONTENTS = {
    b"version https://git-lfs": "only says where the file is: git lfs pull fetches the file",
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
    b"\x1f\x8b": "is compressed with gzip, whatever its name says: unpack it, or add .gz",
    b"BZh": "is compressed with bzip2, whatever its name says: unpack it, or add .bz2",
    b"\xfd7zXZ": "is compressed with xz, whatever its name says: unpack it",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd, whatever its name says: unpack it",
    b"PK\x03\x04": "is a zip archive or a spreadsheet: unpack it, or save it as CSV in UTF-8",
    b"PAR1": "is a Parquet file: call it .parquet",
    b"%PDF": "is a PDF: save its text",
    b"<!DOCTYPE": HTML,
    b"<!doctype": HTML,
    b"<html": HTML,
    b"\x89PNG": "is an image",
    b"\xff\xd8\xff": "is an image",
    b"GIF8": "is an image",
    b"\x93NUMPY": "is a file of NumPy: write the numbers alone, with array.tofile(...)",
}


def refuse(path: Path) -> None:
    """Refuse a file that is empty, or whose content does not fit its ending.

    Raises:
        DdpgenError: it is one of these, or its ending is in capital letters.
    """
    ending = path.suffix.lower()
    if ending not in TEXTS | SMALL | {".parquet"}:
        return
    if path.suffix != ending and ending in SMALL:
        raise DdpgenError(
            f"--data {show(str(path))}: {path.suffix} is read in small letters only",
            remedy=f"rename the file to {show(path.stem + ending)}",
        )
    if reason := _reason(path, ending):
        raise DdpgenError(f"--data {show(str(path))}: {reason}", remedy=in_utf_8(path, reason))
    if ending in TEXTS:
        refuse_labelled(path)


def in_utf_8(path: Path, reason: str) -> str:
    """How to write a text in UTF-8, where that is the reason for which a file is refused."""
    encodings = {UTF_16: "utf-16", UTF_16_BARE: _half_of_utf_16(path), NO_UTF_8: WESTERN}
    if not (encoding := encodings.get(reason)):
        return ""
    known = reason != NO_UTF_8
    named = "" if known else " (Western Europe; write another name where that is wrong)"
    target = f"utf8-{path.name.removesuffix('.gz')}"
    how = f"these lines of Python do that, from {encoding}{named}; then: --data {target}"
    return "\n  ".join([how, *foreign_lines.of_text(path, encoding)])


def _half_of_utf_16(path: Path) -> str:
    """Which half of UTF-16 comes first, where no mark at the beginning says so."""
    return "utf-16-le" if first(path)[1:2] == b"\0" else "utf-16-be"


def encoding_of(path: Path) -> str:
    """The encoding of a text, as Python calls it."""
    begin = first(path)
    if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return WESTERN if _no_text(begin) == NO_UTF_8 else "utf-8-sig"


def refuse_labelled(path: Path) -> None:
    """Refuse the lines of fastText, and rows with blanks between their cells.

    Raises:
        DdpgenError: the file holds such; the message has lines that write a table.
    """
    table = f"{path.name.partition('.')[0]}-table.csv"
    if first(path).removeprefix(MARK).startswith(b"__label__"):
        reason = "lines of fastText, a label and a text in each"
        code = foreign_lines.of_labelled_lines(path, table)
    elif path.suffix.lower() in (".txt", ".csv", ".tsv", ".dat") and _in_blanks(_lines(path)):
        reason = "blanks stand between the columns"
        code = foreign_lines.of_rows(path, table, "", encoding_of(path), named=_headed(path))
    else:
        return
    how = f"convert the data with these lines of Python, then: --data {table}"
    raise DdpgenError(f"--data {show(str(path))}: {reason}", remedy="\n  ".join([how, *code]))


def _in_blanks(lines: list[str]) -> bool:
    """Whether lines are rows of numbers, with blanks alone between them."""
    rows = [line.split() for line in lines if line.strip()]
    cells = [cell for row in rows[1:] for cell in row]
    same = len(rows) > FEWEST_LINES and len({*map(len, rows)}) == 1 < len(rows[0])
    return same and not re.search("[,;|\t]", rows[0][0] + lines[-1]) and _are_numbers(cells)


def _are_numbers(cells: list[str]) -> bool:
    return 2 * sum(map(is_number, cells)) > len(cells)


def _headed(path: Path) -> bool:
    return not _are_numbers(_lines(path)[0].split())


def _reason(path: Path, ending: str) -> str:
    begin = first(path)
    if not begin.removeprefix(MARK).strip():
        return "the file is empty" if not begin else "there is nothing but spaces in the file"
    if ending in TEXTS or begin.startswith(b"\x93NUMPY"):
        known = (reason for magic, reason in CONTENTS.items() if begin.startswith(magic))
        return next(known, _no_text(begin) if ending in TEXTS else "")
    return ""


def _no_text(begin: bytes) -> str:
    if b"\0" in begin:
        halves = begin[: len(begin) // 2 * 2]
        zeros = sorted((halves[::2].count(0), halves[1::2].count(0)))
        return UTF_16_BARE if not zeros[0] and 4 * zeros[1] > len(begin) else NO_TEXT
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin)
    except UnicodeDecodeError:
        return NO_UTF_8
    return ""


def first(path: Path) -> bytes:
    """The first bytes of a file."""
    with path.open("rb") as file:
        return file.read(FIRST)


def is_table(path: Path) -> bool:
    """Whether a text is a table: each of its first lines has as many cells."""
    return any(_are_rows(_lines(path), delimiter) for delimiter in "\t;,")


def _lines(path: Path) -> list[str]:
    """The first whole lines of a text."""
    content = first(path)
    lines = content.decode(encoding_of(path), errors="replace").splitlines()
    return lines[:-1] if len(content) == FIRST else lines


def _are_rows(lines: list[str], delimiter: str) -> bool:
    counts = {len(row) for row in csv.reader(filter(str.strip, lines), delimiter=delimiter)}
    enough = delimiter == "\t" or len(lines) > FEWEST_LINES
    return enough and len(counts) == 1 and counts != {1}
