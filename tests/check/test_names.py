"""What a program calls its things is no matter: mistakes are found under other names, too."""

import ast
from pathlib import Path

import pytest

from check.planted import changed, reported
from check.test_planted import MISTAKES, PROGRAMS

# As nobody calls them, and one name for what programs call in several ways.
OTHERS = {
    **dict.fromkeys(("optimizer", "optim", "opt"), "nudge"),
    **dict.fromkeys(("scheduler", "schedule", "sched"), "plan"),
    **dict.fromkeys(("loader", "train_loader"), "feed"),
    **dict.fromkeys(("sampler", "train_sampler"), "picker"),
    **dict.fromkeys(("world", "world_size"), "everyone"),
    **dict.fromkeys(("local", "local_rank"), "here"),
    **dict.fromkeys(("ema", "average"), "calm"),
    "criterion": "price",
    "loss": "cost",
    "loss_c": "cost_c",
    "loss_p": "cost_p",
    "opt_c": "nudge_c",
    "opt_p": "nudge_p",
    "rank": "me",
    "scaler": "booster",
    "val_loader": "exam",
}
# Rules that look for `sums`, or for a schedule and a network among a class's other fields.
BY_NAME = {
    ("adapter", "forward of net"),
    ("diffusion", "nobody steps the schedule"),
    ("diffusion", "the place is not saved"),
    ("trainer", "eval without no_grad"),
    ("two_networks", "score of one rank"),
}


class _Renaming(ast.NodeTransformer):
    """Gives variables, parameters and attributes of the program's objects other names."""

    def __init__(self, own: set[str], attributes: set[str]) -> None:
        self.own = own
        self.attributes = attributes

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = OTHERS.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        self.generic_visit(node)
        node.arg = OTHERS.get(node.arg, node.arg)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        foreign = ast.unparse(node.value).partition(".")[0] in ("torch", "dist", "args", "nn")
        if node.attr in self.attributes and not foreign:
            node.attr = OTHERS.get(node.attr, node.attr)
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if ast.unparse(node.func).rpartition(".")[2] in self.own:
            for given in node.keywords:
                given.arg = OTHERS.get(given.arg or "", given.arg)
        return node


def renamed(files: dict[str, str]) -> dict[str, str]:
    trees = {name: ast.parse(text) for name, text in files.items() if name.endswith(".py")}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    own = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    set_here = {
        n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
    }
    fields = {ast.unparse(n.target) for n in nodes if isinstance(n, ast.AnnAssign)}
    renaming = _Renaming(own, set_here | fields)
    return files | {name: ast.unparse(renaming.visit(tree)) for name, tree in trees.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_program_stays_right(name: str, tmp_path: Path) -> None:
    assert reported(tmp_path, renamed(PROGRAMS[name].FILES)) == []


@pytest.mark.parametrize(
    ("name", "title"), [pair for pair in MISTAKES if pair not in BY_NAME], ids=" ".join
)
def test_mistake_is_found_under_other_names(name: str, title: str, tmp_path: Path) -> None:
    *changes, row = PROGRAMS[name].MISTAKES[title]
    assert row in reported(tmp_path, renamed(changed(PROGRAMS[name].FILES, *changes)))
