"""What docs/adding-an-option.md says is enough: a family, an option and a network are added so.

In a copy of the tree, at the places that the page names and nowhere else.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from product.forkserver import ONE_THREAD

ROOT = Path(__file__).resolve().parents[2]
RINGS = Path(__file__).with_name("added") / "rings"

QUESTION = """say_seconds:
  type: bool
  help: Say at the end how long the run took?
  default: false

tracker:
"""
EXCLUDED = """  - "{{ '' if say_seconds | default(false) else '/tests/engine/test_seconds.py' }}"
  - "{{ '' if tracker"""
SEAM = """        # {% if say_seconds %}
        self.say(f"took {time.perf_counter() - self.begin:.0f} seconds")
        # {% endif %}
        self.say(f"metrics and curves"""
BEGIN = """        # {% if say_seconds %}
        self.begin = time.perf_counter()
        # {% endif %}
        self.last, self.counted = """
TEST = '''"""The last lines of a run."""

from pathlib import Path

import pytest

import train
from engine import distributed
from support import common


def test_seconds_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cfg = common.settings(tmp_path, "train.max_steps=1", "ddp.device=cpu")
    with distributed.session(cfg.ddp) as process:
        train.train(cfg, process)
    assert "took 0 seconds" in capsys.readouterr().out
'''
CHOICE = '    "my own model and data'
ETHERNET = '    "Ethernet (TCP)": ethernet\n'
SIZE = '    "rings": ["model.width=512", "train.global_batch_size=64"],\n'
EDITS = {
    "template/copier.yml": [
        (CHOICE, f'    "points of three rings": rings\n{CHOICE}'),
        ("tracker:\n", QUESTION),
        ("  - \"{{ '' if tracker", EXCLUDED),
        (ETHERNET, f'{ETHERNET}    "Pigeons": pigeons\n'),
    ],
    "template/project/engine/report.py.jinja": [
        ('        self.say(f"metrics and curves', SEAM),
        ("        self.last, self.counted = ", BEGIN),
    ],
    # What tests know of each family: step 4 of the page.
    "tests/product/test_memory.py": [
        (
            "SIZES = {\n",
            f"SIZES = {{\n{SIZE}",
        ),
        ('MICRO = {"mlp"', 'MICRO = {"rings": 8, "mlp"'),
    ],
}
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
PIGEONS = "# Pigeons carry what TCP carries.\nNCCL_NET=Socket\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree to which all three were added."""
    copy = tmp_path_factory.mktemp("adding") / "ddpgen"
    copy.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__", ".*_cache")
    for name in ("ddpgen", "template", "tests", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=unwanted)
    shutil.copy(ROOT / "pyproject.toml", copy)
    shutil.copytree(RINGS, copy / "template/parts/rings")
    (copy / "template/parts/network/pigeons.env").write_text(PIGEONS)
    (copy / "template/project/tests/engine/test_seconds.py").write_text(TEST)
    for path, edits in EDITS.items():
        text = (copy / path).read_text(encoding="utf-8")
        for old, new in edits:
            assert text.count(old) >= 1, old
            text = text.replace(old, new, 1)
        (copy / path).write_text(text, encoding="utf-8")
    return copy


def run(tree: Path, *command: str | Path, cwd: Path | None = None) -> str:
    """Run Python on the copy; it has to succeed."""
    search = os.pathsep.join([str(tree), str(tree / "tests")])
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd or tree,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def generate(tree: Path, dest: Path, *answers: str) -> Path:
    """A project of the copy."""
    data = [part for answer in answers for part in ("--data", answer)]
    run(tree, "-m", "ddpgen", "new", dest, "--defaults", *data)
    return dest


def test_family_and_option(tree: Path, tmp_path: Path) -> None:
    """They are generated, clean, typed, trained on two processes, and tested."""
    project = generate(tree, tmp_path / "project", "model=rings", "say_seconds=true")
    look(tree, project)
    said = run(tree, "train.py", "--processes", "2", "run.name=rings", cwd=project)
    assert said.count("step ") > 10
    assert "seconds" in said
    mine = ("tests/engine/test_seconds.py", "tests/test_data.py", "tests/test_model.py")
    assert " passed" in run(tree, *PYTEST, *mine, cwd=project)


def test_family_with_all_that_is_asked(tree: Path, tmp_path: Path) -> None:
    """The project passes all of its own tests."""
    wanted = [f"{name}=true" for name in ("accumulation", "activation_checkpointing")]
    wanted += ["dynamic_graph=true", "amp=fp16", "sharding=zero1", "tools=memory"]
    project = generate(tree, tmp_path / "project", "model=rings", *wanted)
    look(tree, project)
    assert " passed" in run(tree, *PYTEST, cwd=project)


def look(tree: Path, project: Path) -> None:
    """A project is formatted, clean and typed."""
    run(tree, "-m", "ruff", "check", ".", cwd=project)
    run(tree, "-m", "ruff", "format", "--check", ".", cwd=project)
    run(tree, "-m", "mypy", ".", cwd=project)


def test_network(tree: Path, tmp_path: Path) -> None:
    """Its variables are in the launch files, with their reason."""
    chosen = ("clusters=slurm", "nodes=2", "network=pigeons")
    project = generate(tree, tmp_path / "project", *chosen)
    assert PIGEONS.strip() in (project / "launch/nccl.env").read_text(encoding="utf-8")


OURS = {
    "product/test_equality.py": "rings",
    "product/test_memory.py": "rings",
    "product/test_programs.py": "rings",
    "product/test_files.py": "put_together or readme or trace or varies",
    "product/test_parts.py": "test",
    "generator/test_questions.py": "not agrees",
}


@pytest.mark.thorough
def test_our_own_tests_know_them(tree: Path) -> None:
    """Nothing but the page's places knows families, options and networks by name."""
    files = [f"tests/{file}" for file in OURS]
    words = " or ".join(f"({Path(file).stem} and ({word}))" for file, word in OURS.items())
    said = run(tree, *PYTEST, "--programs=few", "-k", words, "--durations=9", *files)
    assert " passed" in said
    print(said)
