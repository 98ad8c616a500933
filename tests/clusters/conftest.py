"""Rendered projects and a real SLURM cluster, started once per test session."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddpgen.asking.question import Value
from ddpgen.rendering.render import render
from tests.clusters import network, page, slurm_lab


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked as thorough, unless `--clusters=all`; tell the page the rest."""
    if config.getoption("--clusters") == "some":
        thorough = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=thorough)
        items[:] = [item for item in items if item not in thorough]
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
    """A user's environment; with `--clusters=some`, ranks and preparations are forked.

    Jobs start them by tests/forked then.
    """
    some = request.config.getoption("--clusters") == "some"
    return network.environment(*([request.getfixturevalue("forked")] if some else []))


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[slurm_lab.Lab]:
    """Four nodes with four cores and two counted GPUs each."""
    slurm_lab.skip_if_impossible()
    # With `--clusters=some` no node is lost: none that a busy machine makes late shall seem so.
    patience = {"slurmd_timeout": 60} if request.config.getoption("--clusters") == "some" else {}
    with slurm_lab.cluster(**patience) as cluster:
        yield cluster


@pytest.fixture
def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
