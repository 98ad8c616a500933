"""A project that its user goes on with passes its own tests after an update, as before."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from product.forkserver import ONE_THREAD
from product.preloaded import run_tests

from ddpgen.asking.question import Answers
from ddpgen.fetching import template_source
from ddpgen.renaming import migrations
from ddpgen.updating import update
from update.lab import OLD, Lab

PROJECTS: dict[str, Answers] = {
    "plain": {},
    "cluster": {"clusters": ["local", "slurm"], "nodes": 2, "gpus_per_node": 4, "amp": "fp16"},
    "gpt": {"model": "gpt", "accumulation": True},
    "resnet": {"model": "resnet"},
}
TEST = """
import {module} as used


def test_mine_{number}() -> None:
    assert used.mine_{number}(2) == {number} + 2
"""
FUNCTION = """

def mine_{number}(more: int) -> int:
    return {number} + more
"""
# With the base between both sides, as an update marks it.
CONFLICT = re.compile(
    r"<<<<<<< .*\n(?P<mine>(?:.*\n)*?)(?:\|{7} .*\n(?:.*\n)*?)?"
    r"=======\n(?P<theirs>(?:.*\n)*?)>>>>>>> .*\n"
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    released = [*template_source.released()]
    cases = [(tag, project) for tag in released for project in PROJECTS]
    if metafunc.config.getoption("--updates") == "some":
        cases = [(released[-2], "plain")]
    metafunc.parametrize(("tag", "project"), cases)


def test_own_tests_pass_as_before(
    lab: Lab,
    tmp_path: Path,
    chance: random.Random,
    forked: Path,
    say: Callable[[str], None],
    request: pytest.FixtureRequest,
    tag: str,
    project: str,
) -> None:
    """Functions in some of the template's files, tests that use them, and other small edits.

    All own tests with `--updates=all`, else those of what is the user's: the others are the
    template's, as test_equality.py shows.
    """
    folder = lab.project(tmp_path / "p", tag, PROJECTS[project])
    for number in range(chance.randint(2, 5)):
        extend(folder, number, chance)
    for edit in (widen, note, ignore):
        edit(folder, chance)
    lab.commit(folder)
    before = lab.git("rev-parse", "HEAD", cwd=folder)
    code = update.update(folder, OLD[1:], [], dry_run=False)
    conflicts = resolve(folder)
    assert (code == 0) == (not conflicts)
    say(f"own tests after an update: {tag} {project}, {conflicts} conflicts")
    pattern = "tests" if request.config.getoption("--updates") == "all" else "tests/test_*.py"
    if after := own_tests(folder, forked, pattern):
        lab.git("add", "--all", cwd=folder)  # git keeps nothing aside that is not resolved
        lab.git("stash", cwd=folder)
        assert lab.git("rev-parse", "HEAD", cwd=folder) == before
        assert own_tests(folder, forked, pattern), f"{folder}: passed before the update\n{after}"
        say(f"own tests after an update: {tag} {project} failed before, too")


def resolve(folder: Path) -> int:
    """Resolve conflicts as their user would: the template's lines, then the user's functions.

    Functions in a file that the template no longer has go into that of which the file is part now.
    """
    merged = {old: new for step in migrations.table() for old, new in step.merged.items()}
    there = {old: new for old, new in merged.items() if (folder / old).is_file()}
    for old, new in there.items():
        with (folder / new).open("a") as home:
            home.write(functions((folder / old).read_text()))
        (folder / old).unlink()
    count = len(there)
    for path in folder.rglob("*"):
        if path.suffix in {".py", ".toml"} and "<<<<<<<" in (text := path.read_text()):
            text, number = CONFLICT.subn(both, text)
            path.write_text(text)
            count += number
    return count


def both(conflict: re.Match[str]) -> str:
    """The template's side, and the functions on the user's."""
    return conflict["theirs"] + functions(conflict["mine"])


def functions(text: str) -> str:
    """The user's functions in a text, which may begin with one."""
    wanted = re.escape(FUNCTION.strip()).replace(r"\{number\}", r"\d+")
    return "".join(f"\n\n{found}\n" for found in re.findall(wanted, text))


def own_tests(folder: Path, forked: Path, pattern: str) -> str:
    """The end of the output of these tests where one fails, else nothing."""
    outcome = run_tests(
        folder,
        ["-q", "-x", "-p", "no:cacheprovider", *map(str, sorted(folder.glob(pattern)))],
        {"WANDB_MODE": "offline", **ONE_THREAD},
        seconds=900,
        python=forked / "python",
    )
    return outcome.output[-6000:] if outcome.code else ""


def extend(folder: Path, number: int, chance: random.Random) -> None:
    """A function at the end of a file of the template, and a test of the user's for it."""
    moved = {old for step in migrations.table() for old in step.moves}
    names = [name for name in sorted(moved | {"model.py", "data.py"}) if fits(folder / name)]
    name = chance.choice(names)
    with (folder / name).open("a") as file:
        file.write(FUNCTION.format(number=number))
    text = TEST.format(module=migrations.module(name), number=number)
    (folder / f"tests/test_mine_{number}.py").write_text(text)


def fits(path: Path) -> bool:
    """Whether a file is a module that takes another function."""
    return path.is_file() and path.suffix == ".py" and "test_" not in path.name


def widen(folder: Path, chance: random.Random) -> None:
    """Other values in the config."""
    path = folder / "config.toml"
    text = path.read_text()
    found = re.findall(r"(?m)^(?:weight_decay|seed|epochs|keep) = .*$", text)
    line = chance.choice(found)
    value = line.partition("=")[2].split("#")[0].strip()
    other = value.replace("0", "1", 1) if "." in value else str(int(value) + 1)
    path.write_text(text.replace(line, line.replace(f"= {value}", f"= {other}", 1), 1))


def note(folder: Path, chance: random.Random) -> None:
    """A comment before one of the definitions of a file that users edit."""
    path = folder / chance.choice(["train.py", "steps.py", "model.py", "optim.py"])
    lines = path.read_text().splitlines()
    place = chance.choice(
        [n for n, line in enumerate(lines) if line.startswith(("def ", "class "))]
    )
    path.write_text("\n".join([*lines[:place], "# Mine.", *lines[place:], ""]))


def ignore(folder: Path, chance: random.Random) -> None:
    """A folder of the user's that git does not see."""
    with (folder / ".gitignore").open("a") as file:
        file.write(f"/mine_{chance.randint(0, 9)}/\n")
    (folder / "scripts").mkdir()
    (folder / "scripts/mine.py").write_text("import model\n\nprint(model.__name__)\n")
