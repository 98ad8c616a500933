"""Files of data that are empty, cut off, or of another kind than they are called: told by name."""

import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet
from tokenizers import ByteLevelBPETokenizer, Tokenizer, models, pre_tokenizers

from product import forkserver, template

ROWS = 40
TEXT = "a line of text\n" * ROWS


def table(path: Path) -> None:
    columns = {"text": [f"text {n}" for n in range(ROWS)], "label": [n % 2 for n in range(ROWS)]}
    parquet.write_table(pa.table({**columns, "messages": columns["text"]}), path)


def archive(path: Path) -> None:
    with tarfile.open(path, "w") as file:
        for number in range(8):
            Image.new("RGB", (9, 9), (number, 0, 0)).save(image := path.with_suffix(".png"))
            file.add(image, f"{'ab'[number % 2]}/{number}.png")


def lines(path: Path) -> None:
    path.write_text("".join(json.dumps({"text": TEXT, "label": n % 2}) + "\n" for n in range(ROWS)))


def tokenizer(path: Path) -> None:
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([TEXT], 300, show_progress=False)
    trained.save(str(path))


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut off": lambda content: content[: len(content) // 2 + 7],
    "cut off at a block": lambda content: content[: len(content) // 1024 * 512],
    "a text": lambda _: b"name,age\nAda,36\n",
}
# Family, name of the file, what writes a good one, and the other settings.
FILES = [
    ("mlp", "a.parquet", table, ["data.target=label"]),
    ("table", "a.parquet", table, ["data.target=label"]),
    ("text-classifier", "a.parquet", table, []),
    ("text-classifier", "a.jsonl", lines, []),
    ("causal-lm", "a.parquet", table, []),
    ("causal-lm", "a.jsonl", lines, ["data.column=text"]),
    ("resnet", "a.parquet", table, []),
    ("resnet", "a.tar", archive, []),
    ("vision", "a.tar", archive, []),
    ("gpt", "a.json", tokenizer, []),
]


@pytest.mark.parametrize("kind", SPOILT)
@pytest.mark.parametrize(("model", "name", "write", "settings"), FILES)
def test_damaged_files_are_named(
    model: str,
    name: str,
    write: Callable[[Path], None],
    settings: list[str],
    kind: str,
    tmp_path: Path,
) -> None:
    """In one line and with exit code 2; a Parquet file was told as a table of another kind."""
    template.write({"model": model}, tmp_path / "project")
    write(path := tmp_path / name)
    path.write_bytes(SPOILT[kind](path.read_bytes()))
    source = f"data.source={path}"
    if model == "gpt":
        (tmp_path / "a.txt").write_text(TEXT)
        source = f"data.source={tmp_path / 'a.txt'}"
        settings = [f"data.tokenizer={path}", "data.vocabulary=300"]
    run = forkserver.train(tmp_path / "project", 1, [source, *settings])
    assert run.codes == [2], run.output
    assert "Traceback" not in run.output, run.output
    assert str(path) in run.output, run.output
    assert "CSV parse" not in run.output, run.output


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("mlp", "a.csv"),
        ("table", "a.csv"),
        ("text-classifier", "a.jsonl"),
        ("causal-lm", "a.jsonl"),
        ("gpt", "a.txt"),
    ],
)
def test_error_of_the_disk_is_no_mistake(model: str, name: str, tmp_path: Path) -> None:
    """Launch files start again after other exit codes than 2: `mlp` blamed the file."""
    template.write({"model": model}, tmp_path / "project")
    (tmp_path / name).symlink_to("/proc/self/mem")  # to read it from its start is such an error
    run = forkserver.train(tmp_path / "project", 1, [f"data.source={tmp_path / name}"])
    assert run.codes == [1], run.output
    assert "Errno 5" in run.output, run.output


CHAT = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "so."}]
TABLE = "name,label\n" + "1,a\n2,b\n" * ROWS


def of_one_name() -> bytes:
    """Parquet with two columns of one name."""
    file = io.BytesIO()
    columns = [pa.array(range(ROWS))] * 2
    parquet.write_table(pa.Table.from_arrays(columns, ["label", "label"]), file)
    return file.getvalue()


