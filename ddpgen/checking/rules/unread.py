"""D9, D10, G13, K3, K5, K6, K10: what is stated, given or saved, and has no effect."""

import ast
import re
from collections.abc import Iterable, Iterator

from ddpgen.checking.expressions import Function, constant, keyword, matches, source, strings
from ddpgen.checking.programs import Module, once
from ddpgen.checking.registry import Hit, rule
from ddpgen.checking.rules.resume import snapshots
from ddpgen.checking.values import mentions

_GROUP_TIMEOUT = (
    r"((nccl|dist|ddp|process_group|pg|collective)_)?timeout(_(s|sec|seconds|minutes))?"
)
_WORLD = r"expected_(world|ranks|nodes|gpus|processes)\w*"
_RATE = r"(lr|learning_rate)_(scaling|batch_size|batch)|scale_lr"
_GLOBAL_BATCH = r"(global|total|effective)_batch(_size)?"
_SEEN = r"(samples_|tokens_)?(seen|consumed)(_samples|_tokens)?|start_(batch|sample)"
_BEST = r"best(_\w+)?"


def _unread_settings(module: Module, pattern: str) -> Iterator[Hit]:
    """Fields of dataclasses with such a name that no module of the program reads."""
    if module.program.calls("init_process_group"):
        for field in _fields(module, pattern):
            if not _read(module, source(field.target)):
                yield field, source(field.target)


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


def _read(module: Module, name: str) -> bool:
    """Whether a field is read, or all fields are at once where that is possible."""
    found = module.program.references.get(name, [])
    return any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) for _, n in found)


@rule(
    "D9",
    "there is a timeout in the settings, and another one is handed over here",
    "hand over the one from the settings: timeout=timedelta(seconds=...)",
)
def timeout_without_effect(module: Module) -> Iterator[ast.AST]:
    if any(_fields(other, _GROUP_TIMEOUT) for other in module.program.modules):
        for call in module.called("init_process_group"):
            given = keyword(call, "timeout")
            if given is not None and not mentions(module, given, "timeout"):
                yield given


@rule(
    "D10",
    "nothing compares this with the world that forms: a node that is alone trains by itself",
    "raise an error at the start where it is not the world size",
)
def expected_world_without_effect(module: Module) -> Iterator[ast.AST]:
    compared = [n for m in module.program.modules for n in m.nodes if isinstance(n, ast.Compare)]
    if module.program.calls("init_process_group") and not any(
        matches(n, r"expected") for n in compared
    ):
        for field in _fields(module, _WORLD):
            if not any(matches(c, rf"\.{source(field.target)}[,)]") for c in _calls(module)):
                yield field


def _calls(module: Module) -> Iterator[ast.Call]:
    """Calls that may compare what they are given."""
    for other in module.program.modules:
        for call, name in other.calls:
            if name != "print":
                yield call


@rule(
    "D10",
    "another world than expected is mentioned here, and then trained with",
    "raise an error",
)
def expected_world_printed(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.If) and re.search(r"expect", source(node.test)):
            compares = re.search(r"world|ranks|nodes", source(node.test))
            said = all(_says(statement) for statement in node.body)
            if compares and said and not node.orelse:
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
    yield from _unread_settings(module, _RATE)


def _unread_parameters(module: Module, pattern: str, does: str) -> Iterator[Hit]:
    """Parameters with such a name that a function does not read although it does such a thing."""
    for function in (f for named in module.functions.values() for f in named):
        a = function.args
        names = [
            p for p in (*a.posonlyargs, *a.args, *a.kwonlyargs) if re.fullmatch(pattern, p.arg)
        ]
        if names and re.search(does, f"{function.name} {_work(function)}"):
            read = {n.id for n in module.below(function) if isinstance(n, ast.Name)}
            yield from ((p, p.arg) for p in names if p.arg not in read)


def _work(function: Function) -> str:
    """What a function does, without its documentation."""
    return "\n".join(source(s) for s in function.body if not isinstance(constant_of(s), str))


def constant_of(statement: ast.stmt) -> object:
    """The value of a statement that is only a literal."""
    return constant(statement.value) if isinstance(statement, ast.Expr) else None


@rule(
    "G13",
    "this rate is given the global batch and ignores it",
    "scale the rate with the global batch",
)
def batch_without_effect(module: Module) -> Iterator[Hit]:
    yield from _unread_parameters(module, _GLOBAL_BATCH, r"(^|_)(lr|rate)\b")


@rule(
    "K6",
    "files are deleted here, and which one is the best is not asked: it goes like the others",
    "leave the best one alone",
)
def best_without_effect(module: Module) -> Iterator[Hit]:
    yield from _unread_parameters(module, _BEST, r"\.unlink\(|os\.remove\(|rmtree\(")


@rule(
    "K10",
    "the place that a run should go on from is ignored: samples are seen twice",
    "begin after what has been seen",
)
def place_without_effect(module: Module) -> Iterator[Hit]:
    yield from _unread_parameters(module, _SEEN, r"set_epoch\(|islice\(|sampler")


@rule(
    "K3",
    "saved, but never restored: a resumed run starts without it",
    "restore it where the rest of the checkpoint is restored",
)
def saved_for_nothing(module: Module) -> Iterator[Hit]:
    literals = [text for m in module.program.modules for text in _literals(m)]
    for snapshot, _ in snapshots(module):
        entries = [
            (str(constant(key)), key, value)
            for key, value in zip(snapshot.keys, snapshot.values, strict=True)
            if key is not None
        ]
        unread = [e for e in entries if literals.count(e[0]) <= 1]
        # Several are read one by one, so that none is read in another way.
        if len(entries) - len(unread) >= 2:
            for name, key, value in unread:
                if _is_state(module, value):
                    yield key, name


@once
def _literals(module: Module) -> list[str]:
    return list(strings(module.tree))


def _is_state(module: Module, value: ast.expr) -> bool:
    """What a run changes as it goes: of objects that have a state, or counted up."""
    if isinstance(value, ast.Call):
        return source(value.func).endswith(".state_dict")
    if not isinstance(value, ast.Attribute) or source(value.value) != "self":
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
    compared = {
        target.attr
        for n in module.nodes
        if isinstance(n, ast.If)
        for statement in n.body
        if isinstance(statement, ast.Assign)
        for target in _parts(statement.targets)
        if isinstance(target, ast.Attribute) and source(target) in source(n.test)
    }
    return counted | compared


def _parts(targets: Iterable[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


@rule(
    "K5",
    "a checksum is written, and nothing compares it: damaged files are taken as good",
    "compute it again when the file is read, and compare",
)
def checksum_for_nothing(module: Module) -> Iterator[ast.AST]:
    looked_up = {text for m in module.program.modules for text in _looked_up(m)}
    for node in module.nodes:
        for key in node.keys if isinstance(node, ast.Dict) else ():
            named = re.fullmatch(r"sha\d+|md5|checksum|crc32", str(constant(key)))
            if key is not None and named and str(constant(key)) not in looked_up:
                yield key


@once
def _looked_up(module: Module) -> set[str]:
    """Keys that are read: in brackets, by `get`, in comparisons and in lists of names."""
    found: set[str] = set()
    for node in module.nodes:
        get = isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("get", "pop")
        if get or isinstance(node, ast.Subscript | ast.Compare | ast.Tuple | ast.List):
            found |= set(strings(node))
    return found
