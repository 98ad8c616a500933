"""Lines of Python that write what no family reads as what a family reads."""

from collections.abc import Sequence
from pathlib import Path


def indented(lines: Sequence[str]) -> list[str]:
    """Lines below the words about them."""
    return [f"  {line}" for line in lines]


def at(path: Path) -> str:
    """A path in Python."""
    return repr(str(path.absolute()))


def of_rows(path: Path, table: str, between: str, encoding: str, *, named: bool) -> list[str]:
    """Rows with commas, semicolons or, for "", blanks between cells; names where there are none."""
    written = "rows" if named else "[names, *rows]"
    names = [] if named else ["names = [f'column {n}' for n in range(1, len(rows[0]) + 1)]"]
    file = f"open({at(path)}, encoding={encoding!r})"
    cells = f"csv.reader({file}, delimiter={between!r}, skipinitialspace=True)"
    blanks = """[re.findall(r'"[^"]*"|\\S+', line) for line in FILE]""".replace("FILE", file)
    return indented(
        [
            "import csv" if between else "import csv, re",
            f"rows = {cells if between else blanks}",
            """rows = [[cell.strip(' "') for cell in row] for row in rows if row]""",
            *names,
            f"file = open({table!r}, 'w', newline='', encoding='utf-8')",
            f"csv.writer(file).writerows({written})",
        ]
    )


def of_labelled_lines(path: Path, table: str) -> list[str]:
    """Lines of fastText: labels, and a text behind them."""
    return indented(
        [
            "import csv, re",
            f"lines = open({at(path)}, encoding='utf-8-sig').read().splitlines()",
            "parts = [re.match(r'((?:__label__\\S+\\s+)+)(.*)', line) for line in lines if line]",
            f"file = open({table!r}, 'w', newline='', encoding='utf-8')",
            "rows = [(part[1].replace('__label__', '').strip(), part[2]) for part in parts]",
            "csv.writer(file).writerows([('label', 'text'), *rows])",
        ]
    )


def of_names(path: Path, delimiter: str, count: int) -> list[str]:
    """A line of names above a table that has none."""
    names = f"{delimiter!r}.join(f'column {{n}}' for n in range(1, {count + 1}))"
    return indented(
        [
            f"names = {names}",
            f"text = open({at(path)}, encoding='utf-8-sig').read()",
            f"open('named-{path.name}', 'w', encoding='utf-8').write(names + '\\n' + text)",
        ]
    )


def of_text(path: Path, encoding: str) -> list[str]:
    """A text in another encoding."""
    opened = "gzip.open" if path.suffix == ".gz" else "open"
    target = f"utf8-{path.name.removesuffix('.gz')}"
    return indented(
        [
            *(["import gzip"] if path.suffix == ".gz" else []),
            f"text = {opened}({at(path)}, 'rt', encoding={encoding!r}).read()",
            f"open({target!r}, 'w', encoding='utf-8').write(text)",
        ]
    )


def records(path: Path, delimiter: str = ",") -> str:
    """An expression for the records of JSON, or for the rows of a table, as objects with names."""
    file = f"open({at(path)}, encoding='utf-8-sig')"
    match path.suffix.lower():
        case ".json":
            return f"json.load({file})"
        case ".jsonl":
            return f"[json.loads(line) for line in {file} if line.strip()]"
    opened = f"open({at(path)}, encoding='utf-8-sig', newline='')"
    return f"csv.DictReader({opened}, delimiter={delimiter!r})"


def of_texts_in_columns(
    path: Path, target: str, columns: Sequence[str], delimiter: str = ","
) -> list[str]:
    """Texts in one column, or questions and their answers in two, as lines of JSON."""
    names = ["prompt", "completion"] if len(columns) > 1 else ["text"]
    return of_columns(path, target, columns, delimiter, names)


def of_columns(
    path: Path, target: str, columns: Sequence[str], delimiter: str, names: Sequence[str] = ()
) -> list[str]:
    """Columns of a table as lines of JSON, under their own names or others."""
    pairs = zip(names or columns, columns, strict=True)
    record = ", ".join(f"{name!r}: row[{column!r}]" for name, column in pairs)
    return indented(
        [
            "import csv, json",
            f"with open({target!r}, 'w', encoding='utf-8') as file:",
            f"    for row in {records(path, delimiter)}:",
            f"        print(json.dumps({{{record}}}), file=file)",
        ]
    )


def of_nested(path: Path, table: str) -> list[str]:
    """Records within records, as a table with a column for each part."""
    return indented(
        [
            "import json, pandas  # pip install pandas",
            f"rows = {records(path)}",
            f"pandas.json_normalize(rows).to_csv({table!r}, index=False)",
        ]
    )


def of_records(path: Path, table: str) -> list[str]:
    """Records of JSON as a table."""
    return indented(
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
    read = f"pandas.read_excel({at(path)}).to_csv({table!r}, index=False)"
    return indented(["import pandas  # pip install pandas openpyxl", read])


def of_pickle(path: Path, table: str) -> list[str]:
    """A table of pandas, which is what pickles of data mostly are."""
    read = f"pandas.read_pickle({at(path)}).to_csv({table!r}, index=False)"
    return indented(["import pandas  # where a table of pandas is in the file", read])


def of_arrow(path: Path, table: str) -> list[str]:
    """A file of Feather, or a stream of Hugging Face's data sets."""
    file = f"open({at(path)}, 'rb')"
    if path.suffix.lower() == ".arrow":
        return indented(
            [
                "from pyarrow import csv, ipc",
                f"csv.write_csv(ipc.open_stream({file}).read_all(), {table!r})",
            ]
        )
    return indented(
        [
            "from pyarrow import csv, feather",
            f"csv.write_csv(feather.read_table({at(path)}), {table!r})",
        ]
    )


def of_arff(path: Path, table: str) -> list[str]:
    """The names of Weka's attributes, above the rows."""
    return indented(
        [
            "import re",
            f"text = open({at(path)}).read()",
            "names = re.findall(r'(?im)^@attribute\\s+(\\'[^\\']+\\'|\\S+)', text)",
            "rows = re.split(r'(?im)^@data\\s*', text)[1]",
            f"open({table!r}, 'w').write(','.join(n.strip('\\'') for n in names) + '\\n' + rows)",
        ]
    )


def of_partitions(folder: Path, table: str) -> list[str]:
    """One file of the folders year=2020/, year=2021/, with the values as a column."""
    read = f"dataset.dataset({at(folder)}, partitioning='hive').to_table()"
    return indented(
        ["from pyarrow import dataset, parquet", f"parquet.write_table({read}, {table!r})"]
    )


def of_texts(folder: Path) -> list[str]:
    """Texts in one folder for each class, as a table."""
    return indented(
        [
            "import csv, pathlib",
            f"files = sorted(p for p in pathlib.Path({at(folder)}).glob('*/*') if p.is_file())",
            "texts = [(p.read_text('utf-8', 'replace'), p.parent.name) for p in files]",
            "rows = [('text', 'label'), *texts]",
            "csv.writer(open('texts.csv', 'w', newline='', encoding='utf-8')).writerows(rows)",
        ]
    )
