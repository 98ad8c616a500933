"""Many ranks compute what one process computes: every model family, with and without each option.

Generated projects test whole batches in float64 themselves.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddpgen.asking.question import Answers
from product import template
from product.combinations import combinations, identifier, singles
from product.forkserver import ONE_THREAD
from product.programs import STEP_OPTIONS

HERE = Path(__file__).parent


def projects() -> list[Answers]:
    """A few of each family, in which every value of every option occurs."""
    # Precision is the test's own: autocast leaves float64 alone.
    rows = [row for row in combinations(STEP_OPTIONS) if row["amp"] == "off"]
    families = template.QUESTIONS["model"].values
    return [row for f in families for row in singles([r for r in rows if r["model"] == f])]


@pytest.mark.parametrize("answers", projects(), ids=identifier)
def test_ranks_equal_one_process(answers: Answers, tmp_path: Path) -> None:
    template.write(answers, tmp_path)
    test = shutil.copy(HERE / "joined_batch.py", tmp_path / "tests" / "test_joined.py")
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
