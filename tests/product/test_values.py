"""A number that no run can use is refused by name, in every family."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ddpgen.rendering.render import render
from product import forkserver, template
from product.programs import completed

MODELS = template.QUESTIONS["model"].values
MEANT = {"data.split_seed=-1", "train.clip_norm=inf"}
LOAD = """
import json, sys, config
from pathlib import Path
for override in json.load(sys.stdin):
    try:
        config.load(Path("config.toml"), [override])
        print("taken")
    except config.ConfigError as error:
        print(error)
"""


def wrong(folder: Path) -> list[str]:
    """Overrides that make each number negative, and each float also infinite or not a number."""
    tables = tomllib.loads((folder / "config.toml").read_text())
    numbers = {f"{s}.{k}": v for s, table in tables.items() for k, v in table.items()}
    whole = [f"{name}=-1" for name, value in numbers.items() if type(value) is int]
    floats = [name for name, value in numbers.items() if type(value) is float]
    return whole + [f"{name}={text}" for name in floats for text in ("-1.0", "inf", "nan")]


@pytest.mark.parametrize("model", MODELS)
def test_numbers_without_sense_are_refused(model: str, tmp_path: Path) -> None:
    render({"model": model, "compression": True, "dynamic_graph": True}, tmp_path / "project")
    overrides = wrong(tmp_path / "project")
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        cwd=tmp_path / "project",
        input=json.dumps(overrides),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    for override, words in zip(overrides, done.stdout.splitlines(), strict=True):
        name, _, value = override.partition("=")
        if override in MEANT:
            assert words == "taken", override
        else:
            assert words.startswith(f"{name} = {value} must be "), override


LONG = {
    f"run.seed={2**64}": "has more than the 64 bits of a whole number",
    f"data.split_seed=-{2**63}": "has more than the 64 bits of a whole number",
    f"train.clip_norm={10**400}": "has more than the 64 bits of a whole number",
    f"train.epochs={'9' * 5000}": "must be a whole number",
    f"train.epochs={'[' * 3000}": "must be a whole number",
    "ddp.timeout_seconds=10000000000": "must be at least 1 and below 2**31",
    "ddp.bucket_mb=9000000000000": "must be at least 0 and below 2**31",
    "data.workers=1000000": "data.workers = 1000000 must be from 0 to 16 a core",
    "checkpoint.max_minutes=3h 20m": "checkpoint.max_minutes = '3h 20m' must be a number",
    "checkpoint.max_minutes=01:30:00": "checkpoint.max_minutes = 01:30:00 must be a number",
    "log.curve=False": "log.curve = 'False' must be true or false",
    "run.matmul_precision=2020-01-01": 'choose one of "highest", "high", "medium"',
    "--processes=0": "--processes 0 must be at least 1",
    "--processes=-3": "--processes -3 must be at least 1",
}


@pytest.mark.parametrize("argument", LONG)
def test_numbers_that_no_computer_takes_are_refused(argument: str, tmp_path: Path) -> None:
    """Such numbers ended in a traceback, and `--processes 0` trained on one process."""
    template.write({"model": "mlp"}, tmp_path)
    run = forkserver.train(tmp_path, 1, [argument])
    assert run.codes == [2], run.output
    assert LONG[argument] in run.output, run.output
    assert "Traceback" not in run.output, run.output


def test_a_run_may_be_meant_to_last(tmp_path: Path) -> None:
    """A table of its learning rates took more memory than there is."""
    template.write({"model": "mlp"}, tmp_path)
    lasting = [f"train.epochs={2**31 - 1}", "checkpoint.max_minutes=0.001"]
    run = forkserver.train(tmp_path, 1, lasting)
    assert run.codes == [75], run.output


@pytest.mark.parametrize(
    "command",
    [
        *("scaling --ranks -4", "scaling --bandwidth nan", "scaling --latency-within inf"),
        *("memory --ranks 0", "memory --gib inf", "memory --ranks-per-node -2"),
    ],
)
def test_tools_refuse_numbers_without_sense(command: str, tmp_path: Path) -> None:
    """These ended in a traceback, after all was measured, or in figures of nothing."""
    render({"model": "mlp", "tools": ["memory", "scaling"]}, tmp_path / "project")
    tool, option, value = command.split()
    done = subprocess.run(
        [sys.executable, "-m", f"tools.{tool}", option, value],
        cwd=tmp_path / "project",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr == f"error: {option} {value} must be above 0, and finite\n"


HOME = """
import config
from pathlib import Path
given = ["data.source=~/rows.csv", "run.name=~", "run.folder=a~/b"]
cfg = config.load(Path("~/config.toml"), given)
print(cfg.data.source, cfg.run.name, cfg.run.folder)
"""


def test_a_config_may_be_marked_as_utf_8(tmp_path: Path) -> None:
    """As Windows writes the file; the mark was told as a mistake of TOML."""
    template.write({"model": "mlp"}, tmp_path)
    (tmp_path / "own.toml").write_text("[train]\r\nmax_steps = 1\r\n", "utf-8-sig")
    run = forkserver.train(tmp_path, 1, ["--config=own.toml"])
    assert run.codes == [0], run.output
    assert "step 1/1" in run.output
    (tmp_path / "own.toml").write_text("[train]\nmax_steps = " + "[" * 3000)
    run = forkserver.train(tmp_path, 1, ["--config=own.toml"])
    assert run.codes == [2], run.output
    assert "own.toml is not valid TOML" in run.output


@pytest.mark.parametrize("channels", ["2", "4", "true"])
def test_channels_are_those_of_images(channels: str, tmp_path: Path) -> None:
    """Other numbers ended in a traceback of the first convolution."""
    template.write({"model": "resnet"}, tmp_path)
    run = forkserver.train(tmp_path, 1, [f"data.channels={channels}"])
    assert run.codes == [2], run.output
    assert "error: data.channels = " in run.output


def test_a_path_may_begin_in_the_home(tmp_path: Path) -> None:
    """No shell puts a folder in the place of `~` behind `section.key=` and `--config=`."""
    template.write({"model": "mlp"}, tmp_path / "project")
    shutil.copy(tmp_path / "project" / "config.toml", tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", HOME],
        cwd=tmp_path / "project",
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{tmp_path}/rows.csv ~ a~/b\n"


def test_words_of_a_tokenizer_fit_into_memory(tmp_path: Path) -> None:
    """The library ended the process."""
    template.write({"model": "text-classifier"}, tmp_path)
    run = forkserver.train(tmp_path, 1, ["data.vocabulary=2000000000"])
    assert run.codes == [2], run.output
    assert "data.vocabulary = 2000000000 must be at least 1 and below 2**24" in run.output


SIZES = {
    "gpt": ("model.width=100", "model.width = 100 must be a multiple of 2 * model.heads"),
    "causal-lm": ("model.width=100", "model.width = 100 must be a multiple of 2 * model.heads"),
    "text-classifier": ("model.width=90", "model.width = 90 must be a multiple of model.heads"),
    "vision": ("model.width=90", "model.width = 90 must be a multiple of model.heads"),
    "resnet": ("model.width=40", "model.width = 40 must be a multiple of 16"),
    "custom": ("model.width=44", "model.width = 44 must be a multiple of 8"),
}
NORMED = ("resnet", "custom")  # by groups of channels, or by batches of any width


@pytest.mark.parametrize("model", SIZES)
def test_sizes_that_do_not_fit_each_other_are_named(model: str, tmp_path: Path) -> None:
    answers = {"model": model} | ({"batch_norm": "group"} if model in NORMED else {})
    template.write(completed(answers), tmp_path)
    override, sentence = SIZES[model]
    run = forkserver.train(tmp_path, 1, [override])
    assert (run.codes, f"error: {sentence}" in run.output) == ([2], True), run.output


@pytest.mark.parametrize("model", NORMED)
@pytest.mark.parametrize("norm", ["local", "sync", "group"])
def test_only_groups_limit_the_width(model: str, norm: str, tmp_path: Path) -> None:
    """And the config says so."""
    template.write(completed({"model": model, "batch_norm": norm}), tmp_path)
    said = "a multiple of " in (tmp_path / "config.toml").read_text()
    assert said == (norm == "group")
