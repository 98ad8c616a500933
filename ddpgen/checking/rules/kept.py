"""K3, K5, K10: what is saved, and nobody reads, or reads in another sense."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import (
    constant,
    entries,
    last_part,
    matches,
    method_name,
    operands,
    receiver,
    source,
    strings,
)
from ddpgen.checking.reading.given import arguments
from ddpgen.checking.reading.programs import Module, leads_to, once
from ddpgen.checking.reading.values import bindings
from ddpgen.checking.reading.windows import goes_backward
from ddpgen.checking.registry import WARNING, rule
from ddpgen.checking.rules.checkpoint import loads
from ddpgen.checking.rules.resume import named_by_place, places, snapshots

# Ways to take over all that a file holds, whatever the names are.
# The epoch, as the step tells.
_FROM_STEPS = r"(step|iter|seen|samples)\w* *// *|// *\(?(len\(|\w*(steps|iters|batches)_per)"
_TAKES_ALL = (
    r"__dict__|\.update\((torch\.load|\w*(state|ckpt|checkpoint|saved|loaded))|"
    r"\*\*\w*(state|ckpt|checkpoint)|Namespace\(|"
    r"(state|ckpt|checkpoint|saved|loaded)\w*\.(\w+_)?(epoch|step|iter|iteration)s?\b"
)


@rule(
    "K5",
    "a checksum is written, and nothing compares it: damaged files are taken as good",
    "compute it again when the file is read, and compare",
)
def checksum_for_nothing(module: Module) -> Iterator[ast.AST]:
    known = {text for m in module.program.modules for text in _looked_up(m)}
    for node in module.nodes:
        for key, _ in entries(node):
            name = str(constant(key))
            if key and re.fullmatch(r"sha\d+|md5|checksum|crc32", name) and name not in known:
                yield key


@rule(
    "K3",
    "the place in the training is saved and not read: a resumed run begins its epochs anew",
    "begin at the saved step or epoch",
)
def place_not_read(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if not program.says(r"\b(\w*optim\w*|opt)\.load_state_dict\(") or program.says(_TAKES_ALL):
        return
    read = {text for m in program.modules for text in _looked_up(m)}
    for node, text in snapshots(module):
        if not re.search(r"opt", text) or not read or named_by_place(module, node):
            continue
        lost = places(module, node) - read
        epochs = {key for key in lost if re.search("epoch", key, re.IGNORECASE)}
        if lost == places(module, node) or (epochs and not program.says(_FROM_STEPS)):
            yield node


@rule(
    "K3",
    "the best result so far is missing: a resumed run takes its first result for the best",
    "save the best result, too, and go on from that",
    severity=WARNING,
)
def best_missing(module: Module) -> Iterator[ast.AST]:
    program = module.program
    compared = r"(?i)\bbest\w* = (max|min)\(|\bif .*[<>]=? (self\.)?best\w*\b"
    kept = r"(?i)\bbest[\w-]*\.(pth?|ckpt|tar|safetensors)\b|\bbest_(model|path|checkpoint|file)\b"
    if program.says(compared) and program.says(kept):
        for node, text in snapshots(module):
            if re.search("opt", text) and "best" not in text.lower():
                yield node


@rule(
    "K3",
    "nothing calls this: a run that is started again begins anew, whatever was saved",
    "call it before the training begins",
    severity=WARNING,
)
def never_restored(module: Module) -> Iterator[ast.AST]:
    for function in module.all_functions:
        takes = module.methods("load_state_dict", below=function)
        moments = any(matches(receiver(c), r"\b(\w*optim\w*|opt)$") for c in takes)
        if moments and any(call in module.calls_below(function) for call in loads(module)):
            public = function.name.startswith("__") or function.decorator_list
            named = module.program.references(function.name)
            if not public and not named and module.program.calls("backward"):
                yield function


def _saved_turns(module: Module) -> dict[str, str]:
    """What the program's checkpoints say of the epoch, or of another turn of a loop.

    The source of each value, by its key.
    Of several values that callers give, one that is more than a name.
    """
    found = {}
    for m in module.program.modules:
        for key, value in (pair for node, _ in snapshots(m) for pair in entries(node)):
            given = [*(source(each) for _, each in arguments(m, value)), source(value)]
            found[str(constant(key))] = max(given, key=lambda text: ("+" in text, -len(text)))
    turns = re.compile(r"(?i)epoch.*|(?!.*(step|iter|batch))[a-z_]+")
    counts = {key for m in module.program.modules for n, _ in snapshots(m) for key in places(m, n)}
    return {key: text for key, text in found.items() if key in counts and turns.fullmatch(key)}


@rule(
    "K10",
    "the saved epoch is the one that is already over: a resumed run repeats it",
    "save epoch + 1, or start at the saved epoch + 1",
)
def epoch_repeated(module: Module) -> Iterator[ast.AST]:
    over = {key: last_part(text) for key, text in _saved_turns(module).items()}
    for (_, start), found in bindings(module).items():
        named = re.search("start|first|begin", start) is not None
        for each in found if over else ():
            key = str(constant(each.value.slice)) if isinstance(each.value, ast.Subscript) else ""
            turn = re.escape(over.get(key, "?"))
            begins = rf"\bfor {turn} in t?range\({re.escape(start)}, "
            counted = module.program.says(rf"\b{turn} \+= 1")  # before the save
            if key in over and turn.isidentifier() and not counted:
                if (named and turn == "epoch") or module.program.says(begins):
                    yield each.statement


@rule(
    "K10",
    "counted up behind the save: the file has the epoch that is over, and a resumed run repeats it",
    "count up before the save",
)
def counted_behind_save(module: Module) -> Iterator[ast.AST]:
    saved = {text for text in _saved_turns(module).values() if text.startswith("self.")}
    for node in module.nodes:
        loop = module.loop(node) if isinstance(node, ast.AugAssign) else None
        if not isinstance(node, ast.AugAssign) or loop is None or source(node.target) not in saved:
            continue
        inside = [call for call in module.calls_below(loop) if leads_to(module, call, _saves, 2)]
        trains = [call for call in module.calls_below(loop) if goes_backward(module, call, 3)]
        if inside and trains and all(call.lineno < node.lineno for call in (*inside, *trains)):
            yield node


def _saves(module: Module, call: ast.Call) -> bool | None:
    return module.name(call.func) == "torch.save" or None


@rule(
    "K10",
    "one is added to the epoch where it is saved, and once more here: an epoch is left out",
    "save epoch + 1, or start at the saved epoch + 1",
)
def epoch_left_out(module: Module) -> Iterator[ast.AST]:
    epochs = _saved_turns(module)
    epochs = {key: text for key, text in epochs.items() if key.lower().startswith("epoch")}
    if epochs and all(re.fullmatch(r"([\w.]+\.)?epoch \+ 1", text) for text in epochs.values()):
        for (_, start), found in bindings(module).items():
            for each in found if re.search("epoch|start|first|begin", start) else ():
                read, added = operands(each.value, ast.Add) or (None, None)
                if isinstance(read, ast.Subscript) and constant(read.slice) in epochs:
                    if constant(added) == 1:
                        yield each.statement


@rule(
    "K3",
    "the file has another part's state under this name: what is loaded here was learnt by that",
    "load each part from the name under which the part is saved",
)
def loaded_into_another(module: Module) -> Iterator[ast.AST]:
    modules = module.program.modules
    pairs = [pair for m in modules for node in m.nodes for pair in entries(node)]
    saved: dict[str, set[str]] = defaultdict(set)  # keys by the part whose state is there
    for key, value in pairs:
        if whose := re.fullmatch(r"([\w.]+)\.state_dict\(\)", source(value)):
            saved[_part(whose[1])].add(str(constant(key)))
    read = {text for m in modules for text in _looked_up(m)}
    for call in module.methods("load_state_dict"):
        given = call.args[0] if call.args else None
        name = str(constant(given.slice)) if isinstance(given, ast.Subscript) else ""
        own = saved.get(_part(source(receiver(call))), set())
        if own and not own & read and any(name in names for names in saved.values()):
            yield call


def _part(text: str) -> str:
    """The name of a part of a training, without what wraps it."""
    return re.sub(r"\.(module|_orig_mod)\b", "", text).rpartition(".")[2]


@once
def _looked_up(module: Module) -> set[str]:
    """Keys that are read: in brackets, by `get`, in comparisons and in lists of names."""
    found: set[str] = set()
    for node in module.nodes:
        get = isinstance(node, ast.Call) and method_name(node) in ("get", "pop")
        if get or isinstance(node, ast.Subscript | ast.Compare | ast.Tuple | ast.List):
            found |= set(strings(node))
    return found
