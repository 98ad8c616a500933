"""What a user types and sees: exit codes, one clear message, and nothing left behind."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ddpgen import __version__, cli, commands
from ddpgen.asking import questions
from generator.program import COMMAND, ddpgen, everything
from generator.terminal import Terminal

MISTAKES = {
    "unknown option": (["p", "--data", "modell=gpt"], "did you mean model?"),
    "invalid value": (["p", "--data", "amp=fp8"], "amp=fp8: is not a choice (allowed: off, bf16"),
    "does not apply": (["p", "--data", "batch_norm=sync"], "but model is mlp"),
    "invalid combination": (["p", "--data", "nodes=2"], "local starts one node only"),
    "computed": (["p", "--data", "global_batch_size=2"], "is computed"),
    "an answer as a flag": (
        ["p", "--nodes", "2"],
        "--nodes 2; write an answer as --data",
    ),
    "two answers, one flag": (
        ["p", "--data", "amp=off", "nodes=1"],
        "each with a --data of its own",
    ),
    "no equals sign": (["p", "--data", "amp"], "key=value"),
    "quotation marks": (["p", "--data", '"full"'], "leave them out: --data full"),
    "no answers file": (["p", "--answers", "none.toml"], "--answers none.toml: No such file"),
    "no address": (["p", "--from", "#amp"], "an address holds answers as key=value"),
    "not empty": (["full"], "full: is not empty"),
    "a file": (["full/file"], "full/file: is a file"),
    "below a file": (["full/file/a/b"], "is a file"),
    "link to nothing": (["dangling"], "symbolic link to nothing"),
    "link to itself": (["loop"], "symbolic link to nothing"),
    "link to a full folder": (["linked"], "linked: is not empty"),
    "empty path": ([""], "is not a path"),
    "long path": (["x" * 300], "File name too long"),
    "proc": (["/proc/nothing/here"], "/proc/nothing/here: "),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with something of everything that can be in the way."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "linked").symlink_to("full")
    return tmp_path


def assert_one_message(run: subprocess.CompletedProcess[str], message: str) -> None:
    assert run.returncode == 2, run
    assert message in run.stderr
    assert run.stdout == ""
    assert run.stderr.count("ddpgen: ") == 1
    assert len(run.stderr.splitlines()) <= 4
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_gives_one_message_and_exit_code_2(place: Path, mistake: str) -> None:
    arguments, message = MISTAKES[mistake]
    before = everything(place)
    assert_one_message(ddpgen("new", *arguments, "--defaults", cwd=place), message)
    assert everything(place) == before


# Only an attempt shows that /proc takes no folders, and a dry run attempts nothing.
@pytest.mark.parametrize("mistake", sorted(MISTAKES.keys() - {"proc"}))
def test_dry_run_reports_the_same_mistakes(place: Path, mistake: str) -> None:
    arguments, message = MISTAKES[mistake]
    run = ddpgen("new", *arguments, "--defaults", "--dry-run", cwd=place)
    assert_one_message(run, message)


@pytest.mark.parametrize("arguments", [[], ["p"], ["p", "--data", "model=gpt"], ["--dry-run"]])
def test_without_a_terminal_it_never_waits(tmp_path: Path, arguments: list[str]) -> None:
    run = ddpgen("new", *arguments, cwd=tmp_path)
    assert_one_message(run, "no terminal")
    assert all(flag in run.stderr for flag in ("--defaults", "--data", "--answers"))
    assert everything(tmp_path) == []


def test_complete_answers_need_no_terminal(tmp_path: Path) -> None:
    ddpgen("new", "first", "--defaults", cwd=tmp_path)
    run = ddpgen("new", "second", "--answers", "first/.copier-answers.yml", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    answers_file = (tmp_path / "second/.copier-answers.yml").read_text()
    assert answers_file == (tmp_path / "first/.copier-answers.yml").read_text()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [([], 2), (["nwe"], 2), (["new", "--dat", "x"], 2), (["new", "a", "b"], 2), (["--help"], 0)],
)
def test_command_line(tmp_path: Path, arguments: list[str], code: int) -> None:
    run = ddpgen(*arguments, cwd=tmp_path)
    assert run.returncode == code
    assert "usage: ddpgen" in run.stdout + run.stderr
    assert "Traceback" not in run.stderr


def test_version(tmp_path: Path) -> None:
    text = ddpgen("--version", cwd=tmp_path).stdout
    assert text.startswith(f"ddpgen {__version__} (template v{__version__}; ")
    assert "Python>=3" in text
    assert "PyTorch>=2" in text


COMPLETIONS = {
    "ddpgen ": {"new", "update", "set"},
    "ddpgen n": {"new"},
    "ddpgen new --d": {"--data", "--defaults", "--dry-run"},
    "ddpgen new p --data mo": {"model="},
    "ddpgen new p --data model = g": {"gpt"},
    "ddpgen set amp =": {"off", "bf16", "fp16"},
    "ddpgen set check": {"checkpoint="},
}


@pytest.mark.parametrize("line", COMPLETIONS)
def test_completion(tmp_path: Path, line: str) -> None:
    """Words as bash splits them, with = as a word of its own."""
    script = ddpgen("completion", "bash", cwd=tmp_path).stdout
    words = line.split(" ")
    probe = f"""{script}
