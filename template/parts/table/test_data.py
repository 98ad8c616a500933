"""The data: which tables are read, what becomes of their columns, and what is refused."""

import datetime
import gzip
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from pyarrow import csv, parquet

import columns
import config
import data
import model
from support import common

FAULTY = "/proc/self/mem"  # its first bytes cannot be read
ROWS = 40


def flats(count: int = ROWS) -> dict[str, list[Any]]:
    """Rows with a number, a number with gaps, a text with gaps, and what to predict."""
    rows = range(count)
    return {
        "size": [20.5 + n for n in rows],
        "rooms": [None if n % 8 == 3 else n % 5 + 1 for n in rows],
        "district": [None if n % 10 == 6 else ("north", "south", "east")[n % 3] for n in rows],
        "rent": [300.25 + 11 * n for n in rows],
        "dear": ["yes" if n % 4 == 0 else "no" for n in rows],
    }


def write(path: Path, table: dict[str, list[Any]]) -> Path:
    writer = parquet.write_table if path.suffix == ".parquet" else csv.write_csv
    writer(pa.table(table), path)
    return path


def settings(folder: Path, source: Path, *overrides: str) -> config.Data:
    names = (f"data.folder={folder}", f"data.source={source}", "data.target=rent")
    return common.settings(folder, *names, 'data.leave_out=["dear"]', *overrides).data


def prepared(folder: Path, source: Path, *overrides: str) -> data.Splits:
    cfg = settings(folder, source, *overrides)
    data.prepare(cfg)
    return data.open_splits(cfg)


def refusal(folder: Path, source: Path, *overrides: str) -> str:
    with pytest.raises(config.ConfigError) as error:
        data.prepare(settings(folder, source, *overrides))
    return str(error.value)


