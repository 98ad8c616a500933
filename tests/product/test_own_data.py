"""The line of a project's README that trains on data of the user's own, followed literally."""

import csv
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from ddpgen.asking import questions
from product import forkserver, template, test_encoders
from product.programs import completed

# Its arguments, where a family has the line.
LINE = re.compile(r"^\$ python train.py (data\..*?) +# your data", re.MULTILINE)


def lines() -> dict[str, str]:
    """Model -> arguments, of all families whose README has the line."""
    models = questions.load().questions["model"].values
    readmes = {m: template.text("README.md", completed({"model": m})) or "" for m in models}
    return {model: line for model, text in readmes.items() for line in LINE.findall(text)}


def write_rows(path: Path, header: str, rows: list[list[object]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(), *rows])


def flowers(path: Path) -> None:
    draw = random.Random(0)
    kinds = {"daisy": 1.0, "rose": 3.0, "tulip": 5.0}
    rows: list[list[object]] = [
        [kind, round(mean + draw.random(), 2), round(draw.random(), 2)]
        for kind, mean in kinds.items()
        for _ in range(40)
    ]
    write_rows(path, "species petal stem", rows)


def sales(path: Path) -> None:
    draw = random.Random(0)
    rows: list[list[object]] = [
        [draw.choice(["north", "south"]), draw.choice([1, 2, ""]), round(draw.uniform(1, 99), 2)]
        for _ in range(120)
    ]
    write_rows(path, "region rooms price", rows)


def photos(path: Path) -> None:
    from PIL import Image

    draw = random.Random(0)
    for kind in ("cat", "dog"):
        (path / kind).mkdir(parents=True)
        for number in range(20):
            size = (draw.randint(50, 90), draw.randint(50, 90))
            colour = (draw.randint(0, 255), draw.randint(0, 255), draw.randint(0, 255))
            Image.new("RGB", size, colour).save(path / kind / f"{number}.jpg")


def texts(path: Path) -> None:
    path.mkdir()
    for number in range(5):
        words = [f"word {n * n} of text {number}." for n in range(2000)]
        (path / f"{number}.txt").write_text("\n".join(words))


def chats(path: Path) -> None:
    with path.open("w") as file:
        for number in range(80):
            said = {"user": f"What is {number} plus 1?", "assistant": f"That is {number + 1}."}
            messages = [{"role": role, "content": words} for role, words in said.items()]
            file.write(json.dumps({"messages": messages}) + "\n")


def reviews(path: Path) -> None:
    rows: list[list[object]] = [[f"I have read {n} pages of this.", n % 5 + 1] for n in range(120)]
    write_rows(path, "text stars", rows)


WRITTEN: dict[str, Callable[[Path], None]] = {
    "flowers.csv": flowers,
    "sales.csv": sales,
    "photos": photos,
    "texts/": texts,
    "chats.jsonl": chats,
    "reviews.csv": reviews,
}


@pytest.mark.parametrize(("model", "line"), lines().items())
def test_line_of_the_readme_trains(model: str, line: str, tmp_path: Path) -> None:
    """On two ranks, and with nothing else changed but the number of steps."""
    template.write(completed({"model": model}), tmp_path)
    arguments = line.split()
    source = arguments[0].removeprefix("data.source=")
    WRITTEN[source](tmp_path / source)
    run = forkserver.train(tmp_path, 2, [*arguments, "train.max_steps=2"])
    assert run.codes == [0, 0], run.output
    assert "lowest validation loss" in run.output


def exchange_columns(folder: Path) -> None:
    path = folder / "flowers.csv"
    path.write_text(path.read_text().replace("petal,stem", "stem,petal"))


def rename_kind(folder: Path) -> None:
    path = folder / "flowers.csv"
    path.write_text(path.read_text().replace("tulip", "violet"))


def rename_column(folder: Path) -> None:
    path = folder / "sales.csv"
    path.write_text(path.read_text().replace("rooms", "space", 1))


def rename_category(folder: Path) -> None:
    path = folder / "sales.csv"
    path.write_text(path.read_text().replace("north", "west"))


def correct_cells(folder: Path) -> None:
    """As many rows as before, of which some numbers are others."""
    path = folder / "sales.csv"
    path.write_text(path.read_text().replace(",2,", ",3,"))


def change_currency(folder: Path) -> None:
    """As of some prices, which all get a digit in front."""
    header, *rows = (folder / "sales.csv").read_text().splitlines()
    dearer = (",1".join(row.rsplit(",", 1)) for row in rows)
    (folder / "sales.csv").write_text("\n".join([header, *dearer]))


def rename_class(folder: Path) -> None:
    (folder / "photos/cat").rename(folder / "photos/wolf")


def rename_label(folder: Path) -> None:
    path = folder / "reviews.csv"
    path.write_text(path.read_text().replace("this.,1", "this.,6"))


def change_words(folder: Path) -> None:
    """As many texts of the same lengths and labels; a tokenizer learns other tokens from them."""
    for path in (*folder.glob("reviews.csv"), *folder.glob("chats.jsonl")):
        path.write_text(path.read_text().replace("pages", "books").replace("What", "Such"))


def exchange_rows(folder: Path) -> None:
    """The first is the last now: another of them is held out."""
    for path in folder.glob("*.csv"):
        header, first, *rows = path.read_text().splitlines()
        path.write_text("\n".join([header, *rows, first]))


def exchange_texts(folder: Path) -> None:
    first, *rows = (folder / "chats.jsonl").read_text().splitlines()
    (folder / "chats.jsonl").write_text("\n".join([*rows, first]))


def exchange_documents(folder: Path) -> None:
    """As many bytes as before, in another file: the text that is held out is another."""
    held_out, other = sorted((folder / "texts").iterdir())[:2]
    words = held_out.read_text(), other.read_text()
    held_out.write_text(words[0].replace("word", "term"))
    other.write_text(words[1].replace("word", "term"))


