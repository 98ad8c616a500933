"""New rows are predicted for as the rows of the training were."""

import shutil
import statistics
from csv import DictReader
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from pyarrow import csv, parquet

import config
import train
from support import common, processes
from tools import predict

ROWS = 40
NEAR = {{ '1e-2' if amp == 'bf16' else '2e-3' }}  # a GPU rounds otherwise where a batch has another size


def flats() -> dict[str, list[Any]]:
    """Rows with a number, a number with gaps, a text with gaps, and what to predict."""
    rows = range(ROWS)
    return {
        "size": [20.5 + n for n in rows],
        "rooms": [None if n % 8 == 3 else n % 5 + 1 for n in rows],
        "district": [None if n % 10 == 6 else ("north", "south", "east")[n % 3] for n in rows],
        "rent": [300.25 + 11 * n for n in rows],
        "dear": ["yes" if n % 4 == 0 else "no" for n in rows],
    }


def train_on(folder: Path, target: str, left: str) -> Path:
    """A short run that predicts a column from all but another one."""
    csv.write_csv(pa.table(flats()), folder / "flats.csv")
    source = [f"data.source={folder / 'flats.csv'}", f"data.folder={folder}", "train.max_steps=3"]
    column = [f"data.target={target}", f'data.leave_out=["{left}"]', 'data.gaps=["?"]']
    run = [f"run.folder={folder}", f"run.name={target}"]
    processes.run(1, train.main, [*common.SMALL, *source, *column, *run])
    return folder / target


@pytest.fixture(scope="module")
def rent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that predicts a quantity."""
    return train_on(tmp_path_factory.mktemp("rent"), "rent", "dear")


@pytest.fixture(scope="module")
def dear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that predicts a class."""
    return train_on(tmp_path_factory.mktemp("dear"), "dear", "rent")


def held_out() -> list[int]:
    """The rows of the validation split."""
    seed = common.settings(Path()).data.split_seed
    order: list[int] = torch.randperm(ROWS, generator=torch.Generator().manual_seed(seed)).tolist()
    return order[: round(common.settings(Path()).data.validation * ROWS)]


def both_ways(run: Path, folder: Path, target: str) -> tuple[Any, Any, Any]:
    """The validation rows; predictions for them as held out; and for files that have them.

    One file lacks the target, the other has its columns in another order.
    """
    predict.main([str(run), "--output", str(folder / "held_out.csv")])
    rows = pa.table(flats()).take(held_out())
    csv.write_csv(rows.drop_columns([target]).slice(0, 3), folder / "1.csv")
    parquet.write_table(rows.slice(3).select(rows.column_names[::-1]), folder / "2.parquet")
    files = [str(folder / "1.csv"), str(folder / "2.parquet")]
    predict.main([str(run), *files, "--output", str(folder / "new.csv")])
    found = csv.read_csv(folder / "new.csv")
    assert {*found.column_names} > {*rows.column_names}
    assert found["size"].to_pylist() == rows["size"].to_pylist()
    return rows, csv.read_csv(folder / "held_out.csv"), found


def test_rows_that_were_held_out_are_named(dear: Path, tmp_path: Path) -> None:
    """By their number below the header, and by their file where there are several."""
    predict.main([str(dear), "--output", str(tmp_path / "out.csv")])
    found = csv.read_csv(tmp_path / "out.csv")
    assert found.column_names == ["row", "target", "predicted", "probability"]
    assert found["row"].to_pylist() == [row + 1 for row in held_out()]
    assert found["target"].to_pylist() == [flats()["dear"][row] for row in held_out()]

    for number, begin in enumerate((0, 15)):
        part = pa.table(flats()).slice(begin, 15 if number == 0 else ROWS)
        csv.write_csv(part, tmp_path / f"part{number}.csv")
    run = shutil.copytree(dear, tmp_path / "run")
    text = (run / "config.toml").read_text()
    pattern = str(tmp_path / "part*.csv")
    (run / "config.toml").write_text(text.replace(str(dear.parent / "flats.csv"), pattern))
    shape = (run / "shape.json").read_text()
    shape = shape.replace(str(dear.parent / "flats.csv"), "2 files")
    (run / "shape.json").write_text(shape)
    predict.main([str(run), "--output", str(tmp_path / "out.csv")])
    names = [str(tmp_path / f"part{int(row >= 15)}.csv") for row in held_out()]
    both = csv.read_csv(tmp_path / "out.csv")
    assert both["file"].to_pylist() == names
    assert both["row"].to_pylist() == [row + 1 if row < 15 else row - 14 for row in held_out()]


