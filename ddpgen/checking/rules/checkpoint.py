"""K1, K2, K7, K11: what is saved and loaded, and by whom."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import WITHOUT_DDP
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    matches,
    names_in,
    receiver,
    source,
)
from ddpgen.checking.reading.guards import guarded, zero_guard
from ddpgen.checking.reading.nodes import local_zero_guard
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.values import DDP, follows, is_ddp, mentions
from ddpgen.checking.registry import rule


@once
def saves(module: Module) -> list[tuple[ast.Call, ast.expr | None]]:
    """Calls that write a file of weights, with its path."""
    found: list[tuple[ast.Call, ast.expr | None]] = []
    for call in module.called("torch.save"):
        path = keyword(call, "f", 1)
        if path is None or not follows(module, path, _in_memory):
            found.append((call, path))
    for call in module.methods("save_pretrained"):
        of_words = matches(receiver(call), r"tokenizer|processor")  # no weights
        if not of_words and not _converts(module, call):
            found.append((call, keyword(call, "save_directory", 0)))
    return found


def _converts(module: Module, call: ast.Call) -> bool:
    """Whether the weights were read from a file, here or by a function that this one calls."""
    function = module.function(call)
    calls = module.calls_below(function) if function else ()
    return any(map(_loads, calls)) or follows(module, receiver(call), _opened)


def _loads(call: ast.Call) -> bool:
    return source(call.func).endswith(".load_state_dict")


def _opened(module: Module, node: ast.expr) -> bool | ast.expr | None:
    if isinstance(node, ast.IfExp):
        return node.body
    inner = node
    while isinstance(inner, ast.Attribute | ast.Call):  # opened.network.cpu().inner
        if isinstance(inner, ast.Call) and any(map(_loads, _behind(module, inner))):
            return True
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    return None if inner is node else inner


def _behind(module: Module, call: ast.Call) -> Iterator[ast.Call]:
    """The calls in the functions that a call may mean, and in those that they call."""
    for other, inner in module.calls_behind(call):
        yield inner
        yield from (last for _, last in other.calls_behind(inner))


def _in_memory(module: Module, node: ast.expr) -> bool | None:
    if isinstance(node, ast.Call):
        return module.name(node.func).endswith("BytesIO") or None
    return None


@rule(
    "K1",
    "every rank writes this file, over each other",
    "write on rank 0 of the job alone",
)
def every_rank_saves(module: Module) -> Iterator[ast.AST]:
    for call, path in saves(module):
        own = path is not None and mentions(module, path, "rank")
        if not own and not guarded(module, call) and not local_zero_guard(module, call):
            yield call


@rule(
    "K1",
    "local rank 0 exists on every node, and all of them write this file",
    "ask for the global rank: dist.get_rank() == 0",
)
def every_node_saves(module: Module) -> Iterator[ast.AST]:
    yield from (call for call, _ in saves(module) if local_zero_guard(module, call))


@rule(
    "K1",
    "local rank 0 exists on every node: they all take themselves for the one that writes",
    "compare the global rank with 0",
)
def main_on_every_node(module: Module) -> Iterator[ast.AST]:
    for name, functions in module.functions.items():
        if re.fullmatch(r"_?(is_)?(main|master|primary|chief)(_process|_rank)?", name):
            for node in (n for f in functions for n in module.below(f)):
                if isinstance(node, ast.Return) and matches(node.value, r"local_rank == 0$"):
                    yield node


def states(module: Module) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls of `state_dict`, with the object."""
    for call in module.methods("state_dict"):
        yield call, receiver(call)


