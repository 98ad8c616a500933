"""Rendered projects and a real SLURM cluster, started once per test session."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddpgen.asking.question import Value
from ddpgen.rendering.render import render
from tests.clusters import network, page, slurm_lab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell the page what is done to jobs."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.user_properties += [(page.DISTURBANCE, what) for what in disturbances(item)]


def disturbances(item: pytest.Item) -> Iterator[str]:
    """What is done to a test's job: its mark says it, or the function among its parameters."""
    for mark in item.iter_markers("disturbed"):
        yield mark.args[0]
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        for value in item.callspec.params.values():
            if callable(value):
                yield str(value.__doc__)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Renders a project for the answers given, anew for each call."""

    def make(**answers: Value) -> Path:
        folder = tmp_path_factory.mktemp("project") / "work"
        render({"tools": ["preflight"], **answers}, folder)
        return folder

    return make


@pytest.fixture(scope="session")
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """A user's environment; without `--thorough`, ranks and preparations are forked.

    Jobs start them by tests/forked then.
    """
    all_of_it = request.config.getoption("--thorough")
    return network.environment(*([] if all_of_it else [request.getfixturevalue("forked")]))


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[slurm_lab.Lab]:
    """Four nodes with four cores and two counted GPUs each."""
    slurm_lab.skip_if_impossible()
    # Without `--thorough` no node is lost: none that a busy machine makes late shall seem so.
    patience = {} if request.config.getoption("--thorough") else {"slurmd_timeout": 60}
    with slurm_lab.cluster(**patience) as cluster:
        yield cluster


@pytest.fixture
def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
