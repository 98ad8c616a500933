"""The order of imports that the pages state is that of rendered projects."""

import ast
import re
from collections.abc import Iterator

import pytest
from product import template

from ddpgen.asking.question import Answers
from docs.page import DOCS

PROJECTS: list[Answers] = [
    {},
    {
        "model": "custom",
        "tools": ["preflight"],
        "watch": ["replicas", "spikes", "ranks", "speed", "files", "starts"],
        "accumulation": True,
        "amp": "fp16",
    },
    {
        "model": "gpt",
        "tools": ["preflight", "memory", "scaling", "profile", "predict", "checkpoints"],
        "compression": True,
        "tracker": "wandb",
        "dynamic_graph": True,
        "sharding": "zero1",
    },
    {
        "model": "causal-lm",
        "tools": ["preflight", "predict", "checkpoints"],
        "watch": ["ranks"],
        "sharding": "fsdp",
    },
    {"model": "table", "tools": ["predict", "checkpoints"]},
]
STATED = re.compile(r"^engine/settings +< .*$", re.MULTILINE)


def layers(page: str) -> list[list[str]]:
    """The layers as a page states them, lowest first."""
    found = STATED.search((DOCS / page).read_text(encoding="utf-8"))
    assert found, f"{page} states no order"
    return [[name.strip() for name in layer.split(",")] for layer in found[0].split("<")]


def layer_of(path: str, order: list[list[str]]) -> int:
    """The layer of a file, by its path without suffix."""
    name = path.removesuffix(".py")
    folder = f"{name.partition('/')[0]}/"
    names = [name, folder, f"the rest of {folder}"]
    places = [n for n, layer in enumerate(order) for part in layer if part in names]
    assert places, f"{path} is in no layer"
    return places[0]


def imports(path: str, text: str, files: set[str]) -> Iterator[str]:
    """The files of the project that a file imports."""
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
        for name in names:
            where = name.replace(".", "/")
            places = (f"{where}.py", f"tests/{where}.py")
            yield from (place for place in places if place in files and place != path)


@pytest.mark.parametrize("page", ["code/index.md", "decisions/0016-layout-of-a-project.md"])
@pytest.mark.parametrize("answers", PROJECTS, ids=["default", "custom", "gpt", "texts", "table"])
def test_imports_run_downwards(answers: Answers, page: str) -> None:
    """No file imports from a higher layer, and no two files import each other."""
    order = layers(page)
    texts = {path: text for path, text in template.project(answers) if path.endswith(".py")}
    graph = {path: set(imports(path, text, set(texts))) for path, text in texts.items()}
    for path, targets in graph.items():
        for target in targets:
            assert layer_of(path, order) >= layer_of(target, order), f"{path} imports {target}"
    left = dict(graph)
    while leaves := [path for path, targets in left.items() if not targets & left.keys()]:
        for path in leaves:
            del left[path]
    assert not left, "a circle of imports"
