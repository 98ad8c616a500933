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
