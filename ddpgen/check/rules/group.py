"""D8-D14: the process group, from the rendezvous to its end."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from ddpgen.check.guards import guarded, zero_guard
from ddpgen.check.registry import rule
from ddpgen.check.rules.ranks import is_collective
from ddpgen.check.source import (
    Function,
    Module,
    constant,
    keyword,
    matches,
    source,
    strings,
    unpacks,
)
from ddpgen.check.values import DDP

INIT = "torch.distributed.init_process_group"
_PREPARES = (
    r"^prepare(_data)?$|download|preprocess|tokenize|extract|prepare_data|"
    r"build_(vocab|dataset|index)|untar|unzip"
)


def inits(module: Module) -> list[ast.Call]:
    """Calls that form the process group of the job."""
    return [call for call, name in module.calls if name.endswith("init_process_group")]


@rule(
    "D8",
    "this waits for all ranks after one has failed: it hangs until the timeout",
    "let an error end the process; the launcher ends the others",
)
def collective_in_cleanup(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.Try):
            handlers = [s for h in node.handlers for s in h.body]
            for statement in (*node.finalbody, *handlers):
                for call in module.below(statement):
                    if isinstance(call, ast.Call) and is_collective(module, call):
                        yield call


@rule(
    "D8",
    "the process group is never taken down: threads of its backends may hang or warn at exit",
    "call dist.destroy_process_group() at the normal end",
)
def no_teardown(module: Module) -> Iterator[ast.AST]:
    if not module.program.calls("destroy_process_group"):
        yield from inits(module)[:1]


@rule(
    "D9",
    "without a timeout a rank that died is noticed after torch's default of 10 or 30 minutes",
    "pass timeout=timedelta(seconds=...), from the config",
)
def no_timeout(module: Module) -> Iterator[ast.AST]:
    for call in inits(module):
        if keyword(call, "timeout") is None and not unpacks(call):
            yield call


@rule(
    "D9",
    "DistributedDataParallel has no argument timeout",
    "give the timeout to init_process_group",
)
def timeout_of_ddp(module: Module) -> Iterator[ast.AST]:
    for call in module.called(DDP):
        if keyword(call, "timeout") is not None:
            yield call


@rule(
    "D11",
    "a fixed port: two jobs on one host collide",
    "let torchrun choose (--standalone), or take the port from the job's number",
)
def fixed_port(module: Module) -> Iterator[ast.AST]:
    for variable, node, value in environment_settings(module):
        if variable == "MASTER_PORT" and constant(value) not in (None, "0"):
            yield node
    for call in inits(module):
        address = keyword(call, "init_method", 1)
        if address is not None and re.search(r"tcp://[^:]+:\d+", "".join(strings(address))):
            yield call


def environment_settings(module: Module) -> Iterator[tuple[str, ast.AST, ast.expr]]:
    """Assignments to os.environ: name, node, value."""
    for node in module.nodes:
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Subscript):
            if module.name(target.value) == "os.environ":
                yield str(constant(target.slice)), node, node.value
        if isinstance(node, ast.Call) and module.name(node.func) == "os.putenv":
            yield str(constant(node.args[0])), node, node.args[-1]
        if isinstance(node, ast.Call) and module.name(node.func) == "os.environ.update":
            for each in node.keywords:
                yield str(each.arg), node, each.value
            for given in node.args:
                if isinstance(given, ast.Dict):
                    for key, value in zip(given.keys, given.values, strict=True):
                        yield str(constant(key)), node, value


_NAMES = r"[\"'](LOCAL_)?(RANK|WORLD_SIZE)[\"']"
# The program sets the variables, asks whether they are there, or starts its ranks itself.
_DEFAULTS = re.compile(
    rf"environ\.(setdefault|update)\(\s*([^\"'\s]|{_NAMES})|{_NAMES} (not )?in |"
    rf"environ\[{_NAMES}\] = |is_torchelastic_launched|\.spawn\(|Process\(|start_processes"
)


@rule(
    "D12",
    "without a launcher this variable is missing, so that `python train.py` ends with a KeyError",
    "give defaults: os.environ.setdefault('RANK', '0'), and the same for the others",
)
def needs_launcher(module: Module) -> Iterator[ast.AST]:
    if _DEFAULTS.search(module.program.text):
        return
    for node in module.nodes:
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and module.name(node.value) == "os.environ"
            and not any(isinstance(above, ast.Try | ast.If) for above in module.above(node))
        ):
            around = module.statement(node)
            named = node.slice if isinstance(node.slice, ast.Constant) else around
            asked = rf"(getenv|environ\.get)\(\s*{_NAMES}"
            if matches(named, _NAMES) and not matches(module.scope(node), asked):
                yield node
                return


@rule(
    "D13",
    "every rank downloads at once, into the same files",
    "download once per node, before the process group exists and under a lock",
)
def download_on_every_rank(module: Module) -> Iterator[ast.AST]:
    if re.search(r"FileLock\(|flock\(", module.program.text):
        return
    for call, _ in module.calls:
        for argument in call.keywords:
            if (
                argument.arg == "download"
                and constant(argument.value) is True
                and not guarded(module, call)
            ):
                yield argument.value


@rule(
    "D13",
    "the process group does not exist yet, so that every rank takes itself for rank 0",
    "ask after init_process_group, or read RANK from the environment",
)
def rank_before_group(module: Module) -> Iterator[ast.AST]:
    for function in [module.tree, *(f for named in module.functions.values() for f in named)]:
        start = _first_init(module, function)
        if start is None:
            continue
        for node in module.below(function):
            if not isinstance(node, ast.Call) or node.lineno >= start:
                continue
            if (module.scope(node) is function and _asks_too_early(module, node)) or (
                module.scope(node) is function
                and _falls_back_to_zero(module, node)
                and any(
                    isinstance(n, ast.If | ast.IfExp) and node in module.below(n.test)
                    for n in module.above(node)
                )
            ):
                yield node


def _first_init(module: Module, function: ast.AST) -> int | None:
    """The line of the first call in a function's own body that forms the process group."""
    for node in module.below(function):
        if isinstance(node, ast.Call) and module.scope(node) is function:
            name = module.name(node.func)
            if name.endswith("init_process_group") or _inits(module, node):
                return node.lineno
    return None


