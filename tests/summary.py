"""What a run of the tests is at, and at its end what was proved, how often, and how long it took.

Where several workers share the tests, it runs in the process that hands them out.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

EVERY = 30  # seconds between two lines
# By the beginning of a test's name below tests/, the first that fits: a short name, and a sentence.
GROUPS = {
    "product/test_programs.py::test_program[": (
        "programs",
        "programs in two ranks that stay: trained, evaluated, saved, resumed where they can",
    ),
    "product/test_programs.py::": (
        "processes",
        "programs in two ranks of their own: the same, from the start to the exit",
    ),
    "product/test_parts.py": ("parts", "what is not trained is equal, by text, to what is"),
    "product/test_pool.py": ("pool", "what the ranks that stay put back, and what they refuse"),
    "product/test_own_tests.py": ("own tests", "projects that passed their own tests"),
    "product/test_equality.py": (
        "equality",
        "projects whose 1 to 4 ranks computed what plain PyTorch computes",
    ),
    "product/test_files.py::test_types": ("types", "runs of mypy: every distinct file"),
    "product/test_files.py": ("files", "properties of every distinct file"),
    "product/": ("tools", "levers, memory, scaling, insight, other numbers of ranks"),
    "mutants/": ("mutants", "mistakes put into projects, and seen by the projects' tests"),
    "generator/": ("generator", "questions, prompts, rendering and commands of ddpgen"),
    "update/": ("update", "updates of projects, with their users' edits"),
    "attack/": ("attack", "hostile answers, killed commands, full disks"),
    "check/": ("check", "what `ddpgen check` finds, and where it is silent"),
    "clusters/": ("clusters", "launch files, and jobs on real schedulers"),
    "chaos/": ("chaos", "runs that were disturbed, and ended as undisturbed ones"),
    "goodput/": ("goodput", "a job on four hosts, with faults and without a person"),
    "quality/": ("quality", "pitfalls and the tests that name them"),
}
OTHERS = ("others", "benchmark's and bundle's own tests")


class Row(NamedTuple):
    """One group's tests: how often each outcome, and the seconds of all workers."""

    name: str
    sentence: str
    outcomes: Counter[str]
    seconds: list[float]  # of each test


def group_of(nodeid: str) -> tuple[str, str]:
    """Name and sentence of a test's group."""
    name = nodeid.partition("tests/")[2] or nodeid
    return next((group for start, group in GROUPS.items() if name.startswith(start)), OTHERS)


class Summary:
    """Counts what ends."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.begin = self.said = time.monotonic()
        self.totals: Counter[str] = Counter()
        self.outcomes: dict[str, str] = {}  # by test
        self.seconds: Counter[str] = Counter()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """The hook of pytest-xdist: every worker has the same tests."""
        self.totals = Counter(group_of(nodeid)[0] for nodeid in ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """The hook where there are no workers."""
        if session.items:
            self.totals = Counter(group_of(item.nodeid)[0] for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The hook that is called for each part of each test."""
        self.seconds[report.nodeid] += report.duration
        if report.when == "call" or not report.passed:
            self.outcomes[report.nodeid] = report.outcome
        if report.failed:
            self._say(f"FAILED {report.nodeid}")
        if time.monotonic() > self.said + EVERY:
            self.said = time.monotonic()
            self._say(self.line())

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str]:
        """The hook that says how a test is counted, and what is printed for it: nothing."""
        if report.when == "call" or report.outcome in ("skipped", "rerun"):
            return report.outcome, "", ""
        return "error" if report.failed else "", "", ""

    def _say(self, text: str) -> None:
        self.config.pluginmanager.get_plugin("terminalreporter").write_line(text)

    def line(self) -> str:
        """What the run is at."""
        done = Counter(group_of(nodeid)[0] for nodeid in self.outcomes)
        under_way = [
            f"{name} {done[name]} of {total}"
            for name, total in self.totals.items()
            if done[name] < total and done[name]
        ]
        failed = sum(outcome == "failed" for outcome in self.outcomes.values())
        counts = f"{done.total()} of {self.totals.total()} tests, {failed} failed"
        return f"[{clock(time.monotonic() - self.begin)}] {counts}; {', '.join(under_way)}"

    def table(self) -> Iterator[str]:
        """A line for each group, and one for all."""
        listed = list(rows(self.outcomes, self.seconds))
        yield "  tests  failed  skipped   seconds   what was proved"
        for row in listed:
            yield _line(row.outcomes, sum(row.seconds), f"{row.name}: {row.sentence}")
        everything = sum((row.outcomes for row in listed), Counter())
        took = clock(time.monotonic() - self.begin)
        yield _line(everything, self.seconds.total(), f"all, by all workers; it took {took}")


def rows(outcomes: Mapping[str, str], seconds: Mapping[str, float]) -> Iterator[Row]:
    """The groups that have tests, in the order of GROUPS."""
    for name, sentence in [*GROUPS.values(), OTHERS]:
        tests = [nodeid for nodeid in outcomes if group_of(nodeid)[0] == name]
        if tests:
            counted = Counter(outcomes[nodeid] for nodeid in tests)
            yield Row(name, sentence, counted, [seconds[nodeid] for nodeid in tests])


def _line(outcomes: Counter[str], seconds: float, text: str) -> str:
    counts = outcomes["passed"], outcomes["failed"], outcomes["skipped"]
    return f"{counts[0]:7}{counts[1]:8}{counts[2]:9}{seconds:10.0f}   {text}"


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