@rule(
    "K2",
    "the names of a wrapped model begin with `module.`: the file does not load into the bare one",
    "save model.module.state_dict()",
)
def wrapped_names(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(r"[\"']module\.[\"']"):
        yield from (call for call, model in states(module) if is_ddp(module, model))


@rule(
    "K2",
    "a compiled model's names begin with `_orig_mod.`: the file does not load into the bare one",
    "save the model as it was before torch.compile, or compile in place: model.compile()",
)
def compiled_names(module: Module) -> Iterator[ast.AST]:
    if not module.program.says("_orig_mod"):
        yield from (call for call, model in states(module) if follows(module, model, _compiled))


@rule(
    "K2",
    "a compiled model inside DDP: names in the file begin with `_orig_mod.`",
    "compile in place, model.compile(), or compile the wrapped model",
)
def compiled_inside(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if program.says("_orig_mod") or not program.says(r"\.module\.state_dict\("):
        return
    saved = [model for _, model in states(module) if follows(module, model, _compiled)]
    for call in module.called(DDP):
        if not saved and call.args and follows(module, call.args[0], _compiled):
            yield call


@rule(
    "K2",
    "the file has the bare model's names, and a wrapped model expects `module.` before each",
    "load into the bare one: model.module.load_state_dict(...)",
)
def bare_names(module: Module) -> Iterator[ast.AST]:
    saved = [m for other in module.program.modules for _, m in states(other)]
    bare = [m for m in saved if isinstance(m, ast.Attribute) and m.attr == "module"]
    if not bare or module.program.says(r"[\"']module\.[\"']"):
        return
    for call in module.methods("load_state_dict"):
        read = call.args and mentions(module, call.args[0], r"torch\.load\(")
        wrapped = source(receiver(call)) in {source(m.value) for m in bare}
        named = isinstance(receiver(call), ast.Name)  # a field may be wrapped later
        if read and wrapped and named and is_ddp(module, receiver(call)):
            yield call


def _compiled(module: Module, node: ast.expr) -> bool | ast.expr | None:
    if isinstance(node, ast.Call):
        name = module.name(node.func)
        if name.endswith(DDP) and node.args:
            return node.args[0]
        return True if name == "torch.compile" else None
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return node.value
    return None if isinstance(node, ast.Name | ast.Attribute) else False


def loads(module: Module) -> Iterator[ast.Call]:
    """Calls of torch.load that read a checkpoint, rather than data."""
    for call in module.called("torch.load"):
        statement, around = module.statement(call), module.parents[call]
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        given_to = [around.func] if isinstance(around, ast.Call) else []
        place = " ".join(map(source, [*call.args[:1], *targets, *given_to]))
        place += getattr(module.function(call), "name", "")
        named = re.search(r"check|ckpt|state|resume|model|snapshot|weights", place, re.IGNORECASE)
        restored = names_in(*targets) if targets else set[str]()
        taken = module.methods("load_state_dict", below=module.scope(call)) if restored else ()
        if named or any(names_in(*inner.args) & restored for inner in taken):
            yield call


@rule(
    "K7",
    "tensors go back to the GPU that they were saved from, so that every rank fills GPU 0",
    "pass map_location='cpu', or this rank's device",
)
def loaded_to_gpu_0(module: Module) -> Iterator[ast.AST]:
    for call in loads(module):
        where = keyword(call, "map_location", 1)
        unknown = any(k.arg is None for k in call.keywords)
        if (where is None and not unknown) or constant(where) in ("cuda:0", 0):
            if not guarded(module, call, rf"{WITHOUT_DDP}|gpu"):
                yield call


@rule(
    "K7",
    "weights_only=False runs whatever code the file holds",
    "save tensors and plain values only, and load with weights_only=True",
)
def unsafe_load(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.load"):
        if constant(keyword(call, "weights_only")) is False:
            yield call


@rule(
    "K11",
    "each rank holds a part of this optimizer's state: without consolidation the rest is lost",
    "call optimizer.consolidate_state_dict(to=0) on all ranks before rank 0 saves",
)
def sharded_state(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if "consolidate_state_dict" in program.names or "state_dict" not in program.names:
        return
    if program.says(r"optim\w*\.state_dict\(\)|\bopt\.state_dict\(\)"):
        yield from module.called("ZeroRedundancyOptimizer")


@rule(
    "K11",
    "the optimizer inside the sharded one: its state is this rank's part alone",
    "consolidate, then save the state of the sharded optimizer itself",
)
def state_of_one_part(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"ZeroRedundancyOptimizer"):
        yield from (c for c, o in states(module) if re.search(r"optim\w*\.optim$", source(o)))


@rule(
    "K11",
    "consolidation is a collective, and only rank 0 comes here: it hangs",
    "call it on all ranks, then save on rank 0",
)
def consolidated_alone(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("consolidate_state_dict"):
        if zero_guard(module, call) is not None:
            yield call
