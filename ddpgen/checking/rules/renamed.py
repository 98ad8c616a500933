"""U1: names from before an update, in projects that ddpgen made."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import constant, last_part
from ddpgen.checking.reading.projects import ProjectFile
from ddpgen.checking.registry import Hit, rule
from ddpgen.renaming.leftovers import BY_NAME


@rule(
    "U1",
    "a name from before an update of the project, which is no longer there",
    "use the new name; `ddpgen check --fix` does",
    reads="project",
)
def old_name(file: ProjectFile) -> Iterator[Hit]:
    for node in file.nodes:
        for old in _old_names(file, node):
            new = file.renamed.modules.get(old) or _exported(file, old)
            yield node, f"{old} is {new} since {file.since[old]}"


def _exported(file: ProjectFile, old: str) -> str:
    home, _, _ = old.rpartition(".")
    return f"{file.renamed.modules.get(home, home)}.{file.renamed.exported[old]}"


def _old_names(file: ProjectFile, node: ast.AST) -> Iterator[str]:
    """The old names that a node uses."""
    known = {**file.renamed.modules, **file.renamed.exported}
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in file.renamed.modules)
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in (node.module, *names) if name in known)
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        first = file.name(node)
        if first in file.renamed.exported and first.partition(".")[0] in _roots(file):
            yield first
    elif isinstance(node, ast.Call) and last_part(file.name(node.func)) in BY_NAME:
        text = str(constant(node.args[0])) if node.args else ""
        named = (old for old in file.renamed.modules if text == old or text.startswith(f"{old}."))
        yield from list(named)[:1]


def _roots(file: ProjectFile) -> set[str]:
    """The first parts of what is imported: other names are no modules."""
    return {name.partition(".")[0] for name in file.imports.values()}
