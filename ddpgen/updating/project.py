"""A generated project on disk: what made it, and the git repository that keeps it."""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ddpgen.asking import answer_files, answers
from ddpgen.asking.known import LAUNCH_FOLDER, MAIN_FOLDER
from ddpgen.asking.question import Answers
from ddpgen.errors import FAILURE, DdpgenError, show
from ddpgen.origin import ANSWERS_FILE, SOURCE_URL, order
from ddpgen.rendering.versions import Part, Version, Versions
from ddpgen.updating import by_hand

_TAG = re.compile(r"v\d+\.\d+\.\d+(\+dev)?")
_CHECKSUM = re.compile(r"^# Checksum of the answers: \w+$", re.MULTILINE)

_COMMIT = "git add --all && git commit -m 'Before the update'"
# What git leaves in its folder while these are under way.
_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_SEEN = "H"  # git's mark for a file whose changes it looks for


class Project:
    """A folder that ddpgen made.

    Attributes:
        root: the folder.
        versions: the versions of the template that this ddpgen has.
        parts: the project itself and its further sets of launch files, by folder of launch files.
    """

    def __init__(self, path: Path, versions: Versions) -> None:
        """Read what the project says about itself.

        Raises:
            DdpgenError: it is no project of ddpgen, or this ddpgen does not have its version.
        """
        self.root = _root(path)
        self.versions = versions
        self.parts = {MAIN_FOLDER: _read(self.root / ANSWERS_FILE, versions)}
        for file in sorted(self.root.glob(".copier-answers.launch_*.yml")):
            part = _read(file, versions)
            self.parts[str(part.answers[LAUNCH_FOLDER])] = part

    @property
    def version(self) -> Version:
        """The version of the template that the project was made or last updated with."""
        return self.parts[MAIN_FOLDER].version

    @property
    def answers(self) -> Answers:
        """The project's recorded answers."""
        return self.parts[MAIN_FOLDER].answers

    def base(self) -> str:
        """Render what the project began as; return the hash of its tree.

        Raises:
            DdpgenError: someone changed the answers by hand, so that other files do not follow.
        """
        tree = self.versions.tree(self.parts.values(), "base")
        for written in self.versions.folder("base").glob(".copier-answers*.yml"):
            file = self.root / written.name
            # The checksum of the answers was written with them.
            saved = _CHECKSUM.search(file.read_text(encoding="utf-8-sig"))
            expected = _CHECKSUM.search(written.read_text(encoding="utf-8"))
            if saved and expected and saved[0] != expected[0]:
                raise DdpgenError(
                    "was edited by hand or merged, so that other files do not follow",
                    option=show(file),
                    remedy=by_hand.remedy(self.git, file, saved[0]),
                )
        return tree

    def git(self, *arguments: str, stdin: str = "") -> str:
        """Run git in the project's folder and return what it prints.

        Raises:
            DdpgenError: git is missing or refuses.
        """
        command = ["git", *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                env={**os.environ, "LC_ALL": "C"},
                input=stdin,
                capture_output=True,
                check=False,
                encoding="utf-8",
                errors="surrogateescape",
            )
        except FileNotFoundError as error:
            raise no_git() from error
        if done.returncode:
            reason = show(" ".join(done.stderr.split()), 300)
            raise DdpgenError(f"git {arguments[0]}: {reason}", exit_code=FAILURE)
        return done.stdout.strip("\n")

    def check_repository(self) -> None:
        """Make sure that every file of the project is committed, so that git can undo a merge.

        Raises:
            DdpgenError: one is not, or there is no repository.
        """
        if not self._succeeds("rev-parse", "--show-prefix"):
            raise self._refusal("is not in a git repository", f"git init && {_COMMIT}")
        if not self._succeeds("cat-file", "-e", f"HEAD:./{ANSWERS_FILE}"):
            raise self._refusal("is not committed to git", _COMMIT)
        if self.git("rev-parse", "--show-object-format") != "sha1":
            reason = "is in a git repository with SHA-256 names, which cannot be merged with SHA-1"
            raise self._refusal(reason, "copier update --defaults")
        if self.git("ls-files", "--unmerged", "--", ".") or any(map(self._has, _UNFINISHED)):
            raise self._refusal("is in the middle of a merge or rebase", "git status")
        # Whatever the user's settings hide.
        if self.git("status", "--porcelain", "--untracked-files=normal", "--", "."):
            aside = "git stash --include-untracked"
            raise self._refusal("has changes that are not committed", f"{_COMMIT} (or: {aside})")

    def check_seen(self, paths: Iterable[str]) -> None:
        """Make sure that git looks for changes in these files.

        Raises:
            DdpgenError: it was told not to, so that it cannot say what would be overwritten.
        """
        lines = self.git("ls-files", "-v", "-z", ".").split("\0")
        marks = {path: mark for mark, _, path in (line.partition(" ") for line in lines)}
        if hidden := [path for path in paths if marks.get(path, _SEEN) != _SEEN]:
            if absent := [path for path in hidden if not os.path.lexists(self.root / path)]:
                reason = "is not in the work tree: the checkout is sparse"
                raise DdpgenError(reason, option=show(absent), remedy="git sparse-checkout disable")
            names = shlex.join(hidden)
            shown = "git update-index --no-skip-worktree --no-assume-unchanged"
            raise DdpgenError(
                "git does not look for changes in it (skip-worktree or assume-unchanged)",
                option=show(hidden),
                remedy=f"{shown} {names}, and commit what is yours",
            )

    def _refusal(self, reason: str, command: str) -> DdpgenError:
        remedy = f"first: cd {shlex.quote(str(self.root))} && {command}"
        return DdpgenError(reason, option=show(self.root), remedy=remedy)

    def _has(self, name: str) -> bool:
        """Whether git's folder has a file."""
        return Path(self.git("rev-parse", "--path-format=absolute", "--git-path", name)).exists()

    def _succeeds(self, *arguments: str) -> bool:
        try:
            self.git(*arguments)
        except DdpgenError as error:
            if error.option == "git":
                raise
            return False
        return True

    def detached(self) -> bool:
        """Return whether a commit made now would be on no branch."""
        return self.git("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"


@contextmanager
def opened(path: Path) -> Iterator[Project]:
    """Open the project that a path is in, with a temporary folder for the versions.

    Raises:
        DdpgenError: there is none, or git or the machine failed while it was open.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="ddpgen-") as folder:
            yield Project(path, Versions(Path(folder)))
    except OSError as error:
        if error.filename == "git":
            raise no_git() from error
        if error.errno is None:  # jinja2's TemplateNotFound is an OSError too
            raise
        where = f" ({show(error.filename)})" if error.filename else ""
        raise DdpgenError(f"{error.strerror}{where}", exit_code=FAILURE) from error
    except subprocess.CalledProcessError as error:
        raise DdpgenError(f"failed: {shlex.join(error.cmd[:6])}", exit_code=FAILURE) from error


def _read(file: Path, versions: Versions) -> Part:
    """Read a file of recorded answers, checked against the questions of their version."""
    entries = answer_files.read(file)
    if entries.get("_src_path") != SOURCE_URL:
        raise DdpgenError("was not made by ddpgen", option=show(file.parent))
    version = versions[_tag(str(entries.get("_commit")), versions.tags)]
    recorded = answers.from_entries(version.questionnaire, entries, file)
    return Part(version, answers.resolve(version.questionnaire, recorded))


def no_git() -> DdpgenError:
    """Return the error for a machine without git."""
    return DdpgenError("is needed for this, and is not on PATH", option="git")


def _root(path: Path) -> Path:
    """Return the project's folder that a path is in."""
    start = path.absolute().resolve()
    for folder in (start, *start.parents):
        if (folder / ANSWERS_FILE).is_file():
            return folder
    reason = f"is not in a project of ddpgen: there is no {ANSWERS_FILE}"
    raise DdpgenError(reason if start.exists() else "there is no such folder", option=show(path))


def _tag(tag: str, known: list[str]) -> str:
    """Return the tag of a project's version, if this ddpgen has it."""
    mine, theirs = known[-1][1:], tag[1:]
    if tag in known:
        return tag
    if not _TAG.fullmatch(tag):
        raise DdpgenError("is no version of ddpgen", option=f"{ANSWERS_FILE}: _commit", value=tag)
    if order(tag) > order(known[-1]):
        raise DdpgenError(
            f"the project was made by ddpgen {theirs}, and this is the older ddpgen {mine}",
            remedy=f"install ddpgen {theirs} or later",
        )
    nearest = max((name for name in known if order(name) < order(tag)), key=order, default=known[0])
    raise DdpgenError(
        f"the project was made by ddpgen {theirs}, which is no release",
        remedy=f"write `_commit: {nearest}` in {ANSWERS_FILE}, commit, and try again: "
        "what differs is then taken for an edit of yours",
    )
