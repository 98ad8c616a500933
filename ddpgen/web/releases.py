"""All versions of the template, unpacked: by git here, or beforehand where there is no git."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from ddpgen.asking import questions
from ddpgen.asking.questions import Questionnaire
from ddpgen.fetching import template_source
from ddpgen.origin import order
from ddpgen.rendering.texts import Template
from ddpgen.rendering.versions import Versions

# Where a static page has them: a folder for each tag, and beside the folder its notes.
PREPARED = template_source.PACKAGE / "_releases"


@dataclass(frozen=True)
class Release:
    """One version.

    Attributes:
        tag: its tag.
        root: the folder of its template.
        notes: what the changelog says of it.
    """

    tag: str
    root: Path
    notes: str

    @cached_property
    def template(self) -> Template:
        """Its template; the questions of versions that say nothing about them mean as today's."""
        own = self.root == template_source.template_root()
        return Template(self.root, self.tag, questions.load() if own else Questionnaire(self.root))


class Releases:
    """The versions by tag, oldest first; git unpacks them when they are first asked for."""

    def __init__(self) -> None:
        self._work: TemporaryDirectory[str] | None = None

    @cached_property
    def by_tag(self) -> Mapping[str, Release]:
        """All of them.

        Raises:
            OSError, subprocess.CalledProcessError: git is missing or failed.
        """
        if PREPARED.is_dir():
            notes = sorted(PREPARED.glob("*.txt"))
            found = [Release(p.stem, _root(PREPARED, p.stem), p.read_text("utf-8")) for p in notes]
        else:
            self._work = TemporaryDirectory(prefix="ddpgen-")
            found = [*unpacked(Path(self._work.name))]
        if template_source.TAG not in {release.tag for release in found}:
            root = template_source.template_root()
            found.append(Release(template_source.TAG, root, "The working version, not released."))
        return {release.tag: release for release in sorted(found, key=lambda r: order(r.tag))}


def unpacked(folder: Path) -> list[Release]:
    """Unpack the releases into a folder."""
    versions = Versions(folder)
    released = [tag for tag in versions.tags if tag in template_source.released()]
    found = []
    for earlier, tag in zip([None, *released], released, strict=False):
        _ = versions[tag]  # is unpacked into a folder of that name
        found.append(Release(tag, _root(folder, tag), versions.changes(earlier, tag)))
    return found


def prepare(work: Path, folder: Path) -> None:
    """Unpack the releases into a new folder as a static page has them; `work` is a new folder."""
    work.mkdir()
    folder.mkdir()
    for release in unpacked(work):
        if release.root.parent == work:
            release.root.rename(folder / release.tag)
        (folder / f"{release.tag}.txt").write_text(release.notes, encoding="utf-8")


def _root(folder: Path, tag: str) -> Path:
    return template_source.template_root() if tag == template_source.TAG else folder / tag
