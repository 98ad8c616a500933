"""New images are predicted for as those of the training were."""

import os
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import csv, parquet

import config
import data
import train
from support import common, processes
from tools import predict

COLOURS = {"blue": (0, 0, 255), "red": (255, 0, 0)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run on images of two colours, in one folder each."""
    folder = tmp_path_factory.mktemp("images")
    for name, colour in COLOURS.items():
        (folder / "images" / name).mkdir(parents=True)
        for number in range(12):
            image = Image.new("RGB", (20 + number, 30), colour)
            image.save(folder / "images" / name / f"{number}.png")
    source = [f"data.source={folder / 'images'}", f"data.folder={folder}"{{ ', "data.channels=3"' if model == 'resnet' else '' }}]
    chosen = [f"run.folder={folder}", "run.name=run", "train.max_steps=3", "data.image_size=16"]
    processes.run(1, train.main, [*common.SMALL, *source, *chosen])
    return folder / "run"


def test_images_are_those_that_were_held_out(run: Path, tmp_path: Path) -> None:
    """The same files give the same predictions, and a folder gives all its images."""
    predict.main([str(run), "--output", str(tmp_path / "held_out.csv")])
    expected = csv.read_csv(tmp_path / "held_out.csv").to_pylist()
    assert {row["predicted"] for row in expected} <= COLOURS.keys()
    val = data.open_splits(config.load(run / "config.toml").data).val
    assert isinstance(val, data.{{ "Images" if model == "vision" else "ImageFiles" }})
    files = [str(val.root / val.files.place(index).path) for index in range(len(val))]
    predict.main([str(run), *files, "--output", str(tmp_path / "new.csv")])
    found = csv.read_csv(tmp_path / "new.csv").to_pylist()
    assert [row["file"] for row in found] == files
    for row, other in zip(found, expected, strict=True):
        assert row["predicted"] == other["predicted"]
        assert row["probability"] == pytest.approx(other["probability"], rel=1e-4)
        assert Path(row["file"]).parent.name == other["target"]
    predict.main([str(run), str(run.parent / "images"), "--output", str(tmp_path / "new.csv")])
    assert len(csv.read_csv(tmp_path / "new.csv")) == 24


def test_images_in_shards_are_those_of_files(run: Path, tmp_path: Path) -> None:
    """A tar and a Parquet file without classes; each row says which member or row it is of."""
    paths = sorted((run.parent / "images").rglob("*.png"))
    (tmp_path / "shards").mkdir()
    members = [f"{path.parent.name}-{path.name}" for path in paths]
    with tarfile.open(tmp_path / "shards" / "0.tar", "w") as archive:
        for path, member in zip(paths, members, strict=True):
            archive.add(path, member)
    rows = pa.table({"image": [path.read_bytes() for path in paths], "id": [*range(len(paths))]})
    parquet.write_table(rows, tmp_path / "rows.parquet", row_group_size=5)
    given = [*paths, tmp_path / "shards", tmp_path / "rows.parquet"]
    predict.main([str(run), *map(str, given), "--output", str(tmp_path / "new.csv")])
    found = csv.read_csv(tmp_path / "new.csv").to_pylist()
    count = len(paths)
    for names, begin in (
        ([f"{tmp_path}/shards/0.tar: {member}" for member in members], count),
        ([f"{tmp_path}/rows.parquet: row {number}" for number in range(1, count + 1)], 2 * count),
    ):
        part = found[begin : begin + count]
        assert [row["file"] for row in part] == names
        for row, expected in zip(part, found, strict=False):
            assert row["predicted"] == expected["predicted"]
            assert row["probability"] == pytest.approx(expected["probability"], rel=1e-4)
    Image.new("RGB", (9, 9)).save(tmp_path / "shards" / "loose.png")
    with pytest.raises(config.ConfigError, match=r"0\.tar, and also images"):
        predict.main([str(run), str(tmp_path / "shards")])


def test_a_name_may_have_any_bytes(run: Path, tmp_path: Path) -> None:
    """Text in the predictions shows them as a sign for what is unknown."""
    path = tmp_path / os.fsdecode(b"sk\xff y.png")
    Image.new("RGB", (20, 20), COLOURS["red"]).save(path)
    predict.main([str(run), str(path), "--output", str(tmp_path / "new.csv")])
    assert csv.read_csv(tmp_path / "new.csv").to_pylist()[0]["file"] == f"{tmp_path}/sk\ufffd y.png"


def test_files_that_are_no_images_are_named(run: Path, tmp_path: Path) -> None:
    """Nothing is written."""
    (tmp_path / "notes.png").write_text("not an image")
    (tmp_path / "empty").mkdir()
    with tarfile.open(tmp_path / "cut.tar", "w") as archive:
        archive.add(tmp_path / "notes.png", "a/0.png")
    parquet.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    mistakes = {
        "notes.png": "notes.png cannot be read as an image",
        "empty": "neither a file nor a folder that holds images",
        "cut.tar": r"cut\.tar: a/0\.png cannot be read as an image",
        "x.parquet": r"one column of the bytes of images; has x \(int64\)",
        "absent.png": "neither a file nor a folder that holds images",
    }
    for name, reason in mistakes.items():
        with pytest.raises(config.ConfigError, match=reason):
            predict.main([str(run), str(tmp_path / name)])
    assert not (run / "predictions.csv").exists()
