"""G1, G8, K7: ranks whose weights come apart, though all gradients are averaged."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.agreements import SENT, agreed
from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    matches,
    names_in,
    receiver,
    source,
)
from ddpgen.checking.reading.guards import zero_guard
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.roles import is_schedule
from ddpgen.checking.reading.seeds import commonly_seeded, seeded_by_rank
from ddpgen.checking.reading.values import DDP, bindings, follows
from ddpgen.checking.registry import ERROR, WARNING, rule
from ddpgen.checking.rules.gradients import parameter_of_ddp, part_of_ddp
from ddpgen.checking.rules.output import all_data_shared

# Not the rank of a matrix, as in `lora.rank`.
_OWN_RANK = r"(?<![\w.])((self|args|process|env|dist)\.)?(local_)?rank\b|get_rank\("
_BY_RANK = r"(?<!world_)\brank\b|get_rank\("
_DRAWS = r"torch\.(rand|randn|normal)(_like)?$"
_IN_PLACE = ("add_", "clamp_", "copy_", "div_", "fill_", "mul_", "normal_", "uniform_", "zero_")


@rule(
    "K7",
    "rank 0 alone loads these weights, after DDP sent its own to all: the ranks train two models",
    "load on all ranks, or load before the wrap: DDP sends rank 0's weights to all",
    severity=ERROR,
)
def loaded_on_one_rank(module: Module) -> Iterator[ast.AST]:
    if module.program.says(SENT):
        return
    for call in module.methods("load_state_dict"):
        model = receiver(call)
        if isinstance(model, ast.Attribute) and model.attr == "module":
            model = model.value
        if part_of_ddp(module, model) and _on_rank_zero(module, call):
            yield call


@rule(
    "K7",
    "rank 0 alone takes up what was saved here, and DDP sends weights only: the ranks come apart",
    "load on all ranks",
    severity=ERROR,
)
def moments_on_one_rank(module: Module) -> Iterator[ast.AST]:
    if module.program.says(SENT):
        return
    for call in module.methods("load_state_dict"):
        if matches(receiver(call), r"optim|\bopt$|sched|scaler") and _on_rank_zero(module, call):
            yield call


@rule(
    "G1",
    "DDP does not send rank 0's weights at the wrap: ranks that draw others train several models",
    "leave init_sync out",
    severity=WARNING,
)
def weights_not_sent(module: Module) -> Iterator[ast.AST]:
    alike = commonly_seeded(module, "torch")  # they draw the same
    if not alike and not module.program.calls("broadcast", "_sync_module_states"):
        for call in module.called(DDP):
            if constant(keyword(call, "init_sync")) is False:
                yield call


def _on_rank_zero(module: Module, node: ast.AST) -> bool:
    """Whether rank 0 alone comes to a place, by its condition or by those around each call."""
    if zero_guard(module, node) is not None or _set_on_rank_zero(module, node):
        return True
    function = module.function(node)
    found = list(uses(module, function)) if function else []
    return bool(found) and all(zero_guard(other, use) is not None for other, use in found)


def _set_on_rank_zero(module: Module, node: ast.AST) -> bool:
    """Whether a condition is about a name that rank 0 alone gives another value than a literal."""
    for test, outcome in conditions(module, node):
        for name in module.below(test) if outcome else ():
            found = bindings(module).get((module.scope(node), source(name)), [])
            earlier = [b for b in found if b.line < test.lineno]
            chosen = [b for b in earlier if not isinstance(b.value, ast.Constant)]
            if chosen and all(zero_guard(module, b.statement) is not None for b in chosen):
                return True
    return False


@rule(
    "G1",
    "rank 0 alone makes this step: the weights of all others stay as they are",
    "step on every rank: DDP has given all of them the same gradients",
)
def step_on_one_rank(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("step"):
        of_optimizer = re.search(r"opt(im(izer)?)?$", source(receiver(call)), re.IGNORECASE)
        if of_optimizer and zero_guard(module, call) is not None:
            yield call


@rule(
    "G1",
    "rank 0 alone limits these gradients, and makes another step than all others",
    "clip on every rank: DDP has given all of them the same gradients",
)
def clipped_on_one_rank(module: Module) -> Iterator[ast.AST]:
    for call in module.called("clip_grad_norm_", "clip_grad_value_"):
        if zero_guard(module, call) is not None:
            yield call


@rule(
    "G1",
    "this changes the weights of one rank, or of each rank in another way: the ranks come apart",
    "change them on all ranks alike, or let rank 0 broadcast them",
)
def changed_by_rank(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"(broadcast|all_reduce)\(\W*(\w+\.)*(p|param\w*|weight|t|tensor)\b"):
        return
    for node in module.nodes:
        if isinstance(node, ast.AugAssign) and _is_weight(module, node.target):
            if re.search(_BY_RANK, source(node.value)) or _drawn_alone(module, node.value):
                yield node
    for call in module.methods("reset_parameters"):
        if part_of_ddp(module, receiver(call)) and _draws_alone(module):
            yield call
    for call in module.methods(*_IN_PLACE):
        own = any(re.search(_BY_RANK, source(a)) or _drawn_alone(module, a) for a in call.args)
        if (own or zero_guard(module, call) is not None) and _is_weight(module, receiver(call)):
            yield call


def _drawn_alone(module: Module, node: ast.expr) -> bool:
    """Whether random numbers are in an expression that each rank draws for itself."""
    drawn = (c for c in module.calls_below(node) if re.match(_DRAWS, module.name(c.func)))
    own = any(keyword(call, "generator") is None for call in drawn)
    return own and _draws_alone(module)


def _draws_alone(module: Module) -> bool:
    return seeded_by_rank(module, "torch") or not commonly_seeded(module, "torch")


def _is_weight(module: Module, node: ast.expr) -> bool:
    """Whether an expression is a weight of the wrapped model."""
    if isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    if isinstance(node, ast.Name):  # of a loop over model.parameters()
        return parameter_of_ddp(module, node) and not part_of_ddp(module, node)
    if not isinstance(node, ast.Attribute) or not part_of_ddp(module, node):
        return False
    made = rf"self\.{node.attr} = ([\w.]+\.)?Parameter\("
    return node.attr in ("weight", "bias") or module.program.says(made)


@rule(
    "G8",
    "each rank steps with a rate or other settings of its own: their weights come apart",
    "use the world size, not the rank",
)
def settings_by_rank(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        if re.match(r"torch\.optim\.[A-Z]\w+$", name):
            given = [*call.args[1:], *(setting.value for setting in call.keywords)]
            yield from (value for value in given if re.search(_OWN_RANK, source(value)))
    for node, target in module.assignments(ast.Subscript):
        if constant(target.slice) == "lr" and re.search(_OWN_RANK, source(node.value)):
            yield node.value


@rule(
    "G8",
    "rank 0 alone steps this schedule: the learning rates of the ranks come apart",
    "step the schedule on every rank",
)
def schedule_on_one_rank(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("step"):
        of_rates = is_schedule(module, receiver(call)) and len(call.args) < 2  # of noise: three
        if of_rates and zero_guard(module, call) is not None:
            yield call


@rule(
    "G8",
    "each rank steps this schedule by its own loss: their learning rates come apart",
    "reduce the loss over all ranks first",
)
def schedule_by_own_loss(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("step"):
        if not call.args or not follows(module, receiver(call), _is_plateau):
            continue
        value = call.args[0]
        backward = module.methods("backward", below=module.scope(call))
        trained = {source(receiver(inner)) for inner in backward}
        own = bool(names_in(value) & trained) or all_data_shared(module)
        if own and not agreed(module, value):
            yield call


def _is_plateau(module: Module, node: ast.expr) -> bool | None:
    if isinstance(node, ast.Call):
        return module.name(node.func).endswith("ReduceLROnPlateau")
    return None if isinstance(node, ast.Name | ast.Attribute) else False
