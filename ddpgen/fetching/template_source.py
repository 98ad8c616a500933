"""Where the template is: in the installed package, or in the checkout that is being worked on.

A generated project knows its template as `git+ddpgen://template`, whatever machine it is on. git
asks `git-remote-ddpgen` (remote_helper.py) for that, which serves the bundles found here: one for
each release, made once by `.ci/release.py`, and one of the working version where the template
may have changed since the last release. Each release is a commit on top of the one before it, so
that a changed old release would break every later one.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ddpgen import __version__

SOURCE_URL = "git+ddpgen://template"
TAG = f"v{__version__}"

PACKAGE = Path(__file__).resolve().parents[1]
RELEASES = PACKAGE / "releases"

# The same content gives the same commit on every machine, whatever its settings and clock.
_REPRODUCIBLE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_AUTHOR_NAME": "ddpgen",
    "GIT_AUTHOR_EMAIL": "ddpgen",
    "GIT_AUTHOR_DATE": "@0 +0000",
    "GIT_COMMITTER_NAME": "ddpgen",
    "GIT_COMMITTER_EMAIL": "ddpgen",
    "GIT_COMMITTER_DATE": "@0 +0000",
}
_CACHES = ("__pycache__", ".*_cache")


def template_root() -> Path:
    """Return the folder that holds copier.yml, `project/` and `parts/`."""
    packaged = PACKAGE / "_template"
    return packaged if packaged.is_dir() else PACKAGE.parent / "template"


def requirements() -> str:
    """Return which Python and PyTorch the generated projects need."""
    text = (template_root() / "project/pyproject.toml.jinja").read_text(encoding="utf-8")
    python = re.search(r'^requires-python = "(.+)"$', text, re.MULTILINE)
    torch = re.search(r'^ *"torch *([<>=!~].+)",$', text, re.MULTILINE)
    return ", ".join(
        f"{name}{found[1]}" for name, found in (("Python", python), ("PyTorch", torch)) if found
    )


def order(tag: str) -> tuple[int, ...]:
    """Return what sorts tags by age; the working version follows the release it began with."""
    return (*map(int, re.findall(r"\d+", tag.partition("+")[0])), "+" in tag)


def released() -> dict[str, Path]:
    """Return the bundle of each release by its tag, oldest first."""
    found = {f"v{bundle.stem}": bundle for bundle in RELEASES.glob("*.bundle")}
    return {tag: found[tag] for tag in sorted(found, key=order)}


def bundles(folder: Path) -> list[Path]:
    """Return the bundles that hold this ddpgen's versions of the template, oldest first.

    Args:
        folder: an empty folder, where the bundle of the working version is made.

    Raises:
        OSError, subprocess.CalledProcessError: git is missing or failed.
    """
    known = released()
    if TAG in known:
        return list(known.values())
    message = "The working version, not released"
    return [*known.values(), make_bundle(folder, TAG, message, list(known.values()))]


def make_bundle(folder: Path, tag: str, message: str, earlier: Sequence[Path]) -> Path:
    """Make a bundle of the template as it is now: one tagged commit on top of earlier ones.

    Args:
        folder: an empty folder for the bundle and the repository it is made from.
        tag: its name; a tag of git.
        message: what changed, for the commit.
        earlier: the bundles of the releases before it.
    """
    repository, bundle = folder / "template.git", folder / f"{tag[1:]}.bundle"
    git("init", "--quiet", "--bare", str(repository))
    unpack(repository, earlier)
    parents = [_tip(bundle) for bundle in earlier[-1:]]
    # The template holds the generated project's .gitignore, which must not hide anything.
    unwanted = [f":(exclude,glob)**/{name}/**" for name in _CACHES]
    tree = tree_of(template_root(), repository, unwanted)
    onto = [part for parent in parents for part in ("-p", parent)]
    commit = git("commit-tree", tree, *onto, "-m", message, repository=repository)
    git("update-ref", f"refs/tags/{tag}", commit, repository=repository)
    new = [f"refs/tags/{tag}", *(f"^{parent}" for parent in parents)]
    git("bundle", "create", "--quiet", str(bundle), *new, repository=repository)
    return bundle


def tree_of(folder: Path, repository: Path, unwanted: Sequence[str] = ()) -> str:
    """Put all files of a folder into a repository; return the hash of the tree.

    Args:
        folder: the files; what their .gitignore ignores is taken too.
        repository: a git directory.
        unwanted: more pathspecs for git.
    """
    git("read-tree", "--empty", repository=repository)
    arguments = ("--work-tree=.", "add", "--all", "--force", ".", *unwanted)
    git(*arguments, repository=repository, cwd=folder)
    return git("write-tree", repository=repository)


def unpack(repository: Path, sources: Sequence[Path]) -> None:
    """Put the commits and tags of bundles, oldest first, into a repository."""
    for bundle in sources:
        for line in git("bundle", "unbundle", str(bundle), repository=repository).splitlines():
            commit, reference = line.split()
            git("update-ref", reference, commit, repository=repository)


def git(
    *arguments: str,
    repository: Path | None = None,
    cwd: Path | None = None,
    stdin: str = "",
    codes: Sequence[int] = (0,),
) -> str:
    """Run git away from all settings of this machine, and return what it prints.

    Whoever calls may be git itself, which tells its children about its own repository.

    Args:
        arguments: the command line.
        repository: the git directory.
        cwd: where it runs; the root of the work tree, if there is one.
        stdin: what it reads.
        codes: the exit codes that are no failure.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    where = {"GIT_DIR": str(repository)} if repository else {}
    command = ["git", "-c", "core.attributesFile=", *arguments]
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **_REPRODUCIBLE, **where},
        input=stdin,
        check=False,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",  # names of files are bytes
    )
    if done.returncode not in codes:
        raise subprocess.CalledProcessError(done.returncode, command)
    return done.stdout.strip()


def blob(name: str, repository: Path) -> bytes:
    """Return the content of a file by its hash."""
    command = ["git", "--git-dir", str(repository), "cat-file", "blob", name]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def _tip(bundle: Path) -> str:
    return git("bundle", "list-heads", str(bundle)).split()[0]
