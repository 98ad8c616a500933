"""Lines of a project lead to the pitfalls that they prevent: to all, and to no other."""

import json
from collections.abc import Iterator

import pytest
from mutants import reasons
from mutants.table import BASES
from product.template import QUESTIONS, TEXTS

from ddpgen.asking.question import Answers
from ddpgen.web import catalogue

# With the files of all ways to start a job.
EVERYWHERE: Answers = {
    "clusters": [*QUESTIONS["clusters"].values],
    "nodes": 2,
    "container_image": "registry.example/image",
}

Place = tuple[str, str]  # path and line


@pytest.fixture(scope="module")
def places() -> dict[str, set[Place]]:
    """The lines of the mistakes' projects that lead to each row."""
    found: dict[str, set[Place]] = {}
    for answers in (*BASES.values(), EVERYWHERE):
        for row, place in _places(answers):
            found.setdefault(row, set()).add(place)
    return found


def _places(answers: Answers) -> Iterator[tuple[str, Place]]:
    project = {path: file.text for path, file in TEXTS.project(answers).items()}
    for path, text in project.items():
        lines = text.splitlines()
        for number, ids in catalogue.why(path, text, project).items():
            for row, _ in ids:
                yield row, (path, lines[number - 1].strip())


def test_file_is_drawn_from_the_mistakes_of_today() -> None:
    """Where it is not: python -m mutants.reasons, in tests/."""
    assert reasons.DRAWN.read_text(encoding="utf-8") == reasons.drawn()


def test_every_row_is_led_to_from_code(places: dict[str, set[Place]]) -> None:
    code = {row for row, found in places.items() if any(p[:6] != "tests/" for p, _ in found)}
    assert code == set(catalogue.rows())


def test_every_mistake_is_led_to_from_its_lines(places: dict[str, set[Place]]) -> None:
    for mutation in reasons.MUTATIONS:
        for line in reasons.changed(mutation):
            assert (mutation.path, line) in places[mutation.pitfall], mutation


def test_every_other_line_stands_in_a_project(places: dict[str, set[Place]]) -> None:
    for pattern, part, rows in reasons.ALSO:
        for row in rows.split():
            assert [line for _, line in places[row] if part in line], (pattern, part)


def test_tests_lead_to_what_their_project_is_about() -> None:
    rows = {row for row, _ in _places({"model": "mlp"})}
    assert {"G1", "K5", "D14"} <= rows
    assert not {"F1", "F8", "B1", "K11", "S15"} & rows
    tests = {row for row, (path, _) in _places(BASES["fsdp"]) if path.startswith("tests/")}
    assert {"F1", "G1"} <= tests


def test_page_holds_the_rows_and_their_examples() -> None:
    page = json.loads(catalogue.page())
    found = {row["id"]: row for row in page["rows"]}
    assert [*found] == [*catalogue.rows()]
    assert "## Right" in found["K5"]["page"]
    assert found["K12"]["page"] == ""  # nothing that can be read from a source
