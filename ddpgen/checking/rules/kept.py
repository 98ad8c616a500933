"""K3, K5, K10: what is saved, and nobody reads, or reads in another sense."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import (
    constant,
    entries,
    last_part,
    method_name,
    operands,
    receiver,
    source,
    strings,
)
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.values import bindings
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.resume import named_by_place, places, snapshots

# Ways to take over all that a file holds, whatever the names are.
_TAKES_ALL = (
    r"__dict__|\.update\((torch\.load|\w*(state|ckpt|checkpoint|saved|loaded))|"
    r"\*\*\w*(state|ckpt|checkpoint)|Namespace|"
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
        if re.search(r"opt", text) and not places(node) & read and not named_by_place(module, node):
            yield node


def _saved_epochs(module: Module) -> dict[str, str]:
    """What the program's checkpoints say of the epoch: the source of each value by its key."""
    saved = [snapshot for m in module.program.modules for snapshot, _ in snapshots(m)]
    pairs = [(str(constant(key)), value) for node in saved for key, value in entries(node)]
    return {key: source(value) for key, value in pairs if key.lower().startswith("epoch")}


@rule(
    "K10",
    "the saved epoch is the one that is already over: a resumed run repeats it",
    "save epoch + 1, or start at the saved epoch + 1",
)
def epoch_repeated(module: Module) -> Iterator[ast.AST]:
    epochs = _saved_epochs(module)
    if not epochs or {last_part(text) for text in epochs.values()} != {"epoch"}:
        return
    if module.program.says(r"\.epoch \+= 1"):  # before the save
        return
    for (_, start), found in bindings(module).items():
        begins = re.compile(rf"range\({re.escape(start)},")
        if re.search("start|first|begin", start) or module.program.says(begins):
            for each in found:
                if isinstance(each.value, ast.Subscript) and constant(each.value.slice) in epochs:
                    yield each.statement


@rule(
    "K10",
    "one is added to the epoch where it is saved, and once more here: an epoch is left out",
    "save epoch + 1, or start at the saved epoch + 1",
)
def epoch_left_out(module: Module) -> Iterator[ast.AST]:
    epochs = _saved_epochs(module)
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
