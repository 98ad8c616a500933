"""G1, G6, G13, G14, K10: what the gradients are made of."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.conditions import WITHOUT_DDP
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    matches,
    method_name,
    operands,
    positional,
    receiver,
    source,
    unpacks,
)
from ddpgen.checking.reading.guards import guarded, without_gradients
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.roles import is_network
from ddpgen.checking.reading.source import exclusive
from ddpgen.checking.reading.values import DDP, binding, follows, is_ddp, mentions
from ddpgen.checking.registry import WARNING, rule

_OF_ONE_RANK = r"micro_batch|per_rank|per_gpu|per_device|local_batch"
_OF_ALL = r"world|global|total|effective|n?gpus|num_proc|accum|ranks|\bjoint"


def is_inner(module: Module, node: ast.expr) -> bool:
    """Whether an expression is the bare model inside DDP, by way of `.module`."""
    return follows(module, node, _unwrapped)


def _unwrapped(module: Module, node: ast.expr) -> bool | None:
    if wrapped_before(module, node):
        return True
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return is_ddp(module, node.value)
    return None if isinstance(node, ast.Name | ast.Attribute) else False


def wrapped_before(module: Module, node: ast.expr) -> bool:
    """Whether a name is the bare model's, which DDP has got earlier under another name."""
    text, scope = source(node), module.scope(node)
    for call in module.called(DDP) if isinstance(node, ast.Name | ast.Attribute) else ():
        wrap = module.parents[call]
        given = isinstance(wrap, ast.Assign) and source(keyword(call, "module", 0) or call) == text
        if given and isinstance(wrap, ast.Assign) and source(wrap.targets[0]) != text:
            earlier = module.scope(call) is scope and call.lineno < node.lineno
            made = module.function(call) if text.startswith("self.") else None
            if made and made.name == "__init__" and module.scope(call) is not scope:
                earlier = module.owner(call) is module.owner(node)
            if earlier and not exclusive(module, call, node):
                return True
    return False


def with_gradients(module: Module, node: ast.AST, depth: int = 2) -> bool:
    """Whether a gradient may be wanted of a node, by who calls its function, too."""
    function = module.function(node)
    if without_gradients(module, node):
        return False
    if function is None:
        return True
    if re.search(r"eval|valid|test|predict|generate|sample", function.name):
        return False
    found = list(uses(module, function)) if depth else []
    return not found or any(with_gradients(m, use, depth - 1) for m, use in found)


