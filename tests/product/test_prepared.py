"""Prepared data: said by the run, kept for the next, and prepared anew when that is demanded."""

from pathlib import Path

import pytest
from attack.test_machine import small_disk

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
        said = f"the data are prepared, in {data}\n"
        assert (run.codes, run.output) == ([0], said)
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


SHARES = ["data.validation=1.5", "data.validation=-1", "data.validation=0"]
MISTAKES = {
    "custom": SHARES,
    "mlp": SHARES,
    "resnet": ["data.source=absent", *SHARES],
    "vision": ["data.source=absent", "data.pretrained=absent", *SHARES],
    "table": ["data.source=", "data.source=/", "data.source=**x", "latin.csv", *SHARES],
    "causal-lm": ["data.source=absent", "empty.jsonl", "words.jsonl", "list.jsonl", *SHARES],
    "text-classifier": ["empty.csv", "bytes.csv", "words.jsonl", "list.jsonl", *SHARES],
    "gpt": ["empty.txt", "words.txt", *SHARES],
}
SPOILT = {
    "latin.csv": "gr\u00f6\u00dfe,target\n1,2\n".encode("latin-1"),
    "empty.txt": b"",
    "words.txt": b"good morning\n" * 99,
    "empty.csv": b"",
    "empty.jsonl": b"",
    "bytes.csv": b"text,label\n\xff,a\n",
    "words.jsonl": b"good morning\n",
    "list.jsonl": b"[1, 2]\n",
}


@pytest.mark.parametrize("model", MISTAKES)
def test_mistakes_of_the_source_are_said(model: str, tmp_path: Path) -> None:
    """In the last line, before the first step, with the exit code for mistakes."""
    project = tmp_path / "project"
    answers = completed({"model": model, "tracker": "none", "tools": []})
    template.write(answers, project)
    for name, content in SPOILT.items():
        (tmp_path / name).write_bytes(content)
    for mistake in MISTAKES[model]:
        said = f"data.source={tmp_path / mistake}" if mistake in SPOILT else mistake
        small = ["data.vocabulary=100"] if model == "gpt" else []
        run = forkserver.train(project, 1, [said, f"data.folder={tmp_path / 'data'}", *small])
        assert run.codes == [2], f"{said}: {run.output}"
        assert "partial" not in run.output, "a path of the program's own"
        if mistake in SHARES[1:]:
            assert f"{mistake.replace('=', ' = ')}" in run.output.replace(".0 must", " must")
        assert run.output.splitlines()[-1].startswith("error: "), run.output
        assert "Traceback" not in run.output
        assert not [*tmp_path.rglob("*.partial")]


@pytest.mark.parametrize("model", ["gpt", "mlp", "text-classifier"])
def test_a_full_disk_is_told(model: str, tmp_path: Path) -> None:
    """By the key of the config: torch and tokenizers tell it in words of their own."""
    answers = completed({"model": model, "tracker": "none", "tools": []})
    template.write(answers, tmp_path / "project")
    with small_disk(tmp_path / "disk", "8k") as disk:
        place = f"data.folder={disk / 'data'}"
        run = forkserver.train(tmp_path / "project", 1, [ONLY, *settings(answers, disk), place])
        assert run.codes == [2], run.output
        assert run.output.splitlines()[-1] == f"error: data.folder: no space in {disk / 'data'}"
        assert "Traceback" not in run.output


@pytest.mark.parametrize("model", ["custom", "mlp"])
def test_edited_program_prepares_anew(model: str, tmp_path: Path) -> None:
    """What an older `data.py` has prepared is not read."""
    answers = completed({"model": model, "tracker": "none", "tools": []})
    template.write(answers, tmp_path)
    overrides = [ONLY, *settings(answers, tmp_path / "data")]
    assert forkserver.train(tmp_path, 1, overrides).codes == [0]
    (before,) = (tmp_path / "data").rglob("*.pt")
    with (tmp_path / "data.py").open("a") as file:
        file.write("# edited\n")
    assert forkserver.train(tmp_path, 1, overrides).codes == [0]
    assert {*(tmp_path / "data").rglob("*.pt")} > {before}


def test_own_data_may_lack_the_name_of_what_is_prepared(tmp_path: Path) -> None:
    """Only `--force` needs that name, and says so."""
    answers = completed({"model": "custom", "tracker": "none", "tools": []})
    template.write(answers, tmp_path)
    text = (tmp_path / "data.py").read_text()
    (tmp_path / "data.py").write_text(text.replace("prepared_path", "_place"))
    overrides = settings(answers, tmp_path / "data")
    assert forkserver.train(tmp_path, 1, [ONLY, *overrides]).codes == [0]
    run = forkserver.train(tmp_path, 1, [ONLY, "--force", *overrides])
    assert run.codes == [2]
    assert run.output.startswith("error: --force needs a function `prepared_path` in data.py")
    assert len(run.output.splitlines()) == 1
