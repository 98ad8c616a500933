"""Every distinct file of the product, in every variant that any combination of options gives it.

A small set of projects has them all, so that imports resolve and types meet: `projects` has all
pairs of values, and every two lines that follow each other in any text. `--programs=all` takes
every text. Launch files have options of their own: tests/clusters checks them.
"""

import ast
import io
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from jinja2 import meta
from packaging.requirements import Requirement

from ddpgen.asking import answers as asking
from ddpgen.asking import questions
from ddpgen.asking.answers import as_text
from ddpgen.asking.question import Answers, Value
from ddpgen.errors import DdpgenError
from ddpgen.rendering.render import files_of, render
from ddpgen.web.interface import Interface
from product import programs, reached, template
from product.combinations import identifier
from product.joined import Joined
from product.kept import kept

# Answers without choices, each with what a template could trip over.
FREE: dict[str, list[Value]] = {
    "project_name": ["Abc-1.x_y"],
    "nodes": [1, 2],
    "gpus_per_node": [1, 8],
    "micro_batch_size": [1, 1048576],
    "accumulation_steps": [2, 65536],
}
PYTHON = (".py", ".toml")  # whose projects these tests look at


@kept
def with_every_text(*endings: str) -> list[Answers]:
    """Few combinations that together have every distinct text of every file of these kinds."""
    return programs.few_with_all(programs.every(), _files(endings), lambda *text: [text])


@kept
def projects(*endings: str) -> list[Answers]:
    """All pairs of values, and every two lines that follow each other in any text of a file."""
    pairs, others = programs.every_pair(), with_every_text(*endings)
    return pairs + programs.few_with_all(others, _files(endings), _neighbours, pairs)


def _files(endings: tuple[str, ...]) -> list[str]:
    return [path for path in template.files() if path.endswith(endings)]


def _neighbours(path: str, text: str | None) -> Iterator[tuple[str, str, str]]:
    """Each two lines that follow each other in a file of the project."""
    return ((path, *pair) for pair in pairwise(["", *(text or "").splitlines(), ""]))


@pytest.fixture(scope="session")
def chosen(pytestconfig: pytest.Config) -> list[Answers]:
    """The projects whose files are looked at."""
    asked = pytestconfig.getoption("--programs")
    if asked == "few":
        return programs.every_pair()
    return (with_every_text if asked == "all" else projects)(*PYTHON)


@pytest.fixture(scope="session")
def distinct(tmp_path_factory: pytest.TempPathFactory, chosen: list[Answers]) -> list[Path]:
    """One file of every distinct text of theirs, each in its project with all that it imports."""
    folder = tmp_path_factory.mktemp("projects")
    found: dict[tuple[str, str], Path] = {}
    for answers in chosen:
        project = folder / identifier(answers)
        template.write(answers, project)
        for path, text in template.project(answers):
            found.setdefault((path, text), project / path)
    return list(found.values())


@pytest.fixture(scope="session")
def python(distinct: list[Path]) -> list[Path]:
    return [file for file in distinct if file.suffix == ".py"]


def test_files_put_together_are_those_that_copier_renders(tmp_path: Path) -> None:
    """The texts in these tests are the product's: byte for byte, file for file."""
    for number, answers in enumerate(programs.every_pair()):
        folder = tmp_path / str(number)
        render(answers, folder)
        content = dict(template.project(answers))
        assert files_of(folder) == sorted([*content, ".copier-answers.yml"])
        whole = template.TEXTS.project(answers)
        assert files_of(folder) == [*whole]
        for path, file in whole.items():
            assert (folder / path).read_bytes() == file.text.encode(), path
            assert os.access(folder / path, os.X_OK) == file.executable, path
            assert content.get(path, file.text) == file.text, path
        assert unpacked(packed(answers)) == {
            path: (f.text, f.executable) for path, f in whole.items()
        }


def packed(answers: Answers) -> bytes:
    """The zip that the page gives: byte for byte what is written, too."""
    texts = {name: as_text(value) for name, value in answers.items()}
    return Interface(template.TEXTS).archive(texts)


def unpacked(content: bytes) -> dict[str, tuple[str, bool]]:
    """Text and run bit of each file."""
    with zipfile.ZipFile(io.BytesIO(content)) as found:
        return {
            entry.filename.partition("/")[2]: (
                found.read(entry).decode(),
                bool(entry.external_attr >> 16 & 0o100),
            )
            for entry in found.infolist()
        }


def test_python_files_are_valid_and_carry_no_suppressions(python: list[Path]) -> None:
    forbidden = re.compile(r"\bnoqa\b|type: ignore|\bddpgen\b|pylint:|fmt: (off|skip)|\bpragma\b")
    for file in python:
        text = file.read_text()
        ast.parse(text, file)
        assert not (found := forbidden.search(text)), f"{file}: {found}"


def test_toml_files_are_valid(distinct: list[Path]) -> None:
    for file in distinct:
        if file.suffix == ".toml":
            tomllib.loads(file.read_text())


