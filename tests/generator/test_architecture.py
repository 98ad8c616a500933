"""The generator's house: imports run downwards, modules are short, options named in one place."""

import ast

from ddpgen.asking import known, questions
from generator import architecture
from generator.architecture import APART, LAYERS, imports, layer, modules, part

MOST_LINES = 250


def test_no_module_imports_itself_in_a_circle() -> None:
    assert architecture.circle() == []


def test_every_module_is_in_a_layer() -> None:
    assert {part(module) for module in modules()} == {name for parts in LAYERS for name in parts}


def test_imports_run_downwards() -> None:
    upwards = [
        f"{module} -> {other}"
        for module, others in imports().items()
        for other in others
        if part(module) != part(other) and layer(other) <= layer(module)
    ]
    assert upwards == []


def test_the_checker_stands_apart() -> None:
    folder, allowed = APART
    for module, others in imports().items():
        if part(module).startswith(folder):
            outside = {part(other) for other in others if not part(other).startswith(folder)}
            assert outside <= set(allowed), module


def test_page_shows_the_imports_of_today() -> None:
    """Where it does not: python -m generator.architecture, in tests/."""
    page = architecture.PAGE.read_text(encoding="utf-8")
    assert page == architecture.drawn(page)


def test_modules_are_read_at_one_sitting() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    assert {name: number for name, number in lines.items() if number > MOST_LINES} == {}


def test_options_are_known_by_name_in_one_place_only() -> None:
    """The checker may use the words: it knows nothing of templates."""
    options = questions.load().questions.keys()
    found = [
        f"{module}:{node.lineno}: {node.value}"
        for module, path in modules().items()
        if not part(module).startswith(APART[0]) and module != "asking/known"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in options
    ]
    assert found == []
    assert {known.PROJECT_NAME, known.CLUSTERS, known.NODES, known.LAUNCH_FOLDER} <= options
