"""What new users brought, trained on two ranks without an edit, against a baseline of this file."""

import csv
import json
import math
import os
import random
import statistics
import subprocess
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from tokenizers import ByteLevelBPETokenizer, Tokenizer

from ddpgen.rendering.render import render
from product import forkserver, template
from product.preloaded import run_tests

ROWS = 600
Tool = Callable[..., subprocess.CompletedProcess[str]]
HEADER = ["size", "rooms", "district", "rent", "dear"]


def flats() -> list[list[object]]:
    """Rents by size and district; some numbers of rooms are unknown."""
    draw = random.Random(0)
    rows = []
    for _ in range(ROWS):
        size, district = draw.uniform(20, 120), draw.choice(["north", "south", "east"])
        factor = {"north": 10, "south": 14, "east": 8}[district]
        rent = round(size * factor + draw.gauss(0, 40), 2)
        rooms = "" if draw.random() < 0.1 else round(size / 25) + 1
        rows.append([round(size, 1), rooms, district, rent, "yes" if rent > 900 else "no"])
    return rows


def write(path: Path, rows: Sequence[Sequence[object]], header: Sequence[str] = HEADER) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def last(project: Path, ranks: int, overrides: list[str]) -> dict[str, float]:
    """The last evaluation of a training."""
    run = forkserver.train(project, ranks, [*overrides, "run.name=run", "log.curve=false"])
    assert run.codes == [0] * ranks, run.output[-3000:]
    lines = (project / "runs" / "run" / "metrics.jsonl").read_text().splitlines()
    found: dict[str, float] = json.loads(lines[-1])
    return found


@pytest.fixture
def run_tool(forked: Path) -> Tool:
    """Runs one of a project's programs as a user does."""
    return partial(_run_tool, forked / "python")


def _run_tool(python: Path, project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", *arguments],
        cwd=project,
        env={**os.environ, **forkserver.ONE_THREAD},
        capture_output=True,
        text=True,
        check=False,
    )


def predictions(run_tool: Tool, project: Path, *arguments: str) -> list[dict[str, str]]:
    """What the trained run predicts: for files, or for what was held out."""
    done = run_tool(project, "tools.predict", "runs/run", *arguments, "--output", "found.csv")
    assert done.returncode == 0, done.stderr
    with (project / "found.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def mean_error(rows: list[dict[str, str]], target: str) -> float:
    return statistics.mean(abs(float(row[target]) - float(row["predicted"])) for row in rows)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    template.write({"model": "table", "amp": "off", "tools": ["predict"]}, tmp_path / "project")
    return tmp_path / "project"


def test_a_price_to_predict(tables: Path, run_tool: Tool) -> None:
    """In its own unit, from a text, a number with gaps and a number: far below the median's.

    Also for rows that the run never saw. One process predicts what two ranks evaluated.
    """
    rows, unseen = flats()[:-100], flats()[-100:]
    path = write(tables / "flats.csv", rows)
    overrides = [f"data.source={path}", "data.target=rent", 'data.leave_out=["dear"]']
    found = last(tables, 2, overrides)
    rents = [float(str(row[3])) for row in rows]
    middle = statistics.median(rents)
    baseline = statistics.mean(abs(rent - middle) for rent in rents)
    assert found["val_mae"] < 0.3 * baseline
    assert found["val_mae"] < found["val_rmse"] < baseline
    held_out = predictions(run_tool, tables, "--newest")
    assert mean_error(held_out, "target") == pytest.approx(found["val_mae"], rel=1e-4)
    new = write(tables / "new.csv", unseen)
    assert mean_error(predictions(run_tool, tables, "new.csv"), "rent") < 0.3 * baseline
    write(new, [[*row[:1], *row[2:]] for row in unseen], [HEADER[0], *HEADER[2:]])
    done = run_tool(tables, "tools.predict", "runs/run", "new.csv")
    assert done.returncode == 2
    assert done.stderr == "error: new.csv has no column 'rooms': the model needs one\n"


def test_a_class_to_predict(tables: Path) -> None:
    """From several files: the rest of the errors is a quarter of the commonest class's."""
    rows = flats()
    for number in range(3):
        write(tables / f"part{number}.csv", rows[number::3])
    source = f"data.source={tables}/part*.csv"
    found = last(tables, 2, [source, "data.target=dear", 'data.leave_out=["rent"]'])
    commonest = Counter(str(row[4]) for row in rows).most_common(1)[0][1] / ROWS
    assert 1 - found["val_accuracy"] < (1 - commonest) / 2


# A row of the validation split.
HELD_OUT = int(torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))[0])
BAD = {
    "row 13: column 'size' is 'large'": [*flats()[:12], ["large", 2, "north", 700, "no"]],
    "row 13: column 'rent' is empty": [*flats()[:12], [70, 2, "north", "nan", "no"]],
    "row 13: there are 2 cells for 5 names": [*flats()[:12], [70, 2]],
    "no training row is 'rare'": [
        [*row[:4], "rare" if number == HELD_OUT else row[4]] for number, row in enumerate(flats())
    ],
}


