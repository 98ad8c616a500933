"""What an object is in a training: a network or a schedule, by its name or by its class."""

import ast
import re

from ddpgen.checking.reading.expressions import last_part, matches, method_name, receiver, source
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.values import DDP, KEEP, follows
from ddpgen.checking.reading.windows import SCHEDULER

MODEL = r"^(\w+\.)*(ddp_)?(model|net|network)(\.module)?$"
_SCHEDULES = r"\.lr_scheduler\.\w|^get_\w*schedule"


def is_schedule(module: Module, node: ast.AST) -> bool:
    """Whether an expression is a schedule of learning rates."""
    return matches(node, SCHEDULER) or is_made_of(module, node, _SCHEDULES)


def is_made_of(module: Module, node: ast.AST, pattern: str) -> bool:
    """Whether a name of the program gets what such a class makes."""
    named = last_part(source(node)) if isinstance(node, ast.Name | ast.Attribute) else ""
    return bool(named) and any(named in _made(m, pattern) for m in module.program.modules)


@once
def _made(module: Module, pattern: str) -> set[str]:
    """The last parts of names that get what such a class or function makes."""
    calls = [
        (module.name(node.value.func), target)
        for node, target in module.assignments(ast.expr)
        if isinstance(node.value, ast.Call)
    ]
    return {last_part(source(target)) for name, target in calls if re.search(pattern, name)}


def is_network(module: Module, node: ast.expr) -> bool:
    """Whether an expression is a network, wrapped or not."""
    return follows(module, node, _is_network)


def _is_network(module: Module, node: ast.expr) -> bool | ast.expr | None:
    if matches(node, MODEL):
        return True
    if isinstance(node, ast.Call):
        name = module.name(node.func)
        if name.endswith(DDP) or last_part(name) in _classes(module):
            return True
        kept = method_name(node) in KEEP or matches(node.func, r"convert_sync_batchnorm|compile$")
        if method_name(node) not in KEEP and not node.args:
            return None
        inner = receiver(node) if method_name(node) in KEEP else node.args[0]
        return inner if kept else None
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return node.value
    return None


def _classes(module: Module) -> set[str]:
    """The networks that a program defines."""
    return {name for m in module.program.modules for name in _defined(m)}


@once
def _defined(module: Module) -> set[str]:
    classes = (node for node in module.nodes if isinstance(node, ast.ClassDef))
    return {c.name for c in classes if any(matches(base, r"\bModule$") for base in c.bases)}
