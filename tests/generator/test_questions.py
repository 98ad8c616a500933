"""The evaluation of copier.yml agrees with copier itself, which is asked through its public API."""

import json
import random
import re
import shutil
from pathlib import Path

import copier
import jinja2.meta
import pytest

from ddpgen.asking import questions
from ddpgen.asking.known import CLUSTERS
from ddpgen.asking.question import LAUNCH, Answers, Question
from ddpgen.asking.questions import Questionnaire
from ddpgen.fetching import template_source
from ddpgen.rendering import compiled
from ddpgen.rendering.versions import Versions

QUESTIONNAIRE = questions.load()
INTEGERS = [-1, 0, 1, 2, 3, 8, 64, 65, 1024, 20000, 10**12]
TEXTS = ["", "a", "eth0", "a100", "ok-name", "-x", "a b", "a;b", "24:00:00", "24:61:00", "x" * 300]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A template of the real questions with one file that holds all values."""
    template = tmp_path_factory.mktemp("oracle")
    shutil.copy(template_source.template_root() / "copier.yml", template)
    dump = ", ".join(f'"{name}": {{{{ {name} | to_json }}}}' for name in QUESTIONNAIRE.questions)
    (template / "project").mkdir()
    (template / "project/values.json.jinja").write_text(f"{{{dump}}}")
    return template


def copiers_view(oracle: Path, given: Answers, dest: Path) -> Answers | None:
    """Return all values as copier sees them, or None where it refuses."""
    try:
        copier.run_copy(
            str(oracle), dest, data=given, defaults=True, quiet=True, settings=copier.Settings()
        )
    except ValueError:
        return None
    values: Answers = json.loads((dest / "values.json").read_text())
    return values


def random_value(question: Question, rng: random.Random) -> str | int | bool | list[str]:
    if question.multiselect:
        return [value for value in question.values if rng.random() < 0.4]
    if question.choices:
        return rng.choice(question.values)
    if question.type == "bool":
        return rng.random() < 0.5
    return rng.choice(INTEGERS if question.type == "int" else TEXTS)


def random_answers(seed: int) -> Answers:
    """Answer about half of the questions that apply, and make one in four sets a wild one."""
    rng = random.Random(seed)
    wild = rng.random() < 0.25
    given: Answers = {}
    for name, question in QUESTIONNAIRE.questions.items():
        states = {s.question.name: s for s in QUESTIONNAIRE.evaluate(given)}
        if not states[name].active or rng.random() < 0.5:
            continue
        given[name] = random_value(question, rng)
        if not wild:
            states = {s.question.name: s for s in QUESTIONNAIRE.evaluate(given)}
            if states[name].problem:
                del given[name]
    return given


def agree(oracle: Path, seed: int, folder: Path) -> bool:
    """Whether both refuse some answers; otherwise both have the same values."""
    given = random_answers(seed)
    states = list(QUESTIONNAIRE.evaluate(given))
    ours = {s.question.name: s.value for s in states}
    refused = any(s.problem for s in states)
    theirs = copiers_view(oracle, given, folder / str(seed))
    assert refused == (theirs is None), given
    assert refused or ours == theirs, given
    return refused


@pytest.mark.parametrize("block", range(8))
def test_agrees_with_copier(oracle: Path, tmp_path: Path, block: int) -> None:
    with compiled.once():
        outcomes = {agree(oracle, seed, tmp_path) for seed in range(block * 25, block * 25 + 25)}
    assert outcomes == {True, False}


def expressions(question: Question) -> list[str]:
    found = [question.validator, *(choice.validator for choice in question.choices)]
    return found + [text for text in (question.when, question.default) if isinstance(text, str)]


def test_questions_look_back_only() -> None:
    environment = QUESTIONNAIRE._environment
    known = {"_copier_conf"}  # no question: what copier says of a call
    for name, question in QUESTIONNAIRE.questions.items():
        for expression in expressions(question):
            # Whether a later question is answered already tells an update from a first copy.
            text = re.sub(r"\b\w+ is defined", "true", expression)
            used = jinja2.meta.find_undeclared_variables(environment.parse(text))
            # What became of an older answer is asked before the question itself.
            allowed = known | {name, question.old_name, name.removeprefix(questions.FORMER)}
            assert used <= allowed, f"{name} uses {used - known}, which come later"
        known.add(name)


def test_defaults_are_valid() -> None:
    assert not [state for state in QUESTIONNAIRE.evaluate({}) if state.problem]


def test_template_needs_no_trust() -> None:
    text = (template_source.template_root() / "copier.yml").read_text()
    for feature in ("_tasks", "_migrations", "_jinja_extensions", "_external_data"):
        assert f"\n{feature}:" not in text


def test_reason_names_condition_and_present_values(tmp_path: Path) -> None:
    (tmp_path / "copier.yml").write_text(
        """
