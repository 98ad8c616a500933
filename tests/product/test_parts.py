"""What is trained, and what needs not be: shown by the texts of all programs.

Every core is trained. A separable option leaves all files but those that it touches as they are,
and of those every text is trained.
"""

import pytest
from jinja2 import UndefinedError

from product import programs, template
from product.combinations import combinations
from product.programs import STEP_OPTIONS


def test_some_options_are_separable_but_none_of_a_step() -> None:
    assert programs.separable()
    assert not {*programs.separable()} & {*STEP_OPTIONS}


@pytest.mark.parametrize("option", programs.separable())
def test_other_files_are_the_same_whatever_is_chosen(option: str) -> None:
    """They are rendered without the option: to look it up would raise an error."""
    for path in programs.training_files():
        name = template.files()[path]
        if not name.endswith(".jinja"):
            continue
        matters = False
        for answers in combinations(template.reads(path)):
            if (text := template.text(path, answers)) is None:
                matters = matters or option in template.reads(path)  # the file is there, or not
                continue
            seen = template.context(answers)
            del seen[option]
            try:
                assert template.ENVIRONMENT.get_template(name).render(seen) == text, path
            except UndefinedError:
                matters = True
        assert matters == (path in programs.touched(option)), path


def test_every_text_of_every_training_file_is_trained() -> None:
    trained = [*programs.cores(), *programs.parts()]
    for path in programs.code():
        found = {template.text(path, row) for row in trained}
        assert found >= {template.text(path, row) for row in programs.programs()}, path


@pytest.mark.parametrize("path", [programs.CONFIG, programs.CONFIG_TYPES])
def test_every_line_of_the_config_is_trained(path: str) -> None:
    """Every text of the cores, and each line that a separable option brings."""
    found = {template.text(path, row) for row in [*programs.cores(), *programs.parts()]}
    lines = {line for text in found for line in str(text).splitlines()}
    for row in programs.programs():
        assert lines.issuperset(str(template.text(path, row)).splitlines())


def test_every_program_is_a_core_but_for_what_is_separable() -> None:
    """Nothing else is left out: switched off, each becomes one of the cores, text by text."""
    untouched = [
        path
        for path in programs.training_files()
        if not any(path in programs.touched(option) for option in programs.separable())
    ]
    kept = [name for name in programs.options() if name not in programs.separable()]
    cores = {tuple(row.get(name) for name in kept): row for row in programs.cores()}
    for row in programs.programs():
        core = cores[tuple(row.get(name) for name in kept)]
        for path in untouched:
            assert template.text(path, row) == template.text(path, core), path
