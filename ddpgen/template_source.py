"""Where the template is: in the installed package, or in the checkout that is being worked on.

A generated project knows its template as `git+ddpgen://template`, whatever machine it is on. git
asks `git-remote-ddpgen` (remote_helper.py) for that, which serves the bundle made here.
"""

import os
import shutil
import subprocess
from pathlib import Path

from ddpgen import __version__

SOURCE_URL = "git+ddpgen://template"
RELEASE_TAG = f"v{__version__}"

# The same content gives the same commit on every machine, whatever its settings and clock.
_REPRODUCIBLE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_AUTHOR_NAME": "ddpgen",
    "GIT_AUTHOR_EMAIL": "ddpgen",
    "GIT_AUTHOR_DATE": "@0 +0000",
    "GIT_COMMITTER_NAME": "ddpgen",
    "GIT_COMMITTER_EMAIL": "ddpgen",
    "GIT_COMMITTER_DATE": "@0 +0000",
}


def template_root() -> Path:
    """Return the folder that holds copier.yml, `project/` and `parts/`."""
    package = Path(__file__).resolve().parent
    packaged = package / "_template"
    return packaged if packaged.is_dir() else package.parent / "template"


def build_bundle(folder: Path) -> Path:
    """Make a git bundle of the template: the branch main with one commit, tagged as this release.

    Args:
        folder: an empty folder for the bundle and the repository it is made from.

    Raises:
        OSError, subprocess.CalledProcessError: git is missing or failed.
    """
    repository, bundle = folder / "template", folder / "template.bundle"
    caches = shutil.ignore_patterns("__pycache__", ".*_cache")
    shutil.copytree(template_root(), repository, ignore=caches)
    # Whoever calls may be git itself, which tells its children about its own repository.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    for arguments in (
        ["init", "--quiet", "--initial-branch=main"],
        # The template holds the generated project's .gitignore, which must not hide anything.
        ["add", "--all", "--force"],
        ["commit", "--quiet", f"--message=The template of ddpgen {__version__}"],
        ["tag", RELEASE_TAG],
        ["bundle", "create", "--quiet", str(bundle), "main", RELEASE_TAG],
    ):
        subprocess.run(
            ["git", *arguments], cwd=repository, env={**inherited, **_REPRODUCIBLE}, check=True
        )
    return bundle
