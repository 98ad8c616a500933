"""Runs the tests of a generated project that name a pitfall, with and without the mistake."""

from pathlib import Path

from product import template
from product.preloaded import Outcome, run_tests

from mutants.table import BASES, Mutation

PASSED, FAILED = 0, 1  # pytest's exit codes
HERE = Path(__file__).parent


def test_with(mutation: Mutation, projects: Path) -> Outcome:
    """Apply a mutation to its base, and run the tests that name its pitfall."""
    project = unpatched(mutation.base, projects)
    file = project / mutation.path
    text = file.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.old!r} is not in {mutation.path} once"
    file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    return own_tests(project, mutation.pitfall)


def unpatched(base: str, projects: Path) -> Path:
    """The base's project as it was generated."""
    project = projects / base
    template.write(BASES[base], project)
    return project


def own_tests(project: Path, pitfall: str) -> Outcome:
    """The project's tests that name a pitfall, until the first that fails."""
    arguments = ["-q", "-x", "-p", "no:cacheprovider", "-p", "selection", f"--pitfall={pitfall}"]
    return run_tests(project, arguments, {"WANDB_MODE": "offline"}, [str(HERE)])
