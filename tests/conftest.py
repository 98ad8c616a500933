"""How much of the product is run, and how the tests are shared out over the workers of one run."""

import importlib
import os
import random
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import slowness
from summary import Summary
from xdist.scheduler import LoadScopeScheduling

# They start clusters, with host names and networks that only one of them can have at a time.
ONE_WORKER = (
    "test_slurm.py",
    "test_ssh.py",
    "test_disturbed.py",
    "test_lost_node.py",
    "test_many_nodes.py",
    "test_pbs_lsf.py",
)
# They share what takes long to write, every distinct file of the product, the site; or a browser, a
# server.
FILES = (
    "product/test_files.py",
    "clusters/test_files.py",
    "docs/test_site.py",
    "web/test_catalogue.py",
    "web/test_interface.py",
    "web/test_page.py",
    "web/test_server.py",
)
# With few programs, what shares their ranks, or the server that these are forked from.
FEW = ("test_programs.py", "test_equality.py")

TAKING_TURNS = pytest.StashKey[set[str]]()
PAGES = {
    "matrix.md": "product.page",
    "mutants.md": "mutants.page",
    "clusters.md": "clusters.page",
    "seconds.json": "slowness",
}


SUMMARY = "summary"
# Options that are whole numbers: their default, and what they are.
NUMBERS = {
    "seed": (0, "what is drawn at random follows from this number"),
    "edits": (10, "how many random edits are updated"),
    "attacks": (100, "how many hostile sets of answers are tried"),
    "kills": (1, "how often each command is killed"),
}


class Scheduling(LoadScopeScheduling):
    """Every test by itself, but those with a cluster one after the other.

    So are few programs: to start their ranks takes longer than to train them. (The marks of
    pytest-xdist 3.8 for that have no effect with pytest 9.2.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.endswith(ONE_WORKER):
            return "clusters"
        if file.endswith(FILES) and "test_types" not in nodeid:
            return file
        few = self.config.getoption("--programs") == "few"
        return "programs" if few and file.endswith(FEW) else nodeid


@pytest.hookimpl(tryfirst=True)  # hypothesis reads its seed in the same hook
def pytest_configure(config: pytest.Config) -> None:
    config.option.hypothesis_seed = config.option.seed
    config.option.hypothesis_profile = "default"  # where CI is set, another one ignores the seed
    if config.option.summary and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary(config), SUMMARY)
    # A shell without job control starts background commands with these two ignored, and a program
    # started from there could not be told to stop by Ctrl-C, which tests do.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One folder for all workers of a session, for what they share: prepared data."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _types_of_libraries(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All projects of a worker share what mypy knows of torch; to read torch takes ten seconds.

    Workers do not share: a cache that two projects write at once holds the marks of one project's
    modules beside the types of the other's, and every later run reads these.
    """
    os.environ["MYPY_CACHE_DIR"] = str(tmp_path_factory.getbasetemp() / "mypy")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out tests whose turn is at another commit, and all that begins after `--minutes`.

    A test that has failed is tried again all the same: to leave the second try out would hide the
    failure.
    """
    if getattr(item, "execution_count", 1) > 1:  # of pytest-rerunfailures
        return
    minutes = item.config.getoption("--minutes")
    if reason := slowness.left_out(item.nodeid, item.config.stash[TAKING_TURNS], minutes):
        pytest.skip(reason)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked as thorough, unless `--thorough` is given; programs come last."""
    items.sort(key=lambda item: slowness.is_of_many(item.nodeid))
    if not config.getoption("--thorough"):
        thorough = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=thorough)
        items[:] = [item for item in items if item not in thorough]
    tests = [item.nodeid for item in items] if config.getoption("--turns") else []
    config.stash[TAKING_TURNS] = slowness.taking_turns(tests, slowness.measured())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """The hook that pytest-xdist asks."""
    return Scheduling(config, log)


def pytest_report_header(config: pytest.Config) -> str:
    """What repeats a run that drew its seed."""
    return f"--seed={config.option.seed}"


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """What a test draws from: `--seed` and the test's name give the same again."""
    return random.Random(f"{request.config.option.seed} {request.node.nodeid}")


@pytest.fixture(scope="session")
def forked() -> Iterator[Path]:
    """A folder for the PATH, whose `python` and `pytest` are forked; see tests/forked."""
    from forked.server import server

    with server() as folder:
        yield folder


@pytest.fixture
def say(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Have a line printed at the end of the run, from whichever worker."""
    return partial(record_property, "said")


def pytest_terminal_summary(
    terminalreporter: Any, exitstatus: pytest.ExitCode, config: pytest.Config
) -> None:
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "said":
                terminalreporter.write_line(text)
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first try of {report.nodeid}", sep="-")
        terminalreporter.write_line(report.longreprtext)
    whole = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    for page in config.getoption("--page") if whole else ():  # an end before says too little
        writer = importlib.import_module(PAGES[page.name])
        writer.write(terminalreporter, page)
    if summary := config.pluginmanager.get_plugin(SUMMARY):
        terminalreporter.section("what was proved", sep="-")
        for line in summary.table():
            terminalreporter.write_line(line)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--programs",
        choices=["few", "cores", "all"],
        default="cores",
        help="which training programs run: the default one of each model; every core, every form "
        "of what is separable from it and every pair of options (the default); all",
    )
    parser.addoption(
        "--own-tests",
        choices=["few", "pairs"],
        default="few",
        help="which generated projects run their own tests: the default one and a few with much "
        "that can be chosen (the default), or enough for every pair of values",
    )
    parser.addoption(
        "--updates",
        choices=["some", "all"],
        default="some",
        help="which versions are updated to which: every one to the next, or to every later one",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run also what is marked as thorough, for which `make test` has no time",
    )
    parser.addoption(
        "--page",
        type=Path,
        action="append",
        default=[],
        help=f"write what this run did to one of {', '.join(PAGES)}; may be given several times",
    )
    parser.addoption(
        "--summary",
        action="store_true",
        help="say from time to time what the run is at, and at the end what was proved",
    )
    parser.addoption(
        "--minutes",
        type=float,
        default=0,
        help="after so many, no test begins any more; 0: never",
    )
    parser.addoption(
        "--turns",
        action="store_true",
        help="of tests that take long (seconds.json), run those whose turn is at this commit",
    )
    for name, (default, words) in NUMBERS.items():
        parser.addoption(f"--{name}", type=int, default=default, help=words)
    parser.addoption(
        "--faults", action="store_true", help="put mistakes into ddpgen itself, one at a time"
    )
    parser.addoption(
        "--mutants",
        choices=["some", "all"],
        default="some",
        help="which mistakes are put into generated projects: one of some rows of the catalogue, "
        "drawn by the seed (the default), or all",
    )