@pytest.mark.parametrize("reason", BAD)
def test_bad_tables_end_at_once(reason: str, tables: Path) -> None:
    """With exit code 2, one line, and nothing left that a next run would take for data."""
    path = write(tables / "bad.csv", BAD[reason])
    target = "dear" if "training row" in reason else "rent"
    left = "rent" if target == "dear" else "dear"
    overrides = [f"data.source={path}", f"data.target={target}", f'data.leave_out=["{left}"]']
    run = forkserver.train(tables, 1, overrides)
    assert run.codes == [2]
    assert reason in run.output
    assert "Traceback" not in run.output
    assert len(run.output.splitlines()) == 1
    assert not list((tables / "data").glob("*.pt"))


WORDS = ["the cat sleeps.", "a dog runs after it.", "nobody knows why.", "it rains again."]


@pytest.mark.parametrize("layout", ["nano", "shards"])
def test_tokens_of_my_own_tokenizer(layout: str, tmp_path: Path, run_tool: Tool) -> None:
    """nanoGPT's files, or shards of int32: better than the entropy of the tokens by themselves.

    What the run writes then are the words of the text.
    """
    draw = random.Random(0)
    text = " ".join(draw.choice(WORDS) for _ in range(4000))
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([text], 300, show_progress=False)
    ids = Tokenizer.from_str(trained.to_str()).encode(text).ids
    folder, code = tmp_path / layout, {"nano": "H", "shards": "i"}[layout]
    folder.mkdir()
    border = 9 * len(ids) // 10
    parts = {"train": ids[:border], "val": ids[border:]}
    if layout == "shards":
        parts = {f"{number:02d}": ids[number * 2000 : (number + 1) * 2000] for number in range(8)}
    for name, part in parts.items():
        (folder / f"{name}.bin").write_bytes(array(code, part).tobytes())
    project = tmp_path / "project"
    template.write({"model": "gpt", "amp": "off", "tools": ["predict"]}, project)
    kind = {"H": "uint16", "i": "int32"}[code]
    source = [f"data.source={folder}", f"data.token_dtype={kind}", "data.vocabulary=300"]
    small = ["data.window=32", "data.windows_per_epoch=320", "model.width=32", "model.layers=1"]
    quick = ["train.epochs=2", "train.global_batch_size=8", "optim.warmup_steps=10"]
    found = last(project, 2, [*source, *small, *quick])
    shares = [count / len(ids) for count in Counter(ids).values()]
    entropy = -sum(share * math.log2(share) for share in shares)
    assert found["val_bits_per_token"] < 0.6 * entropy
    trained.save(str(project / "tokenizer.json"))
    sample = ["tools.sample", "runs/run", "--prompt", "the cat", "--top-p", "0.9"]
    done = run_tool(project, *sample, "--tokenizer", "tokenizer.json")
    assert done.returncode == 0, done.stderr
    known = {word for sentence in WORDS for word in sentence.split()}
    written = done.stdout.split()
    assert len(written) > 50
    assert sum(word in known for word in written) > 0.8 * len(written)


MASKED = {
    "data.py": {
        "    inputs: Tensor  # [B, features] float32\n": "    rows: Tensor\n    mask: Tensor\n",
        "return Batch(self.inputs[rows], self": "return Batch(*masked(self.inputs[rows]), self",
        "class Splits(": (
            "def masked(rows: Tensor) -> tuple[Tensor, Tensor]:\n"
            '    """Rows, and which of their features are known."""\n'
            "    return rows, (rows < 1).float()\n\n\nclass Splits("
        ),
    },
    "model.py": {
        "def forward(self, inputs: Tensor) -> Tensor:\n        x = self.stem(inputs)": (
            "def forward(self, rows: Tensor, mask: Tensor) -> Tensor:\n"
            "        x = self.stem(rows * mask)"
        ),
    },
}


def test_a_second_input_changes_the_data_and_the_model_alone(
    tmp_path: Path, run_tool: Tool, forked: Path
) -> None:
    render({"model": "custom"}, tmp_path)
    for name, edits in MASKED.items():
        text = (tmp_path / name).read_text()
        for old, new in edits.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (tmp_path / name).write_text(text)
    done = run_tool(tmp_path, "mypy", ".")
    assert done.returncode == 0, done.stdout[-3000:]
    python = forked / "python"
    outcome = run_tests(tmp_path, ["-q", "-p", "no:cacheprovider"], python=python)
    assert outcome.code == 0, outcome.output[-3000:]
