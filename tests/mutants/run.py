"""Runs the tests of a generated project that name a pitfall, with and without the mistake."""

import re
import tomllib
from collections.abc import Collection
from pathlib import Path

from product import template
from product.preloaded import Outcome, run_tests

from mutants.table import BASES, Mutation

PASSED, FAILED = 0, 1  # pytest's exit codes
HERE = Path(__file__).parent
ROWS: dict[str, list[str]] = tomllib.loads((HERE / "rows.toml").read_text(encoding="utf-8"))


def test_with(mutation: Mutation, projects: Path, python: Path) -> Outcome:
    """Apply a mutation to its base, and run the tests that name its pitfall.

    What these start as Python is started as the `python` that is given.
    """
    project = unpatched(mutation.base, projects)
    file = project / mutation.path
    text = file.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.old!r} is not in {mutation.path} once"
    file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    return own_tests(project, [mutation.pitfall], python)


def unpatched(base: str, projects: Path) -> Path:
    """The base's project as it was generated."""
    project = projects / base
    template.write(BASES[base], project)
    return project


def own_tests(project: Path, pitfalls: Collection[str], python: Path) -> Outcome:
    """The project's tests that name one of the pitfalls, until the first that fails.

    Only their files are read: to collect all takes longer than most tests.
    """
    names = {name for pitfall in pitfalls for name in ROWS[pitfall]}
    tests = re.compile(rf"^ *def ({'|'.join(names)})\(", re.MULTILINE)
    files = sorted((project / "tests").rglob("test_*.py"))
    chosen = [str(file) for file in files if tests.search(file.read_text(encoding="utf-8"))]
    assert chosen, f"no file of {project} has {names}"
    arguments = ["-q", "-x", "-p", "no:cacheprovider", "-p", "selection"]
    arguments += [f"--notice={name}" for name in sorted(names)]
    variables = {"WANDB_MODE": "offline"}
    return run_tests(project, [*arguments, *chosen], variables, [str(HERE)], python=python)
