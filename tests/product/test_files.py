"""Every distinct file of the product, in every variant that any combination of options gives it.

A small set of projects has them all: `projects` covers every distinct text at least once, so that
imports resolve and types meet. Launch files have options of their own: tests/clusters checks them.
"""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import jinja2.nodes
import pytest

from ddpgen.questions import Answers, Value
from ddpgen.render import files_of, render
from product import programs, template
from product.combinations import combinations, cover, identifier, pairs
from rendering import compile_once

# Answers without choices, each with what a template could trip over.
FREE: dict[str, list[Value]] = {
    "project_name": ["Abc-1.x_y"],
    "nodes": [1, 2],
    "gpus_per_node": [1, 8],
    "micro_batch_size": [1, 1048576],
    "accumulation_steps": [2, 65536],
}
DIRECTIVE = re.compile(r"^\s*# \{%")


def is_launch(path: str) -> bool:
    return path.startswith("launch/")


@cache
def projects() -> list[Answers]:
    """Few combinations that together have every distinct text of every file but launch files."""
    every = combinations(programs.options())
    numbers: dict[tuple[str, str], int] = {}
    return [
        every[index]
        for index in cover(
            [
                {numbers.setdefault(file, len(numbers)) for file in template.project(row)}
                for row in every
            ]
        )
    ]


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All these projects, side by side."""
    folder = tmp_path_factory.mktemp("projects")
    for answers in projects():
        template.write(answers, folder / identifier(answers))
    return folder


def test_files_put_together_are_those_that_copier_renders(tmp_path: Path) -> None:
    """The texts in these tests are the product's: byte for byte, file for file."""
    with compile_once():
        for number, answers in enumerate(pairs(combinations(programs.options()))):
            folder = tmp_path / str(number)
            render(answers, folder)
            content = dict(template.project(answers))
            assert files_of(folder) == sorted([*content, ".copier-answers.yml"])
            for path, text in content.items():
                assert (folder / path).read_text() == text, path


def test_python_files_are_valid_and_carry_no_suppressions(tree: Path) -> None:
    forbidden = re.compile(r"\bnoqa\b|type: ignore|\bddpgen\b|pylint:|fmt: (off|skip)|\bpragma\b")
    for file in tree.rglob("*.py"):
        text = file.read_text()
        ast.parse(text, file)
        assert not (found := forbidden.search(text)), f"{file}: {found}"


def test_toml_files_are_valid(tree: Path) -> None:
    for file in tree.rglob("*.toml"):
        tomllib.loads(file.read_text())


@pytest.mark.parametrize("path", ["config.toml", "pyproject.toml"])
def test_toml_files_take_any_number_and_name(path: str) -> None:
    others = {name: FREE[name] for name in template.reads(path) if name in FREE}
    for answers in combinations(template.reads(path), others):
        tomllib.loads(template.text(path, answers) or "")


def test_nothing_of_this_machine_or_day_is_in_a_file(tree: Path) -> None:
    found = re.compile(
        r"(?<![\w.])/(home|root|work|tmp|usr|opt)/|\b20[0-9]{2}-[01][0-9]-|_src_path"
    )
    texts = {file.read_text() for file in tree.rglob("*") if file.is_file()}
    for text in texts:
        assert not (hit := found.search(text)), f"{hit} in\n{text}"


def ruff(*arguments: str) -> None:
    """With each project's own settings: ruff takes those of the nearest pyproject.toml."""
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]


def test_python_files_are_formatted(tree: Path) -> None:
    ruff("format", "--check", "--quiet", str(tree))


def test_python_files_are_clean(tree: Path) -> None:
    ruff("check", "--quiet", str(tree))


def test_functions_and_files_are_short(tree: Path) -> None:
    for text in {file.read_text() for file in tree.rglob("*.py")}:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} in\n{text}"


def test_where_it_runs_does_not_touch_how_it_trains() -> None:
    """No training file reads a question about clusters; copier, asked, writes the same bytes."""
    where = {"clusters", "network", "network_interface", "container", "container_image"}
    where |= {"time_limit", "partition", "account", "gpu_type", "cpus_per_gpu"}
    for path in programs.training_files():
        assert not template.reads(path) & where, path


def test_where_it_runs_leaves_training_files_as_they_are(tmp_path: Path) -> None:
    where: list[Answers] = [
        {"clusters": ["local"]},
        {"clusters": ["slurm", "pbs", "lsf"], "container": "apptainer", "network": "infiniband"},
        {"clusters": ["kubernetes", "ssh"], "container": "docker", "network": "efa"},
    ]
    texts: set[tuple[str, ...]] = set()
    for number, answers in enumerate(where):
        folder = tmp_path / str(number)
        render({**answers, "model": "gpt", "tracker": "mlflow"}, folder)
        texts.add(tuple((folder / path).read_text() for path in programs.training_files()))
    assert len(texts) == 1


def test_an_option_that_is_off_leaves_no_trace() -> None:
    """Absence is tested like presence: words that only a chosen option may bring."""
    words = {
        "accumulation": r"accumulation|no_sync",
        "activation_checkpointing": r"recompute|torch\.utils\.checkpoint",
        "checkpoint": r"\bcheckpoint\.|REQUEUE",
        "dynamic_graph": r"find_unused|layer_drop",
    }
    for answers in projects():
        code = [text for path, text in template.project(answers) if path.endswith(".py")]
        for option, pattern in words.items():
            if not answers[option]:
                assert not (hit := re.search(pattern, "\n".join(code))), f"{answers}: {hit}"


def templates() -> list[str]:
    """Templates with directives or variables, and parts."""
    return [
        n for n in template.ENVIRONMENT.list_templates() if n.startswith(("project/", "parts/"))
    ]


@pytest.mark.parametrize("name", [name for name in templates() if name.endswith(".jinja")])
def test_only_templates_are_called_so(name: str) -> None:
    tree = template.ENVIRONMENT.parse((template.TEMPLATE / name).read_text())
    assert any(
        not isinstance(node, jinja2.nodes.TemplateData) for node in tree.find_all(jinja2.nodes.Expr)
    )
