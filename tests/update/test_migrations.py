"""What versions moved is followed in a project's own files, whatever its user did to them."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpgen.errors import DdpgenError
from ddpgen.fetching import template_source
from ddpgen.renaming import migrations, new_names, rewriting
from ddpgen.updating import update
from update.lab import NEW, Lab

MOVED = {
    "loading": "engine.loading",
    "state": "engine.state",
    "tools.ledger": "tools.memory.ledger",
}

REWRITTEN = {
    "plain": ("import loading\n", "from engine import loading\n"),
    "as": ("import loading as l\n", "from engine import loading as l\n"),
    "several": (
        "import os, loading, state as s\n",
        "import os\nfrom engine import loading, state as s\n",
    ),
    "from": (
        "from loading import (\n    a,  # why\n    b,\n)\n",
        "from engine.loading import (\n    a,  # why\n    b,\n)\n",
    ),
    "star": ("from state import *\n", "from engine.state import *\n"),
    "out of a package": (
        "from tools import ledger, other\n",
        "from tools import other\nfrom tools.memory import ledger\n",
    ),
    "dotted": (
        "import tools.ledger\nprint(f'{tools.ledger.x} {tools.other}')\n",
        "import tools.memory.ledger\nprint(f'{tools.memory.ledger.x} {tools.other}')\n",
    ),
    "in a function": (
        "def f():\n    import state  # late\n",
        "def f():\n    from engine import state  # late\n",
    ),
    "behind a colon": ("if x: import state; y = 1\n", "if x: from engine import state; y = 1\n"),
    "by name": (
        'import_module("loading")\npatch("loading.plan", 1)\n',
        'import_module("engine.loading")\npatch("engine.loading.plan", 1)\n',
    ),
    "sorted block": (
        "import a\nimport loading\nimport model\nimport state\nfrom x import y\n\nz = 1\n",
        "import a\nimport model\nfrom engine import loading, state\nfrom x import y\n\nz = 1\n",
    ),
    "a comment stays at its import": (
        "import loading  # mine\nimport state\n",
        "from engine import loading  # mine\nfrom engine import state\n",
    ),
    "tabs and odd spaces": (
        "def f():\n\timport  loading\n\tx  =  1\n",
        "def f():\n\tfrom engine import loading\n\tx  =  1\n",
    ),
}
UNTOUCHED = [
    "import loadings, my.loading\nfrom my import loading\nfrom .loading import x\nloading = 1\n",
    "# import loading\ntext = 'import loading'\n",
    "",
]

LINES = ["", "# mine", "if x:", "y = 1", "pass"]


@pytest.mark.parametrize("case", REWRITTEN)
def test_imports_are_rewritten(case: str) -> None:
    before, after = REWRITTEN[case]
    assert rewriting.imports(before.encode(), MOVED).decode() == after


@pytest.mark.parametrize("text", UNTOUCHED)
def test_other_names_stay(text: str) -> None:
    assert rewriting.imports(text.encode(), MOVED) == text.encode()


@given(st.lists(st.tuples(st.sampled_from([0, 2, 4, 8]), st.sampled_from(LINES)), max_size=7))
def test_no_comment_or_blank_line_is_lost(lines: list[tuple[int, str]]) -> None:
    text = "import loading\n" + "\n".join(" " * indent + line for indent, line in lines)
    with suppress(rewriting.UnreadableError):
        after = rewriting.imports(text.encode(), MOVED).decode()
        assert after.splitlines()[1:] == text.splitlines()[1:]


@pytest.mark.parametrize("form", ["imports", "names", "exported"])
def test_what_is_not_python_is_an_error(form: str) -> None:
    old = {"loading": "engine.loading"}
    more = new_names.Names(old) if form == "names" else old
    with pytest.raises(rewriting.UnreadableError):
        getattr(rewriting, form)(b"import loading\nprint 'two'\n", more)


NAMES = new_names.Names(
    {"now": "state", "Window": "StepBatch"},
    {"now.done": "updates", "self.now": "state", "loading.Window": "StepBatch"},
    {"state.TrainState": "from engine.state import TrainState"},
)
RENAMED = {
    "variable and attribute": ("now.done += now.step\n", "state.updates += state.step\n"),
    "other objects": ("x.done = y.now()\n", "x.done = y.now()\n"),
    "in a text": ("f'{now.done:>3} now'\n", "f'{state.updates:>3} now'\n"),
    "keyword and parameter": ("def f(now): g(now=now)\n", "def f(state): g(state=state)\n"),
    "inside an object": ("self.now.done = 1\n", "self.state.updates = 1\n"),
    "class of a module": ("x: loading.Window\n", "x: loading.StepBatch\n"),
    "class itself": (
        "from engine import loading, state\nx: state.TrainState\n",
        "from engine import loading; from engine.state import TrainState\nx: TrainState\n",
    ),
}


@pytest.mark.parametrize("case", RENAMED)
def test_names_of_the_template_are_renewed(case: str) -> None:
    before, after = RENAMED[case]
    assert rewriting.names(before.encode(), NAMES).decode() == after


EXPORTED = {
    "of a module": ("import data\ndata.valid(x)\n", "import data\ndata.counts(x)\n"),
    "of another name": ("data = 1\ndata.valid(x)\n", "data = 1\ndata.valid(x)\n"),
    "under another name": ("import data as d\nd.valid\n", "import data as d\nd.counts\n"),
    "by itself": ("from data import valid\n", "from data import counts as valid\n"),
    "with others": ("from data import a, valid as v\n", "from data import a, counts as v\n"),
    "now inside of another": (
        "import config\nconfig.dump(x)\n",
        "import config\nconfig.settings.dump(x)\n",
    ),
    "by itself, and now inside of another": (
        "from config import load, dump as d, flat\n",
        "from config import load, settings; d = settings.dump; flat = settings.flat\n",
    ),
}
NEW_NAMES = {
    "data.valid": "counts",
    "config.dump": "settings.dump",
    "config.flat": "settings.flat",
}


@pytest.mark.parametrize("case", EXPORTED)
def test_names_in_users_files_are_renewed(case: str) -> None:
    before, after = EXPORTED[case]
    assert rewriting.exported(before.encode(), NEW_NAMES).decode() == after


def test_every_move_is_of_a_file_that_was_there_and_gives_one_that_is(
    lab: Lab, tmp_path: Path
) -> None:
    """No entry of the table is a slip: the old path was released, the new one is rendered."""
    tags = [*template_source.released()]
    everything = {
        tag: {
            path
            for number, answers in enumerate(({"tracker": "wandb"}, {"checkpoint": False}))
            for path in files(lab.project(tmp_path / f"{tag}{number}", tag, answers))
        }
        for tag in [*tags, NEW]
    }
    for migration in migrations.table():
        assert migration.reason
        before = [tag for tag in tags if tag < f"v{migration.version}"]
        for old in migration.moves:
            assert any(old in everything[tag] for tag in before), old
            assert old not in everything[NEW], old


def files(project: Path) -> set[str]:
    return {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}


def test_changelog_tells_every_reason() -> None:
    changelog = Path(__file__).parents[2].joinpath("CHANGELOG.md").read_text(encoding="utf-8")
    words = " ".join(changelog.split())
    for migration in migrations.table():
        assert migration.reason in words, migration.reason


SCRIPT = """import sys
sys.path.insert(0, '.')
import loading, hangs as h
print(loading.Plan.__name__, h.__name__)
"""


@pytest.fixture
def old(lab: Lab, tmp_path: Path) -> Path:
    """A project of 0.3.0 with files of its user."""
    project = lab.project(tmp_path / "old", "v0.3.0", {})
    (project / "scripts").mkdir()
    (project / "scripts/mine.py").write_text(SCRIPT)
    (project / "scripts/state.py").write_text("MINE = 1\n")
    (project / "scripts/beside.py").write_text("import state\nprint(state.MINE)\n")
    (project / "tests/test_mine.py").write_text(
        "import common\n\ndef test_mine() -> None:\n    assert common.SMALL\n"
    )
    path = project / "loading.py"
    path.write_text(path.read_text().replace("import hashlib\n", "import hashlib\nMINE = 1\n"))
    return project


def test_users_files_follow(lab: Lab, old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Imports in files of the user's are rewritten, each is listed, and the files run."""
    lab.commit(old)
    assert update.update(old, None, [], dry_run=False) == 0
    output = capsys.readouterr().out
    assert "rewritten scripts/mine.py:3: import loading, hangs as h -> " in output
    assert "beside.py" not in output, "a module beside the file comes first"
    assert "\nMINE = 1\n" in (old / "engine/loading.py").read_text()
    assert not (old / "loading.py").exists()
    for script, said in (("mine", "Plan engine."), ("beside", "1")):
        done = lab.run(sys.executable, f"scripts/{script}.py", cwd=old)
        assert done.stdout.startswith(said), done.stderr
    done = lab.run(sys.executable, "-m", "pytest", "-q", "tests/test_mine.py", cwd=old)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        ([], "put your lines into engine/checkpoint.py, and"),
        (["checkpoint=false"], "keep your file, or"),  # the new home is not there, either
    ],
)
def test_the_new_home_of_users_lines_is_named(
    data: list[str], advice: str, lab: Lab, old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines in a file that is part of another file now stay there until the user moves them."""
    with (old / "checkpoint_files.py").open("a") as file:
        file.write("MINE = 1\n")
    lab.commit(old)
    assert update.update(old, None, data, dry_run=False) == 1
    output = capsys.readouterr().out
    assert "CONFLICT engine/checkpoint_files.py (the template has no such file" in output
    assert f"for your answers: {advice} `git rm engine/checkpoint_files.py`)" in output
    assert "MINE = 1" in (old / "engine/checkpoint_files.py").read_text()


def test_dry_run_shows_all_and_changes_nothing(
    lab: Lab, old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.commit(old)
    assert update.update(old, None, [], dry_run=True) == 0
    output = capsys.readouterr().out
    assert "rewritten scripts/mine.py:3" in output
    assert "+from engine import failures as h, loading" in output
    assert lab.git("status", "--porcelain", cwd=old) == ""


def test_old_names_of_programs_work_until_the_next_update(lab: Lab, old: Path) -> None:
    lab.commit(old)
    assert update.update(old, "90.0.0", [], dry_run=False) == 0
    done = lab.run(sys.executable, "memory.py", "--help", cwd=old)
    assert done.returncode == 0, done.stderr
    assert "memory.py is now `python -m tools.memory`" in done.stderr
    lab.commit(old)
    assert update.change(old, ["amp=fp16"], dry_run=False) == 0
    assert (old / "memory.py").exists(), "that was no update"
    lab.commit(old)
    assert update.update(old, None, [], dry_run=False) == 0
    assert not (old / "memory.py").exists()


IMAGES = """import sys
from pathlib import Path
sys.path.insert(0, '.')
import data
from data import packed as p
print(data.find_images(Path('pictures')), data.Files.__name__, p.__name__)
"""


def test_images_have_a_module_of_their_own(lab: Lab, tmp_path: Path) -> None:
    """A user's files follow; an edit in data.py stays, and one in what moved is shown."""
    project = lab.project(tmp_path / "old", "v0.5.0", {"model": "resnet"})
    (project / "mine.py").write_text(IMAGES)
    (project / "pictures").mkdir()
    (project / "pictures/a.png").touch()
    data = project / "data.py"
    data.write_text(data.read_text().replace("IGNORE = -100", "MINE = 1\nIGNORE = -100"))
    lab.commit(project)
    assert update.update(project, None, [], dry_run=False) == 0
    assert "\nMINE = 1\n" in data.read_text()
    done = lab.run(sys.executable, "mine.py", cwd=project)
    assert done.stdout == "[PosixPath('pictures/a.png')] Files pack\n", done.stderr
    lab.git("reset", "--hard", "--quiet", cwd=project)
    lab.git("clean", "--force", "-d", "--quiet", cwd=project)
    text = data.read_text()
    data.write_text(text.replace("def _opaque(", "# mine: moved\ndef _opaque("))
    lab.commit(project)
    assert update.update(project, None, [], dry_run=False) == 1
    assert "# mine: moved" in data.read_text()


@pytest.mark.parametrize("place", ["engine/loading.py", "engine", "tests/support"])
def test_a_file_of_the_users_in_the_way_is_named(lab: Lab, old: Path, place: str) -> None:
    (old / place).parent.mkdir(exist_ok=True)
    (old / place).write_text("MINE = 2\n")
    lab.commit(old)
    with pytest.raises(DdpgenError, match=r"is in the way: .* moves there"):
        update.update(old, None, [], dry_run=False)
    assert lab.git("status", "--porcelain", cwd=old) == ""


def test_a_module_that_a_new_package_hides_is_named(
    lab: Lab, old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (old / "engine.py").write_text("MINE = 3\n")
    lab.commit(old)
    update.update(old, None, [], dry_run=False)
    assert "engine.py is hidden by the new package engine/" in capsys.readouterr().out


def test_compiled_files_and_folders_of_caches_do_not_matter(lab: Lab, old: Path) -> None:
    subprocess.run([sys.executable, "-m", "compileall", "-q", "."], cwd=old, check=True)
    lab.commit(old)
    assert update.update(old, None, [], dry_run=False) == 0
    assert lab.git("status", "--porcelain", "--", "tools", cwd=old)
    done = lab.run(sys.executable, "-c", "import loading", cwd=old)
    assert "No module named 'loading'" in done.stderr


@pytest.mark.parametrize("since", ["v0.3.0"])
def test_additions_to_every_moved_file_survive(
    lab: Lab, tmp_path: Path, since: str, request: pytest.FixtureRequest
) -> None:
    """A function at the end of each file, which a test of the user's uses before and after."""
    project = lab.project(tmp_path / "p", since, {"tracker": "tensorboard"})
    moves = {old: new for step in migrations.table() for old, new in step.moves.items()}
    there = [old for old in moves if (project / old).is_file() and "test_" not in old]
    uses = []
    for number, old in enumerate(there):
        path = project / old
        path.write_text(f"{path.read_text()}\n\ndef mine_{number}() -> int:\n    return {number}\n")
        module = migrations.module(old)
        uses.append(f"    import {module}\n\n    assert {module}.mine_{number}() == {number}\n")
    (project / "tests/test_mine.py").write_text(f"def test_mine() -> None:\n{''.join(uses)}")
    everything = request.config.getoption("--updates") == "all"
    tests = ("-m", "pytest", "-q", "-x", *([] if everything else ["tests/test_mine.py"]))
    assert lab.run(sys.executable, *tests, cwd=project).returncode == 0
    lab.commit(project)
    assert update.update(project, "0.4.0", [], dry_run=False) == 0
    done = lab.run(sys.executable, *tests, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
