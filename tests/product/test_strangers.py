"""Data of strangers: what nobody here has made is read as meant, or refused with what to do."""

import gzip
import json
import lzma
import textwrap
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ddpgen.asking import look
from ddpgen.asking.found import Found
from ddpgen.errors import DdpgenError

ROWS = 60


def table(
    path: Path, names: str, row: Callable[[int], Sequence[object]], between: str = ","
) -> Path:
    rows = [between.join(map(str, row(number))) for number in range(ROWS)]
    path.write_text("\n".join([names, *rows]), encoding="utf-8")
    return path


def refusal(path: Path) -> DdpgenError:
    with pytest.raises(DdpgenError) as error:
        look.look(path)
    return error.value


def converted(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, result: str) -> Found:
    """What is found where the lines of the message have run."""
    monkeypatch.chdir(folder)
    how, *lines = (refusal(path).remedy or "").splitlines()
    assert how.endswith(f"--data {result}")
    exec(compile(textwrap.dedent("\n".join(lines)), str(path), "exec"), {})
    return look.look(folder / result)


# --- Tables ---


@pytest.mark.parametrize(
    ("cell", "numbers"),
    [
        ("$1,{n}.50", "1,234.5"),
        ("{m}.5 %", "1,234.5"),
        ("${m}", "1,234.5"),
        ("CHF {m}.20", "1,234.5"),
        ("1.{n},50", "1.234,5"),
        ("{m},5", "1.234,5"),
    ],
)
def test_the_notation_of_numbers_is_found(cell: str, numbers: str, tmp_path: Path) -> None:
    """Where one notation alone fits; plain numbers beside it have to fit, too."""

    def row(n: int) -> Sequence[object]:
        return cell.format(n=n + 100, m=n + 10), n % 7, n % 9 * 3 + n

    found = look.look(table(tmp_path / "a.csv", "cost;rooms;price", row, ";"))
    assert f"data.numbers={numbers}" in found.arguments
    assert any(words.startswith(f"numbers are written as {numbers}") for words in found.words)


def test_numbers_that_may_be_either_are_said(tmp_path: Path) -> None:
    """1,234 is a thousand or a fraction; so is 1.234."""
    path = table(tmp_path / "a.csv", "cost;price", lambda n: (f"1,{n + 100}", n * 7 % 50), ";")
    found = look.look(path)
    assert not [text for text in found.arguments if text.startswith("data.numbers")]
    assert any("cost: 1,100 may be a thousand or a fraction" in words for words in found.words)
    path = table(tmp_path / "b.csv", "cost,price", lambda n: (f"1.{n + 100}", n % 7 + n / 9))
    words = look.look(path).words
    assert "cost: 1.100 is read as a fraction: if 1100 is meant, set data.numbers=1.234,5" in words


def test_numbers_that_a_spreadsheet_cut_are_said(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "order,price", lambda n: (f"{n % 9 + 1}.2E+15", n / 7))
    assert any("order: 1.2E+15 has lost digits" in words for words in look.look(path).words)


def test_errors_of_spreadsheets_are_gaps(tmp_path: Path) -> None:
    """Among numbers and among names, also where there is one only."""
    errors = {3: "#DIV/0!", 8: "#DIV/0!", 20: "#REF!"}

    def row(n: int) -> Sequence[object]:
        return (errors.get(n, n / 4), "#VALUE!" if n == 7 else "ab"[n % 2], n * 3)

    found = look.look(table(tmp_path / "a.csv", "ratio,kind,price", row))
    assert "ratio: numbers, 57 different, 3 gaps written '#DIV/0!' or '#REF!'" in found.words
    assert 'data.gaps=["#DIV/0!", "#REF!", "#VALUE!"]' in found.arguments


@pytest.mark.parametrize("often", [2, 9, 50])
def test_limits_among_numbers_are_named(often: int, tmp_path: Path) -> None:
    """They stand for no gap, and do not make a column of names, which would be left out."""

    def row(n: int) -> Sequence[object]:
        return ("<0.84" if n % often == 1 and n else n + 0.5, n % 7)

    error = refusal(table(tmp_path / "a.csv", "lead,price", row))
    assert "row 2, column lead: <0.84 among numbers" in str(error)
    assert "half of the limit" in (error.remedy or "")


def test_columns_that_are_left_out_are_said(tmp_path: Path) -> None:
    def row(n: int) -> Sequence[object]:
        return (f"2019-{n % 12 + 1:02}-11", n % 7, n / 9)

    words = look.look(table(tmp_path / "a.csv", "day,rooms,price", row)).words
    assert "left out, see data.leave_out: day" in words


def test_wide_tables_are_described_in_few_lines(tmp_path: Path) -> None:
    names = ",".join(f"c{n}" for n in range(300))
    path = table(tmp_path / "a.csv", names, lambda n: [n * m % 97 + 0.5 for m in range(300)])
    words = look.look(path).words
    assert "and 260 columns more" in words
    assert len(words) < 50