@rule(
    "G1",
    "a network that is made here, and that nothing else has: nobody steps the one that is trained",
    "make the optimizer of the parameters of the model that is trained",
)
def optimizer_of_another(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        given = keyword(call, "params", 0) if re.match(r"torch\.optim\.[A-Z]\w+$", name) else None
        if isinstance(given, ast.Call) and method_name(given) == "parameters":
            whose = receiver(given)
            made = isinstance(whose, ast.Call) and is_network(module, whose)
            copied = isinstance(whose, ast.Call) and matches(whose.func, "deepcopy$")
            if (made and not matches(whose, "DistributedDataParallel|DDP\\(")) or copied:
                yield call


@rule(
    "G1",
    "DDP fixed its list of parameters at the wrap: changing them now leaves some without reduction",
    "freeze, replace and add parameters before the wrap",
)
def changed_after_wrap(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("requires_grad_", "add_module", "register_parameter"):
        changed = receiver(call)
        if part_of_ddp(module, changed) or parameter_of_ddp(module, changed):
            yield call
    for node, target in module.assignments(ast.Attribute):
        if target.attr == "requires_grad" and parameter_of_ddp(module, target.value):
            yield node
        elif matches(node.value, r"^(\w+\.)*nn\.[A-Z]\w*\("):
            if part_of_ddp(module, target.value):
                yield node


def part_of_ddp(module: Module, node: ast.expr) -> bool:
    """The wrapped model, or something within it, by way of `.module` or of its former name."""
    if is_ddp(module, node):
        return True
    while isinstance(node, ast.Attribute | ast.Subscript):
        named = isinstance(node, ast.Attribute) and node.attr == "module"
        if (named and is_ddp(module, node.value)) or wrapped_before(module, node):
            return True
        node = node.value
    return wrapped_before(module, node)


def parameter_of_ddp(module: Module, node: ast.expr) -> bool:
    """A parameter of the wrapped model, of a loop over all of them, or a part of the model."""
    found = binding(module, node) if isinstance(node, ast.Name) else None
    if found and isinstance(found.value, ast.Call):
        if method_name(found.value) in ("parameters", "named_parameters"):
            return part_of_ddp(module, receiver(found.value))
    return part_of_ddp(module, node)


@rule(
    "G1",
    "DDP has averaged these gradients: to reduce them again costs as much, and sums grow",
    "leave it to DDP, or reduce the gradients of a model that is not wrapped",
    severity=WARNING,
)
def reduced_again(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"no_sync|require_backward_grad_sync|params_and_buffers_to_ignore"):
        return
    for call in module.called("torch.distributed.all_reduce"):
        value = keyword(call, "tensor", 0)
        if isinstance(value, ast.Attribute) and value.attr == "data":
            value = value.value
        if not isinstance(value, ast.Attribute) or value.attr != "grad" or unpacks(call):
            continue
        part = keyword(call, "group", 2) or matches(keyword(call, "op", 1), "MAX|MIN")
        if not part and isinstance(value.value, ast.Name) and parameter_of_ddp(module, value.value):
            if not guarded(module, call, WITHOUT_DDP):
                yield call


@rule(
    "G6",
    "each rank divides by its own number of targets, and DDP averages those averages",
    "sum the loss and divide once by the number (or weight) of targets of all ranks",
)
def average_of_averages(module: Module) -> Iterator[ast.AST]:
    if "backward" not in module.program.names:
        return
    for call in module.called("CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss"):
        # Losses of that name elsewhere need not average.
        of_torch = module.name(call.func).startswith("torch.")
        if not of_torch or keyword(call, "reduction") is not None or unpacks(call):
            continue
        if not with_gradients(module, call):
            continue
        first = 0 if source(call.func).endswith("Loss") else 2
        weight = keyword(call, "weight", first)
        padded = matches(keyword(call, "ignore_index"), r"pad|ignore")
        if padded or (weight is not None and not isinstance(weight, ast.Constant)):
            yield call


@rule(
    "G13",
    "the learning rate is scaled by the batch of one rank, not by the global batch",
    "multiply by the world size and the number of accumulated micro-batches",
)
def rate_of_one_rank(module: Module) -> Iterator[ast.AST]:
    # A batch that is divided by the ranks later is still the one of all of them.
    later = rf"batch_size (/|//)=? .*(world|gpus)|batch_size / .*({_OF_ALL})"
    for node in module.nodes:
        scaled, base = operands(node, ast.Div) or (None, None)
        if scaled and constant(base) in (128, 256, 512, 1024, 4096):
            if matches(scaled, r"lr\b|learning_rate") and matches(scaled, r"batch"):
                if not mentions(module, scaled, _OF_ALL) and not module.program.says(later):
                    yield node
    yield from _share_for_whole(module, r"(global|total)_batch")


@rule(
    "G13",
    "the learning rate is multiplied by the number of ranks more than once",
    "multiply by the number of ranks once, or by its square root",
)
def rate_by_ranks_twice(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if not isinstance(node, ast.BinOp) or isinstance(module.parents[node], ast.BinOp):
            continue
        factors = _factors(node)
        ranks = [f for f in factors if matches(f, r"^[\w.]*(world(_size)?|get_world_size\(\))$")]
        if len(ranks) > 1 or any(matches(f, r"world\w*(\(\))? \*\* 2") for f in factors):
            if any(matches(f, r"\b(\w+_)?(lr|rate)\b|learning_rate") for f in factors):
                yield node


def _factors(node: ast.expr) -> list[ast.expr]:
    """What is multiplied, however many factors there are."""
    sides = operands(node, ast.Mult)
    return [inner for side in sides for inner in _factors(side)] if sides else [node]


def _share_for_whole(module: Module, pattern: str) -> Iterator[ast.expr]:
    """What one rank has, given for a parameter that stands for all ranks."""
    for call, _ in module.calls:
        for _, function in module.callees(call):
            given = [
                *zip(positional(function), call.args, strict=False),
                *((k.arg, k.value) for k in call.keywords),
            ]
            for name, value in given:
                part = matches(value, _OF_ONE_RANK) and not matches(value, _OF_ALL)
                if re.match(pattern, name or "") and part:
                    yield value


@rule(
    "K10",
    "the samples that one rank has seen are given for those of all: most come again",
    "count over all ranks: micro-batches times the global batch",
)
def place_of_one_rank(module: Module) -> Iterator[ast.AST]:
    yield from _share_for_whole(module, r"(samples_)?(seen|consumed)(_samples)?$")


@rule(
    "G14",
    "weights are tied after the wrap: DDP reduces what is no longer used",
    "tie them in the model's __init__, before it is wrapped",
)
def tied_after_wrap(module: Module) -> Iterator[ast.AST]:
    for node, target in module.assignments(ast.Attribute):
        if target.attr == "weight" and part_of_ddp(module, target.value):
            yield node
