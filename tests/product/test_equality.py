"""Many ranks compute what one process computes, in float32 too; projects test it in float64."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from product import programs, template
from product.combinations import combinations, singles
from product.forkserver import ONE_THREAD

HERE = Path(__file__).parent


def families() -> list[str]:
    """The model families."""
    return template.QUESTIONS["model"].values


@pytest.mark.parametrize("family", families())
def test_ranks_equal_one_process_in_single_precision(family: str, tmp_path: Path) -> None:
    """With accumulation, so that sums are split over ranks and micro-batches."""
    wanted = {"model": family, "amp": "off", "accumulation": True}
    rows = [row for row in combinations(programs.options()) if wanted.items() <= row.items()]
    template.write(singles(rows)[0], tmp_path)
    test = shutil.copy(HERE / "single_precision.py", tmp_path / "tests" / "test_single.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        cwd=tmp_path,
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
