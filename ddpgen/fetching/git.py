"""git as ddpgen runs it for itself: away from the settings of this machine, and reproducibly."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

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


def git(
    *arguments: str,
    repository: Path | None = None,
    cwd: Path | None = None,
    stdin: str = "",
    codes: Sequence[int] = (0,),
) -> str:
    """Run git away from all settings of this machine, and return what it prints.

    git itself may have started this program, with variables that point to its own repository.

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
