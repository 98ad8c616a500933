"""K3, K4, K7, G9: what a checkpoint must hold, and how a run goes on from it."""

import ast
import re
from collections.abc import Iterator
from functools import partial

from ddpgen.checking.reading.expressions import (
    constant,
    entries,
    keyword,
    last_part,
    matches,
    operands,
    receiver,
    source,
)
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.roles import is_made_of
from ddpgen.checking.reading.values import mentions
from ddpgen.checking.registry import WARNING, rule
from ddpgen.checking.rules.checkpoint import loads, saves

# Names of what tells the place in a training.
COUNTED = r"step|epoch|iter|\bep?\b|\bit\b"
_WEIGHTS = r"(model|net|mod(ule)?)\w*\.state_dict\(|\bget_((peft_)?model_)?state_dict\("
# What has a state and is no network.
_OTHERS = (
    r"(?i)opt|sched|scal|sampl|load|ema\b|averag|swa|amp\b|metric|meter|rng|random|stream|data|"
    r"criterion|loss|generator|tokenizer|progress|tracker|state\b"
)
_LOADS = r"torch\.load\(|load_state_dict\(|(load|resume|restore)_\w*(checkpoint|ckpt|model)\w*\("
_PLACE = re.compile(r"([a-z]+_)?(epoch|step|iter|iteration)s?(_[a-z]+)?")
_BY_SCHEDULE = r"last_epoch|_step_count"  # the schedule's state tells the place
_LEAVES = (ast.Raise, ast.Return, ast.Continue, ast.Break)
_KEYS = re.compile(r"((global|start|last)_)?(epoch|step|iter|iteration)s?(_(run|done|num))?")


@once
def _with_weights(module: Module) -> list[tuple[ast.Dict, str]]:
    """Dictionaries with the weights of a model, and their whole text."""
    return [
        (node, source(node) + _added_later(module, node))
        for node in module.nodes
        if isinstance(node, ast.Dict)
        and None not in node.keys
        and any(_is_weights(module, key, value) for key, value in entries(node))
    ]


def _is_weights(module: Module, key: ast.expr | None, value: ast.expr) -> bool:
    if mentions(module, value, _WEIGHTS):
        return True
    named = re.fullmatch(r"(\w+_)?(model|net(work)?|weights|state_dict)", str(constant(key)))
    if named is not None and mentions(module, value, r"\.state_dict\("):
        return True
    whose = re.fullmatch(r"([\w.]+)\.state_dict\(\)", source(value))
    return whose is not None and not re.search(_OTHERS, f"{constant(key)} {whose[1]}")


@once
def snapshots(module: Module) -> list[tuple[ast.Dict, str]]:
    """Dictionaries with the state of a run: of more than weights; and their whole text."""
    return [(node, text) for node, text in _with_weights(module) if places(module, node)]


def places(module: Module, node: ast.Dict) -> set[str]:
    """The keys under which a dictionary has the place in a training."""
    found = [(str(constant(key)), value) for key, value in entries(node)]
    return {k for k, value in found if _KEYS.fullmatch(k.lower()) or _is_counter(module, value)}


def _added_later(module: Module, node: ast.Dict) -> str:
    """Assignments to further keys of the same dictionary."""
    parent = module.parents[node]
    if not isinstance(parent, ast.Assign):
        return ""
    name = source(parent.targets[0])
    lines = [source(n) for n in module.below(module.scope(node)) if isinstance(n, ast.stmt)]
    return "\n".join(line for line in lines if line.startswith((f"{name}[", f"{name}.update")))


def _saved_without(
    module: Module, used: str, saved: str, made: str, unless: str = "(?!)"
) -> Iterator[ast.AST]:
    """Snapshots of a program that uses something, but does not save it, nor follows it anew."""
    if module.program.says(used) and not module.program.says(unless):
        for node, text in snapshots(module):
            calls = [value for _, value in entries(node) if isinstance(value, ast.Call)]
            kept = any(is_made_of(module, receiver(call), made) for call in calls)
            if not kept and not re.search(saved, text):
                yield node


rule(
    "K3",
    "the optimizer's state is missing: a resumed run starts with empty moments",
    "save optimizer.state_dict() too",
)(partial(_saved_without, used="optim", saved="opt", made=r"\boptim\.(?!lr_sched)\w+$"))

rule(
    "K3",
    "the scheduler's state is missing: a resumed run starts its schedule anew",
    "save scheduler.state_dict() too",
)(
    partial(
        _saved_without,
        used=r"lr_scheduler\.|get_\w+_schedule",
        saved="sched",
        made=r"lr_scheduler\.\w|get_\w+_schedule",
        unless=r"last_epoch\s*=\s*(?!-|None)",  # it is built anew, at the epoch that was saved
    )
)

