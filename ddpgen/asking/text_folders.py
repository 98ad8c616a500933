"""Folders of texts: to continue them, or, where the folders are classes, to be written as CSV."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ddpgen.asking import formats, images, splits
from ddpgen.asking.files import look_at_file
from ddpgen.asking.found import Found, number
from ddpgen.errors import DdpgenError, show

ENDINGS = (*formats.PLAIN, ".py")  # of texts that are read where a pattern says so
# Folders with these names are classes for sure.
CLASSES = {"pos", "neg", "positive", "negative", "neutral", "spam", "ham"}


def look(folder: Path) -> Found | None:
    """Texts in a folder and below, those of other splits left out.

    Raises:
        DdpgenError: the folders are classes, which no family reads so.
    """
    if not (files := _texts(folder)):
        return _by_pattern(folder)
    words = _passed_over(folder)
    train, left = splits.for_training(sorted(p for p in folder.glob("*/") if _texts(p)))
    parts = [path for path in [*train, *left] if splits.words(path) & splits.TRAINING]
    base = parts[0] if len(parts) == 1 and not any(f.parent == folder for f in files) else folder
    found = _below(base)
    if found and base != folder and (divided := _divided(folder, found, parts, left)):
        return divided.saying(words)
    words += splits.left_out(left) if base != folder else _misplaced(left)
    return found.saying(words) if found else None


def _divided(
    folder: Path, found: Found, train: Sequence[Path], left: Sequence[Path]
) -> Found | None:
    """The same of a folder that the program divides by names, where some are for validation."""
    val, tests, others = splits.by_names(left)
    if not val or others or not all(splits.words(path) & splits.TRAINING for path in train):
        return None
    return found.at(folder).saying([*splits.held_out(val), *splits.left_out(tests)])


def _by_pattern(folder: Path) -> Found | None:
    """Texts with another ending than .txt: those with the commonest."""
    found = sorted(p for p in folder.rglob("*") if p.suffix in ENDINGS and p.is_file())
    shown = [p for p in found if not any(n[0] == "." for n in p.relative_to(folder).parts)]
    if len(shown) < 2 or images.loose(folder):
        return None
    ((ending, count),) = Counter(path.suffix for path in shown).most_common(1)
    words = [number(count, "text", f"with the ending {ending}")]
    _, left = splits.for_training(path for path in shown if path.suffix == ending)
    words += _misplaced(left)
    if others := sorted({path.suffix for path in shown} - {ending}):
        words.append(f"not read: files with the endings {', '.join(others)}")
    return Found(words, "text", [f"data.source={folder.absolute()}", f"data.pattern=**/*{ending}"])


def _passed_over(folder: Path) -> list[str]:
    """Words about texts whose ending is not in small letters."""
    files = (path.name for path in folder.rglob("*") if path.suffix.lower() == ".txt")
    others = sorted(name for name in files if not name.endswith(".txt"))
    return [f"not read: {', '.join(others[:3])}: rename to .txt"] if others else []


def _misplaced(left: Sequence[Path]) -> list[str]:
    names = ", ".join(path.name for path in left)
    return [f"move {names} elsewhere: the program would train on it"] if left else []


def _below(base: Path) -> Found | None:
    files = _texts(base)
    direct = [path for path in files if path.parent == base]
    train, left = splits.for_training(direct)
    if len(files) == 1 or (left and len(train) == 1 and len(direct) == len(files)):
        found = look_at_file(train[0] if left else files[0])
        whole = found and _divided(base, found, train, left)
        return whole or (found and found.saying(splits.left_out(left)))
    several = Found([number(len(train), "text")], "text", [f"data.source={base.absolute()}"])
    if len(direct) == len(files) and (divided := _divided(base, several, train, left)):
        return divided
    words = [number(len(files), "text"), *_classes(base, files), *_misplaced(left)]
    return Found(words, "text", [f"data.source={base.absolute()}"])


def _texts(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.suffix == ".txt" and path.is_file())
    return sorted(p for p in found if not any(n[0] == "." for n in p.relative_to(folder).parts))


def _classes(base: Path, files: Sequence[Path]) -> list[str]:
    """Words about folders that may be classes.

    Raises:
        DdpgenError: they are classes for sure.
    """
    names = sorted({path.parent.name for path in files})
    if len(names) < 2 or any(path.parent.parent != base for path in files):
        return []
    lines = [
        "  import csv, pathlib",
        f"  files = pathlib.Path({str(base.absolute())!r}).glob('*/*.txt')",
        "  rows = [['text', 'label'], *([p.read_text(), p.parent.name] for p in files)]",
        "  csv.writer(open('texts.csv', 'w', newline='')).writerows(rows)",
    ]
    how = ["write them to a table with these lines of Python, then: --data texts.csv", *lines]
    if {name.lower() for name in names} & CLASSES or splits.words(base) & splits.TRAINING:
        raise DdpgenError(
            f"--data {show(str(base))}: texts in one folder for each class, {', '.join(names)}, "
            "which no family reads",
            remedy="\n  ".join(how),
        )
    return [f"the folders are taken for no classes; if they are: {how[0]}", *lines]
