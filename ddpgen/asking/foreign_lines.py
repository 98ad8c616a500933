"""Lines of Python that write what no family reads as what a family reads."""

from collections.abc import Sequence
from pathlib import Path

_MAKE = "(folder := pathlib.Path(f'images/{label}')).mkdir(parents=True, exist_ok=True)"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _at(path: Path) -> str:
    return repr(str(path.absolute()))


def of_rows(path: Path, table: str, between: str, *, named: bool) -> list[str]:
    """Rows, with a pattern for what is between cells; names of columns are given where none are."""
    written = "rows" if named else "[names, *rows]"
    names = [] if named else ["names = [f'column {n}' for n in range(1, len(rows[0]) + 1)]"]
    return _indented(
        [
            "import csv, re",
            f"rows = [re.split({between!r}, line.strip()) for line in open({_at(path)})]",
            "rows = [row for row in rows if row != ['']]",
            *names,
            f"csv.writer(open({table!r}, 'w', newline='')).writerows({written})",
        ]
    )


def of_names(path: Path, delimiter: str, count: int) -> list[str]:
    """A line of names above a table that has none."""
    names = f"{delimiter!r}.join(f'column {{n}}' for n in range(1, {count + 1}))"
    return _indented(
        [
            f"names = {names}",
            f"text = open({_at(path)}, encoding='utf-8-sig').read()",
            f"open('named-{path.name}', 'w', encoding='utf-8').write(names + '\\n' + text)",
        ]
    )


def of_text(path: Path, encoding: str) -> list[str]:
    """A text in another encoding."""
    opened = "gzip.open" if path.suffix == ".gz" else "open"
    target = f"utf8-{path.name.removesuffix('.gz')}"
    return _indented(
        [
            *(["import gzip"] if path.suffix == ".gz" else []),
            f"text = {opened}({_at(path)}, 'rt', encoding={encoding!r}).read()",
            f"open({target!r}, 'w', encoding='utf-8').write(text)",
        ]
    )


def records(path: Path, delimiter: str = ",") -> str:
    """An expression for the records of JSON, or for the rows of a table, as objects with names."""
    file = f"open({_at(path)}, encoding='utf-8-sig')"
    match path.suffix.lower():
        case ".json":
            return f"json.load({file})"
        case ".jsonl":
            return f"[json.loads(line) for line in {file} if line.strip()]"
    opened = f"open({_at(path)}, encoding='utf-8-sig', newline='')"
    return f"csv.DictReader({opened}, delimiter={delimiter!r})"


def of_texts_in_columns(
    path: Path, target: str, columns: Sequence[str], delimiter: str = ","
) -> list[str]:
    """Texts in one column, or questions and their answers in two, as lines of JSON."""
    names = ["prompt", "completion"] if len(columns) > 1 else ["text"]
    pairs = zip(names, columns, strict=True)
    record = ", ".join(f"{name!r}: row[{column!r}]" for name, column in pairs)
    return _indented(
        [
            "import csv, json",
            f"with open({target!r}, 'w', encoding='utf-8') as file:",
            f"    for row in {records(path, delimiter)}:",
            f"        print(json.dumps({{{record}}}), file=file)",
        ]
    )


def of_nested(path: Path, table: str) -> list[str]:
    """Records within records, as a table with a column for each part."""
    return _indented(
        [
            "import json, pandas  # pip install pandas",
            f"rows = {records(path)}",
            f"pandas.json_normalize(rows).to_csv({table!r}, index=False)",
        ]
    )


def of_records(path: Path, table: str) -> list[str]:
    """Records of JSON as a table."""
    return _indented(
        [
            "import csv, json",
            f"rows = {records(path)}",
            "names = {name: 0 for row in rows for name in row}",
            f"file = csv.DictWriter(open({table!r}, 'w', newline='', encoding='utf-8'), names)",
            "file.writeheader(), file.writerows(rows)",
        ]
    )


def of_spreadsheet(path: Path, table: str) -> list[str]:
    """The first sheet."""
    read = f"pandas.read_excel({_at(path)}).to_csv({table!r}, index=False)"
    return _indented(["import pandas  # pip install pandas openpyxl", read])


def of_pickle(path: Path, table: str) -> list[str]:
    """A table of pandas, which is what pickles of data mostly are."""
    read = f"pandas.read_pickle({_at(path)}).to_csv({table!r}, index=False)"
    return _indented(["import pandas  # where a table of pandas is in the file", read])


def of_arrow(path: Path, table: str) -> list[str]:
    """A file of Feather, or a stream of Hugging Face's data sets."""
    file = f"open({_at(path)}, 'rb')"
    if path.suffix.lower() == ".arrow":
        return _indented(
            [
                "from pyarrow import csv, ipc",
                f"csv.write_csv(ipc.open_stream({file}).read_all(), {table!r})",
            ]
        )
    return _indented(
        [
            "from pyarrow import csv, feather",
            f"csv.write_csv(feather.read_table({_at(path)}), {table!r})",
        ]
    )


