"""Our own tests notice mistakes in ddpgen: each is put into a copy of the tree.

`make test` looks whether each fault still fits, so that none becomes void; `make faults` puts them
in.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from faults.table import FAULTS

ROOT = Path(__file__).parents[2]
COPIED = ("ddpgen", "template", "tests", "docs")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        chosen = [*FAULTS] if metafunc.config.getoption("--faults") else []
        metafunc.parametrize("fault", chosen)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_fits(name: str) -> None:
    fault = FAULTS[name]
    assert (ROOT / "ddpgen" / fault.path).read_text(encoding="utf-8").count(fault.right) == 1
    assert (ROOT / "tests" / fault.tests.partition(" ")[0]).is_file()


def test_fault_is_noticed(fault: str, tmp_path: Path) -> None:
    """By a test that fails, not by one that cannot be collected."""
    path, right, wrong, tests = FAULTS[fault]
    unwanted = shutil.ignore_patterns("__pycache__", ".*_cache")
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=unwanted)
    for name in ("pyproject.toml", "CHANGELOG.md", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    file = tmp_path / "ddpgen" / path
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(right, wrong), encoding="utf-8")
    where, _, words = tests.partition(" ")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            f"tests/{where}",
            *(["-k", words] if words else []),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-3000:] + done.stderr[-500:]
    assert "1 failed" in done.stdout, done.stdout[-3000:]
    print(next(line for line in done.stdout.splitlines() if line.startswith("FAILED")))
