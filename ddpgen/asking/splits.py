"""Files of several splits in one folder: which are to be trained on, by their names."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

TRAINING = {"train", "training"}
VALIDATION = {"val", "valid", "validation", "dev"}  # what the families hold out themselves
TESTS = {"test", "testing"}  # what they leave out
OTHERS = {*VALIDATION, *TESTS, "eval", "submission"}


def words(path: Path) -> set[str]:
    """The words in the name of a file or folder."""
    return {*re.split(r"[^a-z]+", path.stem.lower())}


def is_validation(path: Path) -> bool:
    """Whether a file is called as one of the validation split."""
    return bool(words(path) & VALIDATION)


def by_names(paths: Iterable[Path]) -> tuple[list[Path], list[Path], list[Path]]:
    """Files called as validation, those called as tests, and all others."""
    given = list(paths)
    val = [path for path in given if is_validation(path)]
    tests = [path for path in given if path not in val and words(path) & TESTS]
    return val, tests, [path for path in given if path not in [*val, *tests]]


def for_training(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """The files to train on and all others: those called train, or those called no other split."""
    given = list(paths)
    named = [path for path in given if words(path) & TRAINING]
    chosen = named or [path for path in given if not words(path) & OTHERS] or given
    return chosen, [path for path in given if path not in chosen]


def held_out(paths: Sequence[Path]) -> list[str]:
    """Words about files that are not trained on, but evaluated."""
    names = ", ".join(path.name for path in paths)
    return [f"for validation: {names}"] if paths else []


def left_out(paths: Sequence[Path]) -> list[str]:
    """Words about files that are not trained on."""
    names = ", ".join(path.name for path in paths)
    return [f"left out, by name: {names}"] if paths else []


def of_classifier(folder: Path, *names: str) -> list[Path]:
    """The files of a split as `text-classifier` finds them."""
    patterns = [p for n in names for p in (f"{n}.*", f"{n}-*.*", f"data/{n}-*.*")]
    return sorted(path for pattern in patterns for path in folder.glob(pattern))
