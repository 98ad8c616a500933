"""Who runs a place in the source: every rank, or only some, as far as conditions show it."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import is_called, uses
from ddpgen.checking.reading.conditions import conditions, parts
from ddpgen.checking.reading.expressions import Function, keyword, matches, source
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.values import binding, bindings, stands_for

# Anything that may single out a rank. Rules that demand a guard are silent where one of these is.
SOME_RANK = (
    r"rank|main|master|primary|chief|leader|coordinator|writer|is_root|global_zero|local_zero|"
    r"to_disk"
)

_RANK = r"(\w+\.)*((global|world|ddp|dist|my|cur|current)_)?rank|[\w.]*get_rank\(\)"
_FROM_ENVIRONMENT = (
    r"int\([\w.]*environ(\.get\()?[\[\(]?'RANK'[^)]*\)?[\])]*|int\([\w.]*getenv\('RANK'[^)]*\)\)"
)
_ZERO = re.compile(rf"(?:{_RANK}|{_FROM_ENVIRONMENT}) == 0|not (?:{_RANK})", re.IGNORECASE)
_NOT_ZERO = re.compile(rf"(?:{_RANK}|{_FROM_ENVIRONMENT}) (?:!= 0|> 0)|(?:{_RANK})", re.IGNORECASE)
_MAIN = re.compile(
    r"(\w+\.)*(is_)?(main|master|primary|chief|global_zero|rank_?0|rank_zero|rank0)"
    r"(_process|_rank)?(\([^()]*\))?",
    re.IGNORECASE,
)
NO_GRADIENTS = r"\b(no_grad|inference_mode)\b"
_ASKS = r"(^|[._])(is_|get_\w*rank|should_)"
_STARTS = r"spawn|run|launch|record|process|start_"
_NAMED = r"rank|main_|_main|master|primary|chief|leader|coordinator|global_zero"


def _whole(pattern: re.Pattern[str], test: ast.expr) -> bool:
    return pattern.fullmatch(source(test)) is not None


def is_zero(test: ast.expr, outcome: bool = True) -> bool:
    """Whether a condition holds on rank 0 of the job alone."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        if _whole(_ZERO, test):
            return outcome
        return is_zero(test.operand, not outcome)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == outcome:
        return any(is_zero(value, outcome) for value in test.values)
    if outcome:
        return _whole(_ZERO, test) or _whole(_MAIN, test)
    return _whole(_NOT_ZERO, test)


def zero_guard(module: Module, node: ast.AST) -> ast.expr | None:
    """The condition in the same function that lets rank 0 alone reach a node."""
    tests = conditions(module, node)
    alone = (t for t, outcome in tests if is_zero(t, outcome) or _is_there(module, t, outcome))
    return next(alone, None)


def _is_there(module: Module, test: ast.expr, outcome: bool) -> bool:
    """Whether a condition asks for an object that rank 0 alone has: `if writer is not None`."""
    for part, holds in parts(test, outcome):
        asked, there = part, holds
        if isinstance(part, ast.Compare) and source(part.comparators[0]) == "None":
            asked, there = part.left, isinstance(part.ops[0], ast.IsNot | ast.NotEq) == holds
        if there and isinstance(asked, ast.Name | ast.Attribute) and _of_rank_0(module, asked):
            return True
    return False


@once
def _of_rank_0(module: Module, node: ast.expr) -> bool:
    """Whether a name is set to an object on rank 0, and to nothing everywhere else."""
    found = binding(module, node)
    value = found.value if found else None
    if isinstance(value, ast.IfExp):
        ways = ((value.body, value.orelse, True), (value.orelse, value.body, False))
        return any(
            is_zero(value.test, outcome) and isinstance(made, ast.Call) and _is_nothing(other)
            for made, other, outcome in ways
        )
    place = module.owner(node) if source(node).startswith("self.") else None
    every = bindings(module).get((place or module.scope(node), source(node)), [])
    made = [b for b in every if not _is_nothing(b.value)]
    return 0 < len(made) < len(every) and all(
        isinstance(b.value, ast.Call)
        and any(is_zero(*each) for each in conditions(module, b.statement))
        for b in made
    )


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def guarded(module: Module, node: ast.AST, pattern: str = SOME_RANK, depth: int = 4) -> bool:
    """Whether anything keeps some ranks from a node; where that is unclear, the answer is yes."""
    if conditional(module, node, pattern) or in_lambda(module, node):
        return True
    function = module.function(node)
    if function is None or depth == 0:
        return False
    text = " ".join([function.name, *(source(d) for d in function.decorator_list)])
    if re.search(_NAMED, text, re.IGNORECASE):
        return True
    found = list(uses(module, function))
    if not found and pattern == SOME_RANK:  # who calls it is not here to be seen
        return not re.fullmatch(r"(main|train|run)(_worker|_process|_fn)?", function.name)
    return any(guarded(m, use, pattern, depth - 1) or _handed_over(m, use) for m, use in found)


