"""G6, O2: metrics of a validation that are averages of averages, or sums of averages."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import (
    first_name,
    keyword,
    matches,
    method_name,
    names_in,
    operands,
    receiver,
    source,
    stored_in,
)
from ddpgen.checking.reading.guards import without_gradients
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import binding, mentions
from ddpgen.checking.reading.windows import goes_backward
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.output import divided

_OF_ALL = r"world|ranks|replicas|gpus|process|size\(|reduce|gather|global|total_|all_"
# Metrics that no sum over samples gives.
_RATIOS = r"(^|_)(m?iou|jaccard|f1|au(ro)?c|roc_auc|dice|bleu|rouge|perplexity|ppl)(_score|_mean|$)"
_MEANS = r"(^|\.)(mean|average|nanmean)$"


@rule(
    "G6",
    "a mean of the ranks' means of their batches: short batches count as much as full ones",
    "add up sums and counts, reduce both over all ranks, and divide once",
)
def mean_of_means(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.distributed.all_reduce"):
        value = keyword(call, "tensor", 0)
        found = binding(module, value) if isinstance(value, ast.Name) else None
        if found and any(_of_batches(module, call, name) for name in _averaged(found.value)):
            if not mentions(module, call, r"\bMAX\b|\bMIN\b"):
                yield call


@rule(
    "G6",
    "each rank's own ratio, and a mean of such ratios is not the ratio of all samples",
    "reduce what the ratio is made of over all ranks, and compute the ratio behind that",
)
def mean_of_ratios(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.distributed.all_reduce"):
        value, op = keyword(call, "tensor", 0), keyword(call, "op", 1)
        found = binding(module, value) if isinstance(value, ast.Name) else None
        made = found.value if found else value
        if made is None or (op is not None and matches(op, r"\b(MAX|MIN)$")):
            continue
        names = {value.id if isinstance(value, ast.Name) else "", *map(_called, calls_in(made))}
        if any(re.search(_RATIOS, name, re.IGNORECASE) for name in names):
            yield call


@rule(
    "G6",
    "each rank's own mean of its share, and shares differ: short ones count as much as long ones",
    "reduce the sum and the count over all ranks, and divide once",
)
def mean_of_shares(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(r"\brange\([\w.]*rank, |\[[\w.]*rank::"):
        return
    for call in module.called("torch.distributed.all_reduce"):
        value, op = keyword(call, "tensor", 0), keyword(call, "op", 1)
        found = binding(module, value) if isinstance(value, ast.Name) else None
        if found is None or not isinstance(found.statement, ast.Assign):
            continue
        scope, name = module.scope(call), source(value) if value is not None else ""
        trains = any(goes_backward(module, c) for c in module.calls_below(scope))
        shared = matches(op, r"\bAVG$") or matches(scope, rf"\b{name} / .*(world|ranks)")
        measures = without_gradients(module, call) or any(module.methods("eval", below=scope))
        if shared and measures and not trains and _is_own_mean(module, found.value):
            yield call


def calls_in(node: ast.expr) -> list[ast.Call]:
    """All calls within an expression."""
    return [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]


def _called(call: ast.Call) -> str:
    return source(call.func).rpartition(".")[2]


@rule(
    "O2",
    "a running sum is reduced in every turn: what ranks added before is added once more by each",
    "reduce once, behind the loop, or reduce what one turn adds",
)
def running_sum(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.distributed.all_reduce"):
        loop, value = module.loop(call), keyword(call, "tensor", 0)
        op = keyword(call, "op", 1)
        if (
            loop is None
            or not isinstance(value, ast.Name)
            or not (op is None or matches(op, "SUM"))
        ):
            continue
        inside = list(module.below(loop))
        grows = [
            n
            for n in inside
            if isinstance(n, ast.AugAssign) and first_name(_whole(n.target)) == value.id
        ]
        anew = any(isinstance(n, ast.Assign) and value.id in stored_in(n) for n in inside)
        emptied = any(
            source(receiver(c)) == value.id for c in module.methods("zero_", "fill_", below=loop)
        )
        if any(isinstance(n.op, ast.Add) for n in grows) and not anew and not emptied:
            yield call


@rule(
    "O2",
    "other sums are reduced over the ranks here, and this one is not: it is one rank's own",
    "reduce sums and counts over all ranks, then divide",
)
def one_sum_left_out(module: Module) -> Iterator[ast.AST]:
    for function in module.all_functions:
        loops = (n for n in module.below(function) if isinstance(n, ast.For))
        sums = [n for loop in loops if module.loop(loop) is None for n in _sums(module, loop)]
        calls = module.calls_below(function) if sums else []
        joined = [c for c in calls if re.search(r"reduce|gather", module.name(c.func))]
        reduced = {name for call in joined for name in _behind(module, *call.args)}
        handed = [*joined, *(c for c in calls if module.callees(c))]  # which may reduce as well
        given = {name for call in handed for name in _behind(module, *call.args)}
        names = {source(_whole(n.target)) for n in sums}
        ends = [n.value for n in module.below(function) if isinstance(n, ast.Return) and n.value]
        for node in sums if names & reduced else ():
            name = re.escape(source(_whole(node.target)))
            if source(_whole(node.target)) not in given:
                if any(mentions(module, end, rf"\b{name}\b", 3) for end in ends):
                    yield node


def _sums(module: Module, loop: ast.For) -> Iterator[ast.AugAssign]:
    """What a loop adds up of batches, where nothing goes backward."""
    if any(goes_backward(module, call) for call in module.calls_below(loop)):
        return
    for node in module.below(loop):
        added = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)
        if isinstance(node, ast.AugAssign) and added and not isinstance(node.value, ast.Constant):
            yield node


def _behind(module: Module, *nodes: ast.expr) -> set[str]:
    """The names in expressions, and those in what these were set to."""
    names = [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)]
    found = [binding(module, name) for name in names]
    return {n.id for n in names} | {n for b in found if b for n in names_in(b.value)}


def _whole(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


@rule(
    "O2",
    "the sum of the ranks' averages: it grows with their number",
    "divide by dist.get_world_size(), or add up sums and counts and divide once",
)
def sum_of_means(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.distributed.all_reduce"):
        value, op = keyword(call, "tensor", 0), keyword(call, "op", 1)
        found = binding(module, value) if isinstance(value, ast.Name) else None
        if found is None or not isinstance(value, ast.Name) or keyword(call, "group", 2):
            continue
        is_mean = isinstance(found.statement, ast.Assign) and _is_own_mean(module, found.value)
        added = op is None or matches(op, r"\bSUM$")
        scope, name = module.scope(call), value.id
        anew = [n for n in module.below(scope) if isinstance(n, ast.Assign)]
        anew = [n for n in anew if name in stored_in(*n.targets) and name in names_in(n.value)]
        if is_mean and added and not anew and not matches(scope, divided(name)):
            later = [node for node in module.reads(name, scope) if node.lineno > call.lineno]
            if later and not any(_sums_up(module, node) for node in later):
                yield call


def _is_own_mean(module: Module, value: ast.expr) -> bool:
    """Whether a value is a sum by a count, both of this rank alone."""
    total, count = operands(value, ast.Div) or (None, None)
    if isinstance(value, ast.Call) and matches(value.func, _MEANS):
        return not value.args or matches(value.func, r"^torch\.mean$")
    if total is None or count is None or mentions(module, count, _OF_ALL):
        return False
    calls = module.called("torch.distributed.all_reduce")
    earlier = (c for c in calls if c.args and c.lineno < value.lineno)
    return not any(names_in(call.args[0]) & names_in(total, count) for call in earlier)


def _sums_up(module: Module, node: ast.AST) -> bool:
    """Whether a function of the program gets a value, which may divide the value there."""
    call = module.parents[node]
    return isinstance(call, ast.Call) and bool(module.callees(call))


def _averaged(value: ast.expr) -> set[str]:
    """The lists whose mean an expression is: `torch.stack(parts).mean()`, `sum(l) / len(l)`."""
    if isinstance(value, ast.Call) and matches(value.func, _MEANS):
        inner = receiver(value) if method_name(value) == "mean" and not value.args else value
        return names_in(inner)
    if isinstance(value, ast.Call) and value.args and matches(value.func, r"(tensor|as_tensor)$"):
        return _averaged(value.args[0])
    total, count = operands(value, ast.Div) or (None, None)
    if total is None or count is None or not matches(count, r"^len\("):
        return set()
    return names_in(total) & names_in(count)


def _of_batches(module: Module, call: ast.Call, name: str) -> bool:
    """Whether the numbers of a list are means, one of each batch of a loop without gradients."""
    scope = module.scope(call)
    for added in module.methods("append", below=scope):
        loop = module.loop(added) if source(receiver(added)) == name and added.args else None
        trains = any(goes_backward(module, c) for c in module.calls_below(loop)) if loop else True
        if not trains:
            return mentions(module, added.args[0], r"\.mean\(|cross_entropy|criterion|loss_f")
    return False
