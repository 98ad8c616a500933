"""What lies at a path: said in words, a family proposed, and train.py told where the data are."""

import ast
import csv
import gzip
import io
import json
import random
import shutil
import tarfile
import textwrap
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from generator.program import ddpgen
from pyarrow import csv as arrow_csv

from ddpgen.asking import cells, look, questions, records
from ddpgen.asking import tables as looking_at_tables
from ddpgen.asking.found import path_of
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


def picture(colour: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (20, 20), colour).save(file, "PNG")
    return file.getvalue()


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return path


def samples(path: Path) -> Path:
    """One tar file, as WebDataset has it."""
    members = dict[str, bytes]()
    for number, colour in enumerate(["red", "blue", "green"] * 12):
        members |= {f"{number}.png": picture(colour), f"{number}.cls": str(number % 3).encode()}
    return write_tar(path, members)


def tars(path: Path) -> Path:
    for part in ("train/000", "train/001", "val/000", "test/000"):
        samples(path / f"{part}.tar")
    return path


def pictures(path: Path) -> Path:
    """As Hugging Face has them: {bytes, path}, and numbers of names."""
    import pyarrow as pa
    from pyarrow import parquet

    (path / "data").mkdir(parents=True)
    names = {"info": {"features": {"fine_label": {"names": ["cat", "dog", "owl"]}}}}
    shown = [{"bytes": picture(c), "path": ""} for c in ["red", "blue", "green"] * 12]
    rows = pa.table({"img": shown, "fine_label": [0, 1, 2] * 12})
    rows = rows.replace_schema_metadata({"huggingface": json.dumps(names)})
    for part in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        parquet.write_table(rows, path / "data" / f"{part}.parquet", row_group_size=5)
    return path


def bare_bytes(path: Path) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    rows = {"image": [picture(c) for c in ["red", "blue"] * 9], "label": ["cat", "dog"] * 9}
    parquet.write_table(pa.table(rows), path)
    return path


def prices(path: Path) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"size": [1.5, 2.5], "name": ["a", "b"]}), path)
    return path


def conversation(number: int) -> list[dict[str, str]]:
    question = {"role": "user", "content": f"what is {number}?"}
    return [question, {"role": "assistant", "content": f"a number, {number}"}]


def chats(path: Path) -> Path:
    path.mkdir()
    for name in ("train", "val"):
        lines = [json.dumps({"id": n, "turns": conversation(n)}) for n in range(40)]
        (path / f"{name}.jsonl").write_text("\n".join(lines))
    return path


def notes(path: Path) -> Path:
    lines = [json.dumps({"note": f"the cat sleeps for {n} hours"}) for n in range(40)]
    path.write_text("\n".join(lines))
    return path


def reviews(path: Path) -> Path:
    rows = [[f"{n}: {SENTENCES[n % 3]}", ("bad", "good", "bad")[n % 3]] for n in range(60)]
    if path.suffix == ".csv":
        return write(path, ["comment", "stars"], rows)
    path.write_text("".join(json.dumps({"comment": t, "stars": s}) + "\n" for t, s in rows))
    return path


def labelled(path: Path) -> Path:
    """Texts and numbers of classes, as Hugging Face has them."""
    import pyarrow as pa
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {"review": [f"{n}: {SENTENCES[n % 3]}" for n in range(60)], "stars": [0, 1, 0] * 20}
    names = {"review": {"dtype": "string"}, "stars": {"names": ["bad", "good"]}}
    notes = {"huggingface": json.dumps({"info": {"features": names}})}
    parquet.write_table(pa.table(rows).replace_schema_metadata(notes), path)
    return path


def hub(path: Path) -> Path:
    for part in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        labelled(path / "data" / f"{part}.parquet")
    return path


def plain_parquet(path: Path) -> Path:
    """Without notes; the columns have the usual names."""
    from pyarrow import parquet

    rows = parquet.read_table(labelled(path))
    parquet.write_table(rows.rename_columns(["text", "label"]).replace_schema_metadata(), path)
    return path


def with_semicolons(path: Path) -> Path:
    path.write_text(
        "\n".join(["text;label", *(f"{n}: {SENTENCES[n % 3]};{n % 2}" for n in range(60))])
    )
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


def packed(path: Path) -> Path:
    path.write_bytes(gzip.compress(flats(path.with_suffix("")).read_bytes()))
    return path


def with_tabs(path: Path) -> Path:
    path.write_text(flats(path).read_text().replace(",", "\t"))
    return path


def with_empty_column(path: Path) -> Path:
    """As a comma at the end of each line makes one."""
    path.write_text(flats(path).read_text().replace("\n", ",\n"))
    return path


def oddly_named(path: Path) -> Path:
    """Characters that patterns, JSON and TOML read as something else."""
    path.mkdir()
    rows = [[n % 7 + 0.5, f"flat {n}", n * 1.5, f"'{n}'"] for n in range(60)]
    for name in ("a", "b"):
        write(path / f"{name}.csv", ["size", 'na"me \N{GRINNING FACE}', '"rent"', "Größe"], rows)
    return path


def turns_in_parquet(path: Path) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    turns = [{"from": "human", "value": PAIR["q"]}, {"from": "gpt", "value": PAIR["a"]}]
    parquet.write_table(pa.table({"id": [*range(30)], "conversations": [turns] * 30}), path)
    return path


def postcodes(path: Path) -> Path:
    """Codes with zeros before them, rooms of which some are texts, and codes of the rows."""
    rooms = ["1", "2", "2", "3", "3", "3", "4+", "many", "2", "1"]
    rows = [[f"{n:05}", f"0{n % 7}067", rooms[n % 10], n % 17 + 0.5] for n in range(60)]
    return write(path, ["key", "postcode", "rooms", "rent"], rows)


