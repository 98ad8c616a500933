"""D8, D9, D11, D12: the process group, from the rendezvous to its end."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import (
    constant,
    entries,
    keyword,
    last_part,
    matches,
    source,
    strings,
    unpacks,
)
from ddpgen.checking.reading.numbers import starts
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import DDP, mentions
from ddpgen.checking.reading.windows import updates
from ddpgen.checking.registry import ERROR, STYLE, rule
from ddpgen.checking.rules.ranks import is_collective

_TCP = r"tcp://[^:]+:\d+"


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
            calls = module.calls_below(*node.finalbody, *handlers)
            yield from (call for call in calls if is_collective(module, call))


@rule(
    "D8",
    "this rank's error is swallowed: it leaves as if all were well, and the others wait for it",
    "let it pass, or raise it again",
)
def error_swallowed(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if not isinstance(node, ast.ExceptHandler) or module.loop(node):
            continue
        general = node.type is None or matches(node.type, r"RuntimeError|\b(Base)?Exception\b")
        ends = any(isinstance(n, ast.Raise) for n in module.below(node))
        ends = ends or matches(module.scope(node), r"exit\(|abort\(|\bkill\(|SystemExit")
        tried = module.parents[node]
        if general and not ends and isinstance(tried, ast.Try):
            if any(updates(module, call, 6) for call in module.calls_below(*tried.body)):
                yield node


@rule(
    "D8",
    "the process group is never taken down: threads of its backends may hang or warn at exit",
    "call dist.destroy_process_group() at the normal end",
    severity=STYLE,
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
        if keyword(call, "timeout", 2) is None and not unpacks(call):
            yield call


@rule(
    "D9",
    "DistributedDataParallel has no argument timeout",
    "give the timeout to init_process_group",
    severity=ERROR,
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
        inside = isinstance(module.parents[value], ast.Dict)  # reported below
        if variable == "MASTER_PORT" and constant(value) not in (None, "0") and not inside:
            yield node
    for node in module.nodes:
        for key, given in entries(node):
            if constant(key) == "MASTER_PORT" and constant(given) not in (None, "0"):
                yield given
    for value in endpoints(module):
        if re.search(r":[1-9]", "".join(strings(value))):
            yield value
    yield from _addresses(module)


@rule(
    "D11",
    "the port that all ranks get is fixed: two jobs on one host collide",
    "bind a socket to port 0 before the ranks start, and hand over the port that this gives",
)
def fixed_port_of_spawned(module: Module) -> Iterator[ast.AST]:
    for other, call in module.program.called("spawn", "start_processes"):
        given = keyword(call, "args", 1) if other is module else None
        ports = given.elts if isinstance(given, ast.Tuple) else []
        for value in ports:
            number = constant(value)
            if isinstance(number, int) and number > 1023 and module.program.says("MASTER_PORT"):
                yield value


@rule(
    "D10",
    "as many processes start here as the group does not have: those that start wait for the others",
    "start as many processes as the world has: nprocs=world_size",
)
def fewer_started(module: Module) -> Iterator[ast.AST]:
    for start in starts(module):
        if start.module is not module:
            continue
        worlds = [
            (m, world)
            for m, call in module.program.called("init_process_group")
            if m.function(call) is start.worker and (world := keyword(call, "world_size", 3))
        ]
        processes = keyword(start.call, "nprocs", 2)
        for m, world in worlds:
            size = last_part(source(world))
            if processes is None and not mentions(m, world, "node", 1):
                yield start.call
            elif isinstance(processes, ast.BinOp) and constant(processes.right) == 1:
                if last_part(source(processes.left)) == size:
                    yield processes


def _addresses(module: Module) -> Iterator[ast.AST]:
    """Addresses with a port, at the call or as the default of an argument of the program."""
    for call in inits(module):
        address = keyword(call, "init_method", 1)
        if address is not None and re.search(_TCP, "".join(strings(address))):
            yield call
    if any(keyword(c, "init_method", 1) for m in module.program.modules for c in inits(m)):
        defaults = (n for n in module.nodes if isinstance(n, ast.keyword) and n.arg == "default")
        yield from (n.value for n in defaults if re.match(_TCP, str(constant(n.value))))


@rule(
    "D10",
    "each node looks for rank 0 at itself: torchrun has said where that is, and this overwrites it",
    "leave MASTER_ADDR to the launcher",
)
def head_is_this_node(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if program.starts_ranks or not program.says(r"environ(\[|\.get\()[\"']LOCAL_RANK"):
        return
    for variable, node, value in environment_settings(module):
        here = str(constant(value)) in ("localhost", "127.0.0.1", "::1")
        if variable == "MASTER_ADDR" and here and not conditions(module, node):
            yield node


def endpoints(module: Module) -> Iterator[ast.expr]:
    """What the rendezvous of a launch from Python gets as its endpoint."""
    for node in module.nodes:
        if isinstance(node, ast.keyword) and node.arg == "rdzv_endpoint":
            yield node.value
    for node, target in module.assignments(ast.Attribute):
        if target.attr == "rdzv_endpoint":
            yield node.value


def environment_settings(module: Module) -> Iterator[tuple[str, ast.AST, ast.expr]]:
    """Assignments to os.environ: name, node, value."""
    for node, target in module.assignments(ast.Subscript):
        if module.name(target.value) == "os.environ":
            yield str(constant(target.slice)), node, node.value
    for call in module.called("os.putenv"):
        yield str(constant(call.args[0])), call, call.args[-1]
    for call in module.called("os.environ.update"):
        yield from ((str(each.arg), call, each.value) for each in call.keywords)
        for given in call.args:
            yield from ((str(constant(key)), call, value) for key, value in entries(given))


_NAMES = r"[\"'](LOCAL_)?(RANK|WORLD_SIZE)[\"']"
# The program sets the variables, or asks whether they are there.
_DEFAULTS = re.compile(
    rf"environ\.(setdefault|update)\(\s*([^\"'\s]|{_NAMES})|{_NAMES} (not )?in |"
    rf"environ\[{_NAMES}\] = |is_torchelastic_launched"
)


@rule(
    "D12",
    "without a launcher this variable is missing, so that `python train.py` ends with a KeyError",
    "give defaults: os.environ.setdefault('RANK', '0'), and the same for the others",
)
def needs_launcher(module: Module) -> Iterator[ast.AST]:
    if module.program.says(_DEFAULTS) or module.program.starts_ranks:
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
    "D5",
    "NCCL has taken the current device before: GPU 0, on every rank",
    "call torch.cuda.set_device(local_rank) first of all",
)
def device_after_collective(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.cuda.set_device"):
        before = (c for c in module.calls_below(module.scope(call)) if c.lineno < call.lineno)
        if any(is_collective(module, c) for c in before) and not module.program.says("device_id="):
            yield call
