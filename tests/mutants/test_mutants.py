"""Every mistake of the catalogue turns a test of the generated project red that names it.

Some rows by default, drawn by `--seed`, with one mistake each; `--mutants=all` tries all.
"""

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from product import template

from mutants import page, run
from mutants.table import BASES, MUTATIONS, Mutation

SOME = 40  # mistakes that are tried by default
PAGE = Path(__file__).resolve().parents[2] / "docs" / "pitfalls.md"

VERDICTS = {run.PASSED: "survived", run.FAILED: "killed"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mutation" in metafunc.fixturenames:
        chosen = selected(*map(metafunc.config.getoption, ("--mutants", "--seed")))
        metafunc.parametrize("mutation", chosen, ids=[f"{m.pitfall}-{m.mistake}" for m in chosen])


def selected(how_many: str, seed: int) -> list[Mutation]:
    """All, or the first of a few rows."""
    if how_many == "all":
        return MUTATIONS
    first = {mutation.pitfall: mutation for mutation in reversed(MUTATIONS)}
    return random.Random(seed).sample([*first.values()], SOME)


@pytest.fixture(scope="session")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The projects of this worker, patched and mended in turn."""
    return tmp_path_factory.mktemp("projects")


def test_mistake_is_seen(
    mutation: Mutation,
    projects: Path,
    forked: Path,
    record_property: Callable[[str, object], None],
) -> None:
    outcome = run.test_with(mutation, projects, forked / "python")
    verdict = VERDICTS.get(outcome.code, f"{page.NOT_RUN} (pytest's exit code {outcome.code})")
    record_property(page.VERDICT, (mutation.pitfall, mutation.mistake, verdict))
    assert outcome.code == run.FAILED, outcome.output[-4000:]


@pytest.mark.parametrize("base", BASES)
def test_without_mistakes_nothing_is_seen(
    base: str, projects: Path, forked: Path, pytestconfig: pytest.Config
) -> None:
    """Every row's tests pass in the project that its mistakes are put into."""
    if pytestconfig.getoption("--mutants") != "all":
        pytest.skip("the tests of whole projects are in tests/product; --mutants=all runs these")
    project = run.unpatched(base, projects)
    rows = sorted({mutation.pitfall for mutation in MUTATIONS if mutation.base == base})
    outcome = run.own_tests(project, rows, forked / "python")
    assert outcome.code == run.PASSED, outcome.output[-4000:]


def test_patches_fit_their_projects() -> None:
    """Each text is there exactly once, and each mistake is valid Python where the file is."""
    for mutation in MUTATIONS:
        text = template.text(mutation.path, BASES[mutation.base]) or ""
        assert text.count(mutation.old) == 1, f"{mutation.pitfall}: {mutation.mistake}"
        if mutation.path.endswith(".py"):
            compile(text.replace(mutation.old, mutation.new), mutation.mistake, "exec")


def test_every_row_that_promises_a_test_has_mistakes() -> None:
    rows = dict(re.findall(r"\| ([A-Z]\d+) \| .+ \| ([CTSR ]+) \| .+ \|", PAGE.read_text()))
    promised = {row for row, guard in rows.items() if "T" in guard}
    assert promised == {mutation.pitfall for mutation in MUTATIONS}
