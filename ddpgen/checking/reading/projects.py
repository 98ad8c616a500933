"""Files of projects that ddpgen made, which may still use names from before an update."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from ddpgen.checking.reading.source import Source
from ddpgen.errors import NO_PROGRAM
from ddpgen.renaming import leftovers
from ddpgen.renaming.leftovers import Leftovers, Renamed


class ProjectFile(Source):
    """One Python file of a project, whether it trains or not.

    Attributes:
        renamed: the names that the file may have to follow.
        since: the version that changed a name, by the old name.
    """

    def __init__(self, path: Path, text: str, renamed: Renamed, since: dict[str, str]) -> None:
        super().__init__(path, text)
        self.renamed = renamed
        self.since = since


def project_files(root: Path, paths: Iterable[tuple[Path, str]]) -> Iterator[ProjectFile]:
    """The files of a project whose texts hold a word that was an old name; others cannot use it.

    Args:
        root: the project's folder.
        paths: Python files, with their texts.
    """
    old = leftovers.find(root)
    for path, text in paths if old else ():
        if old and (found := _file(path, text, old)):
            yield found


def _file(path: Path, text: str, old: Leftovers) -> ProjectFile | None:
    renamed = old.of(path.resolve())
    if not renamed.in_text.search(text):
        return None
    try:
        return ProjectFile(path, text, renamed, old.since)
    except NO_PROGRAM:
        return None  # where it matters, whoever reads the whole program says so
