"""The data: bundled tables, and rows of the user's own files."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from pyarrow import csv, parquet

import config
import data
from support import common


def write_table(path: Path, rows: int = 40, power: float = 0.5) -> None:
    """Seconds since 1970, a constant but for a row that is held out, and words, ever more often."""
    numbers, words = range(rows), [f"kind {int(n**power)}" for n in range(rows)]
    sizes, constant = [1.6e9 + n for n in numbers], [1.0 + (n == 4) for n in numbers]
    table = pa.table({"size": sizes, "constant": constant, "kind": words})
    (csv.write_csv if path.suffix == ".csv" else parquet.write_table)(table, path)


def settings(folder: Path, source: Path | str, target: str = "kind") -> config.Data:
    overrides = (f"data.folder={folder}", f"data.source={source}", f"data.target={target}")
    return common.settings(folder, *overrides).data


@pytest.mark.parametrize("name", ["table.csv", "table.PARQUET"])
def test_own_file(name: str, tmp_path: Path) -> None:
    """Every row is in one split, features are scaled by the training rows, labels are numbered."""
    write_table(tmp_path / name)
    cfg = settings(tmp_path, tmp_path / name)
    data.prepare(cfg)
    train, val, shape = data.open_splits(cfg)
    assert (shape.features, shape.classes, len(train), len(val)) == (2, 7, 32, 8)
    assert [*map(float, torch.std_mean(train.tensors[0][:, 0]))] == pytest.approx([1, 0], abs=1e-6)
    inputs, targets = (torch.cat(each) for each in zip(train.tensors, val.tensors, strict=True))
    gaps = inputs.unique(dim=0).diff(dim=0)
    assert (gaps - gaps[0]).abs().less(1e-5).sum() == 76 and inputs.max() < 9, "not scaled alike"
    assert targets.bincount().tolist() == [1, 3, 5, 7, 9, 11, 4]
    assert shape.names[:-1] == ["size", "constant", *(f"kind {n}" for n in range(7))]
    assert data.prepared_path(settings(tmp_path, cfg.source, "size")) != data.prepared_path(cfg)
    write_table(tmp_path / name, rows=10, power=1)
    data.prepare(cfg)
    assert data.open_splits(cfg).shape.classes == 10, "not the classes of all rows"


@pytest.mark.parametrize("name", ["digits", "wine", "breast_cancer"])
def test_bundled_sets(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come without network and whole, and the same rows are held out each time."""
    cfg = settings(tmp_path, name)
    with monkeypatch.context() as ended:
        ended.setattr(os, "replace", lambda *_: None)  # as if the process ended just before
        data.prepare(cfg)
    assert not data.prepared_path(cfg).exists(), "half written, and taken for whole"
    data.prepare(cfg)
    first, second = data.open_splits(cfg), data.open_splits(cfg)
    assert first.val[:][0].equal(second.val[:][0]), "other rows are held out each time"
    assert first.shape.classes == len(first.train.tensors[1].unique())


REFUSED = {
    "1.5,a\n,b\n": r"column 'size' is empty in row 2",
    "1.5,a\nmany,b\n": r"column 'size' is '1\.5' in row 1",
    "1.5,a\ninf,b\n": r"column 'size' is inf in row 2",
    "1,0.25\n2,0.5\n": r"2 different values in 2 rows, which are no classes",
    "1,1\n2,\n3,1\n": r"row 2 has no target",
    "1,a\n2,a\n": r"1 different values in 2 rows, which are no classes",
}


@pytest.mark.parametrize("cells", REFUSED)
def test_cells_that_do_not_fit_are_named(cells: str, tmp_path: Path) -> None:
    """With column and row, before anything is trained; and names with those that would be right."""
    (tmp_path / "table.csv").write_text("size,kind\n" + cells)
    names = {"no.csv": "no such file", "diggits": "digits, wine", "table.csv": REFUSED[cells]}
    for name, words in names.items():
        with pytest.raises(config.ConfigError, match=words):
            data.prepare(settings(tmp_path, tmp_path / name))
    with pytest.raises(config.ConfigError, match=r"choose of \['size', 'kind'\]"):
        data.prepare(settings(tmp_path, tmp_path / "table.csv", target="label"))
