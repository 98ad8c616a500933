"""Random edits of a user, then an update: no line is lost, nothing ends in a traceback."""

import ast
import compileall
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ddpgen.errors import DdpgenError
from ddpgen.renaming import migrations
from ddpgen.updating import update
from update.lab import ADDED, CHANGED_IN_NEW, DELETED, OLD, RENAMED_FROM, RENAMED_TO, Lab

MOVED = [old for migration in migrations.table() for old in migration.moves]
FILES = [*CHANGED_IN_NEW, DELETED, RENAMED_FROM, "data.py", ".gitignore", *MOVED]
IMPORTED = [old for old in MOVED if "test_" not in old]  # as modules, by files of the user's
PLACES = [
    "engine/loading.py",
    "mine.py",
    "deep/er/mine.txt",
    "steps2.py",
    ADDED,
    RENAMED_TO,
    "launch/mine.env",
    "train",
]
SINCE = ["v0.2.0", "v0.3.0", OLD]
CONTENT = st.sampled_from(["", "word", "    x = 1", "ï ✓", "<<<<<<< yours", "=======", "\t# {% if"])

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.sampled_from(FILES), st.integers(0, 120), CONTENT),
        st.tuples(st.just("insert"), st.sampled_from(FILES), st.integers(0, 120), CONTENT),
        st.tuples(st.just("cut"), st.sampled_from(FILES), st.integers(0, 120), st.integers(1, 40)),
        st.tuples(st.just("move"), st.sampled_from(FILES), st.integers(0, 120), st.integers(0, 60)),
        st.tuples(st.just("delete"), st.sampled_from(FILES)),
        st.tuples(st.just("rename"), st.sampled_from(FILES), st.sampled_from(PLACES)),
        st.tuples(st.just("add"), st.sampled_from(PLACES), CONTENT),
        st.tuples(st.just("folder"), st.sampled_from(["train.py", "tests", "launch"])),
        st.tuples(st.just("link"), st.sampled_from(FILES)),
        st.tuples(st.just("use"), st.sampled_from(IMPORTED)),
        st.tuples(st.just("compile"), st.sampled_from(["", "tests", "tools"])),
    ),
    min_size=1,
    max_size=6,
)


def edit(project: Path, number: int, operation: str, name: str, *how: object) -> None:
    """Apply one edit where it is possible; every line that is written can be told apart."""
    path = project / name
    mine = f"mine {number}"
    if operation == "add":
        if _free(path) and not path.is_dir():
            path.write_text(f"{how[0]}{mine}\n{how[0]}\n")
    elif operation == "folder" and path.is_dir():
        shutil.move(path, path.with_name(f"{path.name}_moved"))
    elif operation == "use" and path.is_file():
        folder = project / "tests" if name.startswith("tests/") else project
        module = migrations.module(name)
        (folder / f"uses_{number}.py").write_text(f"import {module} as used  # {mine}\n")
    elif operation == "compile":
        compileall.compile_dir(path, quiet=2)  # which git ignores, unless the user wants otherwise
    elif path.is_file() and not path.is_symlink() and operation != "use":
        if operation in {"change", "insert", "cut", "move"}:
            _edit_lines(path, mine, operation, *how)
        elif operation == "rename":
            target = project / str(how[0])
            if not target.exists() and _free(target):
                path.rename(target)
        else:
            _replace(path, mine, operation)


def _replace(path: Path, mine: str, operation: str) -> None:
    path.unlink()
    if operation == "link":
        path.symlink_to("config.toml")
    elif operation == "folder":
        path.mkdir()
        (path / "inside.txt").write_text(f"{mine}\n")


def _free(path: Path) -> bool:
    """Make the folder of a path, if nothing is in the way."""
    with suppress(FileExistsError, NotADirectoryError):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path.parent.is_dir()


def _edit_lines(path: Path, mine: str, operation: str, number: object, how: object) -> None:
    lines = path.read_text().splitlines()
    line = min(int(str(number)), len(lines))
    if operation == "change":
        lines[line : line + 1] = [f"{how}{mine}"]
    elif operation == "insert":
        lines[line:line] = [f"{how}{mine}", f"{how}{mine} too"]
    else:
        block, rest = (
            lines[line : line + int(str(how))],
            lines[:line] + lines[line + int(str(how)) :],
        )
        lines = rest if operation == "cut" else block + rest
    path.write_text("".join(f"{text}\n" for text in lines))


def mine(project: Path) -> set[str]:
    """All lines that the user wrote and that are there; of an import, what an update keeps."""
    return {
        re.sub(".*import .* as used ", "", line)
        for path in project.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(project).parts
        for line in (path.read_text().splitlines() if path.suffix != ".pyc" else ())
        if re.search(r"mine \d", line)
    }


def found(project: Path) -> set[str]:
    """The user's files whose import names a module that is there."""
    return {
        path.name
        for path in project.rglob("uses_*.py")
        for module in imported(path)
        for place in (project / f"{module}.py", project / "tests" / f"{module}.py")
        if place.is_file() or place.is_symlink()
    }


def imported(path: Path) -> list[str]:
    """The modules that a file imports, as paths without suffix."""
    names = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [name.replace(".", "/") for name in names]


def test_no_line_of_the_user_is_lost(
    lab: Lab,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    say: Callable[[str], None],
) -> None:
    for tag in SINCE:
        lab.commit(lab.project(tmp_path / tag, tag, {}))
    project = tmp_path / "p"
    outcomes: dict[str, int] = {}

    @settings(
        max_examples=request.config.getoption("--edits"),
        deadline=None,
        database=None,
        phases=[Phase.generate],  # shrinking would take an hour
        suppress_health_check=list(HealthCheck),
    )
    @given(OPERATIONS, st.booleans(), st.sampled_from(SINCE))
    def check(operations: list[tuple[object, ...]], change: bool, since: str) -> None:
        shutil.rmtree(project, ignore_errors=True)
        shutil.copytree(tmp_path / since, project, symlinks=True)
        for number, (operation, name, *how) in enumerate(operations):
            edit(project, number, str(operation), str(name), *how)
        lab.commit(project)
        before, importing = mine(project), found(project)
        capsys.readouterr()
        try:
            if change:
                code = update.change(project, ["amp=fp16", "checkpoint=false"], dry_run=False)
            else:
                code = update.update(project, None, [], dry_run=False)
        except DdpgenError as error:
            code = error.exit_code
            outcomes[error.reason] = outcomes.get(error.reason, 0) + 1
        output = capsys.readouterr()
        outcomes[f"exit {code}"] = outcomes.get(f"exit {code}", 0) + 1
        gone = before - mine(project)
        assert not gone, f"{gone}\n{output.out}"
        assert change or importing <= found(project), "an import names a module that has moved"
        assert code in {0, 1, 2}
        assert (code == 1) == bool(re.search(r"^(CONFLICT|skipped) ", output.out, re.MULTILINE))
        if "To undo: " in output.err:
            undo = output.err.partition("To undo: ")[2].strip()
            subprocess.run(undo, shell=True, check=True, capture_output=True)
        assert lab.git("status", "--porcelain", cwd=project) == ""

    check()
    say(f"random edits, each followed by an update, no line lost: {outcomes}")