SOURCES = {
    "codes.csv": (postcodes, "table", ["postcode: codes, 7 different"]),
    "my [data] *": (oddly_named, "table", ['to predict: "rent" -> regression']),
    "turns.parquet": (turns_in_parquet, "causal-lm", ["30 conversations in conversations"]),
    "flats.csv.gz": (packed, "table", ["60 rows, 5 columns", "to predict: rent -> regression"]),
    "flats.txt": (with_tabs, "table", ["60 rows, 5 columns", "to predict: rent -> regression"]),
    "empty column.csv": (with_empty_column, "table", ["to predict: rent -> regression"]),
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
    "labelled.parquet": (labelled, "text-classifier", ["60 rows, 2 columns: review, stars"]),
    "plain.parquet": (plain_parquet, "text-classifier", ["60 rows, 2 columns: text, label"]),
    "hub of texts": (hub, "text-classifier", []),
    "semicolons.csv": (with_semicolons, "text-classifier", []),
    "divided": (divided_reviews, "text-classifier", []),
    "book.txt": (text, "gpt", ["a text of 32,000 bytes"]),
    "shards": (tokens, "gpt", ["2 files of tokens"]),
    "one.tar": (samples, "resnet", ["36 images in 3 classes"]),
    "tars": (tars, "resnet", ["3 tar files; of the first: 36 images in 3 classes"]),
    "hub": (pictures, "resnet", ["72 images in 3 classes, in 2 files; classes in fine_label"]),
    "bytes.parquet": (bare_bytes, "resnet", ["18 images; classes in label"]),
    "chats": (chats, "causal-lm", ["40 conversations in turns"]),
    "notes.jsonl": (notes, "causal-lm", ["40 texts in note"]),
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


def test_images_have_two_families(tmp_path: Path) -> None:
    """Each is told in its own words where the data are; shards prepare in either."""
    tars(tmp_path / "tars")
    chosen = ("--data", "tars", "--data", "model=vision")
    done = ddpgen("new", "p", "--defaults", *chosen, cwd=tmp_path)
    (line,) = [line for line in done.stdout.splitlines() if "train.py data.source" in line]
    run = forkserver.train(tmp_path / "p", 1, ["--prepare-only", *line.split()[2:]])
    assert run.codes == [0], run.output


def test_a_table_in_parquet_is_described(tmp_path: Path) -> None:
    """By what stands at its end; a pattern names several."""
    found = look.look(prices(tmp_path / "a.parquet"))
    assert found.words[0] == "2 rows, 2 columns: size, name"
    assert found.kind == "rows"
    prices(tmp_path / "b.parquet")
    pattern = look.look(tmp_path / "*.parquet")
    assert pattern.words[0] == "2 tables; of the first:"
    assert pattern.arguments == [f"data.source={tmp_path}/*.parquet"]


def test_target_of_a_table_in_parquet_is_known_by_its_name(tmp_path: Path) -> None:
    """The command that was printed named none, and ended with a mistake."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = pa.table({"size": [1.5, 2.5], "Price": [10.5, 20.5], "rooms": [1, 2]})
    parquet.write_table(rows, path := tmp_path / "a.parquet")
    found = look.look(path)
    assert found.words[1:] == ["to predict, by its name: Price"]
    assert found.arguments == [f"data.source={path}", "data.target=Price"]


def test_pointer_of_git_lfs_is_no_data(tmp_path: Path) -> None:
    """A table with one column, and a text to learn."""
    for name in ("a.csv", "a.txt"):
        path = tmp_path / name
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 9\n")
        with pytest.raises(DdpgenError, match="git lfs pull"):
            look.look(path)


def test_names_that_look_the_same_are_told(tmp_path: Path) -> None:
    """An accent is a part of its letter, or a character of its own."""
    rows: list[list[object]] = [[n + 0.5, ["caf\u00e9", "cafe\u0301"][n % 2]] for n in range(40)]
    words = look.look(write(tmp_path / "a.csv", ["size", "place"], rows)).words
    assert any(word.endswith("are different: write them alike") for word in words), words


def test_path_in_the_folder_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell leaves ~ as it is in quotes and behind =."""
    monkeypatch.setenv("HOME", "/home/me")
    assert path_of("~/a.csv") == Path("/home/me/a.csv")
    assert path_of("~no-such-user/a.csv") == Path("~no-such-user/a.csv")


def test_long_texts_are_looked_at(tmp_path: Path) -> None:
    """Those beyond the limit that Python's reader begins with."""
    path = reviews(tmp_path / "reviews.csv")
    with path.open("a", newline="") as file:
        csv.writer(file).writerow(["good " * 40_000, "good"])
    assert look.look(path).kind == "labelled texts"


def test_classes_of_a_tar_file_are_counted_as_the_program_does(tmp_path: Path) -> None:
    """Folders within a class are of the class, and one around all is none."""
    folders = ["day", "day/sub", "day/sub/deeper", "night/sub"]
    members = {f"./all/{folder}/{n}.png": b"" for folder in folders for n in range(3)}
    found = look.look(write_tar(tmp_path / "all.tar", members))
    assert found.words[0].startswith("12 images in 2 classes")


def test_columns_are_described(tmp_path: Path) -> None:
    """Numbers, gaps, and names that tell rows apart, which the model must not see."""
    found = look.look(flats(tmp_path / "flats.csv"))
    assert "rooms: numbers, 4 different, 7 gaps" in found.words
    assert "district: names, 2 different" in found.words
    assert 'data.leave_out=["name"]' in found.arguments


def test_texts_in_place_of_empty_cells_are_told(tmp_path: Path) -> None:
    """Those that Arrow knows, spaces, and the text that is alone among numbers."""
    cells = {"known": ["NA", "null", " ", "nan"], "mark": ["?"], "names": ["?", "x"]}
    rows = [
        [cell if n % 9 == 4 else 0.5 * n for cell in (known, mark, name)] + [3 * n]
        for n in range(60)
        for known, mark, name in [[texts[n % len(texts)] for texts in cells.values()]]
    ]
    found = look.look(write(tmp_path / "a.csv", [*cells, "price"], rows))
    assert "known: numbers, 53 different, 7 gaps" in found.words
    assert "mark: numbers, 53 different, 7 gaps written '?'" in found.words
    assert any(words.startswith("names: names") for words in found.words)
    assert 'data.gaps=["?"]' in found.arguments


def sized(path: Path, odd: dict[int, str]) -> Path:
    rows: list[list[object]] = [[odd.get(n, 0.5 * n), n % 4, 3 * n] for n in range(1, 61)]
    return write(path, ["size", "rooms", "price"], rows)


@pytest.mark.parametrize(
    ("odd", "row"),
    [({9: "large"}, 9), ({60: "Total"}, 60), ({5: "?", 9: "?", 30: "larg"}, 30)],
)
def test_mistake_among_numbers_is_no_gap(odd: dict[int, str], row: int, tmp_path: Path) -> None:
    """It is told by its row, which the program counts alike, and what to do."""
    with pytest.raises(DdpgenError, match=f"row {row}, column size: {odd[row]} among numbers"):
        look.look(sized(tmp_path / "t.csv", odd))


@pytest.mark.parametrize(
    "odd",
    [{9: "?"}, {9: "Unknown"}, {9: "n.a."}, {9: "?", 20: "-"}, {9: "not asked", 20: "not asked"}],
)
def test_texts_that_stand_for_empty_cells_are_gaps(odd: dict[int, str], tmp_path: Path) -> None:
    """Those that people use; others where they come again."""
    found = look.look(sized(tmp_path / "t.csv", odd))
    assert f"data.gaps={json.dumps(sorted({*odd.values()}))}" in found.arguments


def test_numbers_of_tickets_have_texts_among_them(tmp_path: Path) -> None:
    """They only name something, and are left out: nothing is a mistake in them."""
    for name, odd in (("ticket", {n: f"A/{n}" for n in range(7, 21)}), ("row_id", {9: "A9"})):
        rows = [[odd.get(n, 9 * n), n % 4, 3 * n] for n in range(1, 61)]
        found = look.look(write(tmp_path / "t.csv", [name, "rooms", "price"], rows))
        assert f'data.leave_out=["{name}"]' in found.arguments


PAIR = {"q": "Where is the house of Ada?", "a": "In the town behind the old bridge."}
LAYOUTS: dict[str, tuple[dict[str, object], list[str]]] = {
    "completions": ({"prompt": PAIR["q"], "completion": PAIR["a"]}, []),
    "instructions": ({"instruction": PAIR["q"], "input": "", "output": PAIR["a"]}, []),
    "turns in pairs": (
        {
            "prompt": [{"role": "user", "content": PAIR["q"]}],
            "completion": [{"role": "assistant", "content": PAIR["a"]}],
        },
        [],
    ),
    "turns": (
        {"dialog": [{"from": "human", "value": PAIR["q"]}, {"from": "gpt", "value": PAIR["a"]}]},
        ["data.column=dialog"],
    ),
}


@pytest.mark.parametrize("ending", [".jsonl", ".json"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_conversations_are_known(name: str, ending: str, tmp_path: Path) -> None:
    """And the program reads them with the arguments that are printed."""
    record, more = LAYOUTS[name]
    path = tmp_path / f"{name}{ending}"
    lines = [json.dumps(record | {"id": number}) for number in range(30)]
    path.write_text("\n".join(lines) if ending == ".jsonl" else f"[{', '.join(lines)}]")
    found = look.look(path)
    assert found.kind == "conversations"
    assert found.words[0].startswith("30 conversations")
    assert found.arguments == [f"data.source={path}", *more]
    template.write(completed({"model": "causal-lm"}), tmp_path / "project")
    run = forkserver.train(tmp_path / "project", 1, [*found.arguments, "train.max_steps=1"])
    assert "30 conversations or texts" in run.output, run.output


@pytest.mark.parametrize("ending", [".jsonl", ".json"])
def test_file_that_is_marked_as_utf_8_is_known(ending: str, tmp_path: Path) -> None:
    """As Windows writes it."""
    record = {"prompt": PAIR["q"], "completion": PAIR["a"]}
    path = tmp_path / f"marked{ending}"
    content = json.dumps(record) if ending == ".jsonl" else json.dumps([record])
    path.write_text(content, encoding="utf-8-sig")
    assert look.look(path).kind == "conversations"


def test_preferences_are_told(tmp_path: Path) -> None:
    """Nobody is to believe that rejected answers are unlearnt."""
    path = tmp_path / "pairs.jsonl"
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
    path.write_text(json.dumps({"chosen": turns, "rejected": turns}) + "\n")
    assert any("no training on preferences (DPO)" in words for words in look.look(path).words)
    rows = [{"prompt": PAIR["q"] + str(n), "chosen": "Yes.", "rejected": "No."} for n in range(30)]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DdpgenError, match=r"on preferences \(DPO\) is not there"):
        look.look(path)


def test_pairs_of_columns_are_those_of_the_program() -> None:
    tree = ast.parse((template.TEMPLATE / "project" / "documents.py").read_text())
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    (found,) = [node.value for node in assigned if ast.unparse(node.targets[0]) == "PAIRS"]
    assert ast.literal_eval(found) == records.PAIRS


def test_empty_cells_are_those_of_arrow() -> None:
    """And so of the generated program."""
    assert {"", *cells.EMPTY} == {*arrow_csv.ConvertOptions().null_values}


@pytest.mark.parametrize(
    ("name", "numbers", "left"),
    [
        ("n", range(1, 31), True),
        ("n", range(30), True),
        ("n", range(2, 32), False),
        ("year", range(1990, 2020), False),
        ("PassengerId", range(700, 730), True),
        ("row_id", [n * 7 % 31 for n in range(1, 31)], True),
        ("shop_id", [n // 2 for n in range(30)], False),
        ("paid", [n * 7 % 31 for n in range(1, 31)], False),
    ],
)
def test_numbers_of_rows_are_left_out(
    name: str, numbers: Sequence[int], left: bool, tmp_path: Path
) -> None:
    """They would tell the order of the rows, and nothing of a row that comes later."""
    rows = [[number, n % 4, n * n % 17 + 0.5] for n, number in enumerate(numbers)]
    found = look.look(write(tmp_path / "a.csv", [name, "rooms", "price"], rows))
    assert (f'data.leave_out=["{name}"]' in found.arguments) == left


@pytest.mark.parametrize(("slope", "offset"), [(2, 1), (1, 0)])
def test_only_numbers_of_rows_are_learnt_from(slope: int, offset: int, tmp_path: Path) -> None:
    """A first table by hand: without its only feature nothing could be learnt."""
    rows = [[n, slope * n + offset] for n in range(60)]
    found = look.look(write(tmp_path / "a.csv", ["x", "y"], rows))
    assert found.arguments[1:] == ["data.target=y", "data.task=regression"]


def test_days_are_left_out_and_commas_told(tmp_path: Path) -> None:
    """A table as spreadsheets of other countries write it, with the day of each row at its end."""
    texts = (f"{7 * n};{n * 1000 + 0.5:.2f};2024-0{n % 9 + 1}-11" for n in range(60))
    rows = [text.replace(".", ",") for text in texts]
    path = tmp_path / "sales.csv"
    path.write_text("\ufeffsize;Preis (€);sold on\n" + "\n".join(rows), encoding="utf-8")
    found = look.look(path)
    assert "Preis (€): numbers, not as 1234.5, 60 different" in found.words
    assert "sold on: dates, 9 different" in found.words
    assert found.arguments[1:] == [
        "data.target=Preis (€)",
        "data.task=regression",
        "data.numbers=1.234,5",
        'data.leave_out=["sold on"]',
    ]
    signs = [[f"${n + 1000:,}.25", f"{n / 7:.2f} %", n] for n in range(60)]
    words = look.look(write(tmp_path / "signs.csv", ["sum", "share", "n"], signs)).words
    assert "sum: numbers, not as 1234.5, 60 different" in words
    assert "share: numbers, not as 1234.5, 60 different" in words
    others = [[f"\u2212{n}.5", f"({n})", f"{n / 4} km/l", f"{n % 9} years", n] for n in range(60)]
    words = look.look(write(tmp_path / "others.csv", ["a", "b", "c", "d", "y"], others)).words
    for name in "abc":
        assert f"{name}: numbers, not as 1234.5, 60 different" in words
    assert "d: names, 9 different" in words
    plain = write(tmp_path / "plain.csv", ["x", "y"], [[f"{n}.125", n % 2] for n in range(60)])
    assert "x: numbers, 60 different" in look.look(plain).words


def test_times_alone_are_no_days(tmp_path: Path) -> None:
    """Of times of a day, or of how long something took, none is the latest."""
    rows = [[f"0{n % 9}:{n % 60:02}:00", n % 7, n % 2] for n in range(60)]
    words = look.look(write(tmp_path / "took.csv", ["took", "x", "y"], rows)).words
    assert "took: times, 60 different" in words
    assert "latest" not in "\n".join(words), words


def test_several_labels_in_a_record_are_refused(tmp_path: Path) -> None:
    """The program reads no such record, and the lists were counted as classes."""
    several = ({"text": f"some words {n}", "labels": ["a", "b"][: n % 3]} for n in range(60))
    path = tmp_path / "several.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in several))
    with pytest.raises(DdpgenError, match="record 1 has several values in labels"):
        look.look(path)


HEADERS = {
    "numbers": ["0.5,3", "1.5,4", "2.5,5"],
    "again": ["3,red", "4,blue", "5,red", "6,red"],
    "reviews": ["I like it.,good", "Not at all.,bad", "So so.,good", "A pity.,good"],
}


@pytest.mark.parametrize("name", HEADERS)
def test_table_without_names_is_refused(name: str, tmp_path: Path) -> None:
    """The first row would be lost, and the names of columns made of its cells."""
    path = tmp_path / "t.csv"
    path.write_text("\n".join(HEADERS[name] * 5))
    with pytest.raises(DdpgenError, match="is one of data"):
        look.look(path)
    for header in ("0,1", "2019,colour", "year,1.5"):  # of pixels; of years; of any other
        path.write_text("\n".join([header, *HEADERS[name] * 5]))
        assert look.look(path).arguments


def test_name_that_is_a_value_too_is_a_name(tmp_path: Path) -> None:
    """Among other names the name of a column may be one of its cells."""
    rows: list[list[object]] = [["north", "Employed"], ["south", "Student"], ["north", "Employed"]]
    assert look.look(write(tmp_path / "t.csv", ["place", "Employed"], rows * 9)).arguments


def test_names_and_rows_that_do_not_fit_are_told(tmp_path: Path) -> None:
    """What the program would refuse, or nothing can be learnt from."""
    import pyarrow as pa
    from pyarrow import parquet

    for text, reason in {
        "a,a\n1,2": "two columns are called a",
        "written by a tool\na,b\n1,2": "the first line has 1 name, rows below have 2 cells",
        "# 2019\n# by a tool\na,b\n1,2\n3,4": "the first line has 1 name, rows below have 2 cells",
        "sep=;\na;b\n1;2": "the first line, sep=;, is for spreadsheets",
        'a,b\n1,2\n1,"2\n3,4\n5,"6\n7,8': "row 2: a cell begins with a quotation mark",
        'a,b\n1,"2\n3,4\n5,6': "row 1: a cell begins with a quotation mark",
    }.items():
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(DdpgenError, match=reason):
            look.look(tmp_path / "t.csv")
    columns = [pa.array([1, 2]), pa.array([1, 2])]
    parquet.write_table(pa.Table.from_arrays(columns, ["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(DdpgenError, match="two columns are called a"):
        look.look(tmp_path / "t.parquet")
    rows: list[list[object]] = [[n, n * 2.5, "all", "" if n % 3 else "yes"] for n in range(60)]
    found = look.look(write(tmp_path / "t.csv", ["price", "x", "target", "z"], rows))
    assert "data.target=target" in found.arguments
    assert "target is the same in all rows: nothing can be learnt" in found.words
    found = look.look(write(tmp_path / "t.csv", ["price", "x", "y", "target"], rows))
    assert "leave out the rows without target: the program refuses them" in found.words


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
    (tmp_path / "a.xlsx").touch()
    (tmp_path / "rows.jsonl").write_text('{"a": 1, "b": 2}\n' * 9)
    (tmp_path / "empty.csv").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes.csv").write_bytes(b"a,b\n\xff,1\n")
    (tmp_path / "all.tar.gz").touch()
    (tmp_path / "no.csv.gz").write_text("a,b\n1,2\n")
    packed(tmp_path / "cut.csv.gz").write_bytes((tmp_path / "cut.csv.gz").read_bytes()[:-20])
    (tmp_path / "bad.tar").write_bytes(b"damaged" * 99)
    (tmp_path / "bad.jsonl").write_text('{"text": 1}\n{"text"\n')
    write_tar(tmp_path / "notes.tar", {"notes.txt": b"notes"})
    cut = bare_bytes(tmp_path / "cut.parquet").read_bytes()[:-9]
    (tmp_path / "cut.parquet").write_bytes(cut)
    (tmp_path / "odd.parquet").write_bytes(b"\xff" * 99 + b"\x50\0\0\0PAR1")
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose" / "0.png").write_bytes(picture("red"))
    (tmp_path / "alone" / "cats").mkdir(parents=True)
    (tmp_path / "alone" / "cats" / "0.png").write_bytes(picture("red"))
    samples(tmp_path / "parts" / "first" / "0.tar")
    samples(tmp_path / "parts" / "second" / "0.tar")
    samples(tmp_path / "both" / "all.tar")
    images(tmp_path / "both")
    for name, reason in {
        "all.tar.gz": "is compressed: unpack it",
        "bad.tar": "cannot be read as a tar file",
        "parts": "in folders that are no splits, such as first",
        "notes.tar": "nothing that a family reads",
        "bad.jsonl": "line 2 is no JSON",
        "cut.parquet": "is no Parquet file, or is cut off",
        "odd.parquet": "is no Parquet file, or is cut off",
        "alone": "1 image, all in the class cats: two classes are the least",
        "loose": "1 image, but not in one folder for each class",
        "both": r"holds all\.tar, and also images such as",
        "both/*.tar": "only tables are read by a pattern",
        "a.docx": "nothing that a family reads",
        "a.xlsx": "is a spreadsheet: save the table as CSV in UTF-8",
        "rows.jsonl": "without one column of texts: write other columns as a table",
        "empty.csv": "the file is empty",
        "folder": "the folder is empty",
        "cut.csv.gz": "ended before the end-of-stream marker",
        "no.csv.gz": "Not a gzipped file",
        "bytes.csv": "is not text in UTF-8: save the file in UTF-8",
        "absent": "there is no such file or folder",
    }.items():
        with pytest.raises(DdpgenError, match=reason):
            look.look(tmp_path / name)


def sentence(number: int, times: int = 1) -> str:
    return f"{number}: " + " ".join(SENTENCES[(number + n) % 3] for n in range(times))


def rows_of(columns: dict[str, Callable[[int], object]], count: int = 60) -> list[list[object]]:
    return [[cell(number) for cell in columns.values()] for number in range(count)]


def csv_of(path: Path, columns: dict[str, Callable[[int], object]]) -> Path:
    return write(path, [*columns], rows_of(columns))


def jsonl_of(path: Path, columns: dict[str, Callable[[int], object]]) -> Path:
    rows = (dict(zip(columns, row, strict=True)) for row in rows_of(columns))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


TITLED: dict[str, Callable[[int], object]] = {
    "title": sentence,
    "body": lambda n: sentence(n, 5),
    "category": lambda n: "ab"[n % 2],
}
NUMBERED: dict[str, Callable[[int], object]] = {
    "id": lambda n: n,
    "tweet": sentence,
    "stars": lambda n: n * 7 % 5,
}
WITH_TEXTS: dict[str, tuple[dict[str, Callable[[int], object]], list[str], list[str]]] = {
    "numbered": (NUMBERED, ["data.text=tweet", "data.label=stars"], ["not read: id"]),
    "codes": (
        {"id": lambda n: f"{n:05d}", "text": sentence, "label": lambda n: n % 2},
        ["data.text=text", "data.label=label"],
        ["not read: id"],
    ),
    "two texts": (
        TITLED,
        ["data.text=body", "data.label=category"],
        ["of the texts in title, body only body is read: join columns to read more of them"],
    ),
    "dated": (
        {
            "Review Text": sentence,
            "lang": lambda n: ["en", "de"][n // 7 % 2],
            "on": lambda n: f"2024-03-{1 + n % 28:02d}",
            "Sentiment": lambda n: "ab"[n % 2],
        },
        ["data.text=Review Text", "data.label=Sentiment"],
        ["not read: lang, on"],
    ),
}


@pytest.mark.parametrize("make", [csv_of, jsonl_of])
@pytest.mark.parametrize("name", WITH_TEXTS)
def test_texts_and_labels_are_found_among_other_columns(
    name: str, make: Callable[..., Path], tmp_path: Path
) -> None:
    """Numbers of rows, days, codes and further texts make no table of them."""
    columns, arguments, words = WITH_TEXTS[name]
    path = make(tmp_path / ("t.csv" if make is csv_of else "t.jsonl"), columns)
    found = look.look(path)
    assert found.kind == "labelled texts"
    assert found.arguments == [f"data.source={path}", *arguments]
    assert {*words} <= {*found.words}


def test_texts_beside_groups_and_gaps_are_found(tmp_path: Path) -> None:
    """Of an object nothing is read; a row without a label would be refused."""
    columns: dict[str, Callable[[int], object]] = {
        "text": sentence,
        "label": lambda n: None if n == 3 else n % 2,
        "meta": lambda n: {"a": n % 2},
    }
    found = look.look(jsonl_of(tmp_path / "t.jsonl", columns))
    assert found.kind == "labelled texts"
    assert "leave out the 1 row without label: the program refuses them" in found.words


def test_rows_that_belong_together_are_said(tmp_path: Path) -> None:
    """Those of a patient, by which they can be held out together; and days."""
    columns: dict[str, Callable[[int], object]] = {
        "patient_id": lambda n: n // 4,
        "on": lambda n: f"2024-03-{1 + n % 28:02d}",
        "pulse": lambda n: 60 + n * 7 % 41,
        "sick": lambda n: n // 4 % 2,
    }
    words = look.look(csv_of(tmp_path / "t.csv", columns)).words
    assert any(w.endswith("hold them out together with data.groups=patient_id") for w in words)
    assert any(w.startswith("on: the rows to hold out are drawn by chance") for w in words)


def test_short_texts_are_found_by_their_name(tmp_path: Path) -> None:
    """Titles of two words are no prose; labels that differ by blanks and gaps are said."""
    columns: dict[str, Callable[[int], object]] = {
        "message": lambda n: "" if n % 30 == 7 else f"word {n}",
        "label": lambda n: ["spam", "ham", " Spam"][n % 3],
    }
    found = look.look(csv_of(tmp_path / "t.csv", columns))
    assert found.kind == "labelled texts"
    assert found.words[1:] == [
        "label: 'spam' and ' Spam' are different: write them alike",
        "leave out the 2 rows without message: nothing is learnt from them",
    ]


def test_tables_with_a_free_text_stay_tables(tmp_path: Path) -> None:
    columns: dict[str, Callable[[int], object]] = {
        "size": lambda n: n % 17 + 0.5,
        "district": lambda n: ["north", "south"][n % 2],
        "comment": sentence,
        "rating": lambda n: n % 5,
    }
    assert look.look(csv_of(tmp_path / "t.csv", columns)).kind == "rows"


def test_answers_and_texts_to_read_are_no_labels(tmp_path: Path) -> None:
    """Instructions with a category are conversations; of several texts the usual name counts."""
    pair: dict[str, Callable[[int], object]] = {
        "instruction": sentence,
        "response": lambda n: sentence(n + 1),
        "category": lambda n: "ab"[n % 2],
    }
    found = look.look(jsonl_of(tmp_path / "pairs.jsonl", pair))
    assert found.words == ["60 conversations of instruction and response"]
    texts = look.look(jsonl_of(tmp_path / "t.jsonl", {"title": sentence, "text": sentence}))
    assert texts.arguments[1:] == ["data.column=text"]


def test_packed_texts_with_labels_are_refused(tmp_path: Path) -> None:
    """The classifier reads plain files; a table of their columns would learn nothing."""
    plain = csv_of(tmp_path / "t.csv", NUMBERED)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    with pytest.raises(DdpgenError, match="texts with labels are read from plain files"):
        look.look(tmp_path / "t.csv.gz")


def test_tables_without_a_feature_are_refused(tmp_path: Path) -> None:
    """Questions and answers in CSV; names with a class; one column."""
    for columns, reason in (
        ({"question": sentence, "answer": lambda n: sentence(n + 1)}, "all its columns only tell"),
        (
            {"name": lambda n: f"flat {n}", "kind": lambda n: "ab"[n % 2]},
            "kind alone could be learnt",
        ),
        ({"kind": lambda n: n % 3}, "kind alone could be learnt"),
    ):
        with pytest.raises(DdpgenError, match=reason):
            look.look(csv_of(tmp_path / "t.csv", columns))


def listed_images(path: Path, table: str, place: str, ending: str) -> Path:
    """Images in one folder, and a table that names them and their classes."""
    (path / place).mkdir(parents=True)
    for n in range(24):
        (path / place / f"im{n:03}.png").write_bytes(picture(("red", "blue")[n % 2]))
    rows: list[list[object]] = [[n, f"im{n:03}{ending}", "ab"[n % 2]] for n in range(24)]
    write(path / table, ["", "file", "what is it"], rows)
    return path


@pytest.mark.parametrize(
    ("table", "place", "ending"),
    [("labels.csv", ".", ".png"), ("train.csv", "train_images", ".png"), ("t.csv", "images", "")],
)
def test_table_of_images_is_refused_with_lines_that_sort_them(
    table: str, place: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No model would learn anything from their names; the lines make folders of classes."""
    source = listed_images(tmp_path / "my images", table, place, ending)
    (source / "test_images").mkdir()
    (source / "test_images" / "other.png").write_bytes(picture("red"))
    for path in (source, source / table):
        with pytest.raises(DdpgenError, match="file names images, which are read from one") as told:
            look.look(path)
    monkeypatch.chdir(tmp_path)
    exec(textwrap.dedent("\n".join(told.value.remedy.splitlines()[1:])), {})
    assert look.look(tmp_path / "sorted").words[0] == "24 images in 2 classes"


def test_table_is_believed_where_names_of_images_say_other_classes(tmp_path: Path) -> None:
    """The images were to be sorted by their names, and the table was not mentioned."""
    for n in range(24):
        (tmp_path / f"{('cat', 'dog')[n % 2]}_{n}.png").write_bytes(picture("red"))
    (tmp_path / "sizes.csv").write_text("number,size\n1,2\n2,3\n")
    with pytest.raises(DdpgenError, match="24 images in one folder, with classes in their names"):
        look.look(tmp_path)
    (tmp_path / "sizes.csv").unlink()
    rows: list[list[object]] = [
        [f"{('cat', 'dog')[n % 2]}_{n}.png", "xyz"[n % 3]] for n in range(24)
    ]
    write(tmp_path / "labels.csv", ["file", "kind"], rows)
    with pytest.raises(DdpgenError, match="file names images, which are read from one") as told:
        look.look(tmp_path)
    assert "row['kind']" in told.value.remedy


def test_table_beside_folders_of_classes_is_mentioned(tmp_path: Path) -> None:
    assert look.look(images(tmp_path)).words[1:] == ["classes: cat, dog, owl"]
    (tmp_path / "labels.csv").write_text("file,kind\ncat/0.png,x\ndog/0.png,y\n")
    told = "not read: labels.csv: the folders' names are the classes"
    assert look.look(tmp_path).words[1:] == ["classes: cat, dog, owl", told]


def test_tables_in_folders_below_come_with_lines_that_copy_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for year in ("2023", "2024"):
        (tmp_path / "my sales" / year).mkdir(parents=True)
        flats(tmp_path / "my sales" / year / "part.csv")
    with pytest.raises(
        DdpgenError, match="its tables lie in folders below, such as 2023/p"
    ) as told:
        look.look(tmp_path / "my sales")
    monkeypatch.chdir(tmp_path)
    exec(textwrap.dedent("\n".join(told.value.remedy.splitlines()[1:])), {})
    assert told.value.remedy.splitlines()[0].endswith("--data 'tables/*.csv'")
    assert look.look(tmp_path / "tables" / "*.csv").words[0] == "2 tables; of the first:"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("empty", "the folder is empty"), ("data", "the name has no ending, by which the kind is")],
)
def test_what_has_nothing_to_go_by_is_told(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "data").write_text("a,b,label\n1,2,x\n3,4,y\n")
    with pytest.raises(DdpgenError, match=reason):
        look.look(tmp_path / name)


def test_images_without_classes_are_named_without_lines(tmp_path: Path) -> None:
    rows: list[list[object]] = [[f"im{n}.jpg", f"a picture, number {n}"] for n in range(24)]
    path = write(tmp_path / "t.csv", ["file", "caption"], rows)
    with pytest.raises(DdpgenError, match="copy each image into a folder that is called as its"):
        look.look(path)


def test_table_with_images_beside_its_features_stays_one(tmp_path: Path) -> None:
    rows: list[list[object]] = [[f"im{n}.jpg", n % 7, "ab"[n % 2], n * 1.5] for n in range(24)]
    found = look.look(write(tmp_path / "t.csv", ["picture", "rooms", "kind", "price"], rows))
    assert found.arguments[1] == "data.target=price"


def test_tables_of_other_splits_are_left_out(tmp_path: Path) -> None:
    """As Kaggle has them: the table to predict for has no target, and comes first by name."""
    flats(tmp_path / "train.csv")
    write(tmp_path / "test.csv", ["size", "name"], [[n, f"flat {n}"] for n in range(20)])
    write(tmp_path / "sample_submission.csv", ["name", "rent"], [["flat 1", 2]] * 20)
    found = look.look(tmp_path)
    assert found.arguments[:2] == [f"data.source={tmp_path}/train.csv", "data.target=rent"]
    assert "left out, by name: sample_submission.csv, test.csv" in found.words


def test_several_tables_for_training_are_named_by_a_pattern(tmp_path: Path) -> None:
    for name in ("train_1.csv", "train_2.csv", "test.csv"):
        flats(tmp_path / name)
    found = look.look(tmp_path)
    assert found.arguments[0] == f"data.source={tmp_path}/train_*.csv"
    assert found.words[0] == "2 tables; of the first:"
    flats(tmp_path / "train_of_test.csv").rename(tmp_path / "a_train.csv")
    found = look.look(tmp_path)
    assert found.arguments[0] == f"data.source={tmp_path}/a_train.csv"
    assert "only a_train.csv of 3 files is read: join them into one" in found.words


def test_table_for_validation_is_held_out(tmp_path: Path) -> None:
    """The program does so by its name; a table that would be trained on is left out."""
    flats(tmp_path / "train.csv")
    flats(tmp_path / "validation.csv")
    write(tmp_path / "test.csv", ["size", "name"], [[n, f"flat {n}"] for n in range(20)])
    found = look.look(tmp_path)
    assert found.arguments[0] == f"data.source={tmp_path}/*.csv"
    assert found.words[-2:] == ["for validation: validation.csv", "left out, by name: test.csv"]
    flats(tmp_path / "eval.csv")
    found = look.look(tmp_path)
    assert found.arguments[0] == f"data.source={tmp_path}/train.csv"
    assert found.words[-1] == "left out, by name: eval.csv, test.csv, validation.csv"


def test_splits_of_texts_and_conversations_are_said(tmp_path: Path) -> None:
    """What the families read by themselves, and what they would train on by mistake."""
    for name in ("train", "dev", "test"):
        reviews(tmp_path / f"{name}.csv")
    found = look.look(tmp_path)
    assert found.arguments[0] == f"data.source={tmp_path}"
    assert found.words[1:] == ["for validation: dev.csv", "left out, by name: test.csv"]
    (tmp_path / "dev.csv").unlink()
    assert look.look(tmp_path).words[1:] == [
        "left out, by name: test.csv",
        "for validation files called val.* or validation.* would be read",
    ]
    chats(tmp_path / "chats")
    assert "for validation: val.jsonl" in look.look(tmp_path / "chats").words
    shutil.copy(tmp_path / "chats/train.jsonl", tmp_path / "chats/test.jsonl")
    found = look.look(tmp_path / "chats")
    assert found.arguments[0] == f"data.source={tmp_path}/chats"
    assert found.words[-2:] == ["for validation: val.jsonl", "left out, by name: test.jsonl"]
    (tmp_path / "chats/train.jsonl").rename(tmp_path / "chats/train_1.jsonl")
    (tmp_path / "chats/val.jsonl").rename(tmp_path / "chats/train_2.jsonl")
    assert look.look(tmp_path / "chats").words[-1] == "left out, by name: test.jsonl"
    (tmp_path / "chats/test.jsonl").rename(tmp_path / "chats/eval.jsonl")
    words = look.look(tmp_path / "chats").words
    assert "move eval.jsonl elsewhere: the program would train on it" in words
    tokens(tmp_path / "tokens")
    (tmp_path / "tokens/val.bin").rename(tmp_path / "tokens/test.bin")
    found = look.look(tmp_path / "tokens")
    assert found.arguments == [f"data.source={tmp_path}/tokens/train.bin"]


IN_PARQUET: dict[str, tuple[dict[str, object], str, list[str]]] = {
    "pairs": ({"prompt": PAIR["q"], "completion": PAIR["a"], "n": 1}, "conversations", []),
    "text": ({"text": PAIR["q"]}, "conversations", ["data.column=text"]),
    "one of texts": ({"url": "a", "body": PAIR["q"]}, "conversations", ["data.column=body"]),
    "stars": (
        {"id": 1, "review": PAIR["q"], "stars": 2},
        "labelled texts",
        ["data.text=review", "data.label=stars"],
    ),
    "table": ({"size": 1.5, "comment": PAIR["q"], "rooms": 2, "rating": 3}, "rows", []),
}


@pytest.mark.parametrize("name", IN_PARQUET)
def test_parquet_is_what_the_same_records_are_in_json(name: str, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    row, kind, arguments = IN_PARQUET[name]
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.Table.from_pylist([row] * 30), path)
    found = look.look(path)
    assert (found.kind, found.arguments) == (kind, [f"data.source={path}", *arguments])


def test_patterns_below_odd_folders_are_escaped(tmp_path: Path) -> None:
    folder = oddly_named(tmp_path / "[x]")
    (source, *_) = look.look(folder / "*.csv").arguments
    assert source == f"data.source={tmp_path}/[[]x]/*.csv"


def test_folder_with_one_text_is_that_text(tmp_path: Path) -> None:
    """Of a folder the program wants two: one to train on, and one to validate on."""
    (tmp_path / "books").mkdir()
    text(tmp_path / "books/a.txt")
    found = look.look(tmp_path)
    assert found.arguments == [f"data.source={tmp_path}/books/a.txt"]


@pytest.mark.parametrize(
    "names", [("training", "testing"), ("Train", "Val"), ("train_x", "test_x")]
)
def test_folders_of_splits_by_other_names_are_no_classes(
    names: tuple[str, str], tmp_path: Path
) -> None:
    images(tmp_path, *names)
    (tmp_path / "annotations").mkdir()  # as beside the images of COCO: no class either
    (tmp_path / "annotations/instances.json").write_text("{}")
    with pytest.raises(DdpgenError, match="would be classes, and have names of splits") as told:
        look.look(tmp_path)
    assert f"--data {tmp_path}/{names[0]}" in told.value.remedy
    assert look.look(tmp_path / names[0]).words[0] == "36 images in 3 classes"


def texts_in(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        for n in range(4):
            (folder / name / f"{n}.txt").write_text(sentence(n, 9))
    return folder


@pytest.mark.parametrize("names", [("pos", "neg"), ("train/a", "train/b", "test/a", "test/b")])
def test_texts_in_folders_of_classes_are_refused_with_lines_that_write_a_table(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of IMDB. `gpt` would train on the test split, and learn no classes."""
    folder = texts_in(tmp_path / "all", *names)
    with pytest.raises(DdpgenError, match="one folder for each class") as told:
        look.look(folder)
    monkeypatch.chdir(tmp_path)
    exec(textwrap.dedent("\n".join(told.value.remedy.splitlines()[1:])), {})
    assert look.look(tmp_path / "texts.csv").words == [
        "8 rows, 2 columns: texts in text, 2 classes in label"
    ]


def test_texts_in_folders_are_perhaps_classes(tmp_path: Path) -> None:
    found = look.look(texts_in(tmp_path, "austen", "melville"))
    assert (found.kind, found.words[0]) == ("text", "8 texts")
    assert found.words[1].startswith("the folders are taken for no classes; if they are: write")


def test_texts_of_other_splits_are_left_out(tmp_path: Path) -> None:
    """As the program divides a folder by names, where all have the name of a split."""
    for name in ("train", "test"):
        text(tmp_path / f"{name}.txt")
    found = look.look(tmp_path)
    assert found.arguments == [f"data.source={tmp_path}/train.txt"]
    assert "left out, by name: test.txt" in found.words
    for name in ("valid", "train_2"):
        text(tmp_path / f"{name}.txt")
        found = look.look(tmp_path)
        assert found.arguments == [f"data.source={tmp_path}"]
        assert found.words[1:] == ["for validation: valid.txt", "left out, by name: test.txt"]
    assert found.words[0] == "2 texts"
    text(tmp_path / "notes.txt")
    text(tmp_path / "notes_2.txt")
    (tmp_path / "train.txt").unlink()
    (tmp_path / "train_2.txt").unlink()
    words = look.look(tmp_path).words
    assert "move test.txt, valid.txt elsewhere: the program would train on it" in words
    found = look.look(texts_in(tmp_path / "splits", "train", "dev", "test"))
    assert found.arguments == [f"data.source={tmp_path}/splits"]
    assert found.words == ["4 texts", "for validation: dev", "left out, by name: test"]
    found = look.look(texts_in(tmp_path / "folders", "train", "test"))
    assert found.arguments == [f"data.source={tmp_path}/folders/train"]
    assert found.words == ["4 texts", "left out, by name: test"]
    found = look.look(texts_in(tmp_path / "others", "books/x", "test"))
    assert "move test elsewhere: the program would train on it" in found.words


def test_files_that_are_no_images_are_counted(tmp_path: Path) -> None:
    """Of other endings, without one, and a class without any image."""
    images(tmp_path)
    for name in ("b.heic", "a", "c.heic", "d.raw", "Thumbs.db", ".DS_Store"):
        (tmp_path / "cat" / name).touch()
    (tmp_path / "notes").mkdir()
    assert look.look(tmp_path).words[2:] == [
        "not read, by ending: 4 of 41 files, a, b.heic, c.heic, ...",
        "notes/ holds no images: remove it, the program refuses such a class",
    ]
    (tmp_path / "loose.png").write_bytes(picture("red"))
    assert (
        "loose.png lies in no class: move it, the program refuses it" in look.look(tmp_path).words
    )
    images(tmp_path / "split", "train", "test", "others")
    assert look.look(tmp_path / "split").words[2:] == ["left out: others, test"]
    images(tmp_path / "split", "dev")
    assert look.look(tmp_path / "split").words[0].endswith("some of them in dev/")


def test_files_of_another_kind_are_named(tmp_path: Path) -> None:
    flats(tmp_path / "a.csv")
    flats(tmp_path / "b.tsv")
    found = look.look(tmp_path)
    assert found.arguments[0] == f"data.source={tmp_path}/a.csv"
    assert "not read: b.tsv; all files have to be of one kind" in found.words


def test_endings_in_capitals_are_known(tmp_path: Path) -> None:
    """As those in small letters; or it is said how to rename the file."""
    flats(tmp_path / "A.CSV")
    assert look.look(tmp_path).arguments[0] == f"data.source={tmp_path}/A.CSV"
    flats(tmp_path / "B.csv")
    pattern = f"{tmp_path}/*.[cC][sS][vV]"
    assert look.look(tmp_path).arguments[0] == f"data.source={pattern}"
    assert len(list(tmp_path.glob("*.[cC][sS][vV]"))) == 2
    notes(tmp_path / "N.JSONL")
    with pytest.raises(DdpgenError, match=r"rename the file to N\.jsonl"):
        look.look(tmp_path / "N.JSONL")
    texts_in(tmp_path / "texts", "a")
    (tmp_path / "texts/B.TXT").touch()
    assert "not read: B.TXT: rename to .txt" in look.look(tmp_path / "texts").words


def test_contents_that_do_not_fit_the_ending_are_told(tmp_path: Path) -> None:
    """`gpt` would train on any bytes, and the other programs refuse them."""
    plain = flats(tmp_path / "plain").read_bytes()
    for name, content, reason in (
        ("a.txt", b"PAR1" + plain, "is a Parquet file: call it .parquet"),
        ("a.txt", bytes(range(256)) * 9, "holds bytes of zeros"),
        ("a.txt", "süß".encode("utf-16"), "is in UTF-16: save the file in UTF-8"),
        ("a.csv", plain.decode().encode("utf-16"), "is in UTF-16: save the file in UTF-8"),
        ("a.txt", gzip.compress(plain), "is compressed with gzip, whatever its name says"),
        ("a.csv", gzip.compress(plain), "is compressed with gzip, whatever its name says"),
        ("a.bin", b"\x93NUMPY" + plain, "is a file of NumPy"),
        ("a.bin", b"", "the file is empty"),
        ("a.txt", b"", "the file is empty"),
        ("a.txt", b" \n", "there is nothing but spaces in the file"),
        ("a.jsonl", b"\xef\xbb\xbf", "there is nothing but spaces in the file"),
        ("a.csv", b"a,b,c\n", "3 names of columns and no row"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DdpgenError, match=reason):
            look.look(tmp_path / name)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_table_is_a_table_by_the_name_of_a_text(delimiter: str, tmp_path: Path) -> None:
    path = flats(tmp_path / "a.txt")
    path.write_text(path.read_text().replace(",", delimiter))
    assert look.look(path).arguments[:2] == [f"data.source={path}", "data.target=rent"]
    path.write_text("Yes, she said.\n" * 5 + "No.\nWell, no, never.\n" * 9)
    assert look.look(path).kind == "text"


def test_mark_before_json_is_passed_over(tmp_path: Path) -> None:
    """The programs of both families do so, too."""
    path = reviews(tmp_path / "a.jsonl")
    path.write_text("\ufeff" + path.read_text())
    assert look.look(path).kind == "labelled texts"
    path = notes(tmp_path / "b.jsonl")
    path.write_text("\ufeff" + path.read_text())
    assert look.look(path).kind == "conversations"


def test_folder_in_a_folder_is_looked_into(tmp_path: Path) -> None:
    images(tmp_path / "wrap/dataset")
    (tmp_path / "wrap/__MACOSX").mkdir()
    found = look.look(tmp_path / "wrap")
    assert found.arguments[0] == f"data.source={tmp_path}/wrap/dataset"
    (tmp_path / "round").mkdir()
    (tmp_path / "round/again").symlink_to(tmp_path / "round")
    with pytest.raises(DdpgenError, match="nothing that a family reads"):
        look.look(tmp_path / "round")


def test_rows_that_the_program_refuses_are_told(tmp_path: Path) -> None:
    """A row of another length, and a table of few rows."""
    rows: list[list[object]] = [[n, n * 2.5, "ab"[n % 2]] for n in range(8)]
    rows[4].append("c")
    words = look.look(write(tmp_path / "t.csv", ["x", "y", "kind"], rows)).words
    assert "the program wants 10 rows or more" in words
    assert "correct row 5: it has 4 cells for 3 names" in words


def test_codes_are_categories(tmp_path: Path) -> None:
    """Those of few places; those of the rows are left out, and a code to predict is a class."""
    found = look.look(postcodes(tmp_path / "t.csv"))
    assert found.arguments[3:] == [
        'data.leave_out=["key"]',
        'data.categories=["postcode", "rooms"]',
    ]
    rows: list[list[object]] = [[n % 17 + 0.5, f"0{n % 30 // 10 * 17}"] for n in range(60)]
    found = look.look(write(tmp_path / "u.csv", ["rent", "code"], rows))
    assert found.arguments[1:3] == ["data.target=code", "data.task=classes"]


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
    assert "mlp: ddpgen has no command for these data, as for table" in done.stderr
    flats(tmp_path / "lr=0.1.csv")
    assert "rent -> regression" in ddpgen("new", "s", "--data", "lr=0.1.csv", cwd=tmp_path).stderr
    chosen = ("--data", "flats.csv", "--data", "model=resnet")
    done = ddpgen("new", "r", "--defaults", *chosen, cwd=tmp_path)
    assert done.returncode == 2
    assert "model=resnet: does not read what lies at the path that --data names" in done.stderr
    assert "(allowed: table)" in done.stderr
    assert not (tmp_path / "r").exists()
    for wrong in (["--data", "absent"], ["--data", "flats.csv", "--data", "."], ["--data", ""]):
        done = ddpgen("new", "r", "--defaults", *wrong, cwd=tmp_path)
        assert done.returncode == 2
        assert "an answer is written key=value" in done.stderr


LATE = 5000
LATE_CELLS: dict[str, tuple[list[object], str]] = {
    "no target": ([7, "north", ""], "leave out the rows without dear: the program refuses them"),
    "a class": ([7, "north", 2], "dear: only one row is '2': leave such rows out, or join classes"),
    "a cell too many": ([7, "north", 1, 1], "correct row 5001: it has 4 cells for 3 names"),
}


def long_table(path: Path, last: list[object]) -> Path:
    rows: list[list[object]] = [[n % 70, ("north", "south")[n % 2], n % 2] for n in range(LATE)]
    return write(path, ["size", "district", "dear"], [*rows, last])


@pytest.mark.parametrize("case", LATE_CELLS)
def test_tables_are_looked_at_to_their_end(case: str, tmp_path: Path) -> None:
    """What comes late is said as what comes early is."""
    row, words = LATE_CELLS[case]
    assert words in look.look(long_table(tmp_path / "flats.csv", row)).words


def test_late_text_among_numbers_is_refused(tmp_path: Path) -> None:
    """With its row."""
    path = long_table(tmp_path / "flats.csv", ["oops", "north", 1])
    with pytest.raises(DdpgenError, match="row 5001, column size: oops among numbers"):
        look.look(path)


def test_end_of_a_very_long_table_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is said."""
    monkeypatch.setattr(looking_at_tables, "CELLS", 6000)
    words = look.look(long_table(tmp_path / "flats.csv", ["oops", "", ""])).words
    assert words[0] == "more than 2,000 rows, 3 columns"
    assert "the rows behind these were not looked at" in words


DATES = ["31/12/2019", "12/31/19 10:30", "Jan 5, 2020", "5 January 2020", "31.12.2019", "10:30"]


@pytest.mark.parametrize("day", DATES)
def test_dates_are_left_out_however_they_are_written(day: str, tmp_path: Path) -> None:
    """As categories they would be learnt by heart."""
    rows: list[list[object]] = [[day if n % 3 else f"{day[:-1]}1", n / 7, n / 3] for n in range(60)]
    found = look.look(write(tmp_path / "rides.csv", ["when", "far", "price"], rows))
    kind = "times" if day == "10:30" else "dates"
    assert f"when: {kind}, 2 different" in found.words
    assert 'data.leave_out=["when"]' in found.arguments


def test_cells_that_may_mean_something_else_are_said(tmp_path: Path) -> None:
    """Numbers that stand for unknown ones, and names that differ in letters' size or spaces."""
    rows: list[list[object]] = [
        [-999 if n % 9 == 0 else n % 31, ["Rome", "rome ", "Oslo"][n % 3], n % 99, n / 7]
        for n in range(300)
    ]
    words = look.look(write(tmp_path / "days.csv", ["heat", "city", "share", "price"], rows)).words
    assert any(w.startswith("heat: -999 stands 34 times, far from all others") for w in words)
    assert "city: 'Rome' and 'rome ' are different: write them alike" in words
    rows = [[f"{n % 9 + 1}.{n + 100}", f"{n + 1}E-01", "", "", n / 7] for n in range(300)]
    found = look.look(write(tmp_path / "sums.csv", ["sum", "part", "", "", "price"], rows))
    assert (
        "sum: 1.100 is read as a fraction: if 1100 is meant, set data.numbers=1.234,5"
        in found.words
    )
    assert "part: numbers, 300 different" in found.words
    assert found.words[0] == "300 rows, 3 columns"
    assert not any("leave_out" in argument for argument in found.arguments)
    assert not any(w.startswith("share: ") and "times" in w for w in words)


def test_texts_with_other_endings_are_read(tmp_path: Path) -> None:
    """A file by its name, those of a folder by a pattern."""
    for name in ("wiki.train.tokens", "notes/1.md", "notes/2.md", "notes/app.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("A word and another one.\n" * 20)
    assert look.look(tmp_path / "wiki.train.tokens").kind == "text"
    found = look.look(tmp_path / "notes")
    assert found.words[0] == "2 texts with the ending .md"
    assert "data.pattern=**/*.md" in found.arguments


def test_texts_in_another_encoding_are_refused(tmp_path: Path) -> None:
    """As the program would refuse them."""
    (tmp_path / "book.txt").write_bytes("gr\u00f6\u00dfer\n".encode("latin-1") * 99)
    with pytest.raises(DdpgenError, match="is not text in UTF-8: save the file in UTF-8"):
        look.look(tmp_path / "book.txt")


HINTS: dict[str, tuple[Callable[[int], object], str, list[str]]] = {
    "id of 23 digits": (lambda n: 10**22 + n, "codes, 40", ['data.leave_out=["more"]']),
    "shop of 23 digits": (lambda n: 10**22 + n % 4, "codes, 4", ['data.categories=["more"]']),
    "months": (
        lambda n: f"20{n % 9 + 10}-{n % 12 + 1:02}",
        "dates, 36",
        ['data.leave_out=["more"]'],
    ),
    "quarters": (
        lambda n: f"20{n % 9 + 10}-Q{n % 4 + 1}",
        "dates, 36",
        ['data.leave_out=["more"]'],
    ),
    "days in digits": (lambda n: f"202001{n % 28 + 1:02}", "dates", ['data.leave_out=["more"]']),
    "years of decades": (lambda n: f"19{n % 9 + 1}0-95", "names, 9", []),
    "copy of the target": (lambda n: n % 2, "follows from more alone: leave out what is", []),
}


@pytest.mark.parametrize("name", HINTS)
def test_columns_that_would_mislead_in_silence(name: str, tmp_path: Path) -> None:
    """Digits that floats lose, dates in other forms, and what gives the target away."""
    make, words, arguments = HINTS[name]
    rows: list[list[object]] = [[n * 7 % 11 / 4, make(n), "ab"[n % 2]] for n in range(40)]
    found = look.look(write(tmp_path / "rows.csv", ["size", "more", "target"], rows))
    assert words in "\n".join(found.words)
    assert found.arguments[3:] == arguments
    assert ("follows" in "\n".join(found.words)) == (name == "copy of the target")


def test_rows_in_the_order_of_time(tmp_path: Path) -> None:
    """Seconds of a clock are numbers; the rows to hold out are still not the latest."""
    rows: list[list[object]] = [[1_600_000_000 + 60 * n, n * 7 % 11 / 4] for n in range(40)]
    found = look.look(write(tmp_path / "log.csv", ["unix_time", "load"], rows))
    assert "unix_time: the rows to hold out are drawn by chance" in "\n".join(found.words)
    found = look.look(write(tmp_path / "log.csv", ["unix_time", "load"], rows[::-1]))
    assert "by chance" not in "\n".join(found.words)


def pixels(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture("red"))


def test_folders_that_may_not_be_the_classes(tmp_path: Path) -> None:
    """Those of the first level are the classes: their names are said, and what lies deeper."""
    for name in ("animals/cat", "animals/dog", "plants/rose", "plants/.cache"):
        pixels(tmp_path / name / "1.png")
    words = look.look(tmp_path).words
    assert words[:2] == ["3 images in 2 classes", "classes: animals, plants"]
    assert words[2].startswith("no classes of their own: animals/cat, animals/dog, plants/rose:")
    assert len(words) == 3


def test_classes_of_one_split_are_said(tmp_path: Path) -> None:
    """Those of val/ are refused by the program, and those of train/ are not measured."""
    for name in ("train/cat", "train/dog", "val/cat", "val/owl"):
        pixels(tmp_path / name / "1.png")
    words = look.look(tmp_path).words
    assert "val/ has owl, which train/ lacks: the program refuses" in words
    assert "val/ has no images of dog: nothing is measured of such" in words


def test_other_files_of_a_folder_are_said(tmp_path: Path) -> None:
    """One kind of file is read; the others would be missing in silence."""
    notes(tmp_path / "notes.jsonl")
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("A text.")
    assert "not read: 0.txt, ... (3 files)" in look.look(tmp_path).words
