"""Data of strangers: what nobody here has made is read as meant, or refused with what to do."""

import gzip
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
