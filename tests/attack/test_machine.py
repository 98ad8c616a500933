"""Commands that are killed, a disk that is full, two at once, links: nothing, or all of it."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from generator.program import COMMAND, ddpgen, everything
from update.lab import CHANGED_IN_NEW, NEW, OLD, Lab

FLAGS = ("--defaults", "--data", "clusters=local,slurm")
COMMANDS = {"new": ("new", "p", *FLAGS), "update": ("update", "p"), "set": ("set", "amp=fp16")}
KILLED_AFTER = """
import os, shutil, signal, sys
from ddpgen import cli
left, move = int(sys.argv[1]), shutil.move
def counted(*names):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return move(*names)
shutil.move = counted
sys.exit(cli.main(["update", "p"]))
"""


Content = dict[str, bytes | str]


def content(folder: Path) -> Content:
    names = [n for n in everything(folder) if n != ".git" and not n.startswith(".git/")]
    found: Content = {}
    for path in (folder / name for name in names):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


@pytest.fixture
def place(lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with a committed project `p`, unless the command makes it."""
    folder = tmp_path / "place"
    folder.mkdir()
    if "new" not in request.node.name:
        lab.project(folder / "p", OLD, {"clusters": ["local", "slurm"]})
        lab.commit(folder / "p")
    return folder


def start(lab: Lab, name: str, place: Path) -> subprocess.Popen[str]:
    arguments = [*COMMANDS[name], *(["--project", "p"] if name == "set" else [])]
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=place,
        env=lab.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def assert_nothing_or_all(
    lab: Lab,
    project: Path,
    before: dict[str, bytes | str],
    after: dict[str, bytes | str],
    said: str,
) -> None:
    """Where a kill came between two renames, the command that was printed leads back."""
    if content(project) in (before, after):
        return
    undo = said.partition("To undo: ")[2].splitlines()
    assert undo, said
    subprocess.run(undo[0], shell=True, check=True, capture_output=True, env=lab.environment)
    assert content(project) == before
    assert lab.git("status", "--porcelain", cwd=project) == ""


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param(name, number, marks=[pytest.mark.thorough] * (row != column))
        for row, name in enumerate(COMMANDS)
        for column, number in enumerate([signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
    ],
)
def test_killed_at_random(
    lab: Lab,
    place: Path,
    name: str,
    number: signal.Signals,
    request: pytest.FixtureRequest,
    chance: random.Random,
    say: Callable[[str], None],
) -> None:
    original = place.with_name("original")
    shutil.copytree(place, original, symlinks=True)
    before = content(place / "p")
    started = time.monotonic()
    whole = start(lab, name, place)
    _, said = whole.communicate(timeout=600)
    assert whole.returncode == 0, said
    duration, after = time.monotonic() - started, content(place / "p")
    assert after != before
    ends: Counter[bool] = Counter()
    for _ in range(request.config.getoption("--kills")):
        shutil.rmtree(place)
        shutil.copytree(original, place, symlinks=True)
        process = start(lab, name, place)
        time.sleep(chance.uniform(0.1, 1.1) * duration)  # any moment, not a certain one
        os.killpg(process.pid, number)
        _, said = process.communicate(timeout=600)
        assert_nothing_or_all(lab, place / "p", before, after, said)
        left = {path.name for path in place.iterdir()} - {"p"}
        if number == signal.SIGKILL:
            left = {file for file in left if not re.fullmatch(r"\.p\.ddpgen-[0-9a-f]{8}", file)}
        assert not left
        ends[content(place / "p") == after] += 1
    say(f"ddpgen {name}, {number.name} at random: {ends[True]} complete, {ends[False]} as before")


@pytest.mark.parametrize("renames", [0, 1, 4])
def test_killed_between_two_renames(lab: Lab, place: Path, renames: int) -> None:
    before = content(place / "p")
    command = (sys.executable, "-c", KILLED_AFTER, str(renames))
    done = lab.run(*command, cwd=place)
    assert done.returncode == -signal.SIGKILL
    assert content(place / "p") != before
    assert_nothing_or_all(lab, place / "p", before, {}, done.stderr)


def test_new_twice_at_once(lab: Lab, place: Path) -> None:
    processes = [start(lab, "new", place) for _ in range(4)]
    said = [process.communicate(timeout=600)[1] for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 2, 2, 2], said
    assert sum("is not empty" in text for text in said) == 3
    assert [path.name for path in place.iterdir()] == ["p"]
    assert "_commit" in (place / "p/.copier-answers.yml").read_text()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, where that is allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_new_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        done = ddpgen("new", "a/p", *FLAGS, cwd=disk)
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
        assert everything(disk) == []


def test_new_on_a_read_only_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = ddpgen("new", "a/p", *FLAGS, cwd=disk)
        assert done.returncode == 2
        assert "not writable" in done.stderr or "Read-only file system" in done.stderr
        assert "Traceback" not in done.stderr


def test_update_on_a_full_disk(lab: Lab, place: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        project = shutil.copytree(place / "p", disk / "p", symlinks=True)
        before = content(project)
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "filler").write_bytes(b"\0" * (free - 16384))
        done = lab.ddpgen("update", cwd=project)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert content(project) == before
        (disk / "filler").unlink()
        assert lab.git("status", "--porcelain", cwd=project) == ""


def test_linked_destination(lab: Lab, place: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (place / "link").symlink_to(tmp_path / "target")
    done = ddpgen("new", "link", *FLAGS, cwd=place)
    assert done.returncode == 0, done.stderr
    assert (place / "link").is_symlink()
    assert (tmp_path / "target/train.py").is_file()
    lab.commit(tmp_path / "target")


@pytest.mark.parametrize("name", [CHANGED_IN_NEW[0], "launch"])
def test_update_never_writes_through_a_link(
    lab: Lab, place: Path, tmp_path: Path, name: str
) -> None:
    """The user put a link to somewhere else in the place of a file or folder of the template."""
    outside, project = tmp_path / "outside", place / "p"
    shutil.move(project / name, outside)
    before = content(tmp_path) if outside.is_file() else content(outside)
    before = {key: value for key, value in before.items() if not key.startswith("place")}
    (project / name).symlink_to(outside)
    lab.commit(project)
    done = lab.ddpgen("update", cwd=project)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    after = content(tmp_path) if outside.is_file() else content(outside)
    assert {key: value for key, value in after.items() if not key.startswith("place")} == before
    assert NEW[1:] in done.stdout