def test_prepared_data_appear_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under their final name other ranks find all of them, or nothing yet."""
    cfg = settings(tmp_path, write(tmp_path / "flats.csv", flats()))
    monkeypatch.setattr(os, "replace", lambda *_: None)  # as if the process ended just before
    data.prepare(cfg)
    assert not data.prepared_path(cfg).exists(), "half written, and taken for whole"


# --- What becomes of the columns ---


@pytest.mark.parametrize("name", ["flats.csv", "flats.parquet"])
def test_numbers_texts_and_gaps(name: str, tmp_path: Path) -> None:
    """Two numbers, a column that tells where one has gaps, and a category of four values."""
    train, val, shape = prepared(tmp_path, write(tmp_path / name, flats()))
    assert (len(train), len(val)) == (32, 8)
    assert (shape.numbers, shape.values, shape.outputs) == (3, 5, 1)
    assert train.rows.numbers[:, 0].mean().abs() < 1e-6
    assert train.rows.numbers[:, 0].std().item() == pytest.approx(1.0)
    told = torch.cat((train.rows.numbers, val.rows.numbers))[:, 2]
    assert told.sum() == 5
    assert told.unique().tolist() == [0.0, 1.0]
    assert train.rows.categories.unique().tolist() == [1, 2, 3, 4]
    others = flats() | {"district": [text and text.upper() for text in flats()["district"]]}
    other = prepared(tmp_path, write(tmp_path / f"2-{name}", others)).shape
    assert other.names[:-1] != shape.names[:-1], "a run would go on with other categories"
    larger = flats() | {"size": [10 * size for size in flats()["size"]]}
    other = prepared(tmp_path, write(tmp_path / f"3-{name}", larger)).shape
    assert other.names[:-1] != shape.names[:-1], "a run would go on in other units"


@pytest.mark.parametrize("mark", [" ", "   ", "NA", "?", "not known"])
def test_texts_may_stand_for_gaps(mark: str, tmp_path: Path) -> None:
    """Spaces and what Arrow knows, and the texts of data.gaps."""
    path = write(tmp_path / "flats.csv", flats())
    expected, _, _ = prepared(tmp_path, path)
    lines = [line.replace(",,", f",{mark},") for line in path.read_text().splitlines()]
    marked = tmp_path / "marked.csv"
    marked.write_text("\n".join(lines))
    found, _, _ = prepared(tmp_path, marked, 'data.gaps=["?","not known"]')
    assert torch.equal(found.rows.numbers, expected.rows.numbers)
    assert torch.equal(found.rows.categories, expected.rows.categories)


def test_gaps_have_the_median_of_the_training_rows(tmp_path: Path) -> None:
    """Of those alone: the validation rows must stay unseen."""
    table = flats() | {"rooms": [None if n % 8 == 3 else float(n) for n in range(ROWS)]}
    train, val, _ = prepared(tmp_path, write(tmp_path / "flats.csv", table))
    gaps = train.rows.numbers[:, 2] == 1
    known = train.rows.numbers[~gaps, 1]
    in_gaps = torch.cat((train.rows.numbers, val.rows.numbers))
    filled = in_gaps[in_gaps[:, 2] == 1, 1]
    assert torch.equal(filled, known.median().expand(5))


def test_validation_rows_teach_nothing(tmp_path: Path) -> None:
    """Whatever stands in them, the training rows become the same numbers."""
    rooms = [None if n % 8 == 3 else float(n) for n in range(ROWS)]
    table, changed = flats() | {"rooms": rooms}, flats() | {"rooms": [*rooms]}
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0)).tolist()
    for row in order[:8]:
        changed["size"][row], changed["rooms"][row] = 1e6, 99
        changed["district"][row], changed["rent"][row] = "abroad", 1e9
    one = prepared(tmp_path, write(tmp_path / "flats.csv", table))
    other = prepared(tmp_path, write(tmp_path / "flats.csv", changed))
    assert one.shape.names[:-1] == other.shape.names[:-1], "the values alone are others"
    for ours, theirs in zip(one.train.rows, other.train.rows, strict=True):
        assert torch.equal(ours, theirs)
    assert other.val.rows.categories.unique().tolist() == [0]


def test_unknown_text_adds_nothing(tmp_path: Path) -> None:
    """A text that no training row has counts as no text at all."""
    _, val, shape = prepared(tmp_path, write(tmp_path / "flats.csv", flats()))
    network = model.build(common.settings(tmp_path).model, shape).eval()
    numbers, categories, _ = val.__getitems__([0, 1])
    unknown = network(numbers, torch.zeros_like(categories))
    none = network(numbers, categories[:, :0])
    assert torch.equal(unknown, none), "a text that is unknown has weights, which nobody trained"


def test_quantities_are_standardised(tmp_path: Path) -> None:
    """By the training rows; errors are reported in the unit of the column."""
    table = flats()
    train, val, shape = prepared(tmp_path, write(tmp_path / "flats.csv", table))
    assert train.rows.targets.std().item() == pytest.approx(1.0)
    both = torch.cat((train.rows.targets, val.rows.targets)).sort().values
    assert (both.diff() * shape.unit).allclose(torch.tensor(11.0), rtol=1e-4)
    network = model.build(common.settings(tmp_path).model, shape)
    means = model.in_units({"loss": 0.25, "mae": 0.4}, network)
    assert means == {"loss": 0.25, "mae": 0.4 * shape.unit, "rmse": 0.5 * shape.unit}


def test_texts_and_whole_numbers_are_classes(tmp_path: Path) -> None:
    """They are numbered in their order, and each has an output."""
    stars, parts = [3 - n % 4 for n in range(ROWS)], [0.25 + n % 2 / 2 for n in range(ROWS)]
    table = flats() | {"stars": stars, "part": parts}
    path = write(tmp_path / "flats.csv", table)
    chosen = ("data.target=stars", "data.task=classes")
    train, val, shape = prepared(tmp_path, path, *chosen)
    both = torch.cat((train.rows.targets, val.rows.targets))
    assert both.long().bincount().tolist() == [10, 10, 10, 10]
    assert (shape.outputs, shape.labels) == (4, ["0", "1", "2", "3"]), "not in their order"
    assert prepared(tmp_path, path, "data.target=dear", "data.leave_out=[]").shape.outputs == 2
    assert prepared(tmp_path, path, "data.target=part").shape.outputs == 1, "fractions are amounts"


LABELS = {
    "False,True": ["False", "True"],
    "no,yes": ["no", "yes"],
    "00006,00010": ["00006", "00010"],
    "7,07,007": ["007", "07", "7"],
    "10,9,-1": ["-1", "9", "10"],
    "0.0,1.0,2.0": ["0.0", "1.0", "2.0"],
    " 1, 2": ["1", "2"],
    "v1,v1.0": ["v1", "v1.0"],
    "01-02,other": ["01-02", "other"],
}


@pytest.mark.parametrize("names", LABELS)
def test_classes_have_the_names_of_the_file(names: str, tmp_path: Path) -> None:
    """In the order of the numbers where they are such, and each is a class of its own."""
    words = names.split(",")
    shown = [words[n % len(words)] for n in range(ROWS)]
    path = write(tmp_path / "flats.csv", flats())
    pairs = zip(path.read_text().split(), ["kind", *shown], strict=True)
    path.write_text("\n".join(map(",".join, pairs)))
    chosen = ("data.target=kind", "data.task=" + ("binary" if len(words) == 2 else "classes"))
    train, val, shape = prepared(tmp_path, path, *chosen)
    assert shape.labels == LABELS[names]
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0)).tolist()
    targets = torch.cat((val.rows.targets, train.rows.targets)).long().tolist()
    assert [shape.labels[t] for t in targets] == [shown[row].strip() for row in order]


@pytest.mark.parametrize(
    "values", [[False, True], [1.0, 2.0], [3, 4], [Decimal(5), Decimal(6)], ["v1", "v1.0"]]
)
def test_classes_of_parquet(values: list[Any], tmp_path: Path) -> None:
    """Numbers are named without a fraction, and texts as they stand, also those of pandas."""
    column = pa.array([values[n % 2] for n in range(ROWS)])
    expected = [str(value).lower().removesuffix(".0") for value in values]
    expected = values if isinstance(values[0], str) else expected
    for number, kind in enumerate((column, column.dictionary_encode())):
        table = pa.table(flats()).append_column("kind", kind)
        path = tmp_path / f"{number}.parquet"
        parquet.write_table(table, path)
        chosen = ("data.target=kind", "data.task=binary")
        assert prepared(tmp_path, path, *chosen).shape.labels == expected


SPELLINGS = {  # the same classes in a file each
    "0,1 0.0,1.0": ["0", "1"],
    "False,True FALSE,TRUE": ["false", "true"],
    "False,True 0,1": ["0", "1"],
    "0.0,1.0 false,true": ["0", "1"],
    "a,b.0 a,b.0": ["a", "b.0"],
}


@pytest.mark.parametrize("files", SPELLINGS)
def test_classes_are_the_same_in_all_files(files: str, tmp_path: Path) -> None:
    """A program writes floats where a cell was empty, and each has its own words for bools."""
    for number, names in enumerate(files.split()):
        lines = [f"{n},{names.split(',')[n % 2]}" for n in range(ROWS)]
        (tmp_path / f"{number}.csv").write_text("\n".join(["size,rent", *lines]))
    chosen = ("data.task=binary", "data.leave_out=[]")
    train, val, shape = prepared(tmp_path, tmp_path / "*.csv", *chosen)
    assert shape.labels == SPELLINGS[files]
    assert torch.cat((train.rows.targets, val.rows.targets)).sum() == ROWS


def test_padding_does_not_count(tmp_path: Path) -> None:
    """Neither among quantities nor among classes, in losses, metrics and gradients."""
    for width in (1, 3):
        targets = torch.tensor([1.0, 0.0, data.IGNORE])
        assert data.counts(targets).tolist() == [True, True, False], "0 is a quantity, and a class"
        outputs = torch.randn(3, width).squeeze(-1).requires_grad_()
        whole = model.metric_sums(outputs, targets)
        alone = model.metric_sums(outputs[:2], targets[:2])
        assert {name: value.item() for name, value in whole.items()} == {
            name: pytest.approx(value.item()) for name, value in alone.items()
        }
        whole["loss"].backward()
        assert outputs.grad is not None
        assert outputs.grad[2].eq(0).all()
        lost = model.loss_sum(torch.full_like(outputs, math.nan), targets)
        assert lost.isnan(), "a run that has diverged looks perfect"


def test_numbers_that_name_things(tmp_path: Path) -> None:
    """A postcode is a category where the config says so, whatever type a file has for it."""
    codes = [(10115, 20095, 80331)[n % 3] for n in range(ROWS)]
    write(tmp_path / "1.csv", flats() | {"code": codes})
    write(tmp_path / "2.csv", flats() | {"code": [*map(str, codes[:-1]), "unknown"]})
    splits = prepared(tmp_path, tmp_path / "*.csv", 'data.categories=["code"]')
    assert len(splits.train) + len(splits.val) == 2 * ROWS
    assert splits.shape.values in (8, 9)  # three codes, four districts, 0, and perhaps "unknown"


def test_columns_stay_in_their_order(tmp_path: Path) -> None:
    """Each node prepares for itself, and the order of a set differs between processes."""
    texts, numbers = [f"text {n}" for n in range(6)], [f"number {n}" for n in range(6)]
    more = {name: [("one", "two")[n % 2] for n in range(ROWS)] for name in texts}
    more |= {name: [*range(ROWS)] for name in numbers}
    _, _, shape = prepared(tmp_path, write(tmp_path / "flats.csv", flats() | more))
    assert [*shape.columns["texts"]] == ["district", *texts]
    assert [*shape.columns["numbers"]] == ["size", "rooms", *numbers]


CODES = ["007", "2.50", "TRUE", "01067", "1e3", "01-02", "1_0"]


@pytest.mark.parametrize("code", CODES)
def test_texts_stay_as_they_stand(code: str, tmp_path: Path) -> None:
    """Where the config says so, or a file has texts; also in a file that has only this one."""
    texts = [(code, "A12", "B7")[n % 3] for n in range(ROWS)]
    write(tmp_path / "1.csv", flats() | {"code": texts})
    write(tmp_path / "2.csv", flats(10) | {"code": [code] * 10})
    _, _, shape = prepared(tmp_path, tmp_path / "*.csv")
    assert shape.columns["texts"]["code"] == sorted(["A12", "B7", code])
    names = 'data.categories=["code"]'
    _, _, shape = prepared(tmp_path, tmp_path / "2.csv", names)
    assert shape.columns["texts"]["code"] == [code]


@pytest.mark.parametrize("name", ["flats.csv", "flats.parquet"])
def test_fault_of_the_disk_is_no_damaged_file(name: str, tmp_path: Path) -> None:
    """Such an error is raised as an error, after which launchers start the run again."""
    (tmp_path / name).symlink_to(FAULTY)
    with pytest.raises(OSError, match="Input/output error"):
        data.prepare(settings(tmp_path, tmp_path / name))


def test_texts_of_another_encoding_are_refused(tmp_path: Path) -> None:
    """By the name of the column."""
    path = write(tmp_path / "flats.csv", flats())
    path.write_bytes(path.read_bytes().replace(b"north", b"n\xf6rd"))
    assert "column 'district' is of type binary: give numbers or texts in UTF-8" in refusal(
        tmp_path, path, 'data.categories=["district"]'
    )


def test_order_of_files_is_that_of_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes list folders in orders of their own, and have to read the same."""
    for number in range(3):
        write(tmp_path / f"{number}.csv", flats(ROWS + number))
    glob, found = Path.glob, []
    for end in (False, True):
        monkeypatch.setattr(
            Path, "glob", lambda path, name, end=end: iter(sorted(glob(path, name), reverse=end))
        )
        (folder := tmp_path / str(end)).mkdir()
        found.append(prepared(folder, tmp_path / "*.csv").train.rows.targets)
    assert found[0].equal(found[1]), "nodes have other rows"


