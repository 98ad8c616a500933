"""All versions of the template that this ddpgen has, and projects as each of them renders them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ddpgen.asking.question import Answers, Value
from ddpgen.asking.questions import Questionnaire
from ddpgen.errors import DdpgenError
from ddpgen.fetching import template_source
from ddpgen.fetching.git import git, tree_of
from ddpgen.origin import order


class Versions:
    """All versions, in a git repository that is filled from the bundles.

    Attributes:
        repository: the git directory, with one tag per version.
        tags: the versions, oldest first.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.repository = folder / "versions.git"
        made = folder / "bundle"
        made.mkdir()
        git("init", "--quiet", "--bare", str(self.repository))
        template_source.unpack(self.repository, template_source.bundles(made))
        self.tags = sorted(git("tag", repository=self.repository).split(), key=order)

    def __getitem__(self, tag: str) -> "Version":
        if tag == template_source.TAG:
            return Version(tag, template_source.template_root())
        root = self._folder / tag
        if not root.exists():
            root.mkdir()
            arguments = ("--work-tree=.", "checkout", "--quiet", "--force", tag, "--", ".")
            git(*arguments, repository=self.repository, cwd=root)
        return Version(tag, root)

    def folder(self, name: str) -> Path:
        """Return the path of a temporary folder, which lives as long as the versions."""
        return self._folder / name

    def tree(self, parts: Iterable["Part"], name: str) -> str:
        """Render the parts of a project into the folder of a name; return the hash of its tree."""
        for part in parts:
            part.version.render(part.answers, self.folder(name))
        return tree_of(self.folder(name), self.repository)

    def find(self, text: str) -> str:
        """Return the tag of a version as a user writes it.

        Raises:
            DdpgenError: there is no such version.
        """
        tag = f"v{text.removeprefix('v')}"
        if tag not in self.tags:
            known = [name[1:] for name in self.tags]
            raise DdpgenError("there is no such version", option="--to", value=text, allowed=known)
        return tag

    def changes(self, since: str | None, to: str) -> str:
        """Return the changelog's entries of the versions after `since` (None: all), up to `to`."""
        history = ("log", "--reverse", "--format=%B", f"{since}..{to}" if since else to)
        return git(*history, repository=self.repository)


class Version:
    """One version of the template."""

    def __init__(self, tag: str, root: Path) -> None:
        self.tag = tag
        self._root = root

    @cached_property
    def questionnaire(self) -> Questionnaire:
        """Its questions."""
        return Questionnaire(self._root)

    def render(self, answers: Mapping[str, Value], dest: Path) -> None:
        """Render what these answers give into a folder, beside what is there."""
        from ddpgen.rendering import render

        render.render(answers, dest, self._root, self.tag)


@dataclass(frozen=True)
class Part:
    """A part of a project with a file of answers: the project itself, or a set of launch files.

    Attributes:
        version: the version of the template that it was rendered with.
        answers: the answers.
    """

    version: Version
    answers: Answers
