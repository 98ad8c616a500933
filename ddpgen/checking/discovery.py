"""Which files are checked; which folders are left out, and why."""

import fnmatch
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ddpgen.checking.reading.scripts import is_script
from ddpgen.errors import DdpgenError, show
from ddpgen.origin import ANSWERS_FILE

# Nobody expects these to be read, and no note tells of them.
_NEVER = re.compile(r"__pycache__|node_modules|site-packages|\..*")
_TESTS = re.compile("tests?")
_BUILT = re.compile("build|dist")
_TEST = re.compile(r"(test_.*|.*_test|conftest)\.py")
TESTS, ENVIRONMENT, BUILT = "tests", "an environment", "what a build leaves behind"
IGNORED, EXCLUDED = "ignored by git", "excluded in pyproject.toml"
MANY = 5


@dataclass
class Selection:
    """The files below some paths.

    Attributes:
        files: those to check; the value says whether somebody named the file itself.
        projects: folders of projects that ddpgen made, around the paths or below them.
        left_out: folders and files that are not checked, by the reason.
    """

    files: dict[Path, bool] = field(default_factory=dict)
    projects: list[Path] = field(default_factory=list)
    left_out: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))

    def notes(self) -> Iterator[str]:
        """A line for each reason why something was left out."""
        for reason, paths in self.left_out.items():
            names = [show(path, 300) for path in paths[:MANY]]
            more = f" and {len(paths) - MANY} more" if len(paths) > MANY else ""
            yield f"left out: {', '.join(names)}{more} ({reason})"


@dataclass(frozen=True)
class Excluded:
    """What a settings file excludes: patterns of paths below its folder."""

    root: Path = Path()
    patterns: Sequence[str] = ()

    def __contains__(self, path: Path) -> bool:
        place = path.resolve() if self.patterns else path
        if not self.patterns or not place.is_relative_to(self.root):
            return False
        name = place.relative_to(self.root).as_posix()
        return any(matches(name, pattern) for pattern in self.patterns)


def matches(name: str, pattern: str) -> bool:
    """Whether a path, or a folder that it is in, is meant by a pattern such as `tools/*.py`."""
    pattern = pattern.strip("/")
    parts = name.split("/")
    around = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    names = around if "/" in pattern else [*around, *parts]
    return any(fnmatch.fnmatchcase(each, pattern) for each in names)


def select(paths: Sequence[Path], excluded: Excluded) -> Selection:
    """Find the files to check. A path that somebody names is checked whatever is left out.

    Raises:
        DdpgenError: a path that does not exist.
    """
    found = Selection()
    for path in paths:
        if not (path.is_file() or path.is_dir()):
            raise DdpgenError("there is no such file or folder", option=show(path))
        above = (*reversed(path.resolve().parents),)
        found.projects += [folder for folder in above if (folder / ANSWERS_FILE).is_file()]
        if path.is_file():
            found.files[path] = True
        else:
            _below(path, Excluded() if path in excluded else excluded, found)
    found.projects = [*dict.fromkeys(folder.resolve() for folder in found.projects)]
    return found


def _below(path: Path, excluded: Excluded, found: Selection) -> None:
    ignored = ignored_by_git(path)
    for folder, below, names in os.walk(path):
        here = Path(folder)
        if ANSWERS_FILE in names:
            found.projects.append(here)
        kept = []
        for name in sorted(below):
            reason = _reason(here / name, here == path, excluded, ignored)
            if reason is None:
                kept.append(name)
            elif reason:
                found.left_out[reason].append(here / name)
        below[:] = kept
        for name in sorted(names):
            file = here / name
            if _is_code(file):
                reason = _reason_for_file(file, excluded, ignored)
                if reason:
                    found.left_out[reason].append(file)
                else:
                    found.files.setdefault(file, False)


def _is_code(file: Path) -> bool:
    return file.suffix in (".py", ".ipynb") or (not file.name.startswith(".") and is_script(file))


def _reason_for_file(file: Path, excluded: Excluded, ignored: set[Path]) -> str:
    if file.suffix == ".py" and _TEST.fullmatch(file.name):
        return TESTS
    if file in ignored:
        return IGNORED
    return EXCLUDED if file in excluded else ""


def _reason(folder: Path, at_top: bool, excluded: Excluded, ignored: set[Path]) -> str | None:
    """Why a folder is left out; "" where no note need say so, None where nothing speaks for it."""
    if _NEVER.fullmatch(folder.name):
        return ""
    if (folder / "pyvenv.cfg").is_file():
        return ENVIRONMENT
    if _TESTS.fullmatch(folder.name):
        return TESTS
    if at_top and _BUILT.fullmatch(folder.name):
        return BUILT
    if folder in ignored:
        return IGNORED
    return EXCLUDED if folder in excluded else None


def ignored_by_git(path: Path) -> set[Path]:
    """The files and folders below a path that git ignores; none where there is no repository."""
    place = path.resolve()
    if not any((folder / ".git").exists() for folder in (place, *place.parents)):
        return set()
    # What the repository's own settings name as a monitor of files is a program: not here.
    harmless = ("-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")
    listing = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    try:
        done = subprocess.run(
            ["git", *harmless, *listing],
            cwd=place,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        return set()
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    # Where the folder itself is ignored, somebody wants it checked nevertheless.
    return set() if "./" in names else {path / name for name in names}


def as_named(path: Path, paths: Sequence[Path]) -> Path:
    """A path below one of those that somebody named, in that spelling."""
    for given in paths:
        around = given.resolve()
        if path == around:
            return given
        if path.is_relative_to(around):
            return given / path.relative_to(around)
    return path


def python_files(root: Path, within: Sequence[Path]) -> Iterator[Path]:
    """The Python files of a project, tests too, that are among some paths or below them."""
    places = [path.resolve() for path in within]
    ignored = ignored_by_git(root)
    for folder, below, names in os.walk(root):
        here = Path(folder)
        below[:] = sorted(
            name
            for name in below
            if not _NEVER.fullmatch(name)
            and here / name not in ignored
            and not (here / name / "pyvenv.cfg").is_file()
        )
        for name in sorted(names):
            file = here / name
            if file.suffix == ".py" and any(file.is_relative_to(place) for place in places):
                yield file
