"""G12: activations that are computed again in the backward."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import constant, entries, keyword
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.registry import rule


@rule(
    "G12",
    "re-entrant activation checkpointing breaks DDP's hooks and hides unused parameters",
    "pass use_reentrant=False",
)
def reentrant(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        given = keyword(call, "use_reentrant")
        if name.startswith("torch.utils.checkpoint.checkpoint"):
            # Where it is not given by its name, it may be among the keywords that others bring.
            brought = any(argument.arg is None for argument in call.keywords)
            said = isinstance(given, ast.Constant) and given.value is not False
            if said or (given is None and not brought):
                yield call
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and module.name(node).endswith(
            "CheckpointImpl.REENTRANT"
        ):
            yield node
        for key, value in entries(node):
            if constant(key) == "use_reentrant" and constant(value) is True:
                yield value


@rule(
    "G12",
    "dropout draws other numbers when it is computed again: the gradients are wrong",
    "leave preserve_rng_state on",
)
def random_numbers_lost(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(r"Dropout\("):
        return
    for call, name in module.calls:
        if name.startswith("torch.utils.checkpoint."):
            if constant(keyword(call, "preserve_rng_state")) is False:
                yield call
