"""How teams use the checker: settings, severities, baselines, what is left out, forms for hosts."""

import json
import subprocess
from pathlib import Path

import pytest
from generator.program import ddpgen

from ddpgen.checking import driver, settings
from ddpgen.checking.registry import SEVERITIES
from ddpgen.checking.rules import RULES
from ddpgen.checking.settings import Settings
from ddpgen.errors import DdpgenError

DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
# An error, a warning and a matter of style.
THREE = f"""\
import torch
{DDP}model = DDP(build(), timeout=3)
torch.save(model.module.state_dict(), f"rank{{rank}}.pt")
for name in ("a.pt", "b.pt"):
    weights = torch.load(name, map_location="cpu", weights_only=False)
model = DDP(build(), find_unused_parameters=True)
"""
FOUND = [(3, "D9", "error"), (6, "K7", "warning"), (7, "G11", "style")]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(THREE)
    return tmp_path


def configure(folder: Path, *lines: str) -> None:
    (folder / "pyproject.toml").write_text("\n".join(["[tool.ddpgen.check]", *lines, ""]))


def found(folder: Path, *arguments: str) -> list[str]:
    """The ids that the command reports below a folder."""
    run = ddpgen("check", ".", "--format", "json", *arguments, cwd=folder)
    assert run.returncode in (0, 1), run.stderr
    ids = [finding["id"] for finding in json.loads(run.stdout)["findings"]]
    assert run.returncode == bool(ids)
    return ids


def test_severities_are_shown_and_selected(code: Path) -> None:
    run = ddpgen("check", ".", cwd=code)
    for line, name, severity in FOUND:
        assert f"train.py:{line}:" in run.stdout
        assert f" {name} {severity}: " in run.stdout
    assert "3 findings (1 error, 1 warning, 1 style) in 1 file" in run.stdout
    assert found(code, "--severity", "error") == ["D9"]
    assert found(code, "--severity", "warning") == ["D9", "K7"]
    assert found(code, "--severity", "style") == ["D9", "K7", "G11"]


def test_every_rule_has_a_severity() -> None:
    """A hang, a crash and wrong numbers are errors; what these words say is one."""
    assert {rule.severity for rule in RULES} == {*SEVERITIES}
    for rule in RULES:
        if "it hangs" in rule.why or "they hang" in rule.why or "wait for ever" in rule.why:
            assert rule.severity == "error", rule.why


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--select", "d9", "--select", "K7"], ["D9", "K7"]),
        (["--select", "g"], ["G11"]),
        (["--ignore", "D,K7"], ["G11"]),
        (["--ignore", "D9", "--ignore", "g11"], ["K7"]),
    ],
)
def test_names_in_any_case_themes_and_repeated_flags(
    code: Path, arguments: list[str], expected: list[str]
) -> None:
    assert found(code, *arguments) == expected
    assert ddpgen("check", "--explain", "g3", cwd=code).stdout.startswith("# G3: ")


def test_settings_of_a_project(code: Path) -> None:
    for lines, expected in (
        (['select = ["D9", "g11"]'], ["D9", "G11"]),
        (['ignore = ["K"]'], ["D9", "G11"]),
        (['severity = "warning"'], ["D9", "K7"]),
        (['per-file-ignores = { "train.py" = ["D9"] }'], ["K7", "G11"]),
        (['per-file-ignores = { "other.py" = ["D9"] }'], ["D9", "K7", "G11"]),
    ):
        configure(code, *lines)
        assert found(code) == expected
    configure(code, 'ignore = ["K7"]', 'select = ["G11", "K7"]', 'severity = "warning"')
    assert found(code) == []
    assert found(code, "--select", "D9,K7") == ["D9"], "flags select, and add to what is ignored"
    assert found(code, "--severity", "style") == ["G11"]


def test_settings_hold_below_their_folder(code: Path) -> None:
    for place in ("old", "new/old", "kept"):
        (code / place).mkdir(parents=True)
        (code / place / "train.py").write_text(THREE)
    configure(code, 'exclude = ["old", "kept/*.py"]', 'per-file-ignores = { "new/**" = ["D9"] }')
    report = driver.check([code], settings.read([code]))
    assert report.files == 1
    assert any("(excluded in pyproject.toml)" in note for note in report.notes)
    assert driver.check([code / "old"], settings.read([code / "old"])).files == 1, "it is named"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("selct = []", "tool.ddpgen.check.selct: is no setting\n  did you mean select?"),
        ('select = "G3"', "tool.ddpgen.check.select: is not a list of texts"),
        ('select = ["G33"]', "G33: there is no such rule"),
        ('severity = "bad"', "severity: is no severity (allowed: error, warning, style)"),
        ("per-file-ignores = []", "per-file-ignores: is not a table"),
    ],
)
def test_mistakes_in_settings(code: Path, line: str, message: str) -> None:
    configure(code, line)
    run = ddpgen("check", ".", cwd=code)
    assert (run.returncode, run.stdout) == (2, "")
    assert message in run.stderr
    (code / "pyproject.toml").write_text("not toml")
    assert found(code) == ["D9", "K7", "G11"], "that is for others to complain about"


