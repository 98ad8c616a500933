"""The conversation, typed into a real pseudo-terminal."""

import signal
import tarfile
import time
from pathlib import Path

import pytest
import yaml

from generator.program import ddpgen, everything
from generator.terminal import (
    BACKSPACE,
    CTRL_B,
    CTRL_C,
    CTRL_D,
    DOWN,
    ENTER,
    ESCAPE,
    SPACE,
    UP,
    Terminal,
)

SUMMARY = "These are your answers"
READY = "Esc: one step back"


def accept_until(terminal: Terminal, question: str) -> None:
    """Accept what is proposed until a question comes up."""
    while True:
        prompt = terminal.expect(READY)
        if question in prompt:
            return
        first = prompt.splitlines()[0]
        terminal.type(ENTER)
        end = time.monotonic() + 30
        while terminal.prompt.startswith(first.split("  ")[0][:40]) and READY in terminal.prompt:
            assert time.monotonic() < end, terminal.text
            terminal.read(0.2)


def answers_of(project: Path) -> dict[str, object]:
    saved: dict[str, object] = yaml.safe_load((project / ".copier-answers.yml").read_text())
    return saved


def test_accepting_everything_equals_defaults(tmp_path: Path) -> None:
    with Terminal("new", "p", cwd=tmp_path) as terminal:
        accept_until(terminal, SUMMARY)
        terminal.type(ENTER)
        assert terminal.finish() == 0
        assert "Created p" in terminal.text
        assert "ddpgen new p --defaults\n" in terminal.text + "\n"
    (tmp_path / "flags").mkdir()
    ddpgen("new", "p", "--defaults", cwd=tmp_path / "flags")
    assert everything(tmp_path / "p") == everything(tmp_path / "flags/p")
    assert answers_of(tmp_path / "p") == answers_of(tmp_path / "flags/p")


@pytest.mark.parametrize("back", [ESCAPE, CTRL_B], ids=["escape", "ctrl-b"])
def test_one_step_back_from_every_kind_of_prompt(tmp_path: Path, back: str) -> None:
    with Terminal("new", "p", cwd=tmp_path) as terminal:
        steps = [
            # (a question to go back from, the one before it)
            ("What do you want to train?", "Name of the project"),  # select to text
            ("Recompute activations", "Accumulate gradients"),  # confirm to confirm
            ("Where will it run?", "Metrics tracker"),  # checkbox to select
            ("Number of nodes", "Where will it run?"),  # text to checkbox
            (SUMMARY, "Container"),  # summary to select
        ]
        for question, earlier in steps:
            accept_until(terminal, question)
            terminal.type(back)
            terminal.expect(earlier, READY)
        accept_until(terminal, SUMMARY)
        terminal.type(ENTER)
        assert terminal.finish() == 0


def test_going_back_from_the_first_question_stays_there(tmp_path: Path) -> None:
    with Terminal("new", "vision", cwd=tmp_path) as terminal:
        terminal.expect("Name of the project vision", READY)
        terminal.type(CTRL_B)
        terminal.type("2")
        terminal.expect("Name of the project vision2", READY)
        terminal.type(ENTER)
        terminal.expect("What do you want to train?")


def test_answers_come_back_when_one_returns(tmp_path: Path) -> None:
    with Terminal("new", "p", "--data", "model=gpt", cwd=tmp_path) as terminal:
        accept_until(terminal, "Number of GPUs")
        terminal.type("6", ENTER)
        terminal.expect("Programs about a run", READY)
        terminal.type(ESCAPE)
        terminal.expect("(0 for a cluster without GPUs) 16", READY)
        terminal.type(ESCAPE)
        terminal.expect("Number of nodes", READY)
        terminal.type(ENTER)
        terminal.expect("(0 for a cluster without GPUs) 16", READY)