@pytest.mark.parametrize("first", [",,price", "Sales of 2019,,\n,,\nsize,rooms,price"])
def test_empty_names_are_refused(first: str, tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", first, lambda n: (n, n % 7, n / 9))
    assert "the first line has 2 empty names" in str(refusal(path))


@pytest.mark.parametrize("half", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark(half: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path / "a.csv", "size,price", lambda n: (n + 0.5, n / 9))
    path.write_bytes(path.read_text().encode(half))
    assert converted(path, tmp_path, monkeypatch, "utf8-a.csv").kind == "rows"


def test_pages_are_no_data(tmp_path: Path) -> None:
    """What a download has saved in place of a file."""
    (tmp_path / "a.csv").write_text("<!DOCTYPE html><html><body>404</body></html>\n" * 30)
    assert "is a page of HTML" in str(refusal(tmp_path / "a.csv"))


def test_places_as_people_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell leaves ~ as it is behind = and in quotes; addresses are fetched by nobody."""
    table(tmp_path / "a.csv", "size,price", lambda n: (n % 7, n / 9))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert look.look_at(["~/a.csv"]).arguments[0] == f"data.source={tmp_path / 'a.csv'}"
    with pytest.raises(DdpgenError, match=r"https://example.com/a.csv: is an address") as error:
        look.look_at(["https://example.com/a.csv"])
    assert "download the data" in (error.value.remedy or "")


# --- Archives ---


@pytest.mark.parametrize("ending", [".zip", ".xz", ".gz"])
def test_packed_files_are_unpacked_by_the_lines(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path / "a.csv", "size,price", lambda n: (n + 0.5, n / 9))
    inside = tmp_path / "inside"
    inside.mkdir()
    if ending == ".zip":
        with zipfile.ZipFile(inside / "a.zip", "w") as archive:
            archive.write(path, "a.csv")
    elif ending == ".xz":
        (inside / "a.csv.xz").write_bytes(lzma.compress(path.read_bytes()))
    else:
        (inside / "a.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
        assert look.look(inside).kind == "rows"
        return
    result = "a" if ending == ".zip" else "a.csv"
    path.unlink()
    assert converted(inside, tmp_path, monkeypatch, result).kind == "rows"


def test_archives_of_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table and its targets; images and theirs; and neither."""
    rows, targets = np.arange(ROWS * 3.0).reshape(ROWS, 3), np.arange(ROWS) % 2
    np.savez(tmp_path / "rows.npz", X=rows, y=targets)
    found = converted(tmp_path / "rows.npz", tmp_path, monkeypatch, "rows.csv")
    assert "data.target=target" in found.arguments
    pixels = np.zeros((ROWS, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=pixels, y_train=targets, x_test=pixels, y_test=targets)
    found = converted(tmp_path / "mnist.npz", tmp_path, monkeypatch, "images")
    assert found.words[0] == f"{ROWS} images in 2 classes"
    np.savez(tmp_path / "other.npz", first=rows, second=targets)
    assert "an archive of NumPy: first (60, 3), second (60,)" in str(
        refusal(tmp_path / "other.npz")
    )


# --- Language ---


def records() -> list[dict[str, str]]:
    names = ("prompt", "completion")
    return [
        {name: f"This is the {name} number {n} of some." for name in names} for n in range(ROWS)
    ]


def squad() -> list[dict[str, object]]:
    """Questions about texts, one of them without an answer."""
    asked = [{"question": f"Where is {n}?", "answers": [{"text": "here"}]} for n in range(ROWS)]
    asked[3]["answers"] = []
    return [{"title": "T", "paragraphs": [{"context": "It is here.", "qas": asked}]}]


WRAPPED: dict[str, object] = {
    "squad": {"version": "2", "data": squad()},
    "data": {"data": records()},
    "names": {str(n): record for n, record in enumerate(records())},
    "columns": {
        name: {str(n): record[name] for n, record in enumerate(records())}
        for name in ("prompt", "completion")
    },
}


@pytest.mark.parametrize("name", WRAPPED)
def test_records_in_an_object_are_written_by_the_lines(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(WRAPPED[name]))
    found = converted(tmp_path / "a.json", tmp_path, monkeypatch, "a-records.jsonl")
    assert found.words[0].startswith(f"{ROWS - (name == 'squad')} conversations of")


def test_answers_in_lists_are_written_by_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQuAD as Hugging Face has the records."""
    row = {"context": "It is here.", "question": "Where?", "answers": {"text": ["here"]}}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(row)}\n" * ROWS)
    found = converted(tmp_path / "a.jsonl", tmp_path, monkeypatch, "a-records.jsonl")
    assert found.words[0] == f"{ROWS} conversations of question and answer"


def test_endings_of_the_other_kind_of_json(tmp_path: Path) -> None:
    """A list called .jsonl, and records called .json."""
    for indent in (None, 2):
        (tmp_path / "a.jsonl").write_text(json.dumps(records(), indent=indent))
        assert "is one list of JSON" in str(refusal(tmp_path / "a.jsonl"))
    (tmp_path / "b.json").write_text("".join(f"{json.dumps(r)}\n" for r in records()))
    error = refusal(tmp_path / "b.json")
    assert "has a record in each line" in str(error)
    assert error.remedy == "call it b.jsonl"


def test_instructions_in_a_table_keep_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Alpaca's, where the input may be empty."""
    path = table(
        tmp_path / "a.csv",
        "instruction,input,output",
        lambda n: (f"Say number {n}.", "" if n % 2 else f"In {n} words.", f"It is {n}."),
    )
    found = converted(path, tmp_path, monkeypatch, "a-texts.jsonl")
    assert found.words[0] == f"{ROWS} conversations of instruction and output"


# --- Images ---


@pytest.mark.parametrize("ending", [".heic", ".AVIF"])
def test_images_of_other_kinds_are_named(ending: str, tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"0{ending}").touch()
    error = refusal(tmp_path)
    assert f"2 images with the ending {ending.lower()}, which are not read" in str(error)
    assert ("pillow_heif" in (error.remedy or "")) == (ending == ".heic")


def test_one_class_in_both_splits_is_one(tmp_path: Path) -> None:
    from PIL import Image

    for part in ("train", "val"):
        (tmp_path / part / "cat").mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / part / "cat" / "0.png")
    assert "2 images, all in the class cat: two classes are the least" in str(refusal(tmp_path))
