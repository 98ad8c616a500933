"""What the page asks of Python: texts like copier's, differences, zips and addresses."""

import io
import json
import os
import random
import shlex
import zipfile
from pathlib import Path

import pytest
from attack.test_answers import HOSTILE
from generator.test_questions import random_answers

from ddpgen.asking import answers, questions
from ddpgen.asking.known import LAUNCH_FOLDER, PROJECT_NAME
from ddpgen.asking.question import Answers
from ddpgen.cli import main
from ddpgen.errors import DdpgenError
from ddpgen.fetching import template_source
from ddpgen.rendering.render import files_of, render
from ddpgen.rendering.texts import File, Template
from ddpgen.rendering.versions import Versions
from ddpgen.web import address, difference, interface
from ddpgen.web.interface import CALLS, Interface

QUESTIONNAIRE = questions.load()
TEMPLATE = Template(template_source.template_root(), template_source.TAG, QUESTIONNAIRE)
PAGE = Interface(TEMPLATE)
# With files of every kind of cluster, some of which may be run.
LARGE = {
    "project_name": "Vision-1",
    "model": "resnet",
    "tracker": "wandb",
    "clusters": "ssh,slurm,kubernetes,pbs,lsf,skypilot",
    "nodes": "2",
    "tools": "preflight,memory,scaling,profile,predict,checkpoints",
    "container_image": "registry.example/" + "x" * 100,
    "modules": "cuda/12 nccl",
}


def on_disk(folder: Path) -> dict[str, File]:
    return {
        path: File((folder / path).read_bytes().decode(), os.access(folder / path, os.X_OK))
        for path in files_of(folder)
    }


def texts(given: Answers) -> dict[str, str]:
    return {name: answers.as_text(value) for name, value in given.items()}


def states(reply: dict[str, object]) -> dict[str, dict[str, object]]:
    found = {}
    for group in reply["groups"]:
        for question in group["questions"]:
            found[question["name"]] = question
    return found


@pytest.mark.parametrize("given", [{}, LARGE], ids=["default", "large"])
def test_zip_and_command_give_the_same_project(given: dict[str, str], tmp_path: Path) -> None:
    reply = PAGE.project(given)
    words = shlex.split(reply["command"])
    assert words[0] == "ddpgen"
    name = words.index("new") + 1
    words[name] = str(tmp_path / words[name])
    assert main(words[1:]) == 0
    expected = on_disk(Path(words[name]))
    with zipfile.ZipFile(io.BytesIO(PAGE.archive(given))) as archive:
        packed = {
            entry.filename: File(
                archive.read(entry).decode(), bool(entry.external_attr >> 16 & 0o111)
            )
            for entry in archive.infolist()
        }
    folder = given.get("project_name", "my-project")
    assert packed == {f"{folder}/{path}": file for path, file in expected.items()}
    assert len(expected) == next(n["value"] for n in reply["numbers"] if n["word"] == "files")


def test_releases_are_put_together_as_copier_renders_them(tmp_path: Path) -> None:
    (tmp_path / "versions").mkdir()
    versions = Versions(tmp_path / "versions")
    for tag in [versions.tags[0], versions.tags[-1]]:
        version = versions[tag]
        root = (
            template_source.template_root()
            if tag == template_source.TAG
            else tmp_path / "versions" / tag
        )
        folder = tmp_path / tag
        given: Answers = {"clusters": ["ssh", "slurm"], "nodes": 2}
        render(given, folder, root, tag)
        assert Template(root, tag, version.questionnaire).project(given) == on_disk(folder), tag


def test_questions_that_do_not_apply_disappear_and_come_back_as_they_were() -> None:
    given = {"model": "resnet", "batch_norm": "group"}
    assert states(PAGE.project(given))["batch_norm"]["value"] == "group"
    other = PAGE.project({**given, "model": "mlp"})
    assert "batch_norm" not in states(other)
    assert "batch_norm" not in other["command"]
    assert other["problems"] == {}


def test_answers_that_do_not_apply_do_not_hinder_the_view_of_an_update() -> None:
    page = interface.start()
    arguments = {"since": "0.4.0", "to": "0.5.0"}
    given = {"model": "mlp", "batch_norm": "sync", "nodes": "2", "unknown": "x"}
    replies = [
        json.loads(str(page.call("update", json.dumps({**arguments, "given": g}))))
        for g in (given, {"model": "mlp"})
    ]
    assert "problem" not in replies[0]
    assert replies[0] == replies[1]


def test_refused_answer_says_why_and_has_no_effect() -> None:
    reply = PAGE.project({"nodes": "2"}, {})
    assert "local starts one node only" in states(reply)["nodes"]["problem"]
    assert states(reply)["nodes"]["value"] == "2"
    assert {file["kind"] for file in reply["files"]} == {difference.SAME}
    with pytest.raises(DdpgenError, match="local starts one node only"):
        PAGE.archive({"nodes": "2"})
    assert PAGE.project({"nodes": "2", "clusters": "ssh"})["problems"] == {}


def test_what_is_no_number_says_so() -> None:
    reply = PAGE.project({"nodes": "two"})
    assert states(reply)["nodes"]["problem"] == "is not a whole number"
    assert states(reply)["nodes"]["value"] == "two"