COMP_WORDS=({" ".join(f"'{word}'" for word in words)}) COMP_CWORD={len(words) - 1}
_ddpgen; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    run = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True)
    assert COMPLETIONS[line] <= set(run.stdout.split())
    begun = words[-1].removeprefix("=")
    assert all(word.startswith(begun) for word in run.stdout.split())


def test_address_of_the_page_gives_its_project_and_names_what_no_longer_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDPGEN_PAGE", "https://pages.example/make/#old")
    address = "http://127.0.0.1:1/token/#v=0.1.0&model=gpt&amp=fp8&gone=1"
    run = ddpgen("new", "vision", "--from", address, "--data", "nodes=1", cwd=tmp_path)
    assert run.returncode == 0
    assert run.stderr.splitlines()[:2] == [
        "ddpgen: amp=fp8: is not a choice (allowed: off, bf16, fp16); left out",
        "ddpgen: gone: there is no such option; left out",
    ]
    assert "ddpgen new vision --defaults --data model=gpt\n" in run.stdout
    assert (
        f"https://pages.example/make/#v={__version__}&project_name=vision&model=gpt\n" in run.stdout
    )


COMMANDS = ["new", "update", "set", "diff", "launch", "web", "options", "site", "check"]
COMMANDS += ["completion"]


def test_all_commands_are_tested_and_have_their_own_help(tmp_path: Path) -> None:
    text = ddpgen("--help", cwd=tmp_path).stdout
    assert re.findall(r"^ {4}(\w+)", text, re.MULTILINE) == COMMANDS
    for command in COMMANDS:
        run = ddpgen(command, "--help", cwd=tmp_path)
        assert run.returncode == 0
        assert run.stdout.startswith(f"usage: ddpgen {command} [-h] ")


def test_each_command_has_its_function() -> None:
    functions = {name for name in vars(commands) if name.startswith("run_")}
    assert functions == {f"run_{name}" for name in cli._COMMANDS} == {f"run_{c}" for c in COMMANDS}


def test_help_imports_what_its_parser_imports_and_no_more(tmp_path: Path) -> None:
    probe = """
import argparse, collections.abc, sys
argparse.ArgumentParser().format_help()
before = set(sys.modules)
from ddpgen.cli import main
try:
    main(["--help"])
finally:
    print("MORE", sorted(set(sys.modules) - before), file=sys.stderr)
"""
    command = [sys.executable, "-c", probe]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stderr == "MORE ['ddpgen', 'ddpgen.cli', 'ddpgen.errors', 'ddpgen.streams']\n"


@pytest.mark.parametrize("columns", ["", "0", "50", "200", "wide", "-3"])
@pytest.mark.parametrize("command", [[], ["update"]])
def test_help_is_as_wide_as_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str, command: list[str]
) -> None:
    """The same lines as where `argparse` finds the width by itself."""
    monkeypatch.setenv("COLUMNS", columns)
    probe = """
import sys
from ddpgen import cli
cli._formatter = lambda kind: kind
cli.main(sys.argv[1:])
"""
    text = subprocess.run(
        [sys.executable, "-c", probe, *command, "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ddpgen(*command, "--help", cwd=tmp_path).stdout == text


def test_help_fits_a_narrow_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with Terminal("update", "--help", cwd=tmp_path, columns=50) as terminal:
        assert terminal.finish() == 0
        wide = [line for line in terminal.text.splitlines() if len(line) > 48]
        assert "Merge what is new in the template" in terminal.text
        assert not wide


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        *([command, "--help"] for command in COMMANDS),
        *([command, "--nonsense"] for command in COMMANDS),
        ["nwe"],
        ["--version"],
        ["new", "p", "--defaults", "--data", "modell=gpt"],
        ["new", "p", "--defaults", "--data", "amp=fp8"],
        ["new", "p", "--defaults", "--data", "batch_norm=sync"],
        ["new", "p"],
        ["options"],
        ["completion", "bash"],
    ],
)
def test_answers_without_importing_copier_or_torch(tmp_path: Path, arguments: list[str]) -> None:
    probe = f"""
import sys
from ddpgen.cli import main
try:
    main({arguments!r})
finally:
    heavy = {{"copier", "torch", "questionary", "pydantic"}} & set(sys.modules)
    print("LOADED", sorted(heavy), file=sys.stderr)
"""
    run = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=600,
    )
    assert "LOADED []" in run.stderr


