"""What comes after training, in every family: each alone, and both together, pass their tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpgen.rendering.render import render
from product import template
from product.forkserver import ONE_THREAD

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
    for command in (["ruff", "check", "."], ["pytest", "-q", *there]):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path / "project",
            env={**os.environ, **ONE_THREAD},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
