"""What lies at a path: said in words, a family proposed, and train.py told where the data are."""

import csv
import json
import random
from array import array
from pathlib import Path

import pytest
from generator.program import ddpgen

from ddpgen.asking import look, questions
from ddpgen.errors import DdpgenError
from product import forkserver, template
from product.programs import completed

SENTENCES = [
    "It arrived broken and late.",
    "I like it, thank you so much.",
    "Not what I ordered, sadly.",
]


def write(path: Path, header: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def flats(path: Path) -> Path:
    """A number, a name of each row, a name of several, gaps, and a price."""
    draw = random.Random(0)
    rows: list[list[object]] = [
        [
            draw.randint(20, 99) + 0.5,
            f"flat {n}",
            draw.choice(["north", "south"]),
            "" if n % 9 == 0 else n % 4,
            draw.randint(300, 9999) / 10,
        ]
        for n in range(60)
    ]
    return write(path, ["size", "name", "district", "rooms", "rent"], rows)


def images(path: Path, *parts: str) -> Path:
    from PIL import Image

    for part in parts or (".",):
        for name, colour in (("cat", "red"), ("dog", "blue"), ("owl", "green")):
            folder = path / part / name
            folder.mkdir(parents=True)
            for number in range(12):
                Image.new("RGB", (20, 20), colour).save(folder / f"{number}.png")
    return path


def reviews(path: Path) -> Path:
    rows = [[f"{n}: {SENTENCES[n % 3]}", ("bad", "good", "bad")[n % 3]] for n in range(60)]
    if path.suffix == ".csv":
        return write(path, ["comment", "stars"], rows)
    path.write_text("".join(json.dumps({"comment": t, "stars": s}) + "\n" for t, s in rows))
    return path


def divided_reviews(path: Path) -> Path:
    path.mkdir()
    reviews(path / "train.csv")
    reviews(path / "val.csv")
    return path


def text(path: Path) -> Path:
    path.write_text("the cat sleeps. " * 2000)
    return path


def tokens(path: Path) -> Path:
    path.mkdir()
    for name in ("train", "val"):
        (path / f"{name}.bin").write_bytes(array("H", [n % 200 for n in range(5000)]).tobytes())
    return path


def tables(path: Path) -> Path:
    path.mkdir()
    for name in ("a", "b"):
        flats(path / f"{name}.csv")
    return path


SOURCES = {
    "flats.csv": (flats, "table", ["60 rows, 5 columns", "to predict: rent -> regression"]),
    "tables": (tables, "table", ["2 tables; of the first:", "60 rows, 5 columns"]),
    "animals": (images, "resnet", ["36 images in 3 classes"]),
    "split": (
        lambda path: images(path, "train", "val"),
        "resnet",
        ["72 images in 3 classes, some of them in val/"],
    ),
    "other name": (
        lambda path: images(path, "train", "validation"),
        "resnet",
        ["72 images in 3 classes, some of them in validation/"],
    ),
    "with test": (lambda path: images(path, "train", "test"), "resnet", ["36 images in 3 classes"]),
    "reviews.csv": (
        reviews,
        "text-classifier",
        ["60 rows, 2 columns: texts in comment, 2 classes in stars"],
    ),
    "reviews.jsonl": (
        reviews,
        "text-classifier",
        ["60 records: texts in comment, 2 classes in stars"],
    ),
    "divided": (divided_reviews, "text-classifier", []),
    "book.txt": (text, "gpt", ["a text of 32,000 bytes"]),
    "shards": (tokens, "gpt", ["2 files of tokens"]),
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_proposed_prepares(name: str, tmp_path: Path) -> None:
    """The family reads the data with the arguments that are proposed."""
    make, model, words = SOURCES[name]
    found = look.look(make(tmp_path / name))
    assert {*words} <= {*found.words}
    assert questions.load().fitting(found.kind) == {"model": model}
    project = tmp_path / "project"
    template.write(completed({"model": model, "tracker": "none", "tools": []}), project)
    run = forkserver.train(project, 1, ["--prepare-only", *found.arguments])
    assert run.codes == [0], run.output


def test_columns_are_described(tmp_path: Path) -> None:
    """Numbers, gaps, and names that tell rows apart, which the model must not see."""
    found = look.look(flats(tmp_path / "flats.csv"))
    assert "rooms: numbers, 4 different, 7 gaps" in found.words
    assert "district: names, 2 different" in found.words
    assert 'data.leave_out=["name"]' in found.arguments


def test_days_are_left_out_and_commas_told(tmp_path: Path) -> None:
    """A table as spreadsheets of other countries write it, with the day of each row at its end."""
    rows = [f"{n};{n * 1000 + 0.5:.2f};2024-0{n % 9 + 1}-11".replace(".", ",") for n in range(60)]
    path = tmp_path / "sales.csv"
    path.write_text("\ufeffsize;Preis (€);sold on\n" + "\n".join(rows), encoding="utf-8")
    found = look.look(path)
    assert "Preis (€): numbers to write as 1234.5, 60 different" in found.words
    assert "sold on: dates, 9 different" in found.words
    assert found.arguments[1:] == [
        "data.target=Preis (€)",
        "data.task=regression",
        'data.leave_out=["sold on"]',
    ]
    plain = write(tmp_path / "plain.csv", ["x", "y"], [[f"{n}.125", n % 2] for n in range(60)])
    assert "x: numbers, 60 different" in look.look(plain).words


@pytest.mark.parametrize(
    ("cells", "task"),
    [
        (["yes", "no"] * 20, "binary"),
        (["red", "green", "blue"] * 20, "classes"),
        ([1, 2, 3] * 20, "classes"),
        (range(60), "regression"),
        ([0.5, 1.5, 2.5] * 20, "regression"),
    ],
)
def test_task_follows_from_the_cells(cells: list[object], task: str, tmp_path: Path) -> None:
    rows = [[n, cell] for n, cell in enumerate(cells)]
    found = look.look(write(tmp_path / "t.csv", ["n", "target"], rows))
    assert f"data.task={task}" in found.arguments


def test_what_nobody_reads_is_said(tmp_path: Path) -> None:
    """Also an empty table and a folder with nothing in it."""
    (tmp_path / "a.docx").touch()
    (tmp_path / "empty.csv").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes.csv").write_bytes(b"a,b\n\xff,1\n")
    for name, reason in {
        "a.docx": "nothing that a family reads",
        "empty.csv": "nothing that a family reads",
        "folder": "nothing that a family reads",
        "bytes.csv": "is not text in UTF-8",
        "absent": "there is no such file or folder",
    }.items():
        with pytest.raises(DdpgenError, match=reason):
            look.look(tmp_path / name)


def test_new_looks_proposes_and_says_how_to_train(tmp_path: Path) -> None:
    """An answer that was given wins, and then nothing is said of other data."""
    flats(tmp_path / "flats.csv")
    done = ddpgen("new", "p", "--defaults", "--data", "flats.csv", cwd=tmp_path)
    assert "to predict: rent -> regression" in done.stderr
    assert f"python train.py data.source={tmp_path}/flats.csv data.target=rent" in done.stdout
    assert "ddpgen new p --defaults --data model=table" in done.stdout
    chosen = ("--data", "flats.csv", "--data", "model=mlp")
    done = ddpgen("new", "q", "--defaults", *chosen, cwd=tmp_path)
    assert "data.source" not in done.stdout
    assert "tools.memory" not in done.stdout
    flats(tmp_path / "lr=0.1.csv")
    assert "rent -> regression" in ddpgen("new", "s", "--data", "lr=0.1.csv", cwd=tmp_path).stderr
    for wrong in (["--data", "absent"], ["--data", "flats.csv", "--data", "."], ["--data", ""]):
        done = ddpgen("new", "r", "--defaults", *wrong, cwd=tmp_path)
        assert done.returncode == 2
        assert "an answer is written key=value" in done.stderr
