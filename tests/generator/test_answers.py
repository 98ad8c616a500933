"""Answers from flags and files: each is read exactly, or refused with a reason."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpgen.asking import answers, questions
from ddpgen.asking.question import Value
from ddpgen.errors import DdpgenError

QUESTIONNAIRE = questions.load()


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("amp=off", "amp", "off"),
        ("sharding=off", "sharding", "off"),
        ("accumulation=on", "accumulation", True),
        ("accumulation=YES", "accumulation", True),
        ("checkpoint=no", "checkpoint", False),
        ("nodes=16", "nodes", 16),
        ("clusters=slurm,local", "clusters", ["local", "slurm"]),
        ('clusters=["slurm", "local"]', "clusters", ["local", "slurm"]),
        ("clusters=[]", "clusters", []),
        ("clusters=", "clusters", []),
        ("partition=", "partition", ""),
        ("container_image=host/a=b", "container_image", "host/a=b"),
    ],
)
def test_flag_is_read(text: str, key: str, value: Value) -> None:
    assert answers.from_flags(QUESTIONNAIRE, [text]) == {key: value}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["amp"], "write it as key=value"),
        (["ampp=bf16"], "did you mean amp?"),
        (["batch-norm=sync"], "did you mean batch_norm?"),
        (["zzzzzz=1"], "ddpgen options"),
        (["=1"], "no such option"),
        (["amp=bf17"], "allowed: off, bf16, fp16"),
        (["amp=bf17"], "did you mean bf16?"),
        (["amp=BF16"], "did you mean bf16?"),
        (["clusters=local,slum"], "did you mean slurm?"),
        (["clusters=local,,slurm"], "not a choice"),
        (["accumulation=maybe"], "neither true nor false"),
        (["accumulation=1"], "neither true nor false"),
        (["nodes=two"], "whole number"),
        (["nodes=1.0"], "whole number"),
        (["nodes=1e3"], "whole number"),
        (["nodes=1_0"], "whole number"),
        (["nodes=nan"], "whole number"),
        (["nodes=٣"], "whole number"),
        (["nodes=" + "9" * 5000], "whole number"),
        (["nodes="], "whole number"),
        (["project_name=a\nb"], "line break or a control character"),
        (["project_name=a\x00b"], "line break or a control character"),
        (["project_name=a\x1b[31mb"], "line break or a control character"),
        (["project_name=a\u202eb"], "line break or a control character"),
        (["project_name=a\u2028b"], "line break or a control character"),
        (["nodes=1", "nodes=1"], "given twice"),
        (["global_batch_size=3"], "computed"),
    ],
)
def test_flag_is_refused(flags: list[str], message: str) -> None:
    with pytest.raises(DdpgenError) as caught:
        answers.from_flags(QUESTIONNAIRE, flags)
    assert message in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["batch_norm=sync"], "needs model in ('resnet', 'custom'), but model is mlp"),
        (["accumulation_steps=4"], "needs accumulation, but accumulation is false"),
        (["accumulation=true", "accumulation_steps=1"], "from 2"),
        (["nodes=2"], "local starts one node only"),
        (["nodes=0"], "at least 1"),
        (["clusters="], "choose at least one"),
        (["clusters=slurm", "nodes=2", "network=nvlink"], "connects the GPUs of one node only"),
        (["container=pyxis"], "needs slurm"),
        (["clusters=kubernetes", "container=none"], "choose docker"),
        (["time_limit=1:00:00"], "does not apply"),
        (["clusters=slurm", "time_limit=1d"], "hours:minutes:seconds"),
        (["clusters=slurm", "time_limit=0:00:30"], "at least a minute"),
        (["project_name=$(id)"], "start with a letter"),
        (["project_name={{ nodes }}"], "start with a letter"),
        (["project_name=Torch"], "name of a package which projects need"),
        (["project_name=scikit_learn"], "name of a package which projects need"),
        (["clusters=slurm", "partition=a;b"], "letters, digits"),
    ],
)
def test_combination_is_refused(flags: list[str], message: str) -> None:
    with pytest.raises(DdpgenError) as caught:
        answers.resolve(QUESTIONNAIRE, answers.from_flags(QUESTIONNAIRE, flags))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", 'amp = "off"\nnodes = 2\naccumulation = true\nclusters = ["slurm", "local"]\n'),
        ("a.yml", "amp: off\nnodes: 2\naccumulation: on\nclusters: [slurm, local]\n"),
        ("a.yaml", "amp: 'off'\nnodes: '2'\naccumulation: true\nclusters:\n- local\n- slurm\n"),
        (
            "a.yml",
            "_commit: v1\namp: off\nnodes: 2\naccumulation: yes\nclusters: local,slurm",
        ),
        (
            "a.json",
            '{"amp": "off", "nodes": 2, "accumulation": true, "clusters": ["local", "slurm"]}',
        ),
    ],
)
def test_file_is_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert answers.from_file(QUESTIONNAIRE, tmp_path / name) == {
        "amp": "off",
        "nodes": 2,
        "accumulation": True,
        "clusters": ["local", "slurm"],
    }


@given(st.text(max_size=80), st.sampled_from(sorted(QUESTIONNAIRE.questions)))
@settings(max_examples=1500, deadline=None)
def test_any_text_is_an_answer_or_one_clear_error(text: str, name: str) -> None:
    try:
        found = answers.from_flags(QUESTIONNAIRE, [f"{name}={text}"])
        complete = answers.resolve(QUESTIONNAIRE, found)
    except DdpgenError as error:
        message = str(error)
    else:
        assert complete[name] == found[name]
        return
    assert name in message
    assert message.replace("\n", "").isprintable()


def test_empty_file_has_no_answers(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("# nothing\n")
    assert answers.from_file(QUESTIONNAIRE, tmp_path / "a.yml") == {}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "amp = false\n", "amp=false: should be text in quotes"),
        ("a.toml", "nodes = 2.0\n", "nodes=2.0: should be a whole number"),
        ("a.toml", "nodes = nan\n", "nodes=nan: should be a whole number"),
        ("a.toml", "nodes = true\n", "nodes=true: should be a whole number"),
        ("a.toml", "accumulation = 1\n", "accumulation=1: should be true or false"),
        ("a.toml", "clusters = 1\n", "clusters=1: should be a list"),
        ("a.toml", "model = ['mlp']\n", "model=mlp: should be text"),
        ("a.toml", "time_limit = 12:00:00\n", "time_limit=12:00:00: should be text in quotes"),
        ("a.toml", "modell = 'mlp'\n", "modell: there is no such option\n  did you mean model?"),
        ("a.toml", "nodes = 1\nnodes = 2\n", "not valid TOML"),
        ("a.toml", "nodes =\n", "not valid TOML"),
        ("a.toml", f"nodes = {'9' * 5000}\n", "not valid TOML"),
        ("a.toml", f"nodes = {'[' * 3000}\n", "not valid TOML"),
        ("a.yml", "nodes: 1\nnodes: 2\n", "nodes: given twice, again on line 2"),
        ("a.yml", "nodes: {a: 1}\n", "nodes: should be a value"),
        ("a.yml", "nodes: [[1]]\n", "nodes: should be a value"),
        ("a.yml", "nodes: [1]\n", "nodes=1: should be a whole number"),
        ("a.yml", "nodes: [1\n", "not valid YAML"),
        ("a.yml", "- nodes\n", "lines `key: value`"),
        ("a.yml", "? [a]\n: b\n", "lines `key: value`"),
        ("a.yml", "nodes: .nan\n", "nodes=.nan: is not a whole number"),
        ("a.yml", "nodes:\n", "nodes=: is not a whole number"),
        ("a.yml", "amp: off\n\nnodes: two\n", "a.yml, line 3: nodes=two: is not a whole number"),
        ("a.yml", "nodes: two\n", "\n  write it in digits, such as nodes=2"),
        ("a.toml", "amp = 'off'\n'nodes' = 'two'\n", "a.toml, line 2: nodes=two"),
        ("a.yml", "watch: none\n", "\n  for none of them leave it empty: watch="),
        ("a.toml", "tools = ['off']\n", "\n  for none of them leave it empty: tools="),
        ("a.yml", "project_name: 'a\n\n  b'\n", "line break"),
        ("a.yml", "[" * 5000, "not valid YAML"),
        ("a.yml", "nodes: 1\x00", "not valid YAML"),
    ],
)
def test_file_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DdpgenError) as caught:
        answers.from_file(QUESTIONNAIRE, tmp_path / name)
    assert str(tmp_path / name)[:60] in str(caught.value)
    assert message in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "latin.yml").write_bytes(b"project_name: caf\xe9\n")
    for path, message in [
        (tmp_path / "none.toml", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "latin.yml", "UTF-8"),
    ]:
        with pytest.raises(DdpgenError, match=message):
            answers.from_file(QUESTIONNAIRE, path)


def test_differing_answers_are_enough() -> None:
    flags = ["clusters=kubernetes", "nodes=2", "network=ethernet", "container=docker", "amp=bf16"]
    complete = answers.resolve(QUESTIONNAIRE, answers.from_flags(QUESTIONNAIRE, flags))
    needed = answers.differing(QUESTIONNAIRE, complete, {})
    assert needed == {"clusters": ["kubernetes"], "nodes": 2}
    assert answers.resolve(QUESTIONNAIRE, needed) == complete


def test_differing_is_the_smallest_set_for_every_choice() -> None:
    for name, question in QUESTIONNAIRE.questions.items():
        for value in question.values:
            answer: dict[str, Value] = {name: [value] if question.multiselect else value}
            try:
                complete = answers.resolve(QUESTIONNAIRE, answer)
            except DdpgenError:
                continue
            needed = answers.differing(QUESTIONNAIRE, complete, {})
            assert needed.keys() <= {name}
            assert answers.resolve(QUESTIONNAIRE, needed) == complete


def test_old_name_of_a_renamed_question_is_understood() -> None:
    questionnaire = questions.load()
    assert questionnaire.renamed
    for old, new in questionnaire.renamed.items():
        assert old not in questionnaire.questions
        text = str([*questionnaire.questions[new].values, "eth0"][0])
        assert answers.from_flags(questionnaire, [f"{old}={text}"]) == {new: text}
        with pytest.raises(DdpgenError, match="given twice"):
            answers.from_flags(questionnaire, [f"{old}={text}", f"{new}={text}"])


def test_old_name_of_a_renamed_choice_is_understood(tmp_path: Path) -> None:
    """In flags, in files of answers, and whatever else is a choice stays what it is."""
    questionnaire = questions.load()
    (tmp_path / "answers.toml").write_text('model = "distilbert"\n')
    expected = {"model": "text-classifier"}
    assert answers.from_flags(questionnaire, ["model=distilbert"]) == expected
    assert answers.from_file(questionnaire, tmp_path / "answers.toml") == expected
    for value in questionnaire.questions["model"].values:
        assert answers.from_flags(questionnaire, [f"model={value}"]) == {"model": value}
    with pytest.raises(DdpgenError, match="is computed"):
        answers.from_flags(questionnaire, ["former_model=gpt"])
