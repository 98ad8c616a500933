"""What a rank sends does not grow with the number of ranks."""

import pytest

from scale_lab import lab

SIZES = (4, 16)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> list[lab.World]:
    shared = tmp_path_factory.mktemp("shared")
    return [lab.run(size, tmp_path_factory.mktemp("world"), shared) for size in SIZES]


@pytest.mark.parametrize("phase", lab.PHASES)
def test_store_is_asked_little(phase: str, worlds: list[lab.World]) -> None:
    """In all at most in proportion to the ranks, and of each rank but one no more in 16."""
    others = [world.others(phase, "requests") for world in worlds]
    assert others[-1] <= others[0] + 2, f"requests of a rank: {others}"
    means = [world.total(phase, "requests bytes") / world.ranks for world in worlds]
    assert means[-1] <= 1.5 * means[0] + 100, f"bytes for each rank: {means}"
    sent = [world.others(phase, "requests bytes") for world in worlds]
    assert sent[-1] <= 1.5 * sent[0] + 100, f"bytes of a rank: {sent}"


def test_store_and_sockets_rest_while_training(worlds: list[lab.World]) -> None:
    """A step and an evaluation need no store; a rank has as many sockets in any world."""
    for world in worlds:
        assert not world.total("step", "requests") + world.total("evaluation", "requests")
    assert len({world.most("step", "sockets") for world in worlds}) == 1
    assert len({world.most("step", "collectives") for world in worlds}) == 1


def test_growth_is_told_apart() -> None:
    """The fit finds what it was made of."""
    values = [3 + 2 * 2, 3 + 2 * 3, 3 + 2 * 4, 3 + 2 * 6]
    a, b, c = lab.fit((4, 8, 16, 64), values)
    assert (round(a, 6), round(b, 6), round(c, 6)) == (3, 2, 0)
    assert round(lab.at((a, b, c), lab.FULL)) == 31