def exchange_images(folder: Path) -> None:
    """As many of the same classes, under other names."""
    path = folder / "photos/cat/0.jpg"
    path.rename(path.with_name("99.jpg"))


RENAMED = [
    ("mlp", exchange_columns, "'petal'"),
    ("mlp", rename_kind, "'tulip'"),
    ("table", rename_column, "'rooms'"),
    ("table", rename_category, "'region=north'"),
    ("table", correct_cells, "'unit of rooms: .*'"),
    ("table", change_currency, "'unit of the target: .*'"),
    ("resnet", rename_class, "'cat'"),
    ("vision", rename_class, "'cat'"),
    ("mlp", exchange_rows, r"'values \w+'"),
    ("table", exchange_rows, "'unit of .*'"),
    ("gpt", exchange_documents, r"'tokens \w+'"),
    ("resnet", exchange_images, r"'values \w+'"),
    ("vision", exchange_images, r"'values \w+'"),
    ("text-classifier", exchange_rows, r"'(tokenizer|values) \w+'"),
    ("causal-lm", exchange_texts, r"'(tokenizer|values) \w+'"),
    ("text-classifier", rename_label, "'1'"),
    ("text-classifier", change_words, r"'tokenizer \w+'"),
    ("causal-lm", change_words, r"'tokenizer \w+'"),
]


@pytest.mark.parametrize(("model", "change", "name"), RENAMED)
def test_names_that_changed_end_a_resume(
    model: str, change: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    """As many rows and names as before: the weights would fit, and mean other things."""
    template.write(completed({"model": model, "checkpoint": True}), tmp_path)
    arguments = lines()[model].split()
    source = arguments[0].removeprefix("data.source=")
    WRITTEN[source](tmp_path / source)
    small = ["data.window=32", "data.windows_per_epoch=64"] if model == "gpt" else []
    arguments += [*small, "run.name=run", "train.max_steps=2"]
    assert forkserver.train(tmp_path, 2, arguments).codes == [0, 0]
    goes_on = forkserver.train(tmp_path, 2, [*arguments, "train.max_steps=3"])
    assert goes_on.codes == [0, 0], goes_on.output
    change(tmp_path)
    refused = forkserver.train(tmp_path, 2, [*arguments, "train.max_steps=4"])
    assert 2 in refused.codes, refused.output
    said = f"{name} of the data changed: choose another run.name"
    assert re.search(said, refused.output), refused.output


@pytest.mark.parametrize("model", ["mlp", "table", "resnet", "gpt", "text-classifier"])
def test_data_that_moved_are_the_same(model: str, tmp_path: Path) -> None:
    """As on another machine: the run goes on, and says where it reads."""
    template.write(completed({"model": model, "checkpoint": True}), tmp_path)
    arguments = lines()[model].split()
    source = arguments[0].removeprefix("data.source=")
    WRITTEN[source](tmp_path / source)
    small = ["data.window=32", "data.windows_per_epoch=64"] if model == "gpt" else []
    arguments += [*small, "run.name=run", "train.max_steps=2"]
    assert forkserver.train(tmp_path, 2, arguments).codes == [0, 0]
    (tmp_path / "moved").mkdir()
    (tmp_path / source).rename(tmp_path / "moved" / source)
    arguments[0] = f"data.source={tmp_path / 'moved' / source}"
    moved = forkserver.train(tmp_path, 2, [*arguments, "train.max_steps=3"])
    assert moved.codes == [0, 0], moved.output
    assert f"data.source was {source!r}, is '{tmp_path}/moved" in moved.output


def test_pretrained_network_may_move(tmp_path: Path) -> None:
    """The run goes on with the same network elsewhere, and not with another of that size."""
    template.write(completed({"model": "text-classifier", "checkpoint": True}), tmp_path)
    words = test_encoders.write_reviews(tmp_path / "reviews.jsonl")
    test_encoders.save(tmp_path / "encoder", "bert", words)
    arguments = ["data.source=reviews.jsonl", "data.length=12", "run.name=run"]
    first = [*arguments, "data.pretrained=encoder", "train.max_steps=2"]
    assert forkserver.train(tmp_path, 2, first).codes == [0, 0]
    (tmp_path / "encoder").rename(tmp_path / "moved")
    moved = [*arguments, "data.pretrained=moved", "train.max_steps=3"]
    goes_on = forkserver.train(tmp_path, 2, moved)
    assert goes_on.codes == [0, 0], goes_on.output
    assert "data.pretrained was 'encoder', is 'moved'" in goes_on.output
    path = tmp_path / "moved/config.json"
    path.write_text(path.read_text().replace('"hidden_act": "gelu"', '"hidden_act": "relu"'))
    refused = forkserver.train(tmp_path, 2, [*moved[:-1], "train.max_steps=4"])
    assert 2 in refused.codes, refused.output
    assert re.search(r"'network \w+' of the data changed", refused.output), refused.output


@pytest.mark.parametrize("target", [[1, 2], {"kind": 1}])
def test_targets_of_several_values_are_refused(target: object, tmp_path: Path) -> None:
    template.write(completed({"model": "mlp"}), tmp_path)
    table = pa.table({"size": range(40), "kind": [target] * 40})
    parquet.write_table(table, tmp_path / "sizes.parquet")
    arguments = ["data.source=sizes.parquet", "data.target=kind", "run.name=run"]
    refused = forkserver.train(tmp_path, 2, arguments)
    assert 2 in refused.codes, refused.output
    assert "sizes.parquet: row 1 has no target, a text or a number" in refused.output


def test_most_families_have_the_line() -> None:
    assert len(lines()) >= 7
