"""`make release`: what it refuses, and what two releases leave in a checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddpgen.fetching import template_source

ROOT = Path(__file__).resolve().parents[2]
PARTS = (".ci", ".gitignore", "CHANGELOG.md", "ddpgen", "template", "pyproject.toml")


def git(checkout: Path, *arguments: str) -> str:
    return subprocess.check_output(["git", "-C", checkout, *arguments], text=True).strip()


def commit(checkout: Path, message: str) -> None:
    git(checkout, "add", "--all", "--force")
    git(checkout, "commit", "--quiet", "--message", message)


def release(checkout: Path, version: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ".ci/release.py", version],
        cwd=checkout,
        # The checkout's own ddpgen; compiled files would be in the way of the commits below.
        env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def write_changes(checkout: Path, version: str, entry: str) -> None:
    changelog = checkout / "CHANGELOG.md"
    head, _, rest = changelog.read_text().partition("## ")
    rest = rest.removeprefix("Unreleased\n\n").removeprefix("## ")
    changelog.write_text(f"{head}## {version}\n\n- {entry}\n\n## {rest}")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without releases whose update tests are one test that passes."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "someone")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "checkout"
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / part, folder / part)
    shutil.rmtree(folder / "ddpgen/releases", ignore_errors=True)
    for name in ("tests/update/test_it.py", "tests/generator/test_update.py"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("def test_it(): pass\n")
    (folder / "tests/generator/test_wheel.py").write_text("def test_it(): pass\n")
    write_changes(folder, "0.1.0", "The beginning.")
    git(tmp_path, "init", "--quiet", str(folder))
    commit(folder, "Start")
    return folder


def test_two_releases(checkout: Path, tmp_path: Path) -> None:
    done = release(checkout, "0.1.0")
    assert done.returncode == 0, done.stderr
    assert '"0.1.0+dev"' in (checkout / "ddpgen/__init__.py").read_text()
    assert '"0.1.0"' in git(checkout, "show", "v0.1.0:ddpgen/__init__.py")
    assert (checkout / "dist/ddpgen-0.1.0-py3-none-any.whl").is_file()
    first = (checkout / "ddpgen/releases/0.1.0.bundle").read_bytes()

    (checkout / "template/project/added.txt").write_text("new\n")
    write_changes(checkout, "0.2.0", "A file is added.")
    commit(checkout, "Change")
    done = release(checkout, "0.2.0")
    assert done.returncode == 0, done.stderr
    assert (checkout / "ddpgen/releases/0.1.0.bundle").read_bytes() == first
    assert git(checkout, "status", "--porcelain") == ""

    git(tmp_path, "init", "--quiet", "--bare", "served.git")
    served = tmp_path / "served.git"
    bundles = [checkout / f"ddpgen/releases/{version}.bundle" for version in ("0.1.0", "0.2.0")]
    template_source.unpack(served, bundles)
    assert git(served, "diff", "--name-status", "v0.1.0", "v0.2.0") == "A\tproject/added.txt"
    assert git(served, "log", "--format=%B", "v0.1.0..v0.2.0").endswith("- A file is added.")


REFUSALS = {
    "no version": ("1.0", "three numbers"),
    "dirty": ("0.1.0", "not clean"),
    "not in the changelog": ("99.0.0", "has no entries below `## 99.0.0`"),
    "still unreleased": ("0.1.0", "rename `## Unreleased`"),
    "tests fail": ("0.1.0", "the update tests failed"),
    "old version": ("0.1.0", "not later than"),
    "old bundle changed": ("0.2.0", "was changed"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal_changes_nothing(checkout: Path, case: str) -> None:
    version, message = REFUSALS[case]
    if case == "dirty":
        (checkout / "mine.txt").write_text("mine\n")
    if case == "still unreleased":
        (checkout / "CHANGELOG.md").write_text("## Unreleased\n\n- Something.\n")
        commit(checkout, "Change")
    if case == "tests fail":
        (checkout / "tests/update/test_it.py").write_text("def test_it(): assert False\n")
        commit(checkout, "Break")
    if case.startswith("old"):
        assert release(checkout, "0.1.0").returncode == 0
        write_changes(checkout, "0.2.0", "Something.")
        commit(checkout, "Change")
    if case == "old bundle changed":
        bundle = checkout / "ddpgen/releases/0.1.0.bundle"
        bundle.write_bytes(bundle.read_bytes() + b" ")
        commit(checkout, "Tamper")
    before = git(checkout, "rev-parse", "HEAD"), git(checkout, "tag"), git(checkout, "status")
    done = release(checkout, version)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    after = git(checkout, "rev-parse", "HEAD"), git(checkout, "tag"), git(checkout, "status")
    assert after == before
