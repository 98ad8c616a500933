"""Data that no family reads are named, and the lines that are printed convert them."""

import gzip
import json
import pickle
import struct
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import feather, parquet

from ddpgen.asking import look
from ddpgen.asking.found import Found
from ddpgen.errors import DdpgenError

ROWS = 24  # of each source


def table(between: str, head: str = "") -> str:
    rows = ([f"{n * 1.5}", f"{n % 7 + 0.25}", ("north", "south")[n % 2]] for n in range(ROWS))
    return head + "".join(between.join(row) + "\n" for row in rows)


def quoted(between: str) -> str:
    """Rows with names in quotes, in which stands what is between cells elsewhere."""
    names = (f'"{name},{between} side"' for name in ("north", "south"))
    return table(between).replace("north", next(names)).replace("south", next(names))


def labels() -> str:
    """Lines of fastText; some have two labels."""
    more = ("__label__new ", "")
    return "".join(
        f"__label__{n % 2} {more[n % 2]}This is text {n} of some.\n" for n in range(ROWS)
    )


def array(path: Path, values: Any) -> Path:
    np.save(path, values)
    return path


def arrays(folder: Path) -> Path:
    folder.mkdir()
    for name in ("train", "val"):
        array(folder / f"{name}.npy", np.arange(99, dtype=np.uint16))
    return folder