def conditional(module: Module, node: ast.AST, pattern: str = SOME_RANK) -> bool:
    """Whether a condition of the same function that contains a pattern decides about a node."""
    tests = [test for test, _ in conditions(module, node) if "__name__" not in source(test)]
    if any(matches(context, rf"lock|{SOME_RANK}") for context in contexts(module, node)):
        return True
    return any(_hints(module, test, pattern) for test in tests)


def contexts(module: Module, node: ast.AST) -> Iterator[ast.expr]:
    """The context managers of the same function around a node."""
    for above in module.above(node):
        if isinstance(above, Function):
            return
        if isinstance(above, ast.With):
            yield from (item.context_expr for item in above.items)


def without_gradients(module: Module, node: ast.AST) -> bool:
    """Whether the function around a node, or a context there, computes no gradients."""
    function = module.function(node)
    around = [*contexts(module, node), *(function.decorator_list if function else [])]
    return any(matches(context, NO_GRADIENTS) for context in around)


def _hints(module: Module, node: ast.expr, pattern: str, depth: int = 2) -> bool:
    """Whether a condition contains a pattern, itself or in what its names were set to."""
    text = source(node)
    for call in module.calls_below(node):
        # What `run_on_main(task)` gives back does not tell who we are; `is_main()` does.
        if module.callees(call) and not matches(call.func, _ASKS):
            text = text.replace(source(call), "")
    if re.search(pattern, text, re.IGNORECASE):
        return True
    names = [n for n in module.below(node) if isinstance(n, ast.Name | ast.Attribute)]
    if pattern == SOME_RANK and not {*map(source, names)}.isdisjoint(_numbers(module)):
        return True
    if any(_set_by_some(module, name, pattern) for name in names):
        return True
    if _orders(node):  # `accuracy > best`: what they were computed from does not matter
        return False
    for name in names:
        part_of_another = isinstance(module.parents[name], ast.Attribute)
        if depth and not part_of_another and source(name) in text:
            found = stands_for(module, name)
            if any(_hints(other, value, pattern, depth - 1) for other, value in found):
                return True
    return False


def _orders(node: ast.expr) -> bool:
    """Whether two numbers are compared by their size, neither of which is written out."""
    if not isinstance(node, ast.Compare) or not isinstance(
        node.ops[0], ast.Gt | ast.Lt | ast.GtE | ast.LtE
    ):
        return False
    return not any(isinstance(n, ast.Constant) for n in (node.left, *node.comparators))


@once
def _numbers(module: Module) -> set[str]:
    """Names that are numbers of ranks or of their GPUs, whatever they are called: `gpu == 0`."""
    given = [keyword(call, "rank", 4) for call in module.called("init_process_group")]
    given += [keyword(call, "device", 0) for call in module.called("torch.cuda.set_device")]
    named = [node for node in given if isinstance(node, ast.Name | ast.Attribute)]
    made = [(node, binding(module, node)) for node in named]  # a device tells its kind, too
    return {source(n) for n, b in made if not (b and matches(b.value, r"^torch\.device\("))}


def _set_by_some(module: Module, name: ast.expr, pattern: str) -> bool:
    """Whether a condition that contains a pattern decides about a name's value."""
    found = bindings(module).get((module.scope(name), source(name)), [])
    if module.loop(name) is None:
        found = [each for each in found if each.line <= name.lineno]
    tests = (test for each in found for test, _ in conditions(module, each.statement))
    return any(matches(test, pattern) for test in tests)


def _handed_over(module: Module, use: ast.expr) -> bool:
    """Whether a function is a value here, called by somebody else under unknown conditions.

    Not so where it is the program: `spawn(main)`, `run(main)`, `Process(target=main)`.
    """
    parent = module.parents[use]
    if isinstance(parent, ast.keyword):
        parent = module.parents[parent]
    if not isinstance(parent, ast.Call):
        return True
    return not is_called(module, use) and not matches(parent.func, _STARTS)


def in_lambda(module: Module, node: ast.AST) -> bool:
    """Whether a node is in a lambda that a function gets which may know of ranks."""
    for child, above in module.way(node):
        if isinstance(child, ast.Lambda):
            if not isinstance(above, ast.Call) or matches(above.func, _STARTS):
                return False
            known = module.callees(above)
            return not known or any(matches(function, SOME_RANK) for _, function in known)
        if isinstance(above, Function):
            return False
    return False
