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
    """From every release to every later one; or to what comes next, old ones in one form each."""
    names = [name for name in ("since", "to", "sample") if name in metafunc.fixturenames]
    if "to" not in names:
        return
    released, ours = [*template_source.released()], (laboratory.OLD, laboratory.NEW)
    samples = [*metafunc.module.SAMPLE] if "sample" in names else [""]
    if metafunc.config.getoption("--updates") == "all":
        steps = itertools.combinations([*released, *ours], 2)
        cases = [(*step, sample) for step in steps for sample in samples]
    else:
        old = zip(released[:-1], itertools.cycle(samples), strict=False)
        cases = [(tag, ours[0], sample) for tag, sample in old]
        cases.append((released[0], ours[1], samples[-1]))
        steps = [(released[-1], ours[0]), ours]
        cases += [(*step, sample) for step in steps for sample in samples]
    metafunc.parametrize(names, [case[: len(names)] for case in cases])