def named(label: bytes, shown: bytes = b"") -> bytes:
    """A tar file with images, and the names of their classes beside them."""
    file, image = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (9, 9)).save(image, "PNG")
    good = [
        (f"{n}.{end}", part)
        for n in (0, 1, 2, 3, 5, 6, 7, 8)
        for end, part in (("png", image.getvalue()), ("cls", b"%d" % (n % 2)))
    ]
    with tarfile.open(fileobj=file, mode="w") as shard:
        for name, content in (*good, ("4.png", shown or image.getvalue()), ("4.cls", label)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            shard.addfile(member, io.BytesIO(content))
    return file.getvalue()


DEEP = b"[" * 100_000
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 1234\n"
# Family, name of a file, its content, and the words of the error.
TOLD = {
    "no features": ("mlp", "a.csv", b"label\n" + b"a\nb\n" * ROWS, "['label'], with features"),
    "beyond 32 bits": ("mlp", "a.csv", TABLE.replace("1", "1e39").encode(), "is 1e+39 in row 1"),
    "two columns": ("mlp", "a.csv", TABLE.replace("name", "label").encode(), "same name: label"),
    "names in Latin-1": ("mlp", "a.csv", TABLE.replace("n", "\xe9").encode("latin-1"), "utf-8"),
    "no gzip": ("mlp", "a.csv.gz", TABLE.encode(), "a.csv.gz cannot be read"),
    "one class": (
        "mlp",
        "a.csv",
        TABLE.replace(",b", ",a").encode(),
        "1 different values in ",
    ),
    "half of a character": (
        "causal-lm",
        "a.jsonl",
        b'{"messages": "so \\ud83d"}\n' * ROWS,
        r"line 1 has half of a character, '\ud83d': remove it",
    ),
    "half of a character in a list": (
        "causal-lm",
        "a.json",
        json.dumps([{"messages": "so \ud83d"}] * ROWS).encode(),
        r"a.json has half of a character, '\ud83d': remove it",
    ),
    "half of a character in a text": (
        "text-classifier",
        "a.jsonl",
        b'{"text": "so \\ud83d", "label": 1}\n' * ROWS,
        r"line 1 has half of a character, '\ud83d': remove it",
    ),
    "a conversation in a text": (
        "causal-lm",
        "a.jsonl",
        (json.dumps({"messages": json.dumps(CHAT)}) + "\n").encode() * ROWS,
        "record 1 is a conversation within a text: write the list alone",
    ),
    "UTF-16 without a mark": ("table", "a.csv", TABLE.encode("utf-16-le"), "line 1 has a byte of"),
    "a byte of zero": (
        "table",
        "a.csv",
        TABLE.replace("1", "\0", 1).encode(),
        "line 2 has a byte of",
    ),
    "gzip called CSV": ("table", "a.csv", gzip.compress(TABLE.encode()), "name end with .gz"),
    "gzip in capitals": ("table", "a.csv.GZ", gzip.compress(TABLE.encode()), "in small letters"),
    "a pointer to a table": ("table", "a.csv", POINTER, "git lfs pull"),
    "a pointer to texts": ("text-classifier", "a.csv", POINTER, "git lfs pull"),
    "a pointer to a text": ("gpt", "a.txt", POINTER * ROWS, "git lfs pull"),
    "a pointer to tokens": ("gpt", "a.bin", POINTER * ROWS, "begins with b'version http'"),
    "a pointer to an image": ("resnet", "a.tar", named(b"1", POINTER), "git lfs pull"),
    "a class without a name": (
        "mlp",
        "a.csv",
        TABLE.replace("2,b", "2,", 1).encode(),
        "row 2 has no",
    ),
    "one character": ("gpt", "a.txt", b"a", "the training split has 1 tokens"),
    "few rows": ("table", "a.csv", TABLE[:39].encode(), "has only 7 rows: 10 are needed"),
    "blanks in names": (
        "table",
        "a.csv",
        TABLE.replace("label", " label").encode(),
        "' label' has blanks",
    ),
    "xz": ("table", "a.csv.xz", lzma.compress(TABLE.encode()), "by xz: unpack the file"),
    "two columns in Parquet": ("table", "a.parquet", of_one_name(), "same name: label"),
    "UTF-16 in texts": (
        "text-classifier",
        "a.csv",
        TABLE.replace("name", "text").encode("utf-16-le"),
        "as files in UTF-16 have",
    ),
    "deep": ("causal-lm", "a.jsonl", DEEP, "line 1 is nested too deeply"),
    "deep list": ("causal-lm", "a.json", DEEP, "a.json is nested too deeply"),
    "deep text": ("text-classifier", "a.jsonl", DEEP, "line 1 is nested too deeply"),
    "class in Latin-1": (
        "resnet",
        "a.tar",
        named(b"\xe9t\xe9"),
        "a.tar: 4.cls is no text in UTF-8",
    ),
    "null": (
        "causal-lm",
        "a.jsonl",
        b'{"messages": null}\n' * ROWS,
        "record 1 has no 'messages': that is null",
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_contents_that_no_run_can_use_are_told(case: str, tmp_path: Path) -> None:
    """Some ended in a traceback, others trained, on nothing of use."""
    model, name, content, words = TOLD[case]
    template.write({"model": model}, tmp_path / "project")
    (tmp_path / name).write_bytes(content)
    settings = ["data.target=label"] if model in ("mlp", "table") else []
    run = forkserver.train(tmp_path / "project", 1, [f"data.source={tmp_path / name}", *settings])
    assert run.codes == [2], run.output
    assert words in run.output, run.output


@pytest.mark.parametrize("pattern", ["", "/etc/*", "**x"])
def test_patterns_that_name_no_files_are_told(pattern: str, tmp_path: Path) -> None:
    template.write({"model": "gpt"}, tmp_path / "project")
    overrides = [f"data.source={tmp_path}", f"data.pattern={pattern}"]
    run = forkserver.train(tmp_path / "project", 1, overrides)
    assert run.codes == [2], run.output
    assert f"error: data.pattern = {pattern!r} names no files below {tmp_path}" in run.output


def alike(path: Path, model: str) -> Path:
    """Data of which two classes look the same: é as a character, and as a letter and its accent."""
    names = ["caf\u00e9", "cafe\u0301"]
    if model == "resnet":
        for number, name in enumerate(names * 12):
            (path / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (9, 9), (number, 0, 0)).save(path / name / f"{number}.png")
        return path
    rows = [f"{n},this is text {n},{names[n % 2]}" for n in range(ROWS)]
    path.with_suffix(".csv").write_text("\n".join(["number,text,label", *rows]))
    return path.with_suffix(".csv")


@pytest.mark.parametrize("model", ["resnet", "table", "text-classifier"])
def test_classes_that_look_the_same_are_told(model: str, tmp_path: Path) -> None:
    """Files of macOS have the accent apart: that made two classes of one without a word."""
    template.write({"model": model}, tmp_path / "project")
    settings = ["data.target=label", 'data.leave_out=["text"]'] if model == "table" else []
    source = f"data.source={alike(tmp_path / 'data', model)}"
    run = forkserver.train(tmp_path / "project", 1, [source, *settings, "train.max_steps=1"])
    assert run.codes == [0], run.output
    assert "are different classes" in run.output, run.output


def test_class_behind_a_broken_link_is_told(tmp_path: Path) -> None:
    """The class was left out in silence."""
    template.write({"model": "resnet"}, tmp_path / "project")
    source = alike(tmp_path / "data", "resnet")
    (source / "gone").symlink_to(tmp_path / "nothing")
    run = forkserver.train(tmp_path / "project", 1, [f"data.source={source}"])
    assert run.codes == [2], run.output
    assert f"{source / 'gone'} is a link that leads nowhere" in run.output


def test_tokenizer_that_does_not_know_a_text_is_told(tmp_path: Path) -> None:
    template.write({"model": "gpt"}, tmp_path / "project")
    words = Tokenizer(models.WordLevel({"a": 0, "line": 1}))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "words.json"))
    (tmp_path / "a.txt").write_text(TEXT)
    overrides = [f"data.source={tmp_path / 'a.txt'}", f"data.tokenizer={tmp_path / 'words.json'}"]
    run = forkserver.train(tmp_path / "project", 1, overrides)
    assert run.codes == [2], run.output
    assert "data.tokenizer cannot encode the texts" in run.output