@pytest.mark.parametrize("left", [["district"], ["size", "rooms"]])
def test_tables_of_one_kind(left: list[str], tmp_path: Path) -> None:
    """Numbers alone and texts alone can be learnt from, too."""
    shown = str([*left, "dear"]).replace("'", '"')
    path = write(tmp_path / "flats.csv", flats())
    train, _, shape = prepared(tmp_path, path, f"data.leave_out={shown}")
    network = model.build(common.settings(tmp_path).model, shape)
    assert network(*train.__getitems__([0, 1])[:2]).shape == (2,)


@pytest.mark.parametrize(("name", "outputs"), [("diabetes", 1), ("wine", 3)])
def test_bundled_tables(name: str, outputs: int, tmp_path: Path) -> None:
    """They come without network, and the same rows are held out each time."""
    source = ("data.target=target", "data.leave_out=[]", f"data.source={name}")
    task = "data.task=auto" if name == "diabetes" else "data.task=classes"
    first = prepared(tmp_path, tmp_path, *source, task)
    next(tmp_path.glob("*.pt")).unlink()
    second = prepared(tmp_path, tmp_path, *source, task)
    assert torch.equal(first.val.rows.numbers, second.val.rows.numbers)
    assert first.shape.outputs == outputs
    other = "data.source=wine" if name == "diabetes" else "data.source=diabetes"
    places = {
        data.prepared_path(common.settings(tmp_path, *source, task, *more).data)
        for more in ([], [other])
    }
    assert len(places) == 2, "trains on the other table"


def test_files_called_val_are_held_out_and_tests_left_out(tmp_path: Path) -> None:
    """Not joined with the rows for training; a name that only contains such letters is none."""
    for name, count in (("train", 40), ("part_val_1", 20), ("test", 30), ("rivals", 10)):
        write(tmp_path / f"{name}.csv", flats(count))
    train, val, shape = prepared(tmp_path, tmp_path / "*.csv", "data.validation=0.5")
    assert (len(train), len(val)) == (50, 20), "rows held out or tests are joined with the others"
    val_1, test = tmp_path / "part_val_1.csv", tmp_path / "test.csv"
    assert f"; held out by name: {val_1}; left out by name: {test}" in str(shape)
    alone = prepared(tmp_path, val_1).train
    assert len(alone) == 16, "a file alone is divided, whatever its name is"
    (tmp_path / "train.csv").rename(tmp_path / "north.csv")
    assert len(prepared(tmp_path, tmp_path / "*.csv").train) == 80, "no split is called train"


def test_folders_called_val_are_held_out(tmp_path: Path) -> None:
    """The words of the folder that holds all files say nothing."""
    for name, count in (("train", 40), ("val", 20), ("test", 30)):
        (folder := tmp_path / "validation" / name).mkdir(parents=True)
        write(folder / "rows.csv", flats(count))
    train, val, _ = prepared(tmp_path, tmp_path / "validation" / "*" / "rows.csv")
    assert (len(train), len(val)) == (40, 20), "rows held out or tests are joined with the others"


def test_groups_in_files_of_both_splits_are_refused(tmp_path: Path) -> None:
    """They were to be held out together."""
    for name, owner in (("train", "ada"), ("dev", "bob")):
        write(tmp_path / f"{name}.csv", flats() | {"owner": [owner] * ROWS})
    assert len(prepared(tmp_path, tmp_path / "*.csv", "data.groups=owner").val) == ROWS
    write(tmp_path / "dev.csv", flats() | {"owner": ["bob"] * (ROWS - 1) + ["ada"]})
    said = refusal(tmp_path, tmp_path / "*.csv", "data.groups=owner")
    assert f"rows of 'ada' are in {tmp_path / 'dev.csv'}" in said


