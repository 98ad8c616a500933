"""Makes mutants of launch files: a line, a flag, a quote or a word is missing, or another is there.

What only people read (comments, what is echoed) is left alone; the scheduler's lines are not.
"""

import re
import subprocess
from collections.abc import Iterator

from mutants.syntax import Mutant

DIRECTIVE = re.compile(r"#(SBATCH|PBS|BSUB) ")
FUNCTION = re.compile(r"(\w+)\(\) \{$")
# What is left out of a line; the first group of a pattern stays.
LEFT_OUT = {
    "flag": r"()(?<=\s)--?[a-z][\w-]*(?:=(?:\"[^\"]*\"|[^\s\"]+)+)?",
    "quote": r"\"(\$@|\$\w+|\$\{[^\"}]*\})\"",
    "exec": r"()\bexec (?=[a-z\"])",
    "background": r"( )&$",
    "negation": r"()(?<=\s)! ",
    "way out": r"() \|\| (?:true|return \d|exit \d)",
}
# These are numbers, names of hosts, or words that were split at blanks: they need no quotes.
NO_QUOTES = re.compile(
    r"(?i)nodes|nodelist|proc|port|head|rank|worker|pid|status|torchrun|first|id|left|number|host"
    r"|program"
)
OPERATORS = {
    "&&": "||",
    "||": "&&",
    "==": "!=",
    "!=": "==",
    ">=": ">",
    "-e": "! -e",
    "-f": "! -f",
}
# What fails before `|| true` ends no script before `&& true` either: only the last command would.
OPERATOR = re.compile(r"&&|\|\|(?! true\b)|==|!=|>=|(?<=\[\[ )-[ef](?= )")
ASKED_FOR = re.compile(r"#(SBATCH --(?!ntasks|signal)|PBS|BSUB) ?")  # sizes that users edit
NUMBER = re.compile(r"(?<![\w.$/\[-])\d+(?![\w./>\]])")
# Words of one kind, that a hurried editor takes for one another.
ALIKE = [
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"},
    {"NNODES", "NPROC"},
    {"USR1", "TERM"},
]
WORD = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
Change = tuple[str, str, str, str]  # kind, what is replaced, by what, and the line with it


def mutants(path: str, text: str) -> list[Mutant]:
    """All mutants of a launch file that bash still reads, each text once."""
    found: dict[str, Mutant] = {}
    lines, function = text.splitlines(keepends=True), ""
    for number, line in enumerate(lines):
        if begin := FUNCTION.match(line):
            function = begin[1]
        for kind, before, after, new in () if _is_left_alone(line) else _changes(line):
            whole = "".join([*lines[:number], new, *lines[number + 1 :]])
            if whole not in found and new != line and _is_read(whole):
                place = range(number + 1, number + 2)
                found[whole] = Mutant(kind, path, function, place, before, after, whole)
        if line.startswith("}"):
            function = ""
    return list(found.values())


def _is_left_alone(line: str) -> bool:
    stripped = line.strip()
    if stripped.startswith("#"):
        return not DIRECTIVE.match(stripped)
    return not stripped or stripped.startswith("echo ")


def _is_read(text: str) -> bool:
    """Whether bash finds no mistake in it, without running it."""
    command = ["bash", "-n"]
    read = subprocess.run(command, input=text.encode(), stderr=subprocess.DEVNULL, check=False)
    return read.returncode == 0


def _changes(line: str) -> Iterator[Change]:
    """What can be changed of a line."""
    yield "line", line.strip(), "", ""
    code = re.sub(r"echo .*", "", line)  # what is before it
    for kind, pattern in LEFT_OUT.items():
        for match in re.finditer(pattern, code):
            if kind != "quote" or not NO_QUOTES.search(match[0]):
                yield _changed(kind, line, match, match[1])
    for match in OPERATOR.finditer(code):
        yield _changed("operator", line, match, OPERATORS[match[0]])
    for match in () if ASKED_FOR.match(line) else NUMBER.finditer(code):
        value = int(match[0])
        for other in (value + 1, value - 1) if 0 < value < 10 else (value // 10 or 1,):
            yield _changed("number", line, match, str(other))
    for match in WORD.finditer(code):
        for other in sorted(set[str]().union(*(group for group in ALIKE if match[0] in group))):
            if other != match[0]:
                yield _changed("name", line, match, other)


def _changed(kind: str, line: str, match: re.Match[str], new: str) -> Change:
    """The change, named by the words that are around what changes."""
    left = line[: match.start()].rpartition(" ")[2]
    right = line[match.end() :].partition(" ")[0]
    before, after = (f"{left}{text}{right}".strip() for text in (match[0], new))
    return kind, before, after, line[: match.start()] + new + line[match.end() :]
