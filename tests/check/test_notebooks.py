"""Notebooks are read cell by cell, and findings stand at the lines of their files."""

import json
from pathlib import Path
from typing import Any

import pytest
from generator.program import ddpgen

from ddpgen.checking import driver, settings
from ddpgen.errors import DdpgenError

DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
WRONG = "model = DDP(net, timeout=3)"


def cell(text: str, kind: str = "code") -> dict[str, Any]:
    return {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}


def notebook(*cells: dict[str, Any], language: str = "python") -> dict[str, Any]:
    about = {"kernelspec": {"language": language, "name": "x"}}
    return {"cells": list(cells), "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def write(path: Path, *texts: str, indent: int | None = 1) -> Path:
    cells = [cell("# A title\n", "markdown"), *map(cell, texts)]
    path.write_text(json.dumps(notebook(*cells), indent=indent, ensure_ascii=False))
    return path


def found(path: Path) -> list[tuple[str, str]]:
    """The ids that are reported, and the cells that the messages name."""
    findings = driver.check([path]).findings
    return [(f.id, f.why.partition(":")[0]) for f in findings]


def test_findings_name_the_cell_and_the_line_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "train.ipynb", DDP, f'\nprint("Größe")\n{WRONG}\n')
    for place in (path, tmp_path):
        report = driver.check([place])
        [finding] = report.findings
        assert (finding.path, finding.id, report.files) == (path, "D9", 1)
        assert finding.why.startswith("cell 3, line 3: ")
        line = path.read_text().splitlines()[finding.line - 1]
        assert line[finding.column - 1 : finding.end_column - 1] == "DDP(net, timeout=3)"


@pytest.mark.parametrize("indent", [None, 1])
def test_a_cell_in_one_text_and_a_file_in_one_line(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    code = {"cell_type": "code", "source": f'name = "a"; path = r"b\\c"\n{DDP}{WRONG}'}
    path.write_text(json.dumps(notebook(code), indent=indent))
    [finding] = driver.check([path]).findings
    line = path.read_text().splitlines()[finding.line - 1]
    assert WRONG.endswith(line[finding.column - 1 : finding.end_column - 1])
    assert finding.why.startswith("cell 1, line 3: ")


def test_magics_do_nothing(tmp_path: Path) -> None:
    path = write(
        tmp_path / "train.ipynb",
        f"%matplotlib inline\n!pip install \\\n  torch\nfiles = !ls\nDDP?\n?DDP\n{DDP}",
        "%%bash\nfor name in *; do echo $name; done\n",
        f"%%time\nif True:\n    %load_ext tensorboard\n    {WRONG}\n",
        'text = """\n%d percent\n!"""\nprint("%d"\n      %len(text))\n',
    )
    assert found(path) == [("D9", "cell 4, line 4")]


def test_files_that_cells_write_are_programs_of_their_own(tmp_path: Path) -> None:
    path = write(
        tmp_path / "launch.ipynb",
        f"%%writefile src/train.py\nfrom build import wrap\n{DDP}model = wrap(net)\n",
        f"%%writefile src/build.py\n{DDP}def wrap(net):\n    return DDP(net)\n",
        f"%%writefile -a src/build.py\n{WRONG}\n",
        "!torchrun --nproc-per-node=2 src/train.py\n",
        "%%writefile notes.txt\nno Python: (\n",
    )
    assert found(path) == [("D9", "cell 4, line 2")]


def test_a_cell_that_is_no_python_is_left_out_and_told(tmp_path: Path) -> None:
    path = write(tmp_path / "train.ipynb", DDP, "on paper:\nx <- 1\n", WRONG)
    report = driver.check([path])
    assert [(f.id, f.why.partition(":")[0]) for f in report.findings] == [("D9", "cell 4, line 1")]
    (note,) = report.notes
    assert note.endswith("a cell was not checked: it is not valid Python (cell 3, line 1)")


def test_comments_and_settings_silence(tmp_path: Path) -> None:
    why = "# ddpgen: ignore[D9] shown on purpose"
    path = write(tmp_path / "train.ipynb", DDP, f"{WRONG}  {why}\n", f"{why}\n{WRONG}\n")
    assert found(path) == []
    path = write(tmp_path / "train.ipynb", DDP, f"{why}\n")
    assert found(path) == [("X2", "cell 3, line 1")]
    write(path, DDP, WRONG)
    table = '[tool.ddpgen.check]\nper-file-ignores = { "*.ipynb" = ["D9"] }\n'
    (tmp_path / "pyproject.toml").write_text(table)
    assert driver.check([path], settings.read([path])).findings == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is no notebook: no JSON at line 1"),
        ("[]", "it has no cells"),
        ('{"cells": [3]}', "it has no cells"),
        ('{"worksheets": []}', "it has no cells"),
        ('{"cells": [{"cell_type": "code"}]}', "a cell has no source"),
        ('{"cells": [{"cell_type": "code", "source": [3]}]}', "a cell has no source"),
        ('{"cells":\n[{"cell_type": "code", "source": "x = ("}]}', "not valid Python (line 2)"),
        (json.dumps(notebook(cell("x <- 1"), language="R")), "in another language"),
        ("[" * 100_000, "is nested too deeply"),
        ("\udcff", "is not UTF-8 text"),
    ],
)
def test_what_is_no_notebook_is_told(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DdpgenError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        driver.check([path])
    report = driver.check([tmp_path])
    assert (report.files, report.unreadable) == (0, 1)
    assert reason in report.notes[0]


def test_copies_of_editors_are_left_out(tmp_path: Path) -> None:
    (tmp_path / ".ipynb_checkpoints").mkdir()
    write(tmp_path / ".ipynb_checkpoints" / "train-checkpoint.ipynb", DDP, WRONG)
    assert driver.check([tmp_path]).files == 0


def test_fixing_leaves_notebooks_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "train.ipynb", DDP, WRONG)
    before = path.read_bytes()
    run = ddpgen("check", ".", "--fix", cwd=tmp_path)
    assert run.returncode == 1
    assert "train.ipynb:" in run.stdout
    assert path.read_bytes() == before