def test_named_file_of_an_unknown_kind_is_said_to_be_read_as_a_launch_file(tmp_path: Path) -> None:
    (tmp_path / "job.txt").write_text("srun python train.py\n")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    assert "txt was read as a launch file" in ddpgen("check", "job.txt", cwd=tmp_path).stdout
    assert "csv was read as a launch file" in ddpgen("check", "table.csv", cwd=tmp_path).stdout


def test_nothing_to_check_is_no_success(tmp_path: Path) -> None:
    nothing = ddpgen("check", ".", cwd=tmp_path)
    assert nothing.returncode == 2
    assert "nothing was checked" in nothing.stdout
    (tmp_path / "broken.py").write_text("print 'hello'\n")
    broken = ddpgen("check", ".", cwd=tmp_path)
    assert broken.returncode == 2
    assert "broken.py was not checked: it is not valid Python (line 1)" in broken.stdout
    (tmp_path / "clean.py").write_text("print('hello')\n")
    assert ddpgen("check", ".", cwd=tmp_path).returncode == 0


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    for name in ("tests", "build", "src/dist", "src/build", "env", ".venv", "__pycache__"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "train.py").write_text(THREE)
    (tmp_path / "env/pyvenv.cfg").touch()
    (tmp_path / "test_train.py").write_text(THREE)
    report = driver.check([tmp_path])
    checked = {finding.path.parent.relative_to(tmp_path).as_posix() for finding in report.findings}
    assert checked == {"src/dist", "src/build"}, "source folders may be called so"
    notes = "\n".join(report.notes)
    assert f"left out: {tmp_path}/build (what a build leaves behind)" in notes
    assert f"left out: {tmp_path}/env (an environment)" in notes
    assert f"{tmp_path}/tests" in notes
    assert f"{tmp_path}/test_train.py" in notes
    assert "__pycache__" not in notes
    assert len(driver.check([tmp_path / "build"]).findings) == 3, "it is named"


def test_what_git_ignores_is_left_out(code: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=code, check=True)
    for name in ("outputs/a.py", "kept/outputs.py", "forced/b.py"):
        (code / name).parent.mkdir()
        (code / name).write_text(THREE)
    (code / ".gitignore").write_text("outputs/\nforced/\n*.tmp.py\n")
    (code / "c.tmp.py").write_text(THREE)
    subprocess.run(["git", "add", "--force", "forced"], cwd=code, check=True)
    report = driver.check([code])
    paths = {finding.path.relative_to(code).as_posix() for finding in report.findings}
    assert paths == {"train.py", "kept/outputs.py", "forced/b.py"}, "what is tracked is read"
    assert sum("(ignored by git)" in note for note in report.notes) == 1
    assert len(driver.check([code / "outputs"]).findings) == 3, "it is named"


def test_a_repository_runs_no_program_of_its_own(code: Path) -> None:
    """A monitor of files is a program that the settings of a repository may name."""
    subprocess.run(["git", "init", "--quiet"], cwd=code, check=True)
    monitor = code / "monitor.sh"
    monitor.write_text(f"#!/bin/sh\ntouch {code}/ran\n")
    monitor.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(monitor)], cwd=code, check=True)
    driver.check([code])
    assert not (code / "ran").exists()


def test_baseline(code: Path) -> None:
    known = ("--baseline", "known.json")
    missing = ddpgen("check", ".", *known, cwd=code)
    assert missing.returncode == 2
    assert "write it first" in missing.stderr
    written = ddpgen("check", ".", *known, "--write-baseline", cwd=code)
    assert (written.returncode, written.stdout) == (
        0,
        "Wrote known.json: 3 known from here on.\n",
    )
    assert found(code, *known) == []
    assert "note: 3 known from known.json" in ddpgen("check", ".", *known, cwd=code).stdout
    (code / "train.py").write_text("import os\n\n" + THREE)
    assert found(code, *known) == [], "lines may move"
    (code / "train.py").write_text(THREE + "model = DDP(other(), timeout=3)\n")
    assert found(code, *known) == ["D9"]
    (code / "train.py").write_text(THREE + "model = DDP(build(), timeout=3)\n")
    assert found(code, *known) == ["D9"], "the same mistake once more"
    (code / "train.py").write_text("import torch\n" + DDP)
    assert "3 in known.json are gone" in ddpgen("check", ".", *known, cwd=code).stdout
    (code / "known.json").write_text("[]")
    assert ddpgen("check", ".", *known, cwd=code).returncode == 2


