"""Where the template is: in the installed package, or in the checkout that is being worked on.

A generated project knows its template as `git+ddpgen://template`, whatever machine it is on. git
asks `git-remote-ddpgen` (remote_helper.py) for that, which serves the bundles found here: one for
each release, made once by `.ci/release.py`, and one of the working version where the template
may have changed since the last release. Each release is a commit on top of the one before it, so
that a changed old release would break every later one.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from ddpgen import __version__
from ddpgen.fetching.git import git, tree_of
from ddpgen.origin import order

TAG = f"v{__version__}"

PACKAGE = Path(__file__).resolve().parents[1]
RELEASES = PACKAGE / "releases"

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


def unpack(repository: Path, sources: Sequence[Path]) -> None:
    """Put the commits and tags of bundles, oldest first, into a repository."""
    for bundle in sources:
        for line in git("bundle", "unbundle", str(bundle), repository=repository).splitlines():
            commit, reference = line.split()
            git("update-ref", reference, commit, repository=repository)


def _tip(bundle: Path) -> str:
    return git("bundle", "list-heads", str(bundle)).split()[0]