rule(
    "G9",
    "the scaler's state is missing: a resumed run searches its scale anew and skips steps",
    "save and restore scaler.state_dict() too",
)(partial(_saved_without, used="GradScaler", saved=r"scaler|(?<![a-z])amp", made="GradScaler"))


rule(
    "K3",
    "the average of the weights is missing: a resumed run begins to average anew",
    "save the average's state, too",
)(
    partial(
        _saved_without,
        used=r"\bclass \w*(EMA|Ema|Averag(e|er|ing))\b|\bAveragedModel\(|\b(model_)?ema\.update",
        saved=r"(?i)ema|averag|swa|shadow",
        made=r"(?i)ema|averag",
        unless=r"(?i)(ema|averag|swa)\w*(\.\w+)*\.state_dict\(",
    )
)


@rule(
    "K3",
    "the place in the training is missing: a resumed run begins its epochs anew",
    "save the step or epoch, too, and begin there",
)
def place_missing(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"\b(\w*optim\w*|opt)\.load_state_dict\("):
        for node, text in _with_weights(module):
            moments = re.search(r"\b(\w*optim\w*|opt)\.state_dict\(", text)
            schedule = module.program.says(_BY_SCHEDULE) and "sched" in text
            counted = schedule or re.search(rf"{COUNTED}|progress|trained|seen", text)
            numbered = any(_is_counter(module, value) for _, value in entries(node))
            if moments and not (counted or numbered or named_by_place(module, node)):
                yield node


def _is_counter(module: Module, value: ast.expr) -> bool:
    """Whether a number counts the turns of a loop, whatever its name is."""
    name = re.escape(last_part(source((operands(value, ast.Add) or [value])[0])))
    turns = rf"\bfor {name} in t?r?(range|count|enumerate)\(|\b{name} \+= "
    return bool(name) and module.program.says(turns)


@rule(
    "K3",
    "the weights alone are saved where the run goes on from: it starts with empty moments",
    "save the optimizer's state and the place, too, and read them",
    severity=WARNING,
)
def weights_alone(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if "backward" not in program.names or program.says(r"opt\w*\.load_state_dict"):
        return
    read = {source(c.args[0]) for m in program.modules for c in loads(m) if c.args}
    for call in module.called("torch.save"):
        value = keyword(call, "obj", 0)
        if value is not None and re.search(rf"{_WEIGHTS}\)$", source(value)):
            if len(call.args) > 1 and source(call.args[1]) in read:
                yield call


@rule(
    "K3",
    "what the file lacks, or calls otherwise, is passed over: such weights begin anew in silence",
    "load with strict=True where a run goes on",
    severity=WARNING,
)
def passed_over(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"(?i)lora|peft|adapter"):  # the rest of the weights is elsewhere
        return
    for call in module.methods("load_state_dict"):
        if constant(keyword(call, "strict", 1)) is False:
            others = module.methods("load_state_dict", below=module.scope(call))
            if any(matches(receiver(other), r"\b(\w*optim\w*|opt)$") for other in others):
                yield call


def named_by_place(module: Module, node: ast.AST) -> bool:
    """Whether the name of a file that is saved in the same function tells the place."""
    return any(
        path is not None and mentions(module, path, COUNTED)
        for call, path in saves(module)
        if module.scope(call) is module.scope(node)
    )


@rule(
    "K7",
    "an error in the load does not end the run: the rank that fails starts anew, the others go on",
    "load where the file is there, and let errors end the run",
)
def failure_passed_over(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.Try) and any(matches(part, _LOADS) for part in node.body):
            for handler in node.handlers:
                all_kinds = handler.type is None or matches(handler.type, r"^(Base)?Exception$")
                goes_on = not any(isinstance(n, _LEAVES) for n in module.below(handler))
                counts = any(_sets_progress(module, part) for part in [*node.body, *handler.body])
                if all_kinds and goes_on and counts and not matches(handler, _LOADS):
                    yield handler


def _sets_progress(module: Module, node: ast.AST) -> bool:
    """Whether a statement sets the place from which a run goes on."""
    statements = (n for n in [node, *module.below(node)] if isinstance(n, ast.Assign))
    targets = (part for s in statements for target in s.targets for part in ast.walk(target))
    names = (last_part(source(t)) for t in targets if isinstance(t, ast.Name | ast.Attribute))
    return any(map(_PLACE.fullmatch, names))
