"""D9, D10, G13, K3, K5, K6, K10: what is stated, given or saved, and has no effect."""

import ast
import re
from collections.abc import Iterator
from functools import partial

from ddpgen.checking.reading.expressions import (
    Function,
    constant,
    entries,
    keyword,
    matches,
    names_in,
    parameters,
    source,
    strings,
)
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.values import mentions
from ddpgen.checking.registry import WARNING, Hit, rule
from ddpgen.checking.rules.resume import snapshots

_GROUP_TIMEOUT = (
    r"((nccl|dist|ddp|process_group|pg|collective)_)?timeout(_(s|sec|seconds|minutes))?"
)
_WORLD = r"expected_(world|ranks|nodes|gpus|processes)\w*"
_RATE = r"(lr|learning_rate)_(scaling|batch_size|batch)|scale_lr"
_GLOBAL_BATCH = r"(global|total|effective)_batch(_size)?"
_SEEN = r"(samples_|tokens_)?(seen|consumed)(_samples|_tokens)?|start_(batch|sample)"
_BEST = r"best(_\w+)?"


@once
def _fields(module: Module, pattern: str) -> list[ast.AnnAssign]:
    """Fields of dataclasses with such a name."""
    return [
        node
        for node in module.nodes
        if isinstance(node, ast.AnnAssign)
        and re.fullmatch(pattern, source(node.target))
        and _is_dataclass(module.parents[node])
    ]


def _is_dataclass(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        "dataclass" in source(d) for d in node.decorator_list
    )


@rule(
    "D9",
    "there is a timeout in the settings, and another one is handed over here",
    "hand over the one from the settings: timeout=timedelta(seconds=...)",
    severity=WARNING,
)
def timeout_without_effect(module: Module) -> Iterator[ast.AST]:
    if any(_fields(other, _GROUP_TIMEOUT) for other in module.program.modules):
        for call in module.called("init_process_group"):
            given = keyword(call, "timeout", 2)
            if given is not None and not mentions(module, given, "timeout"):
                yield given


@rule(
    "D10",
    "nothing compares this with the world that forms: a node that is alone trains by itself",
    "raise an error at the start where it is not the world size",
    severity=WARNING,
)
def expected_world_without_effect(module: Module) -> Iterator[ast.AST]:
    modules = module.program.modules
    compared = (n for m in modules for n in m.nodes if isinstance(n, ast.Compare))
    if not module.program.calls("init_process_group") or any(
        matches(n, "expected") for n in compared
    ):
        return
    # Any other function may compare what it is given.
    given = [call for m in modules for call, name in m.calls if name != "print"]
    for field in _fields(module, _WORLD):
        if not any(matches(call, rf"\.{source(field.target)}[,)]") for call in given):
            yield field


@rule(
    "D10",
    "another world than expected is mentioned here, and then trained with",
    "raise an error",
    severity=WARNING,
)
def expected_world_printed(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.If) and not node.orelse and all(map(_says, node.body)):
            if re.search(r"expect", source(node.test)):
                if re.search(r"world|ranks|nodes", source(node.test)):
                    yield node


def _says(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and bool(
        re.match(r"print\(|warnings\.warn\(|\w*log(ger|ging)?\.\w+\(", source(statement))
    )


@rule(
    "G13",
    "nothing reads this rule for the learning rate: the rate ignores the global batch",
    "scale the rate with it, or remove it",
)
def rate_rule_without_effect(module: Module) -> Iterator[Hit]:
    if module.program.calls("init_process_group"):
        for field in _fields(module, _RATE):
            name = source(field.target)
            found = module.program.references(name)
            attributes = [n for _, n in found if isinstance(n, ast.Attribute)]
            if not any(isinstance(n.ctx, ast.Load) for n in attributes):
                yield field, name


def _unread_parameters(module: Module, pattern: str, does: str) -> Iterator[Hit]:
    """Parameters with such a name that a function does not read although it does such a thing."""
    for function in module.all_functions:
        asked = [p for p in parameters(function) if re.fullmatch(pattern, p.arg)]
        if asked and re.search(does, f"{function.name} {_work(function)}"):
            read = names_in(function)
            yield from ((p, p.arg) for p in asked if p.arg not in read)


def _work(function: Function) -> str:
    """What a function does, without its documentation."""
    documented = ast.get_docstring(function) is not None
    return "\n".join(map(source, function.body[documented:]))


rule(
    "G13",
    "this rate is given the global batch and ignores it",
    "scale the rate with the global batch",
)(partial(_unread_parameters, pattern=_GLOBAL_BATCH, does=r"(^|_)(lr|rate)\b"))

rule(
    "K6",
    "files are deleted here, and which one is the best is not asked: it goes like the others",
    "leave the best one alone",
)(partial(_unread_parameters, pattern=_BEST, does=r"\.unlink\(|os\.remove\(|rmtree\("))

rule(
    "K10",
    "the place that a run should go on from is ignored: samples are seen twice",
    "begin after what has been seen",
)(partial(_unread_parameters, pattern=_SEEN, does=r"set_epoch\(|islice\(|sampler"))


@rule(
    "K3",
    "saved, but never restored: a resumed run starts without it",
    "restore it where the rest of the checkpoint is restored",
)
def saved_for_nothing(module: Module) -> Iterator[Hit]:
    literals = [text for m in module.program.modules for text in _literals(m)]
    for snapshot, _ in snapshots(module):
        saved = [(str(constant(key)), key, value) for key, value in entries(snapshot) if key]
        unread = [entry for entry in saved if literals.count(entry[0]) <= 1]
        # Several are read one by one, so that none is read in another way.
        if len(saved) - len(unread) >= 2:
            yield from ((key, name) for name, key, value in unread if _is_state(module, value))


@once
def _literals(module: Module) -> list[str]:
    """All texts, and the names under which something is given to what restores."""
    restoring = (
        call for call, _ in module.calls if matches(call.func, r"load|resto|restart|resume")
    )
    given = [str(k.arg) for call in restoring for k in call.keywords]
    return [*strings(module.tree), *given]


def _is_state(module: Module, value: ast.expr) -> bool:
    """What a run changes as it goes: of objects that have a state, or counted up."""
    match value:  # a number of the same worth, or a copy
        case ast.Call(ast.Name("int" | "float"), [inner]):
            return _is_state(module, inner)
        case ast.Call(ast.Attribute(inner, "item" | "tolist" | "clone" | "cpu" | "detach")):
            return _is_state(module, inner)
    if isinstance(value, ast.Call):
        return source(value.func).endswith(".state_dict")
    if not isinstance(value, ast.Attribute) or not isinstance(value.value, ast.Name):
        return False
    return any(value.attr in _changed(m) for m in module.program.modules)


@once
def _changed(module: Module) -> set[str]:
    """Attributes that are counted up, or that a condition on themselves replaces."""
    counted = {
        n.target.attr
        for n in module.nodes
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Attribute)
    }
    targets = [(n, t) for n, t in module.assignments(ast.Attribute)]
    counted |= {t.attr for n, t in targets if source(t) in source(n.value)}  # best = max(best, x)
    replaced = [
        (n, part)
        for n in module.nodes
        if isinstance(n, ast.If)
        for statement in n.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        for part in (target.elts if isinstance(target, ast.Tuple) else [target])
    ]
    return counted | {
        target.attr
        for n, target in replaced
        if isinstance(target, ast.Attribute) and source(target) in source(n.test)
    }
