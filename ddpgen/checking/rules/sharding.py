"""F1-F8: weights that ranks share out among one another, by `fully_shard`."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.agreements import SENT
from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import (
    keyword,
    last_part,
    matches,
    names_in,
    receiver,
    stored_in,
)
from ddpgen.checking.reading.guards import zero_guard
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.seeds import OWN, commonly_seeded
from ddpgen.checking.reading.values import DDP, follows, mentions
from ddpgen.checking.reading.windows import backwards, windows
from ddpgen.checking.registry import WARNING, rule

_SHARDS = "fully_shard"
_FORMER = "FullyShardedDataParallel"  # FSDP1, a class around the model
_WHOLE = r"full_tensor|get_model_state_dict|get_state_dict|full_state_dict|StateDictOptions"
_TOGETHER = ("get_state_dict", "get_model_state_dict", "get_optimizer_state_dict")
_GIVEN = rf"{SENT}|broadcast_from|from_pretrained|parallelize_module"
READ = r"load_state_dict|(checkpoint|dcp)\.load\(|set_(model_)?state_dict"


def _shards(module: Module) -> Iterator[ast.Call]:
    """Calls that share something out, themselves or in a function of the program."""
    for call, name in module.calls:
        functions = [f for _, f in module.callees(call)]
        if last_part(name) in (_SHARDS, _FORMER) or any(
            matches(f, rf"\b{_SHARDS}\(") for f in functions
        ):
            yield call


def begins_anew(module: Module) -> bool:
    """Whether weights are read under a condition only: that of a run that goes on."""
    read = module.program.called("torch.distributed.checkpoint.load", "torch.load")
    asked = bool(read) and all(conditions(m, call) for m, call in read)
    return asked or module.program.says(r"\bif [^\n]*(resume|exists|checkpoint|ckpt)")


@rule(
    "F1",
    "made before the weights are shared out: it updates tensors that no forward uses any more",
    "make the optimizer after the last fully_shard()",
)
def optimizer_before_sharding(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        if not re.match(r"torch\.optim\.[A-Z]\w+$", name) or not call.args:
            continue
        trained = names_in(call.args[0])
        later = (s for s in _shards(module) if module.scope(s) is module.scope(call) and s.args)
        for shard in later:
            loop = module.loop(shard)
            parts = names_in(shard.args[0], *([loop.iter] if isinstance(loop, ast.For) else []))
            if shard.lineno > call.lineno and trained & parts:
                yield call
                break


@rule(
    "F2",
    "only parts are shared out: nobody sums the gradients of the rest, and the ranks come apart",
    "call fully_shard() on the whole model last",
)
def whole_forgotten(module: Module) -> Iterator[ast.AST]:
    found = module.program.called(_SHARDS)
    if found and all(_in_loop(m, call) for m, call in found):
        yield from (call for m, call in found if m is module)


def _in_loop(module: Module, call: ast.Call) -> bool:
    """Whether a call shares out what a loop goes over, one after another."""
    loop = module.loop(call)
    if not isinstance(loop, ast.For) or not call.args:
        return False
    return bool(names_in(call.args[0]) & names_in(loop.target))


@rule(
    "F3",
    "the norm of this rank's share alone: each rank scales its gradients by another factor",
    "torch.nn.utils.clip_grad_norm_ puts the norm of all shares together",
)
def norm_of_a_share(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("to_local"):
        scope, statement = module.scope(call), module.statement(call)
        norms = [c for c in module.calls_below(scope) if matches(c.func, r"norm")]
        used = stored_in(statement) & names_in(*norms)
        about_norm = used or matches(statement, r"norm|pow|square")
        if about_norm and matches(receiver(call), r"\.grad$") and not matches(scope, "full_tensor"):
            names = stored_in(statement)
            for node in module.below(scope):  # what is computed from that, line by line
                if isinstance(node, ast.Assign) and names & names_in(node.value):
                    names |= stored_in(*node.targets)
            about = "|".join([r"\w*norm\w*", *map(re.escape, names)])
            if not matches(scope, rf"all_reduce\([^,)]*\b({about})\b"):
                yield call


@rule(
    "F3",
    "of FullyShardedDataParallel this sees one share: each rank scales by a norm of its own",
    "model.clip_grad_norm_(max_norm) puts the norm of all shares together",
)
def norm_of_a_former_share(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.nn.utils.clip_grad_norm_"):
        given = keyword(call, "parameters", 0)
        if isinstance(given, ast.Call) and follows(module, receiver(given), _is_wrapped):
            yield call


@rule(
    "F4",
    "rank 0 writes its own share of the weights, and the others' shares are lost",
    "torch.distributed.checkpoint.save() on all ranks, or put the shares together first",
)
def share_saved(module: Module) -> Iterator[ast.AST]:
    if not module.program.calls(_SHARDS):
        return
    # Where shares are put together somewhere, other states may be what comes of that.
    states = r"(model|net)\w*" if module.program.says(_WHOLE) else ""
    for call in module.called("torch.save"):
        value = keyword(call, "obj", 0)
        if value is not None and zero_guard(module, call) is not None:
            shares = mentions(module, value, rf"{states}\.state_dict\(\)")
            if shares and not mentions(module, value, _WHOLE):
                yield call


@rule(
    "F4",
    "all ranks must put shares together, or write them, and only rank 0 comes here: it hangs",
    "call it on all ranks, and let rank 0 keep what comes of it",
)
def put_together_alone(module: Module) -> Iterator[ast.AST]:
    found: list[ast.Call] = []
    if module.program.calls(_SHARDS):
        ways = [f"torch.distributed.checkpoint.{name}" for name in ("save", "load")]
        found += module.called(*ways, *_TOGETHER)
        found += module.methods("full_tensor")
    if module.program.calls(_FORMER):
        states = module.methods("state_dict")
        found += (call for call in states if follows(module, receiver(call), _is_wrapped))
    yield from (call for call in found if zero_guard(module, call) is not None)


def _is_wrapped(module: Module, node: ast.expr) -> bool | None:
    if isinstance(node, ast.Call):
        return last_part(module.name(node.func)) == _FORMER or None
    return None if isinstance(node, ast.Name | ast.Attribute) else False


@rule(
    "F5",
    "shared out in one piece: each rank gathers all weights at once, as if nothing were shared",
    "call fully_shard() on each block first, then on the whole",
    severity=WARNING,
)
def one_piece(module: Module) -> Iterator[ast.AST]:
    found = module.program.called(_SHARDS)
    if len(found) == 1 and found[0][0] is module and not _is_repeated(module, found[0][1]):
        yield found[0][1]


def _is_repeated(module: Module, call: ast.Call) -> bool:
    """Whether a call may come for several parts: in a loop, a lambda or a function of itself."""
    function = module.function(call)
    recursive = function and function.name in names_in(*function.body)
    inner = (ast.Lambda, ast.ListComp, ast.GeneratorExp)
    within = any(isinstance(above, inner) for above in module.above(call))
    return bool(module.loop(call) or recursive or within)


@rule(
    "F6",
    "the gradients of every micro-batch are summed over all ranks, though only the last sum counts",
    "model.set_requires_gradient_sync(False) for all but the last micro-batch",
    severity=WARNING,
)
def summed_each_time(module: Module) -> Iterator[ast.AST]:
    program, quiet = module.program, ("set_requires_gradient_sync", "no_sync")
    if program.calls(_SHARDS) and not (program.calls(DDP) or any(map(program.references, quiet))):
        for window in windows(module):
            yield next(backwards(module, window.loop))


@rule(
    "F7",
    "gradients are summed in the type of the weights: in bfloat16 small ones are lost",
    "reduce_dtype=torch.float32",
    severity=WARNING,
)
def summed_in_few_bits(module: Module) -> Iterator[ast.AST]:
    for call in module.called("MixedPrecisionPolicy"):
        weights, sums = keyword(call, "param_dtype", 0), keyword(call, "reduce_dtype", 1)
        few = r"\b(bfloat16|float16|half)\b"
        if matches(weights, few) and (sums is None or matches(sums, few)):
            yield call


@rule(
    "F8",
    "each rank draws other weights, and nobody sends rank 0's to all, as DDP does",
    "draw from one seed on all ranks, or load the same weights on all",
)
def weights_by_rank(module: Module) -> Iterator[ast.AST]:
    if module.program.says(_GIVEN) or (module.program.says(READ) and not begins_anew(module)):
        return
    for call in [*module.called(_SHARDS)][:1]:
        above = [c for c in module.called("torch.manual_seed") if c.lineno < call.lineno]
        last = [c for c in above if c.args and module.scope(c) is module.scope(call)][-1:]
        own = last and mentions(module, last[0].args[0], OWN)
        if own or not (last or commonly_seeded(module, "torch")):
            yield last[0] if last else call
