"""Many ranks compute what plain PyTorch computes on the joined batch (catalogue: G1-G8, S7)."""

from pathlib import Path

import pytest

from support import common, ranks, reference

TOLERANCE = 1e-10  # in float64; a wrong average is off by several per cent
STEPS = 5


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[int, reference.Record]:
    """A loop without anything of this project: the first steps, and the last of an epoch."""
    cfg = common.settings(tmp_path_factory.mktemp("runs"))
    return {first: ranks.run(1, reference.by_hand, cfg, first, STEPS)[0] for first in (0, -2)}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("first", [0, -2], ids=["first steps", "end of the epoch"])
def test_ranks_equal_plain_loop(
    plain: dict[int, reference.Record], size: int, first: int, tmp_path: Path
) -> None:
    """G1 G2 G3 G4 G5 G6 G7 G8 G9 S7: losses, norms and weights are those of the plain loop."""
    expected = plain[first]
    answers = ranks.run(size, reference.record, common.settings(tmp_path), first, STEPS)
    for rank, found in enumerate(answers):
        where = f"rank {rank} of {size}"
        assert found.losses == pytest.approx(expected.losses, abs=TOLERANCE), where
        assert found.norms == pytest.approx(expected.norms, abs=TOLERANCE), where
        assert common.difference(found.weights, expected.weights) < TOLERANCE, where
