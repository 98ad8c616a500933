"""What is trained, and what needs not be: shown by the texts of all programs.

Every core is trained. A separable option leaves all files but those that it touches as they are,
and of those every function is trained in every form.
"""

import pytest
from jinja2 import Template, UndefinedError, meta

from ddpgen.asking import questions
from ddpgen.asking.question import Answers
from product import programs, template
from product.combinations import combinations
from product.programs import STEP_OPTIONS


def _is_template(path: str) -> bool:
    return template.files()[path].endswith(".jinja")


def _has_refused_choices(name: str) -> bool:
    return template.QUESTIONS[name].multiselect and bool(_read_by_choices(name))


def _read_by_choices(name: str) -> set[str]:
    """The questions whose answers refuse some of its choices."""
    validators = [choice.validator for choice in template.QUESTIONS[name].choices]
    parsed = [template.ENVIRONMENT.parse(text) for text in validators]
    return set().union(*map(meta.find_undeclared_variables, parsed)) & template.QUESTIONS.keys()


def test_some_options_are_separable_but_none_of_a_step() -> None:
    assert programs.separable()
    assert not {*programs.separable()} & {*STEP_OPTIONS}


@pytest.mark.parametrize("path", [p for p in programs.training_files() if _is_template(p)])
def test_files_read_the_separable_options_that_they_touch_and_no_other(path: str) -> None:
    """They are rendered without an option: to look it up raises an error."""
    source = template.ENVIRONMENT.get_template(template.files()[path])
    unseen = {option for option in programs.separable() if path in programs.touched(option)}
    others = {*programs.separable()} - unseen
    for answers in combinations(template.reads(path)):
        if not others | unseen:
            break
        if (text := template.text(path, answers)) is None:
            unseen = set()  # an option that is read decides whether the file is there
            continue
        values = template.context(answers)
        assert source.render({k: v for k, v in values.items() if k not in others}) == text
        unseen = {option for option in unseen if not _looks_up(source, option, values)}
    assert not unseen, f"{path} does not depend on {unseen}"


def _looks_up(source: Template, option: str, values: Answers) -> bool:
    try:
        source.render({name: value for name, value in values.items() if name != option})
    except UndefinedError:
        return True
    return False


def test_every_function_of_every_training_file_is_trained() -> None:
    trained = [*programs.cores(), *programs.parts()]
    columns = template.columns([*trained, *programs.programs()], programs.code())
    for path, texts in zip(programs.code(), columns, strict=True):
        seen, every = ({*found} - {None} for found in (texts[: len(trained)], texts))
        functions = [frozenset().union(*map(programs.functions, found)) for found in (seen, every)]
        assert functions[0] == functions[1], path


def test_functions_are_the_statements_of_a_module_and_of_its_classes() -> None:
    text = "import os\n@made\nclass A(B):\n    x: int\n    @cache\n    def f():\n        pass\n"
    found = {("", "import os"), ("", "@made\nclass A(B):"), ("A", "    x: int")}
    assert programs.functions(text) == found | {("A", "    @cache\n    def f():\n        pass")}


@pytest.mark.parametrize("path", [programs.CONFIG, programs.CONFIG_TYPES])
def test_every_line_of_the_config_is_trained(path: str) -> None:
    """Every text of the cores, and each line that a separable option brings."""
    (trained,) = template.columns([*programs.cores(), *programs.parts()], [path])
    lines = {line for text in trained for line in str(text).splitlines()}
    (texts,) = template.columns(programs.programs(), [path])
    for text in {*texts}:
        assert lines.issuperset(str(text).splitlines())


@pytest.mark.parametrize("name", [n for n in programs.options() if _has_refused_choices(n)])
def test_all_choices_that_go_together_are_a_program(name: str) -> None:
    """Beside every answer that refuses some of them, and not only where none is refused."""
    question = template.QUESTIONS[name]
    for answers in combinations(template.resolved(_read_by_choices(name))):
        seen = template.context(answers)
        largest = [v for v in question.values if not questions.load().refusal(question, [v], seen)]
        wanted = {**answers, name: largest}.items()
        assert any(wanted <= row.items() for row in programs.every()), wanted
        assert largest in [row.get(name) for row in programs.every_pair()]


def test_every_program_is_a_core_but_for_what_is_separable() -> None:
    """Nothing else is left out: switched off, each becomes one of the cores, text by text."""
    untouched = [
        path
        for path in programs.training_files()
        if not any(path in programs.touched(option) for option in programs.separable())
    ]
    kept = [name for name in programs.options() if name not in programs.separable()]
    cores = {tuple(row.get(name) for name in kept): row for row in programs.cores()}
    rows = programs.programs()
    partners = [cores[tuple(row.get(name) for name in kept)] for row in rows]
    columns = template.columns([*rows, *partners], untouched)
    for path, texts in zip(untouched, columns, strict=True):
        assert texts[: len(rows)] == texts[len(rows) :], path
