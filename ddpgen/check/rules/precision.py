"""G9, G11, G12: mixed precision, and options that cost or break something."""

import ast
from collections.abc import Iterator

from ddpgen.check.registry import rule
from ddpgen.check.source import Module, constant, keyword, matches
from ddpgen.check.values import DDP


@rule(
    "G9",
    "torch.cuda.amp is deprecated",
    "use torch.amp.GradScaler('cuda') and torch.autocast('cuda', ...)",
)
def old_amp(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        if name.startswith("torch.cuda.amp.") or name.endswith("cuda.amp.GradScaler"):
            yield call


def scalers(module: Module) -> Iterator[ast.Call]:
    """Loss scalers that may be at work."""
    for call in module.called("GradScaler"):
        if constant(keyword(call, "enabled")) is not False:
            yield call


@rule(
    "G9",
    "a loss scaler with bfloat16, which has float32's range: it only skips steps",
    "leave the scaler out, or use float16",
)
def scaler_with_bfloat16(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"torch\.(float16|half)\b|[\"']f(loat|p)16|\.half\("):
        return
    casts = [c for m in module.program.modules for c in m.called("autocast")]
    if any(matches(cast, "bfloat16") for cast in casts):
        yield from (s for s in scalers(module) if keyword(s, "enabled") is None)


@rule(
    "G9",
    "a loss scaler without autocast: nothing is in float16",
    "put forward and loss under torch.autocast, or leave the scaler out",
)
def scaler_without_autocast(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(r"autocast|half\(|float16"):
        yield from scalers(module)


@rule(
    "G11",
    "find_unused_parameters=True walks the graph in each step, and hides what never learns",
    "leave it out unless the graph changes; then say so in a comment beside it",
)
def unused_parameters(module: Module) -> Iterator[ast.AST]:
    for call in module.called(DDP):
        value = keyword(call, "find_unused_parameters")
        if constant(value) is True and value and not module.commented(value):
            if not module.commented(call):
                yield value


@rule(
    "G12",
    "re-entrant activation checkpointing breaks DDP's hooks and hides unused parameters",
    "pass use_reentrant=False",
)
def reentrant(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        if name.startswith("torch.utils.checkpoint.checkpoint"):
            if (
                constant(keyword(call, "use_reentrant")) in (None, True)
                and not any(k.arg is None for k in call.keywords)
                and not isinstance(keyword(call, "use_reentrant"), ast.Name | ast.Attribute)
            ):
                yield call


@rule(
    "G12",
    "dropout draws other numbers when it is computed again: the gradients are wrong",
    "leave preserve_rng_state on",
)
def random_numbers_lost(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(r"Dropout\("):
        return
    for call, name in module.calls:
        if name.startswith("torch.utils.checkpoint.") and (
            constant(keyword(call, "preserve_rng_state")) is False
        ):
            yield call
