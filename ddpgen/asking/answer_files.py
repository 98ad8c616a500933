"""Files of answers, TOML or YAML, read as they are written: the questions are not known here."""

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from ddpgen.errors import DdpgenError, show


def read(path: Path) -> dict[str, object]:
    """Read the keys and values of a file of answers as they stand there.

    Raises:
        DdpgenError: the file cannot be read or parsed.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise DdpgenError(f"--answers {show(path)}: {reason}") from error
    with errors_naming(path):
        return _read_toml(text) if path.suffix == ".toml" else parse_yaml(text)


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Let an error name the file, and the line where the option begins."""
    try:
        yield
    except DdpgenError as error:
        where = f"{show(path)}{_line(path, error.option)}"
        error.option = f"{where}: {error.option}".removesuffix(": ")
        raise


def _line(path: Path, key: str) -> str:
    """Return ", line N" for the first line that gives a key, or "" where none does."""
    begin = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[:=]")
    # A pipe has been read, and does not say anything twice.
    lines = path.read_text(encoding="utf-8-sig").splitlines() if key and path.is_file() else []
    return next((f", line {n}" for n, text in enumerate(lines, 1) if begin.match(text)), "")


def _read_toml(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML, or of a number's thousands of digits
        raise DdpgenError(f"is not valid TOML: {error}") from error


def parse_yaml(text: str) -> dict[str, object]:
    """Read a flat YAML mapping with every scalar as the text it is written as.

    YAML's own reading would turn `amp: off` into False before the question could say what it
    expects.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise DdpgenError(f"is not valid YAML: {' '.join(str(error).split())}") from error
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode) or not all(
        isinstance(key, yaml.ScalarNode) for key, _ in root.value
    ):
        raise DdpgenError("should be a list of lines `key: value`")
    entries: dict[str, object] = {}
    for key, node in root.value:
        name = key.value
        line = key.start_mark.line + 1
        if name in entries:
            raise DdpgenError(f"given twice, again on line {line}", option=name)
        if isinstance(node, yaml.ScalarNode):
            entries[name] = node.value
        elif isinstance(node, yaml.SequenceNode) and all(
            isinstance(item, yaml.ScalarNode) for item in node.value
        ):
            entries[name] = [item.value for item in node.value]
        else:
            raise DdpgenError("should be a value or a list of values", option=name)
    return entries
