"""The shape of a project: who imports whom, how much a user has to own, and what the maps name."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from ddpgen.asking.question import Answers
from ddpgen.rendering.render import files_of, render
from product import template
from product.test_levers import ALL, BRIEF

# From the bottom to the top. A module imports modules of lower layers, and engine/ also its own.
LAYERS = [
    ("engine.settings",),
    ("config",),
    ("engine.hub",),
    ("columns", "corpus", "documents", "images"),
    ("shards",),
    ("data",),
    ("model",),
    ("optim",),
    ("engine.",),
    ("steps",),
    ("train",),
    ("tools.",),
]
PROJECTS: dict[str, Answers] = {"default": {}, "all": ALL, "brief": BRIEF}
# Of the default project, with its tests.
FILES, LINES = 38, 3400


def layer(module: str) -> int:
    for number, names in enumerate(LAYERS):
        if module in names or any(module.startswith(n) for n in names if n.endswith(".")):
            return number
    raise AssertionError(f"{module} has no layer")


def imports(project: Path) -> dict[str, set[str]]:
    """The project's modules, and those of its modules that each imports, anywhere in the file."""
    paths = [p.relative_to(project) for p in project.rglob("*.py")]
    modules = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): project / path
        for path in paths
        if path.parts[0] != "tests"
    }
    found = {}
    for module, path in modules.items():
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {str(node.module), *(f"{node.module}.{a.name}" for a in node.names)}
        found[module] = {n for n in names & modules.keys() if n not in ("engine", "tools")}
    packages = [m for m, path in modules.items() if path.name == "__init__.py"]
    return {module: found[module] for module in found if module not in packages}


@pytest.mark.parametrize("name", PROJECTS)
def test_imports_have_no_circle_and_point_downwards(name: str, tmp_path: Path) -> None:
    render(PROJECTS[name], tmp_path / "project")
    found = imports(tmp_path / "project")
    assert {"train", "engine.loading"} <= found.keys()
    TopologicalSorter(found).prepare()  # raises CycleError, and names the circle
    for module, names in found.items():
        for imported in names:
            inside = layer(module) == layer(imported) and "." in module
            assert layer(imported) < layer(module) or inside, f"{module} imports {imported}"


def test_default_project_is_small(tmp_path: Path) -> None:
    """What a user has to own: files, and lines of Python with tests."""
    render({}, tmp_path / "project")
    files = [tmp_path / "project" / name for name in files_of(tmp_path / "project")]
    lines = sum(len(f.read_text().splitlines()) for f in files if f.suffix == ".py")
    root = [f for f in files if f.parent == tmp_path / "project" and f.suffix == ".py"]
    assert sorted(f.stem for f in root) == ["config", "data", "model", "optim", "steps", "train"]
    assert len(files) <= FILES
    assert lines <= LINES


@pytest.mark.parametrize("family", [c.value for c in template.QUESTIONS["model"].choices])
@pytest.mark.parametrize("page", ["README.md", "AGENTS.md"])
def test_maps_name_every_program_of_the_root(family: str, page: str) -> None:
    """A reader of either map learns of each file that is his."""
    files = dict(template.project({"model": family}))
    root = {path for path in files if "/" not in path and path.endswith(".py")}
    assert root - set(re.findall(r"`(\w+\.py)`", files[page])) == set()


def test_directives_are_few() -> None:
    """Nested once at most; a tenth of all lines at most, so that templates read as programs."""
    lines = directives = 0
    for path in sorted(template.TEMPLATE.rglob("*")):
        if path.suffix == ".pyc" or not path.is_file() or path.name == "copier.yml":
            continue
        depth = 0
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            lines += 1
            directives += line.lstrip().startswith("# {%")
            depth += line.lstrip().startswith("# {% if ")
            assert depth <= 2, f"{path}:{number} is the third directive, one inside the other"
            depth -= line.lstrip().startswith("# {% endif ")
    assert directives <= lines / 10
