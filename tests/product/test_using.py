"""What comes after training, in every family: each alone, and both together, pass their tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from ddpgen.rendering.render import render
from product import template
from product.preloaded import run_tests

PROGRAMS = {
    "predict": ["predict", "unseen", "sample", "trained"],
    "checkpoints": ["checkpoints", "export", "trained"],
}


@pytest.mark.parametrize("tool", PROGRAMS)
@pytest.mark.parametrize("model", template.QUESTIONS["model"].values)
def test_programs_of_one_tool(model: str, tool: str, tmp_path: Path) -> None:
    """And are clean: a project with one of them has other files than one with all."""
    render({"model": model, "tools": [tool]}, tmp_path / "project")
    names = [f"tests/tools/test_{name}.py" for name in PROGRAMS[tool]]
    there = [name for name in names if (tmp_path / "project" / name).is_file()]
    ruff = [sys.executable, "-m", "ruff", "check", "."]
    done = subprocess.run(ruff, cwd=tmp_path / "project", capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    outcome = run_tests(tmp_path / "project", ["-q", "-p", "no:cacheprovider", *there])
    assert outcome.code == 0, outcome.output[-6000:]
