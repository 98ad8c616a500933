"""Launch files as the rules see them: shell, batch scripts, environment files, manifests."""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

SUFFIX = re.compile(r"\.(sh|bash|sbatch|slurm|pbs|lsf|bsub|job|env|yaml|yml)")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_DIRECTIVE = re.compile(r"#(SBATCH|PBS|BSUB)\s")
# export A=1 | A=1 command | ENV A=1 | ENV A 1 | A: 1 | - name: A, with its value on the next line
_SETTING = re.compile(
    r"(?:^|[\s;\"'(-])(?:export\s+|ENV\s+|-x\s+|--env[ =])?([A-Z][A-Z0-9_]+)(?:=|:\s+)"
    r"(\"[^\"]*\"|'[^']*'|[^\s;&)]*)"
)
_NAME = re.compile(r"^\s*-?\s*name:\s*[\"']?([A-Z][A-Z0-9_]+)[\"']?\s*$")
_VALUE = re.compile(r"^\s*value:\s*(.*)$")


class Script:
    """One launch file."""

    def __init__(self, path: Path, text: str, names: frozenset[str] = frozenset()) -> None:
        self.path = path
        self.text = text
        self.lines = text.splitlines()
        self.names = names  # of all files below what is checked

    @property
    def comments(self) -> dict[int, str]:
        """Line -> the line, if there may be a comment in it."""
        return {number: line for number, line in enumerate(self.lines, 1) if "#" in line}

    @cached_property
    def commands(self) -> list[tuple[int, str]]:
        """Lines without comments, those continued with a backslash joined: first line, text."""
        found: list[tuple[int, str]] = []
        parts: list[str] = []
        first = 0
        for number, line in enumerate(self.lines, 1):
            text = _COMMENT.sub("", line).rstrip()
            first = first if parts else number
            parts.append(text.removesuffix("\\"))
            if not text.endswith("\\"):
                found.append((first, " ".join(parts)))
                parts = []
        return [*found, (first, " ".join(parts))] if parts else found

    def running(self, *patterns: str) -> Iterator[int]:
        """Lines of commands in which each of the patterns is found."""
        yield from (line for line, _ in self.found(*patterns))

    def found(self, *patterns: str) -> Iterator[tuple[int, str]]:
        """The same lines with their text."""
        for line, text in self.commands:
            if all(re.search(pattern, text) for pattern in patterns):
                yield line, text

    @cached_property
    def code(self) -> str:
        """All commands."""
        return "\n".join(text for _, text in self.commands)

    @cached_property
    def directives(self) -> list[tuple[int, str]]:
        """Lines for a scheduler."""
        return [(n, line) for n, line in enumerate(self.lines, 1) if _DIRECTIVE.match(line)]

    @property
    def _asked(self) -> str:
        """All lines for a scheduler."""
        return "\n".join(text for _, text in self.directives)

    def option(self, *names: str) -> str | None:
        """The value of a scheduler's option, of the first of these names that is there."""
        for _, line in self.directives:
            for name in names:
                joint = "[ =]+" if name.startswith("--") else r"\s*"
                if found := re.search(rf"\s{name}{joint}([^\s#]+)", line):
                    return found[1]
        return None

    @cached_property
    def nodes(self) -> int:
        """How many nodes a launch file asks for; 1 where it does not say."""
        if self.path.suffix in {".yaml", ".yml"}:  # of SkyPilot, which runs it on each of them
            asked = re.search(r"^num_nodes:\s*(\d+)", self.text, re.MULTILINE)
            return int(asked[1]) if asked else 1
        stated = self.option("--nodes", "-N", "-nnodes") or ""  # of SLURM and LSF
        chunks = re.search(r"#PBS\s.*\b(?:select|nodes)=(\d+)", self._asked)
        tasks, each = self.option("-n") or "", re.search(r"\bptile=(\d+)", self._asked)
        if tasks.isdigit() and each and int(each[1]):
            return -(-int(tasks) // int(each[1]))  # of LSF
        return int(chunks[1] if chunks else stated if stated.isdigit() else 1)

    @cached_property
    def gpus(self) -> int:
        """How many GPUs a launch file asks for on each node; 0 where it does not say."""
        asked = f"gpu:{per_node}" if (per_node := self.option("--gpus-per-node")) else ""
        each, tasks = self.option("--gpus-per-task") or "", self.option("--ntasks-per-node") or ""
        if each.isdigit() and tasks.isdigit():
            asked = asked or f"gpu:{int(each) * int(tasks)}"
        asked = asked or self.option("--gres") or ""
        found = re.search(r"\bgpu:(?:\w+:)?(\d+)\b", asked)
        found = found or re.search(r"\bngpus=(\d+)", self._asked)  # of PBS
        if self.path.suffix in {".yaml", ".yml"}:
            found = re.search(r"\b(?:nvidia|amd)\.com/gpu:\s*[\"']?(\d+)", self.code)
        return int(found[1]) if found else 0

    @cached_property
    def settings(self) -> list[tuple[int, str, str]]:
        """Environment variables that the file sets: line, name, value without quotes."""
        return list(self._settings())

    def _settings(self) -> Iterator[tuple[int, str, str]]:
        for number, line in enumerate(self.lines, 1):
            text = _COMMENT.sub("", line)
            for name, value in _SETTING.findall(text):
                yield number, name, value.strip("\"'")
            if self.path.suffix in {".yaml", ".yml"} and (found := _NAME.match(text)):
                following = self.lines[number] if number < len(self.lines) else ""
                value = _VALUE.match(following)
                yield number, found[1], value[1].strip("\"' ") if value else ""


def is_script(path: Path) -> bool:
    """Whether a file is a launch file, by its name or its first line."""
    if SUFFIX.fullmatch(path.suffix) or path.name in {"Dockerfile", "Containerfile", ".env"}:
        return True
    if path.suffix:
        return False
    try:
        with path.open("rb") as file:
            return re.match(rb"#!.*\b(ba|z|k|da)?sh\b", file.readline(200)) is not None
    except OSError:
        return False