def test_edited_files_and_other_settings_are_prepared_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was prepared before does not count any more."""
    path = write(tmp_path / "1.csv", flats())
    assert len(prepared(tmp_path, path).val) == 8
    assert len(prepared(tmp_path, path, "data.validation=0.5").val) == 20
    write(path, flats(80))
    assert len(prepared(tmp_path, path).val) == 16
    changes = ['categories=["a"]', 'leave_out=["a"]', "target=a", "task=binary", "split_seed=1"]
    changes += ['gaps=["?"]']
    cfgs = [settings(tmp_path, path), *(settings(tmp_path, path, f"data.{c}") for c in changes)]
    assert len({data.prepared_path(cfg) for cfg in cfgs}) == len(cfgs), "prepared by other settings"
    write(tmp_path / "2.csv", flats())
    assert len(prepared(tmp_path, tmp_path / "*.csv").val) == 24
    before = data.prepared_path(cfgs[0])
    monkeypatch.setattr(data, "version", lambda _: "0")
    other = data.prepared_path(cfgs[0])
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"edited")
    assert len({before, other, data.prepared_path(cfgs[0])}) == 3, "an older program's data"


@pytest.mark.parametrize(
    ("offset", "step"), [(1.7e18, 1e4), (10**18, 10**6), (0, 1e200), (0, 1e-200)]
)
def test_scale_and_offset_do_not_matter(offset: float, step: float, tmp_path: Path) -> None:
    """Neither those of a feature nor of the target."""
    values = [offset + step * (7 * n % ROWS) for n in range(ROWS)]
    table = flats() | {"size": values, "rent": values}
    train, val, shape = prepared(tmp_path, write(tmp_path / "flats.parquet", table))
    assert train.rows.targets.std().item() == pytest.approx(1.0, rel=1e-3)
    assert torch.equal(train.rows.numbers[:, 0], train.rows.targets)
    assert val.rows.targets.abs().max() < 3
    assert shape.unit == pytest.approx(11.7 * step, rel=0.1)


def test_constant_column_is_not_scaled(tmp_path: Path) -> None:
    """Divided by almost nothing, another value among the validation rows would be immense."""
    held_out = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0)).tolist()[0]
    table = flats() | {"floor": [0.1 if n == held_out else 0.3 for n in range(ROWS)]}
    train, val, _ = prepared(tmp_path, write(tmp_path / "flats.csv", table))
    assert train.rows.numbers[:, 2].eq(0).all()
    assert val.rows.numbers[:, 2].unique().tolist() == pytest.approx([-0.2, 0.0])


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_row_numbers_are_no_feature(name: str, tmp_path: Path) -> None:
    """The index that pandas writes is left out, and that is said; another column is not."""
    order = [7 * n % ROWS for n in range(ROWS)]
    for number in (1, 2):
        write(tmp_path / f"{number}.parquet", {name: order} | flats())
    _, _, shape = prepared(tmp_path, tmp_path / "*.parquet")
    assert shape.numbers == 3
    assert f"2 files without {name!r}, which only numbers the rows" in shape.words
    path = write(tmp_path / "3.parquet", {name: [n // 2 for n in order]} | flats())
    assert prepared(tmp_path, path).shape.numbers == 4


HEADERS = {
    "lines.csv": '"size\nin metres";district;rent;dear',
    "commas.csv": '"size, or so, roughly, in metres, squared, at least";district;rent;dear',
    "bars.csv": "size|district|rent|dear",
    "tabs.csv.gz": "size\tdistrict\trent\tdear",
    "semicolons.csv.gz": "size;district;rent;dear",
}


@pytest.mark.parametrize("name", HEADERS)
def test_delimiter_is_found(name: str, tmp_path: Path) -> None:
    """In compressed files, too, and whatever stands between quotes."""
    header = HEADERS[name]
    mark = header.removesuffix("dear")[-1]
    text = "\n".join([header, *(line.replace(",", mark) for line in LINES)]) + "\n"
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    _, _, shape = prepared(tmp_path, tmp_path / name)
    assert (shape.numbers, shape.values) == (1, 3)


@pytest.mark.parametrize("name", ["FLATS.PARQUET", "flats.pq", "flats"])
def test_parquet_by_any_name(name: str, tmp_path: Path) -> None:
    """What a file is, its first bytes say."""
    write(tmp_path / "flats.parquet", flats()).rename(tmp_path / name)
    assert prepared(tmp_path, tmp_path / name).shape.numbers == 3


# --- What is refused ---

LINES = [
    f"{n}.5,{'east' if n % 2 else 'west'},{n * 10.5},{'yes' if n % 2 else 'no'}" for n in range(12)
]
CELLS = {
    "3,west\n": r"flats\.csv, row 13: there are 2 cells for 4 names of columns",
    "many,west,1.5,no\n": r"flats\.csv, row 13: column 'size' is 'many', but most of its cells",
    "inf,west,1.5,no\n": r"flats\.csv, row 13: column 'size' is inf",
    "1.5,west,,no\n": r"flats\.csv, row 13: column 'rent' is empty, and it is data\.target",
    "1.5,west,nan,no\n": r"flats\.csv, row 13: column 'rent' is empty",
    "1.5,west,cheap,no\n": r"flats\.csv, row 13: column 'rent' is 'cheap', but most",
}


@pytest.mark.parametrize("kind", ["string_view", "large_string", "dictionary"])
def test_types_of_texts(kind: str, tmp_path: Path) -> None:
    """Other libraries write other types of Arrow; what is learnt is the same."""
    texts = pa.array(flats()["district"])
    array = texts.dictionary_encode() if kind == "dictionary" else texts.cast(kind)
    usual = write(tmp_path / "usual.parquet", flats())
    other = write(tmp_path / "other.parquet", flats() | {"district": array})
    assert str(parquet.read_table(other).schema.field("district").type).startswith(kind)
    assert prepared(tmp_path, other).shape.columns == prepared(tmp_path, usual).shape.columns


@pytest.mark.parametrize("cells", CELLS)
def test_cells_that_do_not_fit_are_named(cells: str, tmp_path: Path) -> None:
    """With file and row, before anything is trained on them."""
    path = tmp_path / "flats.csv"
    path.write_text("\n".join(["size,district,rent,dear", *LINES]) + "\n" + cells)
    with pytest.raises(config.ConfigError, match=CELLS[cells]):
        data.prepare(settings(tmp_path, path))


@pytest.mark.parametrize("name", ["flats.csv", "flats.csv.gz"])
def test_open_quotation_marks_swallow_no_rows(name: str, tmp_path: Path) -> None:
    """Arrow would take the lines between two of them, or to the end, for one cell."""
    lines = [f"{n * 10.5},{n}.5,{'east' if n % 2 else 'west'}" for n in range(ROWS)]
    for places in ((7,), (7, 20)):
        cells = [line.replace(",e", ',"e') if n in places else line for n, line in enumerate(lines)]
        text = "\n".join(["rent,size,district", *cells]) + "\n"
        content = gzip.compress(text.encode()) if name.endswith("gz") else text.encode()
        (tmp_path / name).write_bytes(content)
        said = refusal(tmp_path, tmp_path / name, "data.leave_out=[]")
        assert f"{name}, row 8: a cell begins with a quotation mark and does not end" in said


LARGE = "whole numbers that a float of 64 bits cannot tell apart: subtract 1000000000000000000"
NUMBERS: dict[str, tuple[list[Any], str]] = {
    "ids": ([10**18 + n for n in range(ROWS)], LARGE),
    "wide": ([(-1) ** n * (1.7 - n / 1000) * 1e308 for n in range(ROWS)], "ranges over more than"),
    "comma": ([f"{n},7" for n in range(ROWS)], "row 1: column 'rent' is '0,7', a number with a"),
    "few": ([f"{n % 3},5" for n in range(ROWS)], "row 1: column 'rent' is '0,5', a number with a"),
    "thousands": (["5", *[f"1,{n + 99}.50" for n in range(1, ROWS)]], "'rent' is '1,100.50'"),
    "german": ([f"1.{n + 100},50" for n in range(ROWS)], "is '1.100,50', a number with a comma"),
    "money": ([f"${n + 5}" for n in range(ROWS)], "is '$5', a number with a comma, with marks"),
    "dash": ([f"\u2212{n / 4}" for n in range(ROWS)], "is '\u22120.0', a number with a comma"),
    "losses": ([f"({n + 1}.5)" for n in range(ROWS)], "is '(1.5)', a number with a comma, with"),
    "unit": ([f"{n / 4} km/l" for n in range(ROWS)], "is '0.0 km/l', a number with its unit"),
    "percent": ([f"{n / 4} %" for n in range(ROWS)], "is '0.0 %', a number with a comma, with"),
    "swiss": ([f"1\u2019{n + 100}" for n in range(ROWS)], "is '1\u2019100', a number with a comma"),
    "french": ([f"1\u202f{n + 100}" for n in range(ROWS)], "100', a number with a comma, with"),
    "lakh": ([f"1,{n + 10},456" for n in range(ROWS)], "is '1,10,456', a number with a comma"),
    "minus": ([f"{n + 1}.5-" for n in range(ROWS)], "is '1.5-', a number with a comma, with"),
    "one": ([f"{n}.5" for n in range(1, ROWS)] + ["1,234"], "row 40: column 'rent' is '1,234'"),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("target", ["rent", "size"])
def test_numbers_that_would_be_others(name: str, target: str, tmp_path: Path) -> None:
    """As a feature and as the target they are refused, by name and with what to do."""
    values, reason = NUMBERS[name]
    path = write(tmp_path / "flats.parquet", flats() | {"rent": values})
    said = refusal(tmp_path, path, f"data.target={target}")
    assert reason in said
    assert "name it in data.leave_out" not in said


@pytest.mark.parametrize("column", ["size", "rent"])
def test_digits_beyond_64_bits_are_not_lost(column: str, tmp_path: Path) -> None:
    """Arrow reads such numbers of CSV as floats, in which some of them are the same."""
    numbers = [10**22 + n % 9 for n in range(ROWS)]
    path = tmp_path / "flats.csv"
    write(path, flats() | {column: [*map(str, numbers)]})
    path.write_text(path.read_text().replace('"', ""))
    assert f"{path}: column {column!r} has whole numbers" in refusal(tmp_path, path)
    assert f"subtract {10**22} from all" in refusal(tmp_path, path)
    decimals = pa.array(map(Decimal, numbers), pa.decimal128(30))
    parquet.write_table(pa.table(flats() | {column: decimals}), tmp_path / "flats.parquet")
    assert f"column {column!r} has whole" in refusal(tmp_path, tmp_path / "flats.parquet")
    if column == "size":
        named = prepared(tmp_path, path, 'data.categories=["size"]').shape
        assert named.columns["texts"]["size"] == [str(10**22 + n) for n in range(9)]


def test_points_between_thousands_are_refused(tmp_path: Path) -> None:
    """Arrow would make 1.234 less than 987. Fractions of other lengths are none such."""
    for mark, size in (("thousand", "1.{n}"), ("", "0.{n}"), ("", "1.{n}5"), ("", "2.5")):
        rows = [f"{n * 3 % 100 + 5}.25,{n if n % 2 else size.format(n=n + 100)}" for n in range(40)]
        (tmp_path / "flats.csv").write_text("\n".join(["rent,size", *rows]))
        if mark:
            said = refusal(tmp_path, tmp_path / "flats.csv", "data.leave_out=[]")
            assert "flats.csv, row 1: column 'size' is '1.100', and cells without" in said
        else:
            prepared(tmp_path, tmp_path / "flats.csv", "data.leave_out=[]")


WRITTEN: dict[str, dict[str, float]] = {
    "1,234.5": {
        "$1,234.50": 1234.5,
        "-7": -7,
        "(4.5)": -4.5,
        "5.5-": -5.5,
        "12,34,567": 1234567,
        "7.5 %": 7.5,
        "CHF 12.30": 12.3,
        "1\u2019234": 1234,
        "\u2212.5": -0.5,
        "1.5e-3": 0.0015,
    },
    "1.234,5": {
        "1.234,50": 1234.5,
        "12,5 \u20ac": 12.5,
        "12.345": 12345,
        "-3,5": -3.5,
        "1.234.567": 1234567,
        "1 234,5": 1234.5,
        "7": 7,
        ",25": 0.25,
    },
}


@pytest.mark.parametrize("name", ["flats.csv", "flats.parquet"])
@pytest.mark.parametrize("numbers", WRITTEN)
def test_numbers_are_read_as_they_are_written(numbers: str, name: str, tmp_path: Path) -> None:
    """What data.numbers names; in a column that all of its cells are of."""
    cells = [*WRITTEN[numbers]] * 4
    known = torch.tensor([*WRITTEN[numbers].values()] * 4, dtype=torch.float64)
    path = write(tmp_path / name, {"size": cells, "rent": [*map(float, range(len(cells)))]})
    more = (f"data.numbers={numbers}", "data.leave_out=[]")
    cfg = settings(tmp_path, path, *more)
    read = columns.read(cfg, [path]).columns["size"]
    assert torch.tensor(read.to_numpy()).equal(known)
    assert prepared(tmp_path, path, *more).shape.numbers == 1
    write(path, {"size": ["1.2.3", *cells[1:]], "rent": [*map(float, range(len(cells)))]})
    assert "row 1: column 'size' is '1.2.3', but most" in refusal(tmp_path, path, *more)


def test_text_among_numbers_is_the_one_that_is_named(tmp_path: Path) -> None:
    """Not 12.345, which would be a thousand elsewhere."""
    cells = ["large" if n == 7 else f"{n + 1}.345" for n in range(ROWS)]
    path = write(tmp_path / "flats.csv", flats() | {"size": cells})
    assert "row 8: column 'size' is 'large', but most" in refusal(tmp_path, path)


def test_points_that_may_stand_between_thousands_are_said(tmp_path: Path) -> None:
    """Where all cells are such as 12.345, only the user knows."""
    rows = [f"{n + 0.5},{n % 90 + 1}.{n * 7 % 1000:03}" for n in range(ROWS)]
    (tmp_path / "flats.csv").write_text("\n".join(["rent,size", *rows]))
    more = ("data.leave_out=[]",)
    words = prepared(tmp_path, tmp_path / "flats.csv", *more).shape.words
    assert "size is read with decimals: if 1.000 is 1000, set data.numbers=1.234,5" in words
    (tmp_path / "flats.csv").write_text("\n".join(["rent,size", *rows]).replace(".5,", ","))
    cfg = settings(tmp_path, tmp_path / "flats.csv", *more, "data.numbers=1.234,5")
    read = columns.read(cfg, [tmp_path / "flats.csv"])
    assert read.columns["size"].to_pylist()[:2] == [1000.0, 2007.0]
    assert not read.doubts


def test_numbers_that_a_spreadsheet_cut_are_said(tmp_path: Path) -> None:
    rows = [f"{n + 0.5},{1 + n % 9}.23E+15" for n in range(ROWS)]
    (tmp_path / "flats.csv").write_text("\n".join(["rent,order", *rows]))
    words = prepared(tmp_path, tmp_path / "flats.csv", "data.leave_out=[]").shape.words
    assert "order has lost digits: 1.23E+15 is how a spreadsheet writes" in words


@pytest.mark.parametrize("often", [2, 5])
def test_limits_are_no_numbers(often: int, tmp_path: Path) -> None:
    """What lies below the limit of a measurement would be a name, or the whole column names."""
    cells = ["<0.84" if n % often else f"{n}.5" for n in range(ROWS)]
    path = write(tmp_path / "flats.csv", flats() | {"size": cells})
    assert "row 2: column 'size' is '<0.84', a limit among numbers" in refusal(tmp_path, path)
    assert prepared(tmp_path, path, 'data.gaps=["<0.84"]').shape.numbers == 4


def test_empty_columns_without_a_name_are_passed_over(tmp_path: Path) -> None:
    """Spreadsheets write such, often several."""
    lines = write(tmp_path / "flats.csv", flats()).read_text().splitlines()
    (tmp_path / "more.csv").write_text("\n".join(f"{line},,," for line in lines))
    usual, more = (prepared(tmp_path, tmp_path / name) for name in ("flats.csv", "more.csv"))
    assert more.shape.columns == usual.shape.columns


def test_floats_of_16_bits_are_numbers(tmp_path: Path) -> None:
    halves = pa.array([20.5 + n for n in range(ROWS)], pa.float32()).cast(pa.float16())
    path = write(tmp_path / "flats.parquet", flats() | {"size": halves})
    assert "size" in prepared(tmp_path, path).shape.columns["numbers"]


def test_sum_of_all_rows_is_no_sample(tmp_path: Path) -> None:
    """Spreadsheets end with one."""
    path = write(tmp_path / "flats.csv", flats())
    path.write_text(path.read_text() + "900,99,Total,99999,no\n")
    assert f"row {ROWS + 1}: column 'district' is 'Total'" in refusal(tmp_path, path)


def test_classes_that_look_alike_are_said(tmp_path: Path) -> None:
    """They are rather one class, written in several ways."""
    dear = [("yes", "no", "Yes ")[n % 3] for n in range(ROWS)]
    path = write(tmp_path / "flats.csv", flats() | {"dear": dear})
    _, _, shape = prepared(tmp_path, path, "data.target=dear", "data.leave_out=[]")
    assert "; 'Yes ' and 'yes' are different classes" in shape.words


@pytest.mark.parametrize("cells", ["{n} years", "12{letter}", "{n} {letter}"])
def test_names_that_begin_with_a_number_stay_names(cells: str, tmp_path: Path) -> None:
    """A few durations, seats and places: their numbers are no quantities, or need not be."""
    names = [cells.format(n=n % 8, letter="ABCDEFGH"[n % 8]) for n in range(ROWS)]
    path = write(tmp_path / "flats.parquet", flats() | {"district": names})
    data.prepare(settings(tmp_path, path))


def test_rows_far_from_those_of_the_training(tmp_path: Path) -> None:
    """A cell that would be infinite is named, in features and in the target."""
    held_out = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0)).tolist()[0]
    for name in ("size", "rent"):
        table = flats()
        table[name][held_out] = 1e200
        said = refusal(tmp_path, write(tmp_path / f"{name}.csv", table))
        assert f"row {held_out + 1}: column {name!r} is 1e+200, too far" in said


FILES = {
    "latin.csv": ("gr\u00f6\u00dfe,rent\n1,2\n".encode("latin-1"), "the header is not in UTF-8"),
    "wide.csv": ("size,rent\n1,2\n".encode("utf-16"), "the file is in UTF-16: save the file in"),
    "blanks.csv": (b"size   rent\n 1.5   20\n9 30\n", "blanks stand between the columns:"),
    "sep.csv": (b"sep=;\nsize;rent\n1;2\n", "the first line is for spreadsheets, and names no"),
    "page.csv": (b"<!DOCTYPE html><html>\n", "the file is a web page"),
    "lines.csv": (b'{"size": 1}\n', "the file holds JSON"),
    "flats.tar": (b"flats.csv".ljust(257, b"\0") + b"ustar", "the file is an archive: unpack"),
    "flats.xlsx": (b"PK\x03\x04...", "zip archive or a spreadsheet: save the table as CSV"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_another_kind_are_named(name: str, tmp_path: Path) -> None:
    """With what to do, and no traceback."""
    content, reason = FILES[name]
    (tmp_path / name).write_bytes(content)
    said = refusal(tmp_path, tmp_path / name)
    assert reason in said
    assert name in said


@pytest.mark.parametrize("row", ["0.5,3", "3,red", "some words,red"])
def test_table_without_names_is_refused(row: str, tmp_path: Path) -> None:
    """The first row would be lost. Names may be numbers: 0 and 1 of columns, 2019 of a year."""
    rows, target = "\n".join([row] * ROWS), row.partition(",")[2]
    (tmp_path / "flats.csv").write_text(f"{row}\n{rows}")
    chosen = (f"data.target={target}", "data.leave_out=[]")
    assert "is one of data: write the names" in refusal(tmp_path, tmp_path / "flats.csv", *chosen)
    for names in ("0,1", "2019,place", "year,3"):
        (tmp_path / "flats.csv").write_text(f"{names}\n{rows}")
        chosen = (f"data.target={names.partition(',')[2]}", "data.leave_out=[]")
        assert "nothing to learn" in refusal(tmp_path, tmp_path / "flats.csv", *chosen)


def test_name_that_is_a_value_too_is_a_name(tmp_path: Path) -> None:
    """Among other names the name of a column may be one of its cells."""
    table = {"place": ["north", "south"] * 20, "Employed": ["Employed", "Student"] * 20}
    path = write(tmp_path / "flats.csv", table)
    cfg = settings(tmp_path, path, "data.target=Employed", "data.leave_out=[]")
    data.prepare(cfg)
    assert data.open_splits(cfg).shape.outputs == 2


def test_folder_is_no_table(tmp_path: Path) -> None:
    """A pattern is proposed."""
    pattern = str(tmp_path / "*.csv")
    assert f"is a folder: give a file, or a pattern such as {pattern!r}" in refusal(
        tmp_path, tmp_path
    )


COLUMNS = {
    'data.leave_out=["dear", "rent"]': "data.leave_out names 'rent', which is data.target",
    "data.target=price": "data.target = 'price': the columns are size, rooms, district, rent",
    'data.categories=["code"]': "data.categories: 'code' is none of the columns size, rooms",
    "data.task=binary": "rent has 40 different numbers: data.task = 'regression'?",
    "data.task=classes": "rent has 40 different numbers: data.task = 'regression'?",
    "data.target=rooms": "row 4: column 'rooms' is empty, and it is data.target",
    "data.target=stars": "stars has 3 different numbers: data.task = 'classes' or 'regression'?",
    "data.target=same": "same has 1 different numbers: nothing to learn",
    "data.target=name": "column 'name' has 40 different texts in 40 rows",
    "data.target=rare": "no training row is 'once'",
    "data.validation=0.99": "data.validation = 0.99 leaves no rows for training",
}


@pytest.mark.parametrize("override", COLUMNS)
def test_columns_that_do_not_fit_are_named(override: str, tmp_path: Path) -> None:
    """A target that the task does not fit, and what cannot be learnt."""
    held_out = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0)).tolist()[0]
    table = flats() | {
        "stars": [n % 3 for n in range(ROWS)],
        "same": [1.5] * ROWS,
        "name": [f"flat {n}" for n in range(ROWS)],
        "rare": ["once" if n == held_out else ("a", "b")[n % 2] for n in range(ROWS)],
    }
    used = override.removeprefix("data.target=")
    left = str([n for n in ("dear", "name", "stars", "same", "rare") if n != used])
    path = write(tmp_path / "flats.csv", table)
    left_out = "data.leave_out=" + left.replace("'", '"')
    assert COLUMNS[override] in refusal(tmp_path, path, left_out, override)


def test_tables_without_a_feature_are_refused(tmp_path: Path) -> None:
    """Only the target, a column that numbers the rows, or everything left out."""
    rent = {"rent": flats()["rent"]}
    path = write(tmp_path / "rent.csv", rent)
    reason = "data.target = 'rent': there is nothing to learn from besides the target"
    nothing = "data.leave_out=[]"
    assert refusal(tmp_path, path, nothing) == f"{reason}: give a table with more columns"
    write(path, {"": [*range(ROWS)]} | rent)
    assert f"{reason}; '' only numbers the rows: give" in refusal(tmp_path, path, nothing)
    write(path, {"size": flats()["size"]} | rent)
    left = f"{reason}: take a column out of data.leave_out = ['size']"
    assert refusal(tmp_path, path, 'data.leave_out=["size"]') == left


@pytest.mark.parametrize(
    "day",
    [
        *("31/12/2019", "1999-12-31", "12/31/19 10:30 PM", "Jan 3, 2020", "3 March 2020", "9:30"),
        *("2020-03", "03/2020", "March 2020", "Jun-23", "2023-Q1", "2020-W13"),
    ],
)
def test_dates_are_refused(day: str, tmp_path: Path) -> None:
    """Days that come again would be learnt by heart; as categories they may be meant."""
    table = flats() | {"since": [day if n % 2 else day.replace("3", "2") for n in range(ROWS)]}
    path = write(tmp_path / "flats.parquet", table)
    assert "column 'since' holds dates or times" in refusal(tmp_path, path)
    categories = 'data.categories=["since"]'
    assert prepared(tmp_path, path, categories).shape.values == 5 + len({*table["since"]})


def test_rows_of_a_group_are_held_out_together(tmp_path: Path) -> None:
    """About as many rows as otherwise; the group itself is not learnt from."""
    table = flats() | {"owner": [f"{n % 10:03}" for n in range(ROWS)]}
    path = write(tmp_path / "flats.csv", table)
    train, val, shape = prepared(tmp_path, path, "data.groups=owner")
    assert (len(train), len(val), shape.numbers) == (32, 8, 3)
    assert "owner" not in str(shape.columns)
    place = torch.load(data.prepared_path(settings(tmp_path, path, "data.groups=owner")))["places"]
    rows = place["rows"].tolist()
    whole = {rows[0] % 10, rows[-1] % 10}
    assert {row % 10 for row in rows} == whole, "rows of one group are in both splits"
    assert 'must be "" or a column besides' in refusal(tmp_path, path, "data.groups=rent")
    alone = write(tmp_path / "one.csv", flats() | {"owner": ["A"] * ROWS})
    assert "all rows are of one group" in refusal(tmp_path, alone, "data.groups=owner")
    gap = write(tmp_path / "gap.csv", flats() | {"owner": ["A", None] * (ROWS // 2)})
    assert "column 'owner', data.groups, is empty" in refusal(tmp_path, gap, "data.groups=owner")


def test_rows_that_are_in_both_splits_are_said(tmp_path: Path) -> None:
    """What is predicted for them shows nothing."""
    table = {name: cells[:20] * 2 for name, cells in flats().items()}
    train, val, shape = prepared(tmp_path, write(tmp_path / "flats.csv", table))
    both = [*zip(*(tensor.tolist() for tensor in val.rows), strict=True)]
    known = [*zip(*(tensor.tolist() for tensor in train.rows), strict=True)]
    again = sum(row in known for row in both)
    assert again > 0
    assert str(shape).endswith(f"; {again} of the 8 rows held out are for training, too")
    assert "too" not in str(prepared(tmp_path, write(tmp_path / "once.csv", flats())).shape)


def test_class_of_which_no_row_is_held_out_is_said(tmp_path: Path) -> None:
    """What the validation measures says nothing of the class."""
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0)).tolist()
    kinds = ["rare" if n in order[-2:] else ("a", "b")[n % 2] for n in range(ROWS)]
    path = write(tmp_path / "flats.csv", flats() | {"kind": kinds})
    shape = prepared(tmp_path, path, "data.target=kind").shape
    assert "; no row held out is 'rare'" in str(shape)
    shape = prepared(tmp_path, path, "data.target=dear", 'data.leave_out=["kind"]').shape
    assert "no row held out" not in str(shape)


COPIES: dict[str, tuple[str, list[Any]]] = {
    "other names": ("dear", [int(n % 4 == 0) for n in range(ROWS)]),
    "other unit": ("rent", [7 - 2 * (300.25 + 11 * n) for n in range(ROWS)]),
    "with gaps": ("rent", [None if n % 9 == 4 else 300.25 + 11 * n for n in range(ROWS)]),
}


@pytest.mark.parametrize("name", COPIES)
def test_column_that_gives_the_target_away_is_said(name: str, tmp_path: Path) -> None:
    """What the validation measures then is of no use: the column is not known beforehand."""
    target, copy = COPIES[name]
    rows = {n: cells for n, cells in flats().items() if n in ("rooms", target)}
    own = (f"data.target={target}", "data.leave_out=[]")
    shape = prepared(tmp_path, write(tmp_path / "with.csv", rows | {"copy": copy}), *own).shape
    assert "; the target follows from 'copy' alone: data.leave_out?" in str(shape)
    shape = prepared(tmp_path, write(tmp_path / "without.csv", rows), *own).shape
    assert "follows" not in str(shape)


def test_texts_that_tell_rows_apart_are_refused(tmp_path: Path) -> None:
    """A name of each row would be learnt by heart."""
    table = flats() | {"name": [f"flat {n}" for n in range(ROWS)]}
    found = refusal(tmp_path, write(tmp_path / "flats.csv", table))
    assert "column 'name' has 40 different texts in 40 rows" in found
    assert "data.leave_out" in found


def test_files_that_do_not_fit_together(tmp_path: Path) -> None:
    """A column that a file lacks, or has as something else, is named with the file."""
    write(tmp_path / "1.csv", flats())
    second = flats()
    write(tmp_path / "2.csv", second | {"size": ["1.5", "small", *["3"] * (ROWS - 2)]})
    assert "2.csv, row 2: column 'size' is 'small'" in refusal(tmp_path, tmp_path / "*.csv")
    del second["size"]
    write(tmp_path / "2.csv", second)
    assert "2.csv has no column 'size', which" in refusal(tmp_path, tmp_path / "*.csv")
    write(tmp_path / "2.csv", flats() | {"floor": [1] * ROWS})
    assert "1.csv has no column 'floor', which" in refusal(tmp_path, tmp_path / "*.csv")


def test_tables_that_cannot_be_used(tmp_path: Path) -> None:
    """No file, hardly a row, an empty column, two columns of a name, dates."""
    assert "no such file" in refusal(tmp_path, tmp_path / "absent.csv")
    assert "has only 3 rows" in refusal(tmp_path, write(tmp_path / "3.csv", flats(3)))
    empty = flats() | {"floor": [None] * ROWS}
    found = refusal(tmp_path, write(tmp_path / "empty.csv", empty))
    assert "column 'floor' has no value to train on" in found
    (tmp_path / "twice.csv").write_text("a,rent,dear,a\n" + "1,2,3,4\n" * ROWS)
    assert "two columns have the same name" in refusal(tmp_path, tmp_path / "twice.csv")
    time = datetime.datetime(1999, 5, 1, 7, 30, tzinfo=datetime.UTC)
    for day in (time.date(), time.time(), time.replace(tzinfo=None), time):
        dates = flats() | {"day": [day] * ROWS}
        for name in ("dates.csv", "dates.parquet"):
            path = write(tmp_path / name, dates)
            assert "column 'day' holds dates or times" in refusal(tmp_path, path)
            known = prepared(tmp_path, path, "data.categories=['day']").shape.columns["texts"]
            assert len(known["day"]) == 1


def test_separators(tmp_path: Path) -> None:
    """Commas, semicolons and tabs are told apart by the first line."""
    for separator in ",;\t":
        path = tmp_path / "flats.csv"
        path.write_text("\n".join(["size,district,rent,dear", *LINES]).replace(",", separator))
        assert prepared(tmp_path, path).shape.numbers == 1


def test_place_of_a_row() -> None:
    """Rows are counted in their own file, from 1."""
    table = columns.Table({}, [Path("a.csv"), Path("b.csv")], [3, 5])
    assert [table.place(row) for row in (0, 2, 3, 4)] == [
        "a.csv, row 1",
        "a.csv, row 3",
        "b.csv, row 1",
        "b.csv, row 2",
    ]


def test_whole_floats_are_the_integers_that_they_were() -> None:
    """A gap makes floats of a column of integers, of large ones too: they name the same."""
    names = columns._texts(pa.chunked_array([[1e10, None, 7.0]])).to_pylist()
    assert names == ["10000000000", None, "7"]
    assert columns._texts(pa.chunked_array([[0.5, 2.0]])).to_pylist() == ["0.5", "2"]


def test_whole_numbers_that_only_name_are_the_same_with_and_without_a_point() -> None:
    """In one of two files a cell is empty, so that a program has written floats there."""
    cells = pa.chunked_array([["2", "10", "2.0", None, "v3", "v3.0", "4.0"]])
    known = columns._learn_texts(cells, torch.arange(7))
    assert known == ["10", "2", "4.0", "v3", "v3.0", None]
    new = pa.chunked_array([["2.0", "2", "4", "10.0", "v3.0", "2.00", "5.0", None]])
    table = columns.Table({"area": new}, [Path("a.csv")], [8])
    assert columns._number_texts(table, {"area": known})[:, 0].tolist() == [2, 2, 3, 1, 5, 0, 0, 6]


def test_bools_that_only_name_are_the_same_in_all_spellings() -> None:
    """Parquet has none, pandas writes True and a spreadsheet TRUE; other texts keep theirs."""
    cells = pa.chunked_array([["true", "True", "maybe", "FALSE", "Maybe"]])
    known = columns._learn_texts(cells, torch.arange(5))
    assert known == ["FALSE", "Maybe", "True", "maybe"]
    table = columns.Table({"new": pa.chunked_array([["TRUE", "false", "MAYBE"]])}, [], [3])
    assert columns._number_texts(table, {"new": known})[:, 0].tolist() == [3, 1, 0]