def test_global_batch_follows_the_typing(tmp_path: Path) -> None:
    with Terminal("new", "p", "--data", "accumulation=true", cwd=tmp_path) as terminal:
        accept_until(terminal, "Number of GPUs")
        terminal.expect("global batch 256 = 1 node × 1 GPU × micro-batch 64 × accumulation 4")
        terminal.type("6")
        terminal.expect("global batch 4096 = 1 node × 16 GPUs × micro-batch 64 × accumulation 4")
        terminal.type(BACKSPACE, BACKSPACE, "x")
        terminal.expect("global batch 256 =")
        terminal.type(ENTER)
        terminal.expect("is not a whole number")
        terminal.type(BACKSPACE, "8", ENTER)
        accept_until(terminal, "Micro-batches per optimizer step")
        terminal.type(BACKSPACE, "2")
        terminal.expect("global batch 1024 = 1 node × 8 GPUs × micro-batch 64 × accumulation 2")


def test_summary_leads_to_any_answer_and_asks_what_newly_applies(tmp_path: Path) -> None:
    with Terminal("new", "p", cwd=tmp_path) as terminal:
        accept_until(terminal, SUMMARY)
        terminal.type(DOWN, DOWN)
        terminal.expect("» change model")
        terminal.type(ENTER)
        terminal.expect("What do you want to train?", READY)
        terminal.type(DOWN, DOWN)
        terminal.expect("» resnet")
        terminal.type(ENTER)
        terminal.expect("normalised?", READY)
        terminal.type(ENTER)
        summary = terminal.expect(SUMMARY, "batch_norm", READY)
        assert "model                     resnet" in summary
        terminal.type(ENTER)
        assert terminal.finish() == 0
        command = terminal.text.splitlines()[-1].strip()
        # The micro-batch was answered with the default of another model.
        needed = "--data model=resnet --data micro_batch_size=64"
        assert command == f"ddpgen new p --defaults {needed}"
    flags = command.split()[3:]
    (tmp_path / "again").mkdir()
    assert ddpgen("new", "p", *flags, cwd=tmp_path / "again").returncode == 0
    assert answers_of(tmp_path / "p") == answers_of(tmp_path / "again/p")


def test_what_makes_no_sense_is_not_offered(tmp_path: Path) -> None:
    with Terminal("new", "p", "--data", "clusters=slurm", cwd=tmp_path) as terminal:
        accept_until(terminal, "Number of nodes")
        terminal.type(BACKSPACE, "2", ENTER)
        accept_until(terminal, "Network between the GPUs")
        prompt = terminal.expect("» ethernet")
        assert "nvlink      NVLink or PCIe inside one node (connects the GPUs of one" in prompt
        terminal.type(UP)
        terminal.expect("» oci")  # the arrow passes over nvlink


def test_several_choices(tmp_path: Path) -> None:
    with Terminal("new", "p", cwd=tmp_path) as terminal:
        accept_until(terminal, "Where will it run?")
        terminal.type(SPACE, ENTER)
        terminal.expect("choose at least one")
        terminal.type(SPACE, DOWN, DOWN, SPACE, ENTER)
        accept_until(terminal, "Partition or queue")
        accept_until(terminal, SUMMARY)
        terminal.type(ENTER)
        assert terminal.finish() == 0
    assert answers_of(tmp_path / "p")["clusters"] == ["local", "slurm"]


def test_flags_are_not_asked_and_can_still_be_changed(tmp_path: Path) -> None:
    data = ["--data", "model=mlp", "--data", "batch_norm=sync", "--data", "project_name=named"]
    with Terminal("new", "p", *data, cwd=tmp_path) as terminal:
        terminal.expect("Automatic mixed precision", READY)
        accept_until(terminal, SUMMARY)
        assert "batch_norm is left out: it does not apply here" in terminal.text
        assert "Name of the project" not in terminal.text
        terminal.type(DOWN)
        terminal.expect("» change project_name")
        terminal.type(ENTER)
        terminal.expect("Name of the project named", READY)


