"""Many ranks compute what one process computes on the joined batch (catalogue: G1-G7, S7)."""

from pathlib import Path

import pytest

import common
import ranks

TOLERANCE = 1e-10  # in float64; a wrong average is off by several per cent


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[int, common.Record]:
    """One process's training: of the first steps, and of the last ones of an epoch."""
    cfg = common.settings(tmp_path_factory.mktemp("runs"))
    return {first: ranks.run(1, common.record, cfg, first, 3)[0] for first in (0, -2)}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("first", [0, -2], ids=["first steps", "end of the epoch"])
def test_ranks_equal_one_process(
    alone: dict[int, common.Record], size: int, first: int, tmp_path: Path
) -> None:
    """G1 G2 G6 G7 S7: losses, gradient norms and weights are those of one process."""
    expected = alone[first]
    answers = ranks.run(size, common.record, common.settings(tmp_path), first, 3)
    for rank, found in enumerate(answers):
        where = f"rank {rank} of {size}"
        assert found.losses == pytest.approx(expected.losses, abs=TOLERANCE), where
        assert found.norms == pytest.approx(expected.norms, abs=TOLERANCE), where
        assert common.difference(found.weights, expected.weights) < TOLERANCE, where
