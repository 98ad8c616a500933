"""Looks at what somebody wants to train on: which family fits, and how train.py is told.

Only the standard library reads here, and little of each file: the project itself reads all of it,
and is strict. What is proposed here is a beginning.
"""

import csv
import os
import zlib
from pathlib import Path

from ddpgen.asking import foreign, foreign_lines, formats, images, records
from ddpgen.asking.files import columns_of_records, look_at_file
from ddpgen.asking.folders import below, look_at_pattern, look_in_folder
from ddpgen.asking.found import ROWS, Found, path_of
from ddpgen.asking.tables import in_lines
from ddpgen.errors import DdpgenError, show

KNOWN = (
    "known are images in one folder per class or in .tar and .parquet files, tables (.csv, "
    ".parquet), texts with labels (.csv, .jsonl, .parquet), conversations (.jsonl, .json), texts "
    "(.txt) and tokens (.bin); for all else: --data model=custom"
)


def look_at(texts: list[str]) -> Found:
    """Look at the path that was given, if one was.

    Raises:
        DdpgenError: several were given; or as `look`.
    """
    if len(texts) > 1 or texts == [""]:
        shown = " and ".join(map(show, texts))
        raise DdpgenError(f"--data {shown}: give one path; an answer is written key=value")
    if texts and not texts[0].isprintable():
        raise DdpgenError(f"--data {show(texts[0])}: contains a line break or a control character")
    if texts and "://" in texts[0]:
        raise DdpgenError(
            f"--data {show(texts[0])}: is an address, and nothing is fetched here",
            remedy="download the data, then give the path of the file or folder",
        )
    if not texts:
        return Found([], "", [])
    bare = texts[0].strip("\"'")
    if bare != texts[0] and os.path.lexists(bare) and not os.path.lexists(texts[0]):
        raise DdpgenError(
            f"--data {show(texts[0])}: the quotation marks are taken for a part of the name",
            remedy=f"leave them out: --data {show(bare)}",
        )
    return look(path_of(texts[0]))


def look(path: Path) -> Found:
    """Say what lies at a path, and propose how to train on it.

    Raises:
        DdpgenError: nothing lies there, or nothing that a family reads.
    """
    try:
        foreign.refuse(path)
        found = look_in_folder(path) if path.is_dir() else look_at_file(path)
        found = found or look_at_pattern(path)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if isinstance(error, UnicodeDecodeError):
            reason = formats.NO_UTF_8
        how = formats.in_utf_8(path, reason)
        raise DdpgenError(f"--data {show(str(path))}: {reason}", remedy=how) from error
    if found is None and path.is_dir() and (unread := images.unread(path)):
        raise DdpgenError(f"--data {show(str(path))}: {unread[0]}", remedy="\n  ".join(unread[1:]))
    if found is None:
        reason, remedy = _in_vain(path) if path.is_dir() else (_no_family(path), _as_table(path))
        reason = reason or "nothing that a family reads"
        raise DdpgenError(f"--data {show(str(path))}: {reason}", remedy=remedy or KNOWN)
    return found


def _in_vain(folder: Path) -> tuple[str, str]:
    """Why no family reads a folder, and the way out; or ""."""
    if not any(folder.iterdir()):
        return "the folder is empty", ""
    reason = images.misplaced(folder)
    return (reason, "") if reason else below(folder)


def _no_family(file: Path) -> str:
    match file.suffix.lower():
        case "":
            return "the name has no ending, by which the kind is known: rename it, such as to .csv"
        case ".jsonl" | ".json":
            return (
                "records without conversations, without a question and its answer, and without one "
                "column of texts: write other columns as a table"
            )
    return ""


def _as_table(file: Path) -> str:
    """How to write records as a table, or two texts of each as lines that are read; or ""."""
    if file.suffix.lower() not in (".jsonl", ".json"):
        return ""
    if not (found := records.read(file, ROWS)):
        return ""
    table = f"{file.stem}.csv"
    how = f"these lines of Python write a table, then: --data {table}"
    if any(isinstance(value, dict) for record in found for value in record.values()):
        return "\n  ".join([how, *foreign_lines.of_nested(file, table)])
    columns = columns_of_records(found)
    prose = [column.name for column in columns if column.is_prose]
    if len(prose) == 2 and all(column.tells_rows_apart for column in columns):
        return in_lines(file, prose)
    return "\n  ".join([how, *foreign_lines.of_records(file, table)])