def test_quantities_are_in_their_own_unit(rent: Path, tmp_path: Path) -> None:
    """The same rows give the same predictions, from whichever file."""
    rows, expected, found = both_ways(rent, tmp_path, "rent")
    assert expected["target"].to_pylist() == pytest.approx(rows["rent"].to_pylist())
    assert found["predicted"].to_pylist() == pytest.approx(expected["predicted"].to_pylist(), NEAR)


def test_classes_have_their_names(dear: Path, tmp_path: Path) -> None:
    """And the probability that the model gives them."""
    rows, expected, found = both_ways(dear, tmp_path, "dear")
    assert expected["target"].to_pylist() == rows["dear"].to_pylist()
    assert found["predicted"].to_pylist() == expected["predicted"].to_pylist()
    chances = expected["probability"].to_pylist()
    assert found["probability"].to_pylist() == pytest.approx(chances, NEAR)
    assert all(0.5 <= chance <= 1 for chance in chances)


def test_gaps_and_unknown_texts(rent: Path, tmp_path: Path) -> None:
    """A gap has the median of the training rows, and a text that none of them has is unknown."""
    rows = pa.table(flats()).take([row for row in range(ROWS) if row not in held_out()])
    middle = statistics.median_low(rows["size"].to_pylist())
    (tmp_path / "new.csv").write_text(f"size,rooms,district\n?,1,abroad\n{middle},1,away\n")
    predict.main([str(rent), str(tmp_path / "new.csv"), "--output", str(tmp_path / "out.csv")])
    one, other = csv.read_csv(tmp_path / "out.csv")["predicted"].to_pylist()
    assert one == pytest.approx(other, NEAR)


