"""Prepared data: said by the run, kept for the next, and prepared anew when that is demanded."""

from pathlib import Path

import pytest

from product import forkserver, template
from product.programs import completed
from product.test_programs import settings

ONLY = "--prepare-only"


def versions(folder: Path) -> dict[str, int]:
    """What was prepared, and when."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path): path.stat().st_mtime_ns for path in files}


@pytest.mark.parametrize("model", template.QUESTIONS["model"].values)
def test_prepared_again_on_demand_alone(model: str, tmp_path: Path) -> None:
    """A second run finds everything; `--force` leaves nothing of it, and no half-written file."""
    answers = completed({"model": model, "tracker": "none", "tools": []})
    project, data = tmp_path / "project", tmp_path / "data" / model
    template.write(answers, project)
    overrides = settings(answers, tmp_path / "data")
    found = []
    for flags in ([ONLY], [ONLY], [ONLY, "--force"]):
        run = forkserver.train(project, 1, [*flags, *overrides])
        assert (run.codes, run.output) == ([0], "")
        found.append(versions(data))
    first, second, forced = found
    assert first == second != forced
    assert first.keys() == forced.keys()
    assert all(first[path] < forced[path] for path in first)
    assert not [path for path in forced if "partial" in path]
    run = forkserver.train(project, 1, overrides)
    assert run.codes == [0]
    assert "using prepared data: " in run.output
    run = forkserver.train(project, 1, ["--force", *overrides])
    assert run.codes == [2]
    assert "--force needs --prepare-only" in run.output
