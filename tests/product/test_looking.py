"""What lies at a path: said in words, a family proposed, and train.py told where the data are."""

import ast
import csv
import gzip
import io
import json
import random
import tarfile
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from generator.program import ddpgen
from pyarrow import csv as arrow_csv

from ddpgen.asking import column, look, questions, records
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


SOURCES = {
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


PAIR = {"q": "Where is the house of Ada?", "a": "In the town behind the old bridge."}
LAYOUTS: dict[str, tuple[dict[str, object], list[str]]] = {
    "completions": ({"prompt": PAIR["q"], "completion": PAIR["a"]}, []),
    "instructions": ({"instruction": PAIR["q"], "input": "", "output": PAIR["a"]}, []),
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


def test_pairs_of_columns_are_those_of_the_program() -> None:
    tree = ast.parse((template.TEMPLATE / "project" / "documents.py").read_text())
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    (found,) = [node.value for node in assigned if ast.unparse(node.targets[0]) == "PAIRS"]
    assert ast.literal_eval(found) == records.PAIRS


def test_empty_cells_are_those_of_arrow() -> None:
    """And so of the generated program."""
    assert {"", *column.EMPTY} == {*arrow_csv.ConvertOptions().null_values}


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
    assert "Preis (€): numbers to write as 1234.5, 60 different" in found.words
    assert "sold on: dates, 9 different" in found.words
    assert found.arguments[1:] == [
        "data.target=Preis (€)",
        "data.task=regression",
        'data.leave_out=["sold on"]',
    ]
    signs = [[f"${n + 1000:,}.25", f"{n / 7:.2f} %", n] for n in range(60)]
    words = look.look(write(tmp_path / "signs.csv", ["sum", "share", "n"], signs)).words
    assert "sum: numbers to write as 1234.5, 60 different" in words
    assert "share: numbers to write as 1234.5, 60 different" in words
    plain = write(tmp_path / "plain.csv", ["x", "y"], [[f"{n}.125", n % 2] for n in range(60)])
    assert "x: numbers, 60 different" in look.look(plain).words


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
    for text, reason in {
        "a,a\n1,2": "two columns are called a",
        "written by a tool\na,b\n1,2": "the first line has 1 name, the row below has 2 cells",
    }.items():
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(DdpgenError, match=reason):
            look.look(tmp_path / "t.csv")
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
    samples(tmp_path / "parts" / "first" / "0.tar")
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
        "loose": "1 images, but not in one folder for each class",
        "both": r"holds all\.tar, and also images such as",
        "both/*.tar": "only tables are read by a pattern",
        "a.docx": "nothing that a family reads",
        "a.xlsx": "is a spreadsheet: save the table as CSV in UTF-8",
        "rows.jsonl": "without one column of texts: write other columns as a table",
        "empty.csv": "nothing that a family reads",
        "folder": "nothing that a family reads",
        "cut.csv.gz": "ended before the end-of-stream marker",
        "no.csv.gz": "Not a gzipped file",
        "bytes.csv": "is not text in UTF-8: save the file in UTF-8",
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
