"""Programs in several files, and mistakes that are put into them."""

from pathlib import Path

from ddpgen.checking import driver


def reported(folder: Path, files: dict[str, str]) -> list[str]:
    """Write a program, and return the rows that are reported about it."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return [found.id for found in driver.check([folder]).findings]


def replaced(text: str, *changes: str) -> str:
    """A text with changes: in turn what goes, which has to be there, and what comes."""
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def changed(files: dict[str, str], *changes: str) -> dict[str, str]:
    """A program's files with changes, each in the first file that has what goes."""
    found = dict(files)
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        name = next((name for name, text in found.items() if old in text), None)
        assert name is not None, old
        found[name] = found[name].replace(old, new, 1)
    return found
