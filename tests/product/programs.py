"""The trained programs: which options shape them, and which combinations give the same one."""

import ast
import hashlib
from collections.abc import Collection, Mapping
from functools import cache

from ddpgen.asking.question import Answers, Value
from product import template
from product.combinations import combinations

ENTRY = "train.py"
# What a training step computes and holds depends on these.
STEP_OPTIONS = [
    "model",
    "batch_norm",
    "amp",
    "accumulation",
    "activation_checkpointing",
    "optimizer_sharding",
    "dynamic_graph",
]


@cache
def training_files() -> list[str]:
    """What train.py may import, directly or not, in any variant, and its config."""
    modules = {p.removesuffix(".py").replace("/", "."): p for p in template.files()}
    found, todo = set(), {ENTRY}
    while todo:
        path = todo.pop()
        found.add(path)
        for answers in combinations(template.reads(path)):
            tree = ast.parse(template.text(path, answers) or "")
            todo |= {modules[name] for name in _imported(tree) if name in modules} - found
    return [*sorted(found), "config.toml"]


def _imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@cache
def options() -> list[str]:
    """The questions with choices that the code of the training program depends on."""
    code = [path for path in training_files() if path.endswith(".py")]
    names = frozenset().union(*(template.reads(path) for path in code))
    listed = [template.QUESTIONS[name] for name in template.QUESTIONS if name in names]
    return [question.name for question in listed if question.choices or question.type == "bool"]


def completed(chosen: Answers, asked: Collection[str] = ()) -> Answers:
    """The first combination of the questions (else of all `options`) that has these answers."""
    rows = combinations(asked or options())
    return next(row for row in rows if chosen.items() <= row.items())


@cache
def programs() -> dict[str, Answers]:
    """Every distinct training program: its identity -> the first combination that gives it."""
    found: dict[str, Answers] = {}
    for answers in combinations(options()):
        found.setdefault(identity(answers), answers)
    return found


def identity(answers: Mapping[str, Value]) -> str:
    """A digest of all training files."""
    texts = [template.text(path, answers) for path in training_files()]
    return hashlib.sha256(repr(texts).encode()).hexdigest()
