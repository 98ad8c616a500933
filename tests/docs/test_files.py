"""The table of files is that of rendered projects, and so are the trees on pages."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from product import template

from ddpgen.asking import questions
from ddpgen.asking.question import Answers, Value
from docs.page import DOCS, ROOT

TABLE = DOCS / "reference" / "files.md"
ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| ([^|]*)\|$", re.MULTILINE)
CONDITION = re.compile(r"`(\w+)=([\w,-]+)`")
NOT_ONLY_LOCAL = "`clusters` other than `local` alone"
FSDP_WORKS = "answers that FSDP does not refuse"
LARGER = "a project larger than the smallest"
COMPUTED = {FSDP_WORKS: "may_shard", LARGER: "thorough"}
# A project with every file that does not belong to a cluster, and one with the fewest files.
MOST: Answers = {
    "checkpoint": True,
    "saves": "background",
    "compression": True,
    "tools": ["preflight", "memory", "scaling", "profile", "predict", "checkpoints"],
    "watch": ["replicas", "spikes", "ranks", "speed", "files", "starts"],
    "tracker": "wandb",
    "model": "custom",
    "container": "docker",
    "clusters": ["local", "ssh", "slurm", "kubernetes", "pbs", "lsf", "skypilot"],
}
LEAST: Answers = {"checkpoint": False, "compression": False, "tools": [], "watch": []}
LEAST |= {"clusters": ["local"], "sharding": "off", "saves": "blocking"}


def table() -> dict[str, str]:
    """Every file of the page, with its condition."""
    text = TABLE.read_text(encoding="utf-8").partition("\n## What running leaves")[0]
    return {path: condition.strip() for path, condition in ROW.findall(text)}


def files(answers: Answers) -> set[str]:
    """The files of a project."""
    return {path for path, _ in template.project(answers)} | {".copier-answers.yml"}


def expected(condition: str, answers: Answers) -> bool:
    """Whether a file should be there, as its condition says, of which each part must hold."""
    first, _, second = condition.partition(", and ")
    if second:
        return expected(first, answers) and expected(second, answers)
    if condition == NOT_ONLY_LOCAL:
        return answers.get("clusters") != ["local"]
    if condition in COMPUTED:
        states = questions.load().evaluate(answers)
        return any(s.value for s in states if s.question.name == COMPUTED[condition])
    if not condition:
        return True
    alternatives = condition.split(", or ")
    return any(all(holds(p, answers) for p in a.split(" and ")) for a in alternatives)


def holds(condition: str, answers: Answers) -> bool:
    """Whether one answer is as a condition says."""
    found = CONDITION.fullmatch(condition)
    assert found, condition
    value = answers[found[1]]
    have = value if isinstance(value, list) else [value]
    return bool({word(each) for each in have} & set(found[2].split(",")))


def word(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def projects() -> Iterator[Answers]:
    """The largest, the smallest, each with one answer of the largest alone; all families' tools."""
    plain: Answers = {"model": "mlp", "tracker": "none", "container": "none"}
    plain |= LEAST
    yield plain | MOST
    yield plain
    for name, value in MOST.items():
        for one in value if isinstance(value, list) else [value]:
            chosen: Value = [one] if isinstance(value, list) else one
            saved = ("checkpoints", "predict", "background")
            needed: Answers = {"checkpoint": True} if one in saved else {}
            if one == "kubernetes":
                needed = {"container": "docker"}
            if one == "docker":
                needed = {"clusters": ["local"]}
            yield plain | needed | {name: chosen}
    for sharding, checkpoint in (("fsdp", True), ("hsdp", False)):
        yield plain | {"sharding": sharding, "checkpoint": checkpoint}
    shards: Answers = {"sharding": "fsdp", "checkpoint": True, "saves": "shards"}
    yield plain | shards
    yield plain | shards | {"tools": ["checkpoints"]}
    for model in template.QUESTIONS["model"].values:
        for tool in ("predict", "checkpoints"):
            yield plain | {"model": model, "checkpoint": True, "tools": [tool]}


def test_table_names_every_file_of_the_largest_project() -> None:
    every = set(template.files()) | {".copier-answers.yml"}
    assert every - table().keys() == set(), "missing on the page"
    assert table().keys() - every == set(), "on the page, and in no project"


@pytest.mark.parametrize("answers", projects(), ids=str)
def test_files_are_there_when_the_table_says_so(answers: Answers) -> None:
    there = files(answers)
    said = {path for path, condition in table().items() if expected(condition, answers)}
    assert said - there == set(), "promised, and not there"
    assert there - said == set(), "there, and not promised"


TREE = re.compile(r"<!-- tree: default -->\n+```text\n[\w-]+/\n(.*?)```", re.DOTALL)
WITH_TREES = [ROOT / "README.md", DOCS / "index.md", DOCS / "tutorial/first-project.md"]


@pytest.mark.parametrize("page", WITH_TREES, ids=lambda page: Path(page).name)
def test_tree_is_that_of_the_default_project(page: Path) -> None:
    """All that lies at the root of the default project, and nothing else."""
    found = TREE.search(page.read_text(encoding="utf-8"))
    assert found
    named = re.findall(r"^[├└]── ([\w./]+)", found[1], re.MULTILINE)
    there = {path.partition("/")[0] + ("/" if "/" in path else "") for path in files({})}
    assert sorted(named) == sorted(name for name in there if not name.startswith("."))


OWN_TESTS = re.compile(r"^\| `(tests/[^`]+)` \| [^|]+ \| ?([^|]*?) ?\|$", re.MULTILINE)


def rows_of_catalogue(text: str) -> set[str]:
    """The ids in a cell: G1-G3 is three."""
    found: set[str] = set()
    for part in filter(None, text.split(", ")):
        first, _, last = part.partition("-")
        letter, numbers = first[0], (int(first[1:]), int((last or first)[1:]))
        found |= {f"{letter}{number}" for number in range(numbers[0], numbers[1] + 1)}
    return found


def test_own_tests_notice_the_rows_that_their_page_names() -> None:
    """As tests/mutants/rows.toml has them, file by file."""
    notices: dict[str, set[str]] = {}
    rows = tomllib.loads((ROOT / "tests/mutants/rows.toml").read_text(encoding="utf-8"))
    for path, name in template.files().items():
        for source in template.sources(name):
            for row, tests in rows.items():
                if any(f"def {test}(" in source for test in tests):
                    notices.setdefault(path, set()).add(row)
    page = OWN_TESTS.findall((DOCS / "code/tests.md").read_text(encoding="utf-8"))
    assert page
    for path, cell in page:
        there = [rows for file, rows in notices.items() if file.startswith(path)]
        assert rows_of_catalogue(cell) == set().union(*there), path
    named = tuple(path for path, _ in page)
    assert not [path for path in notices if not path.startswith(named)]