@pytest.mark.parametrize("path", ["config.toml", "pyproject.toml"])
@pytest.mark.parametrize("extreme", [0, -1])
def test_toml_files_take_any_number_and_name(
    path: str, extreme: int, chosen: list[Answers]
) -> None:
    free = {name: values[extreme] for name, values in FREE.items()}
    for answers in chosen:
        tomllib.loads(template.text(path, {**answers, **free}) or "")


def test_nothing_of_this_machine_or_day_is_in_a_file(distinct: list[Path]) -> None:
    found = re.compile(
        r"(?<![\w./$}])/(home|root|work|usr(?!/bin/env)|opt)/|\b20[0-9]{2}-[01][0-9]-|_src_path"
    )
    for file in distinct:
        assert not (hit := found.search(file.read_text())), f"{hit} in {file}"


def ruff(*arguments: str) -> None:
    """With each project's own settings: ruff takes those of the nearest pyproject.toml."""
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]


def test_python_files_are_formatted(python: list[Path]) -> None:
    ruff("format", "--check", "--quiet", *map(str, python))


def test_python_files_are_clean(python: list[Path]) -> None:
    ruff("check", "--quiet", *map(str, python))


def test_functions_and_files_are_short(python: list[Path]) -> None:
    for file in python:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} in {file}"


def test_no_local_name_hides_an_import(python: list[Path]) -> None:
    """A reader of `place.check` knows which `place` is meant."""
    for file in python:
        tree = ast.parse(file.read_text())
        imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = {alias.asname or alias.name for node in imports for alias in node.names}
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.Lambda):
                assert not (hidden := modules & _bound(function)), f"{hidden} in {file}"


def _bound(function: ast.AST) -> set[str]:
    """The names to which a function gives values, its parameters among them."""
    nodes = list(ast.walk(function))
    names = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names | {node.arg for node in nodes if isinstance(node, ast.arg)}


def test_where_it_runs_does_not_touch_how_it_trains() -> None:
    """No training file reads a question about clusters; copier, asked, writes the same bytes."""
    where = {"clusters", "network", "interface", "rdma_cards", "container", "container_image"}
    where |= {"time_limit", "partition", "account", "gpu_type", "cpus_per_gpu"}
    for path in programs.training_files():
        assert not template.reads(path) & where, path


def test_where_it_runs_leaves_training_files_as_they_are(tmp_path: Path) -> None:
    where: list[Answers] = [
        {"clusters": ["local"]},
        {"clusters": ["slurm", "pbs", "lsf"], "container": "apptainer", "network": "infiniband"},
        {"clusters": ["kubernetes", "ssh"], "container": "docker", "network": "efa"},
    ]
    training: Answers = {"model": "gpt", "tracker": "mlflow", "compression": True}
    training["tools"] = ["preflight", "memory", "scaling", "profile", "predict", "checkpoints"]
    texts: set[tuple[str, ...]] = set()
    for number, answers in enumerate(where):
        folder = tmp_path / str(number)
        render({**answers, **training}, folder)
        # Some files are another model's.
        files = [file for path in programs.training_files() if (file := folder / path).exists()]
        texts.add(tuple(file.read_text() for file in files))
    assert len(texts) == 1


def test_an_option_that_is_off_leaves_no_trace(chosen: list[Answers]) -> None:
    """Absence is tested like presence: words that only a chosen option may bring."""
    words = {
        "accumulation": r"accumulation|no_sync",
        "activation_checkpointing": r"recompute|torch\.utils\.checkpoint",
        "checkpoint": r"\bcheckpoint\.|REQUEUE",
        "dynamic_graph": r"find_unused|layer_drop",
        "watch": r"\bwatch\b",
    }
    for answers in chosen:
        code = [template.text(path, answers) or "" for path in programs.training_files()]
        for option, pattern in words.items():
            if not answers.get(option):
                assert not (hit := re.search(pattern, "\n".join(code))), f"{answers}: {hit}"
        if answers.get("saves") != "background":
            assert not re.search(r"\bbackground\b|_Hashing", "\n".join(code)), answers
        other = r"\bDDP\b" if answers.get("sharding") in ("fsdp", "hsdp") else r"FSDP|DTensor"
        assert not (hit := re.search(other, "\n".join(code))), f"{answers}: {hit}"
        if answers.get("saves") != "shards":
            assert not re.search(r"\bfolders\.[a-z]|is_meta", "\n".join(code)), answers


def test_nothing_is_there_that_nothing_comes_to() -> None:
    """No function, class or constant is left of an option that was not chosen."""
    clusters = questions.load().questions["clusters"].choices
    launched: list[Answers] = [
        {"clusters": [cluster.value], "nodes": 2, "checkpoint": saves, "tools": []}
        for cluster in clusters
        for saves in (True, False)
    ]
    for answers in [*programs.every_pair(), *launched]:
        files = {path: text for path, text in template.project(answers) if path.endswith(".py")}
        assert not (idle := reached.unreached(files)), f"{answers}: {idle}"


