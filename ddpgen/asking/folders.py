"""Looks at a folder, or at the files that a pattern names: which of them a family reads."""

from collections.abc import Iterable
from pathlib import Path

from ddpgen.asking.files import RECORDS, in_images, look_at_file, tokens
from ddpgen.asking.found import Found, number
from ddpgen.errors import DdpgenError, show

TABLES = {".csv", ".tsv", ".parquet"}


def look_in_folder(folder: Path) -> Found | None:
    """What a folder holds; nothing where no family reads it."""
    source = f"data.source={folder.absolute()}"
    if found := in_images(folder) or _split_records(folder, source):
        return found
    if count := _count(folder.glob("*"), {".bin"}):
        return tokens(number(count, "file", "of tokens"), source)
    if tables := [path for path in sorted(folder.glob("*")) if path.suffix in TABLES]:
        return _tables(tables)
    if lines := sorted(folder.glob("*.jsonl")):
        found = look_at_file(lines[0])
        return found and found._replace(arguments=[source, *found.arguments[1:]])
    if texts := _count(folder.rglob("*"), {".txt"}):
        return Found([number(texts, "text")], "text", [source])
    return None


def look_at_pattern(path: Path) -> Found | None:
    """Files that a pattern names, of which only tables are read."""
    if not (files := sorted(path.parent.glob(path.name))) or path.exists():
        return None
    found = _tables(files) if files[0].suffix in TABLES else None
    if not found or found.kind != "rows":
        raise DdpgenError(
            f"--data {show(str(path))}: only tables are read by a pattern",
            remedy=f"give the folder: --data {show(str(path.parent))}",
        )
    return found._replace(arguments=[f"data.source={path.absolute()}", *found.arguments[1:]])


def _split_records(folder: Path, source: str) -> Found | None:
    """Texts with labels in files of the training split."""
    patterns = ("train.*", "train-*.*", "data/train-*.*")
    found = sorted(path for pattern in patterns for path in folder.glob(pattern))
    found = [path for path in found if path.suffix in RECORDS]
    inside = look_at_file(found[0]) if found else None
    if not inside or inside.kind != "labelled texts":
        return None
    return inside._replace(arguments=[source, *inside.arguments[1:]])


def _tables(paths: list[Path]) -> Found | None:
    first = paths[0]
    same = [path for path in paths if path.suffix == first.suffix]
    found = look_at_file(first)
    if not found or len(same) == 1:
        return found
    pattern = f"data.source={first.parent.absolute()}/*{first.suffix}"
    words = [f"{len(same):,} tables; of the first:", *found.words]
    return Found(words, found.kind, [pattern, *found.arguments[1:]])


def _count(paths: Iterable[Path], endings: set[str]) -> int:
    return sum(path.suffix.lower() in endings and path.is_file() for path in paths)