@cache
def _inits(module: Module, call: ast.Call, depth: int = 3) -> bool:
    """Whether a local function forms the process group."""
    return any(
        isinstance(inner, ast.Call)
        and (
            other.name(inner.func).endswith("init_process_group")
            or (depth > 0 and _inits(other, inner, depth - 1))
        )
        for other, function in module.program.callees(module, call)
        for inner in other.below(function)
    )


def _asks_too_early(module: Module, call: ast.Call) -> bool:
    """A local function that does something if there is no process group or the rank is 0."""
    return any(
        isinstance(node, ast.If)
        and matches(node.test, r"^not .*is_initialized\(\) or .*rank")
        and any(matches(s, r"prepare|download") for s in node.body)
        for other, function in module.program.callees(module, call)
        for node in other.below(function)
    )


def _falls_back_to_zero(module: Module, call: ast.Call) -> bool:
    """A local helper that answers 0, or "main", while there is no process group."""
    name = module.name(call.func).rpartition(".")[2]
    if not re.search(r"rank|main|master|primary", name, re.IGNORECASE):
        return False
    for other, function in module.program.callees(module, call):
        if re.search(r"is_initialized|is_dist_avail|is_available", source(function)):
            return True
        called = [n for n in other.below(function) if isinstance(n, ast.Call)]
        if any(_falls_back_to_zero(other, inner) for inner in called if inner is not call):
            return True
    return False


@rule(
    "D14",
    "the other ranks wait for this in a collective, and run into its timeout when it takes long",
    "prepare the data before init_process_group, or in a step of its own",
)
def long_work_before_barrier(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        function = module.function(call)
        last = name.rpartition(".")[2] or getattr(call.func, "attr", "")
        if not re.search(_PREPARES, last, re.IGNORECASE) or zero_guard(module, call) is None:
            continue
        scope: Function | ast.Module = function or module.tree
        barriers = [
            c
            for c in module.below(scope)
            if isinstance(c, ast.Call) and module.name(c.func).endswith("distributed.barrier")
        ]
        if any(c.lineno > call.lineno for c in barriers):
            yield call