# Words about runs that go on, and about what they go on from.
GOES_ON = re.compile(
    r"\bcheckpoints?\b|\bresum(e|es|ed|ing)\b|\brestart(s|ed|ing)?\b(?!=0)|\ba requeue\b"
    r"|start before|, saves\b|\bsaving\b|save and end|, save,|another job's run",
    re.IGNORECASE,
)


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "mlflow"])
@pytest.mark.parametrize("sharding", ["off", "fsdp"])
def test_project_without_checkpoints_speaks_of_none(tracker: str, sharding: str) -> None:
    """No comment, message or page promises that a run goes on which cannot, or waits for a save."""
    watch = ["spikes", "ranks", "speed"] + ["replicas"] * (sharding == "off")
    tools = ["preflight", "memory", "scaling", "profile"]
    answers = {"model": "gpt", "checkpoint": False, "watch": watch, "tools": tools, "nodes": 2}
    answers |= {
        "tracker": tracker,
        "sharding": sharding,
        "clusters": ["ssh", "slurm", "pbs", "lsf"],
    }
    for path, text in template.project(answers):
        own = path.startswith("tests/") or path.endswith((".yml", ".ignore"))
        assert own or not (hit := GOES_ON.search(text)), f"{path}: {hit}"


def test_readme_names_only_files_that_are_there() -> None:
    for answers in programs.every_pair():
        names = set(
            re.findall(
                r"`([a-z_]+/?[a-z_]*\.(?:py|toml))`", template.text("README.md", answers) or ""
            )
        )
        missing = [name for name in names if template.text(name, answers) is None]
        assert not missing, f"{answers}: {missing}"


def test_readme_names_only_keys_that_are_there() -> None:
    """Also those that bring data of the user's own, which each family has others of."""
    for answers in programs.every_pair():
        config = tomllib.loads(template.text("config.toml", answers) or "")
        keys = {f"{section}.{key}" for section, values in config.items() for key in values}
        named = set(re.findall(r"\b([a-z]+\.[a-z_]+)=", template.text("README.md", answers) or ""))
        assert "optim.lr" in named
        assert named <= keys, f"{answers}: {named - keys}"


WAYS = {  # to start the checks in a job
    "slurm": 'with `PROGRAM="-m tools.preflight"` before the command |',
    "kubernetes": "in Kubernetes by `{name: PROGRAM, ",
    "skypilot": "in SkyPilot by `--env PROGRAM=",
}


def test_readme_says_how_checks_start_in_a_job() -> None:
    """A variable of the shell reaches a job of a scheduler, and neither pods nor a cloud."""
    for cluster in WAYS:
        answers: Answers = {"clusters": [cluster], "nodes": 2, "tools": ["preflight"]}
        text = template.text("README.md", answers) or ""
        assert {name for name, way in WAYS.items() if way in text} == {cluster}


def test_readme_says_what_a_checkpoint_holds() -> None:
    for answers in programs.every_pair():
        whole = answers.get("sharding") in ("fsdp", "hsdp") and answers.get("checkpoint", True)
        whole = whole and answers.get("saves") != "shards"
        text = template.text("README.md", answers) or ""
        assert ("holds whole tensors" in text) == whole, answers


def test_no_project_is_called_like_a_package_that_it_needs() -> None:
    """Pip would take the project for the package; each name is refused, however it is spelled."""
    needed = set()
    for row in programs.every_pair():
        project = tomllib.loads(template.text("pyproject.toml", row) or "")["project"]
        extras = project.get("optional-dependencies", {}).values()
        needed |= {Requirement(line).name for line in sum(extras, project["dependencies"])}
    assert {"torch", "ruff"} <= needed
    questionnaire = questions.load()
    for name in needed:
        with pytest.raises(DdpgenError, match="name of a package"):
            asking.resolve(questionnaire, {"project_name": name.replace("-", "_").title()})


def templates() -> list[str]:
    names = template.ENVIRONMENT.list_templates()
    return [name for name in names if name.startswith("project/") and name.endswith(".jinja")]


@pytest.mark.parametrize("name", templates())
def test_only_what_varies_is_a_template(name: str) -> None:
    source = (template.TEMPLATE / name).read_text()
    assert template.INCLUDE.search(source) or meta.find_undeclared_variables(
        template.ENVIRONMENT.parse(source)
    )


def test_types(tmp_path: Path, chosen: list[Answers], pytestconfig: pytest.Config) -> None:
    """Mypy, strict: whole projects with every value of each option, and what others have besides.

    With all programs, whole projects with every pair of values.
    """
    joined = Joined()
    asked = pytestconfig.getoption("--programs")
    wholes = programs.every_pair() if asked == "all" else programs.every_value()
    parts = [(answers, False) for answers in chosen]
    for answers, whole in [*((answers, True) for answers in wholes), *parts]:
        files = {path: text for path, text in template.project(answers) if path.endswith(".py")}
        joined.add(files, identifier(answers), whole)
    texts = {template.text("pyproject.toml", answers) or "" for answers in chosen}
    assert len({text.partition("[tool.mypy]")[2] for text in texts}) == 1, "one run serves all"
    settings = tmp_path / "pyproject.toml"
    settings.write_text(min(texts))
    said = joined.types(tmp_path / "modules", settings)
    assert not said, "\n".join(said)[:5000]