def test_detected_values_are_proposed(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, body in [
        ("nvidia-smi", "echo 'GPU 0: A'; echo 'GPU 1: A'"),
        ("sinfo", "echo 'gpu*|gpu:h100:4'"),
    ]:
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    with Terminal("new", "p", cwd=tmp_path, path=str(programs)) as terminal:
        accept_until(terminal, "(0 for a cluster without GPUs) 2")
        accept_until(terminal, "Partition or queue (empty for the cluster's default) gpu")
        accept_until(terminal, SUMMARY)
        terminal.expect("gpu_type                  h100")


def test_data_lead_to_a_family_and_to_its_arguments(tmp_path: Path) -> None:
    """What lies there is said first; another family of the same data has arguments of its own."""
    with tarfile.open(tmp_path / "0.tar", "w") as archive:
        for name in ("cat/0.jpg", "dog/1.jpg", "dog/2.JPG"):
            archive.addfile(tarfile.TarInfo(name))
    with Terminal("new", "p", "--data", "0.tar", cwd=tmp_path) as terminal:
        accept_until(terminal, "What do you want to train?")
        assert "3 images in 2 classes" in terminal.text
        terminal.expect("» resnet")
        terminal.type(DOWN)
        terminal.expect("» vision")
        terminal.type(ENTER)
        accept_until(terminal, SUMMARY)
        terminal.type(ENTER)
        assert terminal.finish() == 0
        assert "model.patch=8" in terminal.text
        assert "data.channels" not in terminal.text


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D], ids=["ctrl-c", "ctrl-d"])
@pytest.mark.parametrize("question", ["Name of the project", "Number of nodes"])
def test_cancelling_text_leaves_nothing(tmp_path: Path, question: str, key: str) -> None:
    with Terminal("new", "a/p", cwd=tmp_path) as terminal:
        accept_until(terminal, question)
        terminal.type(*[BACKSPACE] * 20, key)
        assert terminal.finish() == 130
        assert "nothing was changed" in terminal.text
        assert "Traceback" not in terminal.text
    assert everything(tmp_path) == []


@pytest.mark.parametrize(
    "question", ["What do you want to train?", "Accumulate", "Where will it run?", SUMMARY]
)
def test_ctrl_c_leaves_nothing(tmp_path: Path, question: str) -> None:
    with Terminal("new", "p", cwd=tmp_path) as terminal:
        accept_until(terminal, question)
        terminal.type(CTRL_C)
        assert terminal.finish() == 130
        assert "nothing was changed" in terminal.text
        assert "Traceback" not in terminal.text
    assert everything(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_at_a_prompt(tmp_path: Path, number: signal.Signals) -> None:
    with Terminal("new", "p", cwd=tmp_path) as terminal:
        terminal.expect("Name of the project", READY)
        terminal.process.send_signal(number)
        assert terminal.finish() == 128 + number
        assert "Traceback" not in terminal.text
    assert everything(tmp_path) == []


def test_mistake_is_told_before_the_first_question(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/file").write_text("")
    with Terminal("new", "p", cwd=tmp_path) as terminal:
        assert terminal.finish() == 2
        assert "p: is not empty" in terminal.text
        assert "?" not in terminal.text


def test_small_terminal_and_dry_run(tmp_path: Path) -> None:
    with Terminal("new", "--dry-run", cwd=tmp_path, rows=24, columns=80) as terminal:
        accept_until(terminal, SUMMARY)
        terminal.type(ENTER)
        assert terminal.finish() == 0
        assert ".copier-answers.yml" in terminal.text or "train.py" in terminal.text
    assert everything(tmp_path) == []


def test_narrow_terminal_shows_the_choice_at_the_cursor_in_full(tmp_path: Path) -> None:
    with Terminal("new", "p", cwd=tmp_path, rows=24, columns=60) as terminal:
        accept_until(terminal, "What do you want to train?")
        terminal.expect(
            " » mlp              a multi-layer perceptron on rows of nu",
            "\n mlp: a multi-layer perceptron on rows of numbers: the\n smallest project, to read ",
            "\n global batch 64 = 1 node × 1 GPU × micro-batch 64 ×\n accumulation 1\n",
        )
        terminal.type(DOWN)
        terminal.expect(
            " » table ", "\n table: a table (CSV, Parquet): predict a quantity or a\n class from "
        )