def test_cells_that_are_new_are_said(
    rent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts that no row of the training had, and gaps where no number was missing; with a place."""
    lines = ["size,rooms,district", "20.5,1,north", "21.5,,", "22.5,2,abroad", "?,2,North"]
    (tmp_path / "new.csv").write_text("\n".join(lines))
    predict.main([str(rent), str(tmp_path / "new.csv"), "--output", str(tmp_path / "out.csv")])
    said = capsys.readouterr().out.splitlines()[:-1]
    beginning = "column 'district': 2 of 4 cells are new to the model and tell it nothing, such as "
    assert said[0] == f"{beginning}'abroad' ({tmp_path / 'new.csv'}, row 3)"
    assert said[1].startswith("column 'size': 1 of 4 cells are empty, which none was in the train")
    assert said[1].endswith(f"({tmp_path / 'new.csv'}, row 4)")
    assert len(said) == 2
    (tmp_path / "new.csv").write_text("\n".join(lines[:3]))
    predict.main([str(rent), str(tmp_path / "new.csv"), "--output", str(tmp_path / "out.csv")])
    assert capsys.readouterr().out.startswith("wrote ")
    nothing = {"size": pa.nulls(9, pa.string()), "rooms": pa.nulls(9), "district": ["north"] * 9}
    parquet.write_table(pa.table(nothing), tmp_path / "new.parquet")
    predict.main([str(rent), str(tmp_path / "new.parquet"), "--output", str(tmp_path / "out.csv")])
    assert capsys.readouterr().out.startswith("column 'size': 9 of 9 cells are empty")


CODES = ["007", "7", "2.50", "2.5", "TRUE", "A12", "1e3", "1000"]


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that predicts a quantity from texts alone, of which some look like numbers."""
    folder = tmp_path_factory.mktemp("codes")
    lines = [f"{CODES[n % 8]},{n % 8 * 10}.5" for n in range(160)]
    (folder / "codes.csv").write_text("\n".join(["code,rent", *lines]))
    source = [f"data.source={folder / 'codes.csv'}", f"data.folder={folder}"]
    column = ["data.target=rent", 'data.categories=["code"]']
    run = [f"run.folder={folder}", "run.name=run", "train.max_steps=20"]
    processes.run(1, train.main, [*common.SMALL, *source, *column, *run])
    return folder / "run"


def test_predictions_do_not_depend_on_other_rows(codes: Path, tmp_path: Path) -> None:
    """A text is the same where a file holds only this one, and in a second file."""
    output = tmp_path / "out.csv"
    (tmp_path / "all.csv").write_text("\n".join(["code", *CODES]))
    predict.main([str(codes), str(tmp_path / "all.csv"), "--output", str(output)])
    expected = csv.read_csv(output)["predicted"].to_pylist()
    assert len({*expected}) == len(CODES), "some texts are the same to the model"
    files = [tmp_path / f"{number}.csv" for number in range(len(CODES))]
    for path, code, value in zip(files, CODES, expected, strict=True):
        path.write_text(f"code\n{code}\n")
        predict.main([str(codes), str(path), "--output", str(output)])
        assert csv.read_csv(output)["predicted"].to_pylist() == pytest.approx([value], NEAR), code
    predict.main([str(codes), *map(str, files), "--output", str(output)])
    assert csv.read_csv(output)["predicted"].to_pylist() == pytest.approx(expected, NEAR)


CARRIED = """\
id,big,price,name,when,flag,size,rooms,district
00123,12345678901234567890123456,1.10,NA,01-02,TRUE,20.50,1,north
00007,1e5, 2 ,"a ""b"",\nc",,null,21,,nan
"""


def test_cells_are_carried_along_as_they_stand(rent: Path, tmp_path: Path) -> None:
    """Beside the predictions, also of features; and beside a file that has types."""
    (tmp_path / "new.csv").write_text(CARRIED)
    output = tmp_path / "out.csv"
    predict.main([str(rent), str(tmp_path / "new.csv"), "--output", str(output)])
    with output.open(newline="") as file, (tmp_path / "new.csv").open(newline="") as given:
        found, expected = [*DictReader(file)], [*DictReader(given)]
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
    assert all(float(row["predicted"]) for row in found)

    table = pa.table({"id": [8], "size": [21.5], "rooms": [2], "district": ["south"]})
    parquet.write_table(table, tmp_path / "new.parquet")
    files = [str(tmp_path / "new.csv"), str(tmp_path / "new.parquet")]
    for order in (files, files[::-1]):
        predict.main([str(rent), *order, "--output", str(tmp_path / "out.parquet")])
        both = parquet.read_table(tmp_path / "out.parquet").to_pylist()
        assert sorted(row["id"] for row in both) == ["00007", "00123", "8"]
        assert sorted(row["size"] for row in both) == ["20.50", "21", "21.5"]
    predict.main([str(rent), files[1], "--output", str(tmp_path / "out.parquet")])
    assert parquet.read_table(tmp_path / "out.parquet")["id"].to_pylist() == [8]


MISTAKES = {
    "size,district\n1.5,north\n": "new.csv has no column 'rooms': the model needs one",
    "size,rooms,district,size\n1,1,north,1\n": "new.csv has two columns 'size'",
    "size,rooms,district\n1.5,1,north\nbig,1,north\n": "new.csv, row 2: column 'size' is 'big'",
    "size,rooms,district\ninf,1,north\n": "new.csv, row 1: column 'size' is inf",
    "size,rooms,district\n1.5,1\n": "new.csv, row 1: there are 2 cells for 3 names",
    "size,rooms,district\n": "new.csv: there are no rows",
    "": "new.csv cannot be read",
}


def test_files_that_do_not_fit_are_named(rent: Path, tmp_path: Path) -> None:
    """With the row or the column, and nothing is written."""
    for content, reason in MISTAKES.items():
        (tmp_path / "new.csv").write_text(content)
        with pytest.raises(config.ConfigError) as error:
            predict.main([str(rent), str(tmp_path / "new.csv")])
        assert reason in str(error.value)
    (tmp_path / "new.csv").write_bytes(b"size,rooms,district,name\n1.5,1,north,M\xfcller\n")
    with pytest.raises(config.ConfigError, match="column 'name' is not in UTF-8: save the file"):
        predict.main([str(rent), str(tmp_path / "new.csv")])
    with pytest.raises(config.ConfigError, match=r"absent\.csv cannot be read"):
        predict.main([str(rent), str(tmp_path / "absent.csv")])
    assert not (rent / "predictions.csv").exists()


def test_data_that_changed_are_not_those_of_the_run(rent: Path, tmp_path: Path) -> None:
    """What was held out is not known any more; new files are predicted for as before."""
    run = shutil.copytree(rent, tmp_path / "run")
    changed = tmp_path / "flats.csv"
    csv.write_csv(pa.table(flats()).slice(1), changed)
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace(str(rent.parent / "flats.csv"), str(changed)))
    with pytest.raises(config.ConfigError, match="has changed since the run"):
        predict.main([str(run)])
    predict.main([str(run), str(changed)])
    assert len(csv.read_csv(run / "predictions.csv")) == ROWS - 1