def test_github(code: Path) -> None:
    (code / "a,b.py").write_text(THREE)
    lines = ddpgen("check", ".", "--format", "github", cwd=code).stdout.splitlines()
    place = "file=a%2Cb.py,line=3,endLine=3,col=9,endColumn=32,title=ddpgen D9"
    assert lines[0].startswith(f"::error {place}::DistributedDataParallel has no argument timeout.")
    assert [line.split()[0] for line in lines[:3]] == ["::error", "::warning", "::notice"]


def test_sarif_says_where_how_bad_and_what_to_do(code: Path) -> None:
    wide = "text = 'äöü'; model = DDP(build(), timeout=3)\n"
    (code / "train.py").write_text(THREE + wide)
    run = ddpgen("check", str(code), "--format", "sarif", cwd=code)
    (log,) = json.loads(run.stdout)["runs"]
    results = log["results"]
    assert [result["level"] for result in results] == ["error", "warning", "note", "error"]
    place = results[-1]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "train.py", "whatever path was named"
    begin = wide.index("DDP(") + 1
    end = {"endLine": 8, "endColumn": len(wide)}
    assert place["region"] == {"startLine": 8, "startColumn": begin, **end}
    for rule in log["tool"]["driver"]["rules"]:
        assert rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")


def test_only_pages_that_exist_are_advertised(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{DDP}DDP(net)  # ddpgen: ignore[D9] gone\n")
    run = ddpgen("check", ".", cwd=tmp_path)
    assert " X2 style: " in run.stdout
    assert "--explain" not in run.stdout


SAMPLER = f"""\
{DDP}from torch.utils.data import DataLoader, DistributedSampler
def loader(dataset):
    return DataLoader(dataset, sampler=DistributedSampler(dataset))
for epoch in range(3):
    pass
"""


def test_a_single_file_is_judged_with_what_belongs_to_it(tmp_path: Path) -> None:
    """Modules that it imports, and those beside it that import it, are read and not reported."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/data.py").write_text(SAMPLER)
    assert [f.id for f in driver.check([tmp_path / "lib/data.py"]).findings] == ["S2"]
    (tmp_path / "lib/train.py").write_text("import data\ndata.s.sampler.set_epoch(epoch)\n")
    assert driver.check([tmp_path / "lib/data.py"]).findings == []
    wrap = f"{DDP}import torch\n\n\ndef wrap(model):\n    return DDP(model, timeout=3)\n"
    (tmp_path / "lib/wrapping.py").write_text(wrap)
    save = "from wrapping import wrap\nmodel = wrap(net)\nstate = model.state_dict()\n"
    (tmp_path / "lib/save.py").write_text(save)
    assert [f.id for f in driver.check([tmp_path / "lib/save.py"]).findings] == ["K2"]


def test_a_script_named_alone_knows_the_programs_beside_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.sh").write_text("torchrun --standalone train.py\ntorchrun missing.py\n")
    report = driver.check([tmp_path / "job.sh"])
    assert [(finding.id, finding.line) for finding in report.findings] == [("L1", 2)]


def test_flags_that_belong_together(tmp_path: Path) -> None:
    for flag, message in (("--dry-run", "--fix"), ("--write-baseline", "--baseline FILE")):
        run = ddpgen("check", ".", flag, cwd=tmp_path)
        assert run.returncode == 2
        assert message in run.stderr


def test_settings_are_checked_once(code: Path) -> None:
    with pytest.raises(DdpgenError, match="there is no such rule"):
        driver.check([code], Settings(ignore=["Q1"]))


def test_a_terminal_shows_how_far_a_long_check_is(
    code: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And keeps nothing of it; what is over soon, or written to a file, has no such line."""
    (code / "model.py").write_text("import torch\n")
    driver.check([code])
    monkeypatch.setattr("ddpgen.checking.progress.AFTER", -1)
    driver.check([code])
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    driver.check([code])
    *shown, rest = capsys.readouterr().err.split("\r\x1b[K")
    assert shown == [
        "",
        "read 0 of 2 files",
        "read 1 of 2 files",
        "",
        "checked 0 of 2 files",
        "checked 1 of 2 files",
    ]
    assert rest == ""