def mnist(folder: Path, ending: str = "", pack: Callable[[bytes], bytes] = bytes) -> Path:
    folder.mkdir()
    for part in ("train", "t10k"):
        pixels = struct.pack(">4i", 2051, ROWS, 3, 2) + bytes(range(6)) * ROWS
        labels = struct.pack(">2i", 2049, ROWS) + bytes([3, 4] * (ROWS // 2))
        (folder / f"{part}-images-idx3-ubyte{ending}").write_bytes(pack(pixels))
        (folder / f"{part}-labels-idx1-ubyte{ending}").write_bytes(pack(labels))
    return folder


def cifar(folder: Path) -> Path:
    folder.mkdir()
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        values = np.zeros((ROWS, 3072), np.uint8)
        batch = {b"data": values, b"labels": [n % 2 for n in range(ROWS)]}
        (folder / name).write_bytes(pickle.dumps(batch))
    (folder / "batches.meta").write_bytes(pickle.dumps({}))
    return folder


def cifar_bytes(folder: Path) -> Path:
    folder.mkdir()
    for name in ("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"):
        rows = (bytes([n % 2]) + bytes([n]) * 3072 for n in range(ROWS))
        (folder / name).write_bytes(b"".join(rows))
    (folder / "batches.meta.txt").write_text("cat\ndog\n")
    return folder


def flat(folder: Path) -> Path:
    folder.mkdir()
    for number in range(ROWS):
        name = ("cat.{}.jpg", "dog.{}.JPG")[number % 2].format(number)
        Image.new("RGB", (9, 9)).save(folder / name, "JPEG")
    return folder


def news(folder: Path, part: str = "") -> Path:
    for topic in ("sci.space", "rec.autos"):
        (folder / part / topic).mkdir(parents=True)
        for number in range(ROWS // 2):
            words = f"From: me\n\nA long text, number {number}, about all of {topic}.\n"
            (folder / part / topic / f"{number + 51000}").write_text(words)
    return folder


def said(form: str, between: str = "", whole: str = "{}") -> str:
    """Texts of their own, each with a class, in a form of a row."""
    rows = (form.format(f"the word {n} of all words", n % 2) for n in range(ROWS))
    return whole.format(between.join(rows))


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def records() -> list[dict[str, object]]:
    return [{"size": n + 0.5, "place": "ab"[n % 2], "rent": n * 2.5} for n in range(ROWS)]


def arrow() -> pa.Table:
    return pa.Table.from_pylist(records())


def partitions(folder: Path) -> Path:
    for year in (2020, 2021):
        (folder / f"year={year}").mkdir(parents=True)
        parquet.write_table(arrow(), folder / f"year={year}/part-0.parquet")
    return folder


def feathered(path: Path) -> Path:
    feather.write_feather(arrow(), path)
    return path


def streamed(path: Path) -> Path:
    with pa.ipc.new_stream(path, arrow().schema) as stream:
        stream.write_table(arrow())
    return path


def messages() -> list[dict[str, object]]:
    """Trees of a question, two answers, and a question to the second that nobody answered."""
    rows = []
    for tree in range(ROWS):
        for name, parent, role in (
            ("q", None, "prompter"),
            ("a", "q", "assistant"),
            ("b", "q", "assistant"),
            ("c", "b", "prompter"),
        ):
            above = parent and f"{parent}{tree}"
            text = f"{name} is a long text of tree {tree}"
            row = {"message_id": f"{name}{tree}", "parent_id": above, "role": role, "text": text}
            rows.append(row)
    return rows


def trees(path: Path) -> Path:
    """The same, each tree as one record."""
    rows = messages()
    of = {row["message_id"]: {**row, "replies": []} for row in rows}
    for row in of.values():
        if above := of.get(row["parent_id"]):
            above["replies"].append(row)
    whole = ({"message_tree_id": n, "prompt": of[f"q{n}"]} for n in range(ROWS))
    return written(path, "".join(json.dumps(tree) + "\n" for tree in whole))


def branches(path: Path) -> Path:
    parquet.write_table(pa.Table.from_pylist(messages()), path)
    return path


WEKA = "@relation flats\n@attribute 'the size' numeric\n@attribute b numeric\n@ATTRIBUTE c {x}\n"
UMLAUTS = table(",", "größe,höhe,lage\n")
JSON_LINES = "".join(json.dumps(record) + "\n" for record in records())
BOTH = f"{2 * ROWS} images in 2 classes"
IMAGES = (f"{ROWS} images in 2 classes", "images")
THREE = (f"{ROWS} rows, 3 columns", "rows")
USELESS = "all its columns only tell the rows apart"
PAIRS = (f"{ROWS} conversations of prompt and completion", "conversations")
CHATS = (f"{ROWS} conversations in messages", "conversations")
TEXTS = (f"{ROWS} texts in text", "conversations")
FAST = (f"{ROWS} rows, 2 columns: texts in text, 2 classes in label", "labelled texts")
LABELLED = (f"{ROWS} rows, 2 columns: texts in ", "labelled texts")
PAIR = '{{"en": "{0}?", "de": "{0}!"}}'
INSIDE = '{{"data": {{"text": "{0}", "label": {1}}}}}'
LABEL = '{{"text": "{0}", "label": {1}}}'
# How a source is made, the words that name it, and what the converted data are.
SOURCES: dict[str, tuple[Callable[[Path], Path], str, tuple[str, str]]] = {
    "mnist": (mnist, "MNIST's files", IMAGES),
    "packed": (lambda p: mnist(p, ".gz", gzip.compress), "MNIST's files", IMAGES),
    "train-images-idx3-ubyte": (lambda p: mnist(p) / p.name, "MNIST's files", IMAGES),
    "cifar-10-batches-py": (cifar, "CIFAR's images in pickles", (BOTH, "images")),
    "cifar-10-batches-bin": (cifar_bytes, "CIFAR's images in binary files", (BOTH, "images")),
    "dogs": (flat, "classes in their names: cat, dog", IMAGES),
    "news": (news, "texts in one folder for each class: rec", ("texts in text", "labelled texts")),
    "bydate": (
        lambda p: news(news(p, "bydate-test"), "bydate-train"),
        "texts in one folder for each class",
        (f"{ROWS} rows, 2 columns: texts in text", "labelled texts"),
    ),
    "iris.data": (lambda p: written(p, table(", ")), "rows without names", THREE),
    "housing.data": (lambda p: written(p, " " + table("   ")), "rows without names", THREE),
    "named.data": (lambda p: written(p, table(";", "a;b;c\n")), "rows, in a file", THREE),
    "western.data": (lambda p: written(p, UMLAUTS.encode("cp1252")), "rows, in a file", THREE),
    "wide.data": (lambda p: written(p, UMLAUTS.encode("utf-16")), "rows, in a file", THREE),
    "quoted.data": (lambda p: written(p, quoted("  ")), "rows without names", THREE),
    "quotes.data": (lambda p: written(p, quoted(",")), "rows without names", THREE),
    "blanks.txt": (lambda p: written(p, table("  ", "a  b  c\n")), "blanks stand between", THREE),
    "blanks.csv": (lambda p: written(p, table(" ", "a b c\n")), "blanks stand between", THREE),
    "fast.txt": (lambda p: written(p, labels()), "lines of fastText", FAST),
    "fast.train": (lambda p: written(p, labels()), "lines of fastText", FAST),
    "ids.npy": (lambda p: array(p, np.arange(99)), "tokens of NumPy", ("a file of tokens", "text")),
    "npy": (arrays, "tokens of NumPy", ("2 files of tokens", "text")),
    "rows.npy": (lambda p: array(p, np.random.rand(ROWS, 3)), "a table of NumPy", THREE),
    "bare.csv": (lambda p: written(p, table(",")), "is one of data", THREE),
    "latin.csv": (lambda p: written(p, UMLAUTS.encode("latin-1")), "not text in UTF-8", THREE),
    "wide.csv": (lambda p: written(p, UMLAUTS.encode("utf-16")), "is in UTF-16", THREE),
    "latin.csv.gz": (
        lambda p: written(p, gzip.compress(UMLAUTS.encode("latin-1"))),
        "not text in UTF-8",
        THREE,
    ),
    "rows.jsonl": (lambda p: written(p, JSON_LINES), "write other columns as a table", THREE),
    "rows.json": (lambda p: written(p, json.dumps(records())), "other columns as a table", THREE),
    "qa.csv": (lambda p: written(p, "asked;said\n" + said("{0}?;{0}!\n")), USELESS, PAIRS),
    "one.csv": (lambda p: written(p, "said\n" + said("{}\n")), USELESS, TEXTS),
    "pairs.jsonl": (lambda p: written(p, said(PAIR + "\n")), "without a question", PAIRS),
    "inside.jsonl": (lambda p: written(p, said(INSIDE + "\n")), "records without", LABELLED),
    "labels.json": (lambda p: written(p, said(LABEL, ", ", "[{}]")), "are read from", LABELLED),
    "oasst.jsonl": (
        lambda p: written(p, "".join(json.dumps(row) + "\n" for row in messages())),
        "messages that answer each other by parent_id",
        CHATS,
    ),
    "oasst.parquet": (branches, "messages that answer each other", CHATS),
    "trees.jsonl": (trees, "trees of messages", CHATS),
    "parts": (partitions, "in folders by value", (f"{2 * ROWS} rows, 4 columns", "rows")),
    "rows.feather": (feathered, "is a file of Arrow", THREE),
    "rows.arrow": (streamed, "is a file of Arrow", THREE),
    "rows.arff": (lambda p: written(p, WEKA + "@data\n" + table(",")), "Weka", THREE),
}


def told(source: Path) -> DdpgenError:
    with pytest.raises(DdpgenError) as error:
        look.look(source)
    return error.value


def converted(error: DdpgenError) -> Found:
    """What is there after the lines of a message have run, at the path that the message names."""
    first, *code = error.remedy.splitlines()
    exec(textwrap.dedent("\n".join(code)), {})
    return look.look(Path(first.rpartition("--data ")[2].removesuffix(":")))


@pytest.mark.parametrize("name", SOURCES)
def test_lines_convert(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the format; its lines write what a family reads."""
    make, words, (size, kind) = SOURCES[name]
    (tmp_path / "there").mkdir()
    error = told(make(tmp_path / "there" / name))
    assert words in str(error)
    assert ("pickle may run any code" in error.remedy) == name.endswith("-py")
    monkeypatch.chdir(tmp_path)
    found = converted(error)
    assert found.kind == kind
    assert size in found.words[0]


@pytest.mark.parametrize("name", ["oasst.jsonl", "oasst.parquet", "trees.jsonl"])
def test_branches_become_conversations(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of each tree, from its first question to an answer."""
    monkeypatch.chdir(tmp_path)
    converted(told(SOURCES[name][0](tmp_path / name)))
    lines = (tmp_path / f"{name.partition('.')[0]}-chats.jsonl").read_text().splitlines()
    chats = [json.loads(line)["messages"] for line in lines]
    assert len(chats) == ROWS
    for tree, (asked, answered) in enumerate(chats):
        assert asked == {"role": "user", "content": f"q is a long text of tree {tree}"}
        assert answered["role"] == "assistant"
        assert answered["content"].endswith(f" is a long text of tree {tree}")


NAMED = {
    "a.pkl": (pickle.dumps({}), "is a pickle, which nothing here reads"),
    "model.pt": (b"PK\x03\x04", "is a pickle"),
    "data_batch_1": (pickle.dumps({}), "is a pickle"),
    "a.xlsx": (b"PK\x03\x04", "pandas.read_excel"),
    "a.h5": (b"\x89HDF", "is a file of HDF5, which no family reads"),
    "a.npy": (b"\x93NUMPY", "holds arrays of NumPy, which no family reads"),
    "a.npz": (b"PK\x03\x04", "is an archive of NumPy"),
    "a.wav": (b"RIFF", "is sound"),
}


@pytest.mark.parametrize("name", NAMED)
def test_formats_are_named(name: str, tmp_path: Path) -> None:
    """With the way out, and nothing of them is read."""
    content, words = NAMED[name]
    assert words in str(told(written(tmp_path / name, content)))


def test_boxes_are_no_classes(tmp_path: Path) -> None:
    """Folders of images and of labels are no two classes; images beside a text are no texts."""
    (tmp_path / "boxes/labels").mkdir(parents=True)
    flat(tmp_path / "boxes/images")
    assert "boxes or masks" in str(told(tmp_path / "boxes"))
    (tmp_path / "boxes/labels").rename(tmp_path / "boxes/masks")
    flat(tmp_path / "more")
    (tmp_path / "more").rename(tmp_path / "boxes/masks/a")
    assert "boxes or masks" in str(told(tmp_path / "boxes"))
    for name in ("cat", "dog"):
        flat(tmp_path / f"animals-{name}")
        (tmp_path / "animals").mkdir(exist_ok=True)
        (tmp_path / f"animals-{name}").rename(tmp_path / "animals" / name)
        (tmp_path / "animals" / name / "LICENSE").write_text("Free.")
    assert look.look(tmp_path / "animals").words[0] == BOTH
