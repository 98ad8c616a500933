"""Renders projects: the only module that imports copier.

copier writes file by file and leaves a partial project behind when something goes wrong. `create`
therefore renders beside the destination and renames: the destination holds nothing or everything.
"""

import errno
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ddpgen.asking.question import Value
from ddpgen.errors import FAILURE, USER_MISTAKE, DdpgenError, show
from ddpgen.fetching import template_source
from ddpgen.origin import ANSWERS_FILE
from ddpgen.rendering import compiled

GIT = ".git"  # a clone of an empty repository holds nothing else

# Failures of the machine; any other refusal of the file system follows from the path given.
_MACHINE_ERRORS = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE}


def render(
    answers: Mapping[str, Value],
    dest: Path,
    template: Path | None = None,
    tag: str = template_source.TAG,
) -> None:
    """Render a project into a new or empty folder, with no checks beyond copier's own.

    Args:
        answers: answers by name, at least those that differ from the defaults.
        dest: the folder to fill.
        template: the template's folder, if not the one of this ddpgen.
        tag: the version of the template, for the answers file.
    """
    import copier
    from plumbum import local

    # Without PATH copier finds no git. It would start git for every file, only to learn that a
    # new project has no index; the template is a plain folder, so nothing else needs git.
    with local.env(PATH=""), compiled.once():
        copier.run_copy(
            str(template or template_source.template_root()),
            dest,
            data={**answers, "ddpgen_tag": tag},
            defaults=True,
            quiet=True,
            cleanup_on_error=False,
            # The user's own copier settings would change what a default is.
            settings=copier.Settings(),
        )


def preview(answers: Mapping[str, Value]) -> list[str]:
    """Return the relative paths of the files that these answers give, sorted."""
    with tempfile.TemporaryDirectory(prefix="ddpgen-") as folder:
        project = Path(folder) / "project"
        render(answers, project)
        return files_of(project)


def files_of(project: Path) -> list[str]:
    """Return the relative paths of all files below a folder, sorted."""
    return sorted(p.relative_to(project).as_posix() for p in project.rglob("*") if not p.is_dir())


def check_destination(dest: Path) -> Path:
    """Return where a project would be created, absolute, with links to folders followed.

    Raises:
        DdpgenError: something is in the way, or nothing can be written there.
    """
    with _refusals(dest):
        path = dest.absolute()
        if path.is_symlink() and not path.exists():
            raise DdpgenError("is a symbolic link to nothing", option=show(dest))
        if path.exists():
            path = path.resolve()
            if not path.is_dir():
                raise DdpgenError("is a file", option=show(dest), remedy="choose another path")
            if any(entry.name != GIT for entry in path.iterdir()):
                raise _occupied(dest)
        ground = next(parent for parent in path.parents if parent.exists())
        if not ground.is_dir():
            raise DdpgenError(f"{show(ground)} is a file", option=show(dest))
        if not os.access(ground, os.W_OK | os.X_OK):
            raise DdpgenError(f"{show(ground)} is not writable", option=show(dest))
    return path


def create(answers: Mapping[str, Value], dest: Path) -> Path:
    """Render a project to `dest`, all of it or nothing, and return its absolute path.

    Missing parents are made, and removed again on failure. After SIGKILL at most a folder
    `.NAME.ddpgen-XXXXXXXX` stays beside the destination.

    Raises:
        DdpgenError: as `check_destination`, or the file system refused.
    """
    path = check_destination(dest)
    missing = [parent for parent in path.parents if not parent.exists()]
    # The name is known before the folder exists, so that no interrupt can come between.
    work = path.parent / f".{path.name[:40]}.ddpgen-{secrets.token_hex(4)}"
    done = False
    try:
        with _refusals(dest):
            path.parent.mkdir(parents=True, exist_ok=True)
            work.mkdir(mode=0o700)
            render(answers, work / "project")
            with uninterrupted():
                _publish(work / "project", path)
                done = True
    finally:
        with uninterrupted():
            shutil.rmtree(work, ignore_errors=True)
            for parent in () if done else missing:
                with suppress(OSError):
                    parent.rmdir()
    return path


def _publish(project: Path, path: Path) -> None:
    """Move a rendered project to its place in one step.

    Replacing the current folder would leave the user's shell in a folder that is gone, and a mount
    point cannot be replaced, nor a clone: these are filled entry by entry, the answers file last.
    """
    stays = path.exists() and (
        path.samefile(Path.cwd()) or path.is_mount() or (path / GIT).exists()
    )
    if not stays:
        project.rename(path)
        return
    entries = sorted(project.iterdir(), key=lambda entry: entry.name == ANSWERS_FILE)
    for entry in entries:
        shutil.move(entry, path / entry.name)


@contextmanager
def _refusals(dest: Path) -> Iterator[None]:
    """Turn what the file system refuses into an error that names the destination."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # jinja2's TemplateNotFound is an OSError too
            raise
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _occupied(dest) from error
        raise DdpgenError(
            f"cannot create the project there: {error.strerror or error}",
            option=show(dest),
            exit_code=FAILURE if error.errno in _MACHINE_ERRORS else USER_MISTAKE,
        ) from error


def _occupied(dest: Path) -> DdpgenError:
    return DdpgenError("is not empty", option=show(dest), remedy="choose a new or empty folder")


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM during a short step: half of it would be worse than being late."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler or signal.SIG_DFL)
