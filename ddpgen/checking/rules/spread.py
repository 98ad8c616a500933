"""D4: models that one process spreads over all GPUs, and GPUs by a number that is written out."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import WITHOUT_DDP, without_ddp
from ddpgen.checking.reading.expressions import constant, keyword
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import DDP
from ddpgen.checking.registry import rule

_SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")


@rule(
    "D4",
    "each rank spreads its copy of the model over all GPUs of the node, where the others are, too",
    "load each copy onto the rank's own GPU: device_map={'': local_rank}",
)
def spread_over_all(module: Module) -> Iterator[ast.AST]:
    if module.program.called(DDP):
        for call in module.methods("from_pretrained", "from_config"):
            given = keyword(call, "device_map")
            if given is not None and constant(given) in _SPREADS:
                if not guarded(module, call, WITHOUT_DDP):
                    yield given


@rule(
    "D4",
    "a fixed GPU: all ranks of a node share it",
    "use the local rank: torch.device('cuda', local_rank)",
)
def fixed_number(module: Module) -> Iterator[ast.AST]:
    if module.program.says("CUDA_VISIBLE_DEVICES"):
        return
    for call in module.called("torch.device"):
        kind, number = keyword(call, "type", 0), keyword(call, "index", 1)
        if constant(kind) == "cuda" and type(constant(number)) is int and number is not None:
            if not guarded(module, call, WITHOUT_DDP) and not without_ddp(module, call):
                yield number