_envops: {undefined: jinja2.StrictUndefined}
size: {type: int, help: h, default: 1}
extra: {type: str, help: h, default: "", when: "{{ size > 3 }}"}
"""
    )
    states = list(Questionnaire(tmp_path).evaluate({"extra": "x"}))
    assert states[1].problem == "does not apply here: it needs size > 3, but size is 1"
    assert states[1].value == ""


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"model": "mlp"}, ""),
        ({"model": "resnet", "batch_norm": "group"}, ""),
        (
            {"model": "resnet", "batch_norm": "local", "micro_batch_size": 8},
            "BatchNorm over 8 samples of one rank: too few, batch_norm=sync",
        ),
        (
            {"model": "custom", "batch_norm": "local", "micro_batch_size": 16},
            "BatchNorm over 16 samples of one rank: 32 would be better",
        ),
        (
            {"model": "resnet", "batch_norm": "local", "micro_batch_size": 32},
            "BatchNorm over 32 samples of one rank",
        ),
        (
            {"model": "resnet", "gpus_per_node": 4, "micro_batch_size": 8},
            "BatchNorm over 32 samples of all ranks",
        ),
        (
            {"model": "resnet", "gpus_per_node": 4, "micro_batch_size": 32},
            "BatchNorm over 128 samples of all ranks: batch_norm=local waits for nobody",
        ),
    ],
)
def test_batch_norm_is_judged_by_the_numbers_answered(answers: Answers, words: str) -> None:
    """Beside the global batch, while questions are asked."""
    context = {state.question.name: state.value for state in QUESTIONNAIRE.evaluate(answers)}
    said = QUESTIONNAIRE.questions["batch_norm_samples"].help
    assert QUESTIONNAIRE.render(said, context) == words


# Their defaults depend on the number of nodes, but they are not about where a project runs.
BESIDE = ("tools", "watch")


def concerning_launch(questionnaire: Questionnaire) -> list[str]:
    return [n for n, q in questionnaire.questions.items() if q.meaning.concerns == LAUNCH]


def test_questions_about_where_to_train_say_so() -> None:
    """The part of the file that a question stands in tells people, its meaning tells ddpgen."""
    text = (template_source.template_root() / "copier.yml").read_text()
    (where,) = re.findall(r"^# --- Where to train -+\n(.*?)^# --- ", text, re.DOTALL | re.MULTILINE)
    names = [name for name in re.findall(r"^(\w+):$", where, re.MULTILINE) if name not in BESIDE]
    assert concerning_launch(QUESTIONNAIRE) == names


def test_released_questions_mean_what_they_meant(tmp_path: Path) -> None:
    """Also in versions that say nothing: all but the computed ones from `clusters` on."""
    versions = Versions(tmp_path)
    assert len(versions.tags) > 4
    for tag in versions.tags:
        questionnaire = versions[tag].questionnaire
        names = [name for name, q in questionnaire.questions.items() if not q.computed]
        where = [name for name in names[names.index("clusters") :] if name not in BESIDE]
        assert concerning_launch(questionnaire) == where
        assert questionnaire.by_fact["gpus"] == "gpus_per_node"


def test_each_cluster_says_what_starts_a_job() -> None:
    question = QUESTIONNAIRE.questions[CLUSTERS]
    assert [*question.meaning.starts] == question.values


def test_facts_are_those_that_machines_tell() -> None:
    of_partitions = {"queue", "gpus", "gpu_model", "cpus", "job_time", "features"}
    assert QUESTIONNAIRE.by_fact.keys() == of_partitions | {"schedulers", "fabric", "interfaces"}
