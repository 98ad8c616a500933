"""The wheel works by itself: its template is inside, and renders the same project."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from generator.program import ddpgen, everything

ROOT = Path(__file__).resolve().parents[2]


def pip(*arguments: str, cwd: Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", *arguments, "--no-deps", "--no-index"]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr


def test_wheel_renders_what_the_checkout_renders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT), cwd=tmp_path)
    (wheel,) = tmp_path.glob("ddpgen-*.whl")
    installed = tmp_path / "installed"
    pip("install", "--target", str(installed), str(wheel), cwd=tmp_path)
    flags = ("--defaults", "--data", "clusters=local,slurm,kubernetes", "--data", "nodes=2")

    assert ddpgen("new", "ours", *flags, cwd=tmp_path).returncode == 0
    monkeypatch.setenv("PYTHONPATH", str(installed))
    where = subprocess.check_output(
        [sys.executable, "-c", "import ddpgen; print(ddpgen.__file__)"], cwd=tmp_path, text=True
    )
    assert where.startswith(str(installed))
    run = ddpgen("new", "theirs", *flags, "--data", "project_name=ours", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "## Wrong" in ddpgen("check", "--explain", "G3", cwd=tmp_path).stdout
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert everything(ours) == everything(theirs)
    for name in everything(ours):
        if (ours / name).is_file():
            assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
            assert os.access(ours / name, os.X_OK) == os.access(theirs / name, os.X_OK), name
