"""One lab for all tests of a worker."""

import itertools
from collections.abc import Iterator

import pytest

from ddpgen.fetching import template_source
from update import lab as laboratory


@pytest.fixture(scope="session")
def lab_of_worker(tmp_path_factory: pytest.TempPathFactory) -> laboratory.Lab:
    return laboratory.make(tmp_path_factory.mktemp("lab"))


@pytest.fixture
def lab(lab_of_worker: laboratory.Lab) -> Iterator[laboratory.Lab]:
    """Releases for tests; this process uses their templates meanwhile."""
    with laboratory.installed(lab_of_worker.package):
        yield lab_of_worker


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """From every release to every later one, or to the next, and from the first to the last."""
    if {"since", "to"} <= set(metafunc.fixturenames):
        tags = [*template_source.released(), laboratory.OLD, laboratory.NEW]
        everything = metafunc.config.getoption("--updates") == "all"
        few = [*itertools.pairwise(tags), (tags[0], tags[-1])]
        metafunc.parametrize(
            ("since", "to"), [*itertools.combinations(tags, 2)] if everything else few
        )