def test_choices_that_cannot_be_say_why_before_they_are_chosen() -> None:
    tools = states(PAGE.project({"checkpoint": "false"}))["tools"]
    refused = {choice["value"]: choice["refused"] for choice in tools["choices"]}
    assert refused["predict"] == "needs checkpoint=true"
    assert refused["memory"] == ""


def test_every_question_but_the_folder_of_launch_files_can_be_answered() -> None:
    """The texts of the page come from copier.yml: all of them, and in its order."""
    shown = states(PAGE.project(LARGE))
    active = [
        state.question
        for state in QUESTIONNAIRE.evaluate(
            answers.from_flags(QUESTIONNAIRE, [f"{k}={v}" for k, v in LARGE.items()])
        )
        if state.active and state.question.name != LAUNCH_FOLDER
    ]
    assert [*shown] == [question.name for question in active]
    for question in active:
        record = shown[question.name]
        assert record["help"] == question.help
        assert [c["words"] for c in record["choices"]] == [c.words for c in question.choices]
    titles = [group["title"] for group in PAGE.project(LARGE)["groups"]]
    assert titles == [
        q.meaning.begins for q in QUESTIONNAIRE.questions.values() if q.meaning.begins
    ]


@pytest.mark.parametrize("seed", range(8))
def test_rows_hold_both_texts(seed: int) -> None:
    before, after = (texts(random_answers(2 * seed + n)) for n in range(2))
    reply = PAGE.project(after, before)
    old, new = (PAGE._files(PAGE._reading(given)) for given in (before, after))
    for file in reply["files"]:
        path = file["path"]
        rows = PAGE.file(after, path, before)["rows"]
        for files, mark in ((old, difference.NEW), (new, difference.GONE)):
            text = files[path].text if path in files else ""
            assert [line for found, line in rows if found != mark] == text.splitlines(), path
        marks = [mark for mark, _ in rows]
        assert (marks.count("+"), marks.count("-")) == (file["added"], file["removed"]), path
        assert (file["kind"] == difference.SAME) == (old.get(path) == new.get(path))
    if reply["problems"]:
        return
    cost = PAGE.cost(before, after)
    assert cost["added"] == sum(file["added"] for file in reply["files"])
    assert cost["files"] == sum(file["kind"] != difference.SAME for file in reply["files"])


@pytest.mark.parametrize("seed", range(20))
def test_address_holds_the_answers(seed: int) -> None:
    given = texts(random_answers(seed))
    given.pop(LAUNCH_FOLDER, None)
    reply = PAGE.project(given)
    back = PAGE.read(f"http://127.0.0.1:1/token/#{reply['address']}")
    assert back["words"] == []
    again = PAGE.project(back["given"])
    assert [again[key] for key in ("address", "command", "files")] == [
        reply[key] for key in ("address", "command", "files")
    ]


def test_address_with_the_old_name_of_a_question_is_understood() -> None:
    reply = PAGE.read("#v=0.1.0&clusters=ssh&nodes=2&network_interface=eth0")
    assert reply == {"given": {"clusters": "ssh", "nodes": "2", "interface": "eth0"}, "words": []}


def test_address_says_what_does_not_fit() -> None:
    reply = PAGE.read("#v=9.9.9&model=gpt&nodes=2&old=1&batch_norm=sync&amp=fp8&gpus_per_node=8")
    assert reply["given"] == {"model": "gpt", "gpus_per_node": "8"}
    words = "\n".join(reply["words"])
    for part in (
        "old: there is no such option; left out",
        "amp=fp8: is not a choice",
        "batch_norm=sync: does not apply here",
        "nodes=2: local starts one node only",
        "taken in its place: 1",
    ):
        assert part in words, words


def test_hostile_answers_and_addresses_break_nothing() -> None:
    chance = random.Random(0)
    names = [name for name, q in QUESTIONNAIRE.questions.items() if not q.computed]
    for written in HOSTILE:
        text = written.encode("utf-8", "replace").decode()
        given = dict.fromkeys(chance.sample(names, 4), text)
        reply = PAGE.project({**LARGE, **given}, {})
        json.dumps(reply)
        for name, value in given.items():
            shown = states(reply).get(name)
            # What is accepted is what the question's own rules accept.
            if shown and not shown["problem"]:
                assert answers.from_text(QUESTIONNAIRE.questions[name], value) is not None
        address.read(reply["address"])
        for hostile in (text, f"#{text}", f"#model={text}", f"#{text}=gpt", f"#v={text}"):
            assert set(PAGE.read(hostile)) == {"given", "words"}


@pytest.mark.parametrize(
    "arguments",
    ["", "[]", "{}", '{"given": 1}', '{"given": {"model": 1}}', '{"given": {}, "x": "y"}'],
)
def test_calls_with_wrong_arguments_are_refused(arguments: str) -> None:
    for name in CALLS:
        if name == "versions" and arguments == "{}":
            continue  # has none
        with pytest.raises((ValueError, TypeError, KeyError)):
            PAGE.call(name, arguments)
    with pytest.raises(ValueError, match="__init__"):
        PAGE.call("__init__", "{}")


def test_name_of_the_project_is_the_folder_of_the_zip() -> None:
    given = {PROJECT_NAME: "other"}
    with zipfile.ZipFile(io.BytesIO(PAGE.archive(given))) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {"other"}