def of_arff(path: Path, table: str) -> list[str]:
    """The names of Weka's attributes, above the rows."""
    return _indented(
        [
            "import re",
            f"text = open({_at(path)}).read()",
            "names = re.findall(r'(?im)^@attribute\\s+(\\'[^\\']+\\'|\\S+)', text)",
            "rows = re.split(r'(?im)^@data\\s*', text)[1]",
            f"open({table!r}, 'w').write(','.join(n.strip('\\'') for n in names) + '\\n' + rows)",
        ]
    )


def of_partitions(folder: Path, table: str) -> list[str]:
    """One file of the folders year=2020/, year=2021/, with the values as a column."""
    read = f"dataset.dataset({_at(folder)}, partitioning='hive').to_table()"
    return _indented(
        ["from pyarrow import dataset, parquet", f"parquet.write_table({read}, {table!r})"]
    )


def of_idx(folder: Path, *, packed: bool) -> list[str]:
    """MNIST's images and labels; the program leaves the folder test/ out."""
    ending = "-ubyte.gz" if packed else "-ubyte"
    opened = "gzip.open" if packed else "open"
    return _indented(
        [
            f"import {'gzip, ' if packed else ''}pathlib, struct",
            "from PIL import Image",
            "for part, split in (('train', 'train'), ('t10k', 'test')):",
            f"    file = {str(folder.absolute())!r} + '/' + part",
            f"    images = {opened}(file + '-images-idx3{ending}', 'rb').read()",
            f"    labels = {opened}(file + '-labels-idx1{ending}', 'rb').read()[8:]",
            "    height, width = struct.unpack('>2i', images[8:16])",
            "    for n, label in enumerate(labels):",
            "        folder = pathlib.Path(f'images/{split}/{label}')",
            "        folder.mkdir(parents=True, exist_ok=True)",
            "        begin = 16 + n * height * width",
            "        pixels = images[begin : begin + height * width]",
            "        Image.frombytes('L', (width, height), pixels).save(folder / f'{n}.png')",
        ]
    )


def of_cifar(folder: Path, *, hundred: bool) -> list[str]:
    """CIFAR's images for training, in pickles."""
    pattern, key = ("train", "fine_labels") if hundred else ("data_batch_*", "labels")
    return _indented(
        [
            "import pathlib, pickle",
            "from PIL import Image",
            f"for file in pathlib.Path({_at(folder)}).glob({pattern!r}):",
            "    batch = pickle.load(file.open('rb'), encoding='bytes')",
            f"    for n, label in enumerate(batch[b{key!r}]):",
            f"        {_MAKE}",
            "        pixels = batch[b'data'][n].reshape(3, 32, 32).transpose(1, 2, 0)",
            "        Image.fromarray(pixels).save(folder / f'{file.name}-{n}.png')",
        ]
    )


def of_cifar_bytes(folder: Path, *, hundred: bool) -> list[str]:
    """CIFAR's images for training, in binary files: a byte or two of labels, then three colours."""
    pattern, size = ("train.bin", 3074) if hundred else ("data_batch_*.bin", 3073)
    return _indented(
        [
            "import pathlib",
            "from PIL import Image",
            f"for file in pathlib.Path({_at(folder)}).glob({pattern!r}):",
            "    content = file.read_bytes()",
            f"    for end in range({size}, len(content) + 1, {size}):",
            "        label = content[end - 3073]",
            f"        {_MAKE}",
            "        colours = [content[n : n + 1024] for n in range(end - 3072, end, 1024)]",
            "        bands = [Image.frombytes('L', (32, 32), colour) for colour in colours]",
            "        Image.merge('RGB', bands).save(folder / f'{file.stem}-{end}.png')",
        ]
    )


def of_flat(folder: Path) -> list[str]:
    """Images whose names begin with their classes."""
    return _indented(
        [
            "import pathlib, re, shutil",
            f"for path in pathlib.Path({_at(folder)}).iterdir():",
            "    if name := re.match(r'[^\\W\\d_]+', path.name):",
            "        folder = pathlib.Path('sorted', name[0])",
            "        folder.mkdir(parents=True, exist_ok=True)",
            "        shutil.copy(path, folder)",
        ]
    )


def of_texts(folder: Path) -> list[str]:
    """Texts in one folder for each class, as a table."""
    return _indented(
        [
            "import csv, pathlib",
            f"files = sorted(p for p in pathlib.Path({_at(folder)}).glob('*/*') if p.is_file())",
            "texts = [(p.read_text('utf-8', 'replace'), p.parent.name) for p in files]",
            "rows = [('text', 'label'), *texts]",
            "csv.writer(open('texts.csv', 'w', newline='', encoding='utf-8')).writerows(rows)",
        ]
    )
