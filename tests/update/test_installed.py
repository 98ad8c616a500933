"""The package as people install it, from wheel and sdist, each time in an environment of its own.

By default with pip; with `--updates=all` also by `pipx run` and `uv tool install`.
"""

import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from generator.program import everything

from update import lab

FLAGS = ("--defaults", "--data", "clusters=local,slurm", "--data", "nodes=2")
CONSTRAINTS = ("--constraint", str(lab.ROOT / "constraints.txt"))


def run(*command: str | Path, cwd: Path, binaries: Path, expected: int = 0) -> str:
    """Run a program as a user would who has these binaries; returns all that it says."""
    foreign = ("PYTHON", "GIT_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    roles = [f"GIT_{role}_{what}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    done = subprocess.run(
        command,
        cwd=cwd,
        env={
            **kept,
            **dict.fromkeys(roles, "someone"),
            "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
            # All that installers would put into the user's home.
            "PIPX_HOME": str(binaries.parent / "pipx"),
            "UV_TOOL_DIR": str(binaries.parent / "tools"),
            "UV_TOOL_BIN_DIR": str(binaries),
            "UV_CACHE_DIR": str(binaries.parent / "cache"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == expected, f"{command}\n{done.stdout}"
    return done.stdout


def build(source: Path, target: str, folder: Path) -> Path:
    """Build a "wheel" or an "sdist" of a source tree into a folder of its own."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    done = subprocess.run(
        [*command, "--directory", str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def unpacked(folder: Path) -> Path:
    """The source tree in the sdist of the checkout."""
    shutil.unpack_archive(build(lab.ROOT, "sdist", folder / "sdist"), folder)
    (source,) = folder.glob("ddpgen-*")
    return source


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    return build(unpacked(folder), "wheel", folder / "wheel")


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_sdist_and_checkout_give_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    assert content(wheel) == content(build(lab.ROOT, "wheel", tmp_path))


def venv(wheel: Path, folder: Path) -> Path:
    """`pip install` in a virtual environment."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    binaries = folder / "venv" / "bin"
    pip = ["pip", "install", "--quiet", *CONSTRAINTS, str(wheel)]
    run(binaries / pip[0], *pip[1:], cwd=folder, binaries=binaries)
    return binaries


def pipx(wheel: Path, folder: Path) -> Path:
    """`pipx run`: nothing is installed, every command says what it needs."""
    (binaries := folder / "bin").mkdir()
    pip = f"--pip-args={' '.join(CONSTRAINTS)}"
    command = [sys.executable, "-m", "pipx", "run", "--quiet", "--python", sys.executable, pip]
    script = binaries / "ddpgen"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} --spec {wheel} ddpgen "$@"\n')
    script.chmod(0o755)
    return binaries


def uv(wheel: Path, folder: Path) -> Path:
    """`uv tool install`."""
    (binaries := folder / "bin").mkdir()
    program = Path(sys.executable).parent / "uv"
    command = ["tool", "install", "--python", sys.executable, "--constraints", CONSTRAINTS[1]]
    run(program, *command, str(wheel), cwd=folder, binaries=binaries)
    return binaries


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "install" in metafunc.fixturenames:
        every = metafunc.config.getoption("--updates") == "all"
        metafunc.parametrize("install", [venv, pipx, uv] if every else [venv])


def commit(project: Path, binaries: Path) -> None:
    run("git", "init", "--quiet", cwd=project, binaries=binaries)
    run("git", "add", "--all", cwd=project, binaries=binaries)
    run("git", "commit", "--quiet", "--message=Work", cwd=project, binaries=binaries)


def files(project: Path) -> dict[str, bytes]:
    """All files of a project but git's own."""
    names = [name for name in everything(project) if not name.startswith(".git/")]
    return {name: (project / name).read_bytes() for name in names if (project / name).is_file()}


def test_installed_alone_it_generates_and_updates(
    install: Callable[[Path, Path], Path], wheel: Path, tmp_path: Path
) -> None:
    """Without the checkout: the same project, and an update that changes nothing."""
    binaries = install(wheel, tmp_path)
    assert "ddpgen " in run("ddpgen", "--version", cwd=tmp_path, binaries=binaries)
    run("ddpgen", "new", "project", *FLAGS, cwd=tmp_path, binaries=binaries)
    here = Path(sys.executable).parent
    (tmp_path / "checkout").mkdir()
    ours = [here / "python", "-m", "ddpgen", "new", tmp_path / "checkout" / "project", *FLAGS]
    run(*ours, cwd=lab.ROOT, binaries=here)
    assert files(tmp_path / "project") == files(tmp_path / "checkout" / "project")
    commit(project := tmp_path / "project", binaries)
    run("ddpgen", "update", cwd=project, binaries=binaries)
    if install is venv:
        run("copier", "update", "--defaults", cwd=project, binaries=binaries)
    assert not run("git", "status", "--porcelain", cwd=project, binaries=binaries)


def test_newer_wheel_updates_what_an_older_one_made(tmp_path: Path) -> None:
    """Equal to what the newer one generates; and the older one says that it is older."""
    source = unpacked(tmp_path)
    binaries = {}
    for tag in (lab.OLD, lab.NEW):
        if tag == lab.NEW:
            lab.change(source / "template")
        lab.release(source, tag)
        (folder := tmp_path / tag).mkdir()
        binaries[tag] = venv(build(source, "wheel", folder), folder)
    for tag, name in ((lab.OLD, "project"), (lab.NEW, "fresh/project")):
        path = tmp_path / name
        run("ddpgen", "new", path, *FLAGS, cwd=tmp_path, binaries=binaries[tag])
    commit(project := tmp_path / "project", binaries[lab.OLD])
    run("ddpgen", "update", cwd=project, binaries=binaries[lab.NEW])
    assert files(project) == files(tmp_path / "fresh" / "project")
    commit(project, binaries[lab.NEW])
    said = run("ddpgen", "update", cwd=project, binaries=binaries[lab.OLD], expected=2)
    assert "install ddpgen 91.0.0 or later" in said
