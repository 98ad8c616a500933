"""New texts are predicted for as those of the training were."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pyarrow import csv, parquet

import config
import train
from support import common, processes
from tools import predict, trained, unseen

ROWS = [{"text": f'A "good, day" {n}\nfor us.', "label": "yes"} for n in range(20)]
ROWS += [{"text": f"Nothing of {n}", "label": "no"} for n in range(20)]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run."""
    folder = tmp_path_factory.mktemp("texts")
    texts = write(folder / "texts.jsonl", ROWS)
    source = [f"data.source={texts}", f"data.folder={folder}", "data.vocabulary=300"]
    chosen = [f"run.folder={folder}", "run.name=run", "train.max_steps=3", "data.validation=0.25"]
    processes.run(1, train.main, [*common.SMALL, *source, *chosen])
    return folder / "run"


def test_texts_are_those_that_were_held_out(run: Path, tmp_path: Path) -> None:
    """The same texts give the same predictions, beside all that their file has."""
    predict.main([str(run), "--output", str(tmp_path / "held_out.csv")])
    expected = csv.read_csv(tmp_path / "held_out.csv").to_pylist()
    seed = config.load(run / "config.toml").data.split_seed
    order = torch.randperm(len(ROWS), generator=torch.Generator().manual_seed(seed)).tolist()
    rows = [{"number": str(place), "text": ROWS[place]["text"]} for place in order[:10]]
    new = write(tmp_path / "new.jsonl", rows)
    predict.main([str(run), new, "--output", str(tmp_path / "new.csv")])
    options = csv.ParseOptions(newlines_in_values=True)
    found = csv.read_csv(tmp_path / "new.csv", parse_options=options).to_pylist()
    assert [str(row["number"]) for row in found] == [row["number"] for row in rows]
    assert [ROWS[place]["label"] for place in order[:10]] == [row["target"] for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert row["predicted"] == other["predicted"]
        assert row["probability"] == pytest.approx(other["probability"], rel=1e-4)


def test_other_columns_come_along(run: Path, tmp_path: Path) -> None:
    """Of whatever types, and those that the first record lacks."""
    more: list[dict[str, Any]] = [
        {"id": 1, "size": 2**70, "at": {"day": 1, "of": "ü"}, "tags": ["a"]},
        {"id": "x", "size": 1, "late": 5},
        {"late": None, "tags": ["b", 2]},
    ]
    new = write(tmp_path / "new.jsonl", [{"text": "Good", **columns} for columns in more])
    predict.main([str(run), new, "--output", str(tmp_path / "new.csv")])
    names = ("id", "size", "late", "tags")
    options = csv.ConvertOptions(column_types=dict.fromkeys(names, "string"))
    found = csv.read_csv(tmp_path / "new.csv", convert_options=options).to_pylist()
    assert [row["id"] for row in found] == ["1", "x", ""]
    assert [row["size"] for row in found] == [str(2**70), "1", ""]
    assert [row["late"] for row in found] == ["", "5", ""]
    assert [row["tags"] for row in found] == ['["a"]', "", '["b", 2]']
    assert found[0]["at"] == '{"day": 1, "of": "ü"}'
    assert all(row["predicted"] in ("no", "yes") for row in found)
    predict.main([str(run), new, "--output", str(tmp_path / "new.parquet")])
    assert parquet.read_table(tmp_path / "new.parquet")["at"][0].as_py() == {"day": 1, "of": "ü"}


def test_tokens_that_the_network_does_not_know_are_named(run: Path, tmp_path: Path) -> None:
    """The tokenizer of a pretrained network may have more: a GPU would only abort."""
    opened = trained.open_run(run)
    few = opened._replace(shape=replace(opened.shape, vocabulary=5))
    path = tmp_path / "new.jsonl"
    write(path, [{"text": "Some words."}])
    with pytest.raises(config.ConfigError, match=r"new.jsonl: .*, and the model knows 5: call"):
        unseen.read([path], few)


def test_files_that_do_not_fit_are_named(run: Path, tmp_path: Path) -> None:
    """With the record, and nothing is written."""
    (tmp_path / "commas.csv").write_text("text\nGood, and bad\n")
    mistakes = {
        "record 2 has no 'text'": write(tmp_path / "1.jsonl", [ROWS[0], {"label": "yes"}]),
        "record 1 has 2 cells, the first line has 1": str(tmp_path / "commas.csv"),
        "there are no rows": write(tmp_path / "2.jsonl", []),
        "absent": str(tmp_path / "absent.csv"),
    }
    for reason, path in mistakes.items():
        with pytest.raises(config.ConfigError, match=reason):
            predict.main([str(run), path])
    (tokenizer,) = run.parent.glob("*/tokenizer")
    shutil.rmtree(tokenizer)
    with pytest.raises(config.ConfigError, match="prepare the data once more"):
        predict.main([str(run), str(run.parent / "texts.jsonl")])
    assert not (run / "predictions.csv").exists()
