"""What a call gives, by the name of what is called: an optimizer, the rank, a loader."""

import ast
import re

from ddpgen.checking.reading.expressions import matches, source, strings
from ddpgen.checking.reading.programs import Module

# What names with a role contain; those are left as they are.
USUAL = {
    "rank": r"rank|proc|node|main|master|worker",
    "local_rank": r"rank|local|gpu|device|cuda",
    "world_size": r"world|size|rank|gpu|proc|replica|num|count|total|^n_?",
    "optimizer": r"opt|adam|sgd",
    "scheduler": r"sched|lr|warm|cosine",
    "scaler": r"scaler|(?<![a-z])amp(?![a-z])",
    "sampler": r"sampl",
    "loader": r"load|batch|data|dl|train|val|test|set",
    "criterion": r"crit|loss|cross|fn|func|bce|mse|ce$",
    "loss": r"loss|total|error|err|objective|nll|elbo|kl",
    "model": r"model|net|encoder|decoder|ddp|fsdp|module|backbone|policy|agent|gpt|bert|vit|[A-Z]",
    "ema": r"ema|averag|swa|shadow|avg|model|net",
}
_CALLED = {
    "rank": r"torch\.distributed\.get_rank$",
    "world_size": r"torch\.distributed\.get_world_size$",
    "optimizer": r"torch\.optim\.(?!lr_scheduler|swa_utils)[A-Z]\w+$|\bZeroRedundancyOptimizer$",
    "scheduler": r"torch\.optim\.lr_scheduler\.[A-Z]\w+$|\bget_\w+_schedule(_with_warmup)?$",
    "scaler": r"torch\.([\w.]+\.)?(Sharded)?GradScaler$",
    "sampler": r"torch\.[\w.]+\.DistributedSampler$",
    "loader": r"torch\.utils\.data\.DataLoader$",
    "criterion": r"torch\.nn\.\w+Loss$",
    "model": r"torch\.[\w.]+\.DistributedDataParallel$",
    "ema": r"torch\.optim\.swa_utils\.AveragedModel$",
}
_VARIABLES = {
    "rank": "RANK|SLURM_PROCID|OMPI_COMM_WORLD_RANK",
    "local_rank": "LOCAL_RANK|SLURM_LOCALID|OMPI_COMM_WORLD_LOCAL_RANK",
    "world_size": "WORLD_SIZE|SLURM_NTASKS|OMPI_COMM_WORLD_SIZE",
}


def of_call(module: Module, node: ast.expr | None, place: int | None = None) -> str:
    """The role of what a call gives; "" where the call does not tell.

    Args:
        module: where the call is.
        node: the call, or a comprehension over variables of the environment.
        place: which of several values is meant.
    """
    if isinstance(node, ast.GeneratorExp | ast.ListComp) and matches(node, "environ|getenv"):
        known = [role for text in strings(node) if (role := _by_name(text))]
        return dict(enumerate(known)).get(place or 0, "") if place is not None else ""
    if node is None or place is not None:
        return ""
    if isinstance(node, ast.Call):
        name = module.name(node.func)
        if name == "int" and len(node.args) == 1:
            return _of_variable(node.args[0])
        for role, pattern in _CALLED.items():
            if re.search(pattern, name):
                return role
    return _of_variable(node)


def _by_name(variable: str) -> str:
    return next((r for r, names in _VARIABLES.items() if re.fullmatch(names, variable)), "")


def _of_variable(node: ast.expr) -> str:
    """The role of what a variable of the environment says."""
    for role, names in _VARIABLES.items():
        pattern = rf"[\w.]*(environ(\.get\(|\[)|getenv\()'({names})'[^'()\[\]]*('\w*')?[\])]"
        if re.fullmatch(pattern, source(node)):
            return role
    return ""