def test_new_says_what_to_do_next(tmp_path: Path) -> None:
    run = ddpgen("new", "my project", "--defaults", "--data", "clusters=slurm", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    for text in ("cd 'my project'", "pip install", "python train.py", "pytest", "launch/"):
        assert text in run.stdout
    saved = yaml.safe_load((tmp_path / "my project/.copier-answers.yml").read_text())
    assert saved["project_name"] == "my-project"
    assert saved["_src_path"] == "git+ddpgen://template"
    assert saved["_commit"] == f"v{__version__}"


def test_default_place_is_the_projects_name(tmp_path: Path) -> None:
    assert ddpgen("new", "--defaults", cwd=tmp_path).returncode == 0
    assert (tmp_path / "my-project/.copier-answers.yml").is_file()


def test_dry_run_lists_what_would_be_written(tmp_path: Path) -> None:
    listing = ddpgen("new", "a/p", "--defaults", "--dry-run", cwd=tmp_path)
    assert listing.returncode == 0, listing.stderr
    assert everything(tmp_path) == []
    ddpgen("new", "a/p", "--defaults", cwd=tmp_path)
    project = tmp_path / "a/p"
    files = [name for name in everything(project) if (project / name).is_file()]
    assert listing.stdout.splitlines() == files


def test_repeated_command_gives_the_same_project(tmp_path: Path) -> None:
    flags = ["model=resnet", "batch_norm=group", "clusters=local,slurm", "amp=off", "nodes=2"]
    data = [part for flag in flags for part in ("--data", flag)]
    run = ddpgen("new", "it's", "--defaults", *data, cwd=tmp_path)
    command = run.stdout.splitlines()[-1].strip()
    assert command.startswith("ddpgen new ")
    (tmp_path / "again").mkdir()
    again = subprocess.run(
        ["sh", "-c", f'ddpgen() {{ "$PYTHON" -m ddpgen "$@"; }}; {command}'],
        cwd=tmp_path / "again",
        env={**os.environ, "PYTHON": COMMAND[0]},
        check=True,
        capture_output=True,
        timeout=600,
    )
    assert again.returncode == 0
    first, second = tmp_path / "it's", tmp_path / "again" / "it's"
    assert everything(first) == everything(second)
    for name in everything(first):
        if (first / name).is_file():
            assert (first / name).read_bytes() == (second / name).read_bytes()


def test_users_copier_settings_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.yml"
    settings.write_text("defaults:\n  amp: fp16\n  project_name: other\n")
    monkeypatch.setenv("COPIER_SETTINGS_PATH", str(settings))
    ddpgen("new", "p1", "--defaults", cwd=tmp_path)
    assert "amp: bf16" in (tmp_path / "p1/.copier-answers.yml").read_text()


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_options_name_every_option_and_choice(tmp_path: Path, form: list[str]) -> None:
    text = ddpgen("options", *form, cwd=tmp_path).stdout
    for name, question in questions.load().questions.items():
        assert question.computed or name in text
        assert question.computed or question.help in text
        assert all(choice.words in text and choice.value in text for choice in question.choices)


def test_options_as_json(tmp_path: Path) -> None:
    records = json.loads(ddpgen("options", "--json", cwd=tmp_path).stdout)
    asked = [name for name, q in questions.load().questions.items() if not q.computed]
    assert [record["name"] for record in records] == asked
    for record in records:
        if record["when"] is not True:
            ast.parse(record["when"], mode="eval")


def in_shell(commands: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run what somebody types in a shell, in that folder."""
    return subprocess.run(
        ["sh", "-c", commands],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    run = in_shell(f"{COMMAND[0]} -m ddpgen options | true", tmp_path)
    assert run.stderr == ""


@pytest.mark.parametrize("words", ["options", "--version", "new p --defaults --dry-run"])
def test_output_that_cannot_be_written_is_said(words: str, tmp_path: Path) -> None:
    """As on a full disk, in one line."""
    run = in_shell(f"{COMMAND[0]} -m ddpgen {words} > /dev/full", tmp_path)
    assert run.returncode == 1
    assert run.stderr == "ddpgen: cannot write: No space left on device\n"


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", ">&-", "2>&-", "<&-"])
def test_streams_that_are_closed_lead_nowhere(closed: str, tmp_path: Path) -> None:
    """As under a scheduler: what is done well ends well, and no file takes what is said."""
    command = f"{COMMAND[0]} -m ddpgen new p --defaults {closed}"
    run = in_shell(command, tmp_path)
    assert run.returncode == 0, run.stderr
    (tmp_path / "other").mkdir()
    ddpgen("new", "p", "--defaults", cwd=tmp_path / "other")
    for path in map(Path, everything(tmp_path / "other/p")):
        if (tmp_path / "other/p" / path).is_file():
            assert (tmp_path / "p" / path).read_bytes() == (
                tmp_path / "other/p" / path
            ).read_bytes()


@pytest.mark.parametrize("words", [["--cluster", "slurm"], ["--cluster=slurm"]])
def test_cluster_that_is_written_as_an_option(words: list[str], tmp_path: Path) -> None:
    """The message says where the cluster stands."""
    run = ddpgen("launch", *words, cwd=tmp_path)
    assert run.returncode == 2
    assert "a cluster needs no option: ddpgen launch slurm" in run.stderr


def test_folder_that_is_gone_is_no_traceback(tmp_path: Path) -> None:
    """As where another terminal has removed it."""
    commands = f"mkdir gone && cd gone && rmdir ../gone && {COMMAND[0]} -m ddpgen new p --defaults"
    run = in_shell(commands, tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("ddpgen: the folder in which the command was started is gone")
