"""L5-L7, D9-D11: what launch files set and how they start the ranks."""

import ast
import difflib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ddpgen.checking.reading.expressions import constant
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.scripts import Script
from ddpgen.checking.registry import WARNING, Hit, rule
from ddpgen.checking.rules.group import environment_settings

DATA = Path(__file__).resolve().parents[1] / "data"
# They end up in every environment for builds and images; no library reads them at run time.
_BUILD = re.compile(
    r"NCCL_\w*(HOME|ROOT|ROOT_DIR|_PATH|_DIR|VERSION|INCLUDE|LIBRARY|LIB|TESTS)\w*|NCCL_VER"
)
_FAMILIES = ("NCCL_", "TORCH_NCCL_", "TORCHELASTIC_", "GLOO_")
_LOUD = {
    "NCCL_DEBUG": r"INFO|TRACE",
    "TORCH_DISTRIBUTED_DEBUG": r"DETAIL|INFO",
    "CUDA_LAUNCH_BLOCKING": r"1",
    "TORCH_CPP_LOG_LEVEL": r"INFO",
    "NCCL_P2P_DISABLE": r"1",
    "NCCL_IB_DISABLE": r"1",
    "NCCL_SHM_DISABLE": r"1",
}
_PORT = r"--(master[-_]port|rdzv[-_]endpoint)[= ]+[\"']?([\w.${}\[\]]*:)?([1-9]\d{3,4})\b"


@cache
def known() -> frozenset[str]:
    """The variables that NCCL, torch, libfabric or a plugin of NCCL's read."""
    names = {line for f in ("nccl_params.txt", "torch_env.txt") for line in _lines(f)}
    elsewhere = (line.split("\t") for line in _lines("nccl_not_effective.tsv")[1:])
    return frozenset(names | {row[0] for row in elsewhere if row[-1].strip() and len(row) > 3})


def _lines(file: str) -> list[str]:
    return (DATA / file).read_text(encoding="utf-8").splitlines()


def _nobody_reads(name: str) -> str | None:
    """The message's subject for a variable that nobody reads, with the nearest one that is read."""
    if not name.startswith(_FAMILIES) or name in known() or _BUILD.fullmatch(name):
        return None
    if name == "NCCL_TIMEOUT":  # D9
        return None
    close = difflib.get_close_matches(name, known(), 1, 0.8)
    return f"{name} (near: {close[0]})" if close else name


_UNREAD = (
    "neither NCCL nor torch reads this variable",
    "remove it, or use the name that is read",
)
_TIMEOUT = (
    "NCCL reads no such variable: it sets no timeout",
    "pass timeout= to init_process_group",
)
_DEBUGGING = (
    "a setting for debugging: it slows every step or floods the log",
    "put it in a file of its own that is read on request",
)


@rule("L5", *_UNREAD, reads="script")
def unread_in_script(script: Script) -> Iterator[Hit]:
    for line, name, _ in script.settings:
        if subject := _nobody_reads(name):
            yield line, subject


@rule("L5", *_UNREAD)
def unread_in_module(module: Module) -> Iterator[Hit]:
    for name, node, _ in environment_settings(module):
        if subject := _nobody_reads(name):
            yield node, subject


@rule(
    "L5",
    "NCCL_DEBUG_FILE knows %h (host) and %p (process), but no %r",
    "write %h.%p",
    reads="script",
)
def no_rank_in_file(script: Script) -> Iterator[Hit]:
    for line, name, value in script.settings:
        if name == "NCCL_DEBUG_FILE" and "%r" in value:
            yield line


@rule("D9", *_TIMEOUT, severity=WARNING, reads="script")
def timeout_in_script(script: Script) -> Iterator[Hit]:
    yield from (line for line, name, _ in script.settings if name == "NCCL_TIMEOUT")


@rule("D9", *_TIMEOUT, severity=WARNING)
def timeout_in_module(module: Module) -> Iterator[Hit]:
    yield from (node for name, node, _ in environment_settings(module) if name == "NCCL_TIMEOUT")


@rule("L6", *_DEBUGGING, reads="script")
def debugging_in_script(script: Script) -> Iterator[Hit]:
    if "debug" in script.path.name.lower():
        return
    depth = 0  # of conditions: what is set in one is not set always
    commands = dict(script.commands)
    for line, _ in enumerate(script.lines, 1):
        words = commands.get(line, "").split()
        depth += words[:1] == ["if"]
        for number, name, value in script.settings:
            if number == line and depth == 0 and _is_loud(name, value):
                yield line, f"{name}={value}"
        depth -= "fi" in words


def _is_loud(name: str, value: str) -> bool:
    return name in _LOUD and re.fullmatch(_LOUD[name], value) is not None


@rule("L6", *_DEBUGGING)
def debugging_in_module(module: Module) -> Iterator[Hit]:
    for name, node, value in environment_settings(module):
        if _is_loud(name, str(constant(value))) and not _is_conditional(module, node):
            yield node, name
    for call in module.called("torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"):
        switched_on = not call.args or constant(call.args[0]) is True
        if switched_on and not _is_conditional(module, call):
            yield call, "detect_anomaly"


def _is_conditional(module: Module, node: ast.AST) -> bool:
    return any(isinstance(above, ast.If) for above in module.above(node))


@rule(
    "L7",
    "the shell interprets what the value holds: spaces, quotes and $(...) in it are executed",
    'read KEY=VALUE lines as they stand, and hand arguments over as "$@" or an array',
    reads="script",
)
def interpreted(script: Script) -> Iterator[Hit]:
    yield from script.running(
        r"(^|[;&|]\s*|\s)eval\s+[\"']?[^'\n]*\$(?!\()|export\s+\$\(\s*(cat|grep|sed|awk|xargs)\b"
    )


@rule(
    "D10",
    "where the lookup fails every node becomes a world of its own, and trains alone",
    "let the script fail: without a head node there is no rendezvous",
    reads="script",
)
def falls_back_to_localhost(script: Script) -> Iterator[Hit]:
    yield from script.running(r"\|\|\s*(echo|printf)\s+[\"']?(localhost|127\.0\.0\.1)")
    if script.nodes > 1:
        yield from script.running("torchrun", "--standalone")


@rule(
    "D11",
    "a fixed port: two jobs on one host collide",
    "use --standalone on one node, or a port from the job's number",
    reads="script",
)
def fixed_port(script: Script) -> Iterator[Hit]:
    if script.path.suffix in {".yaml", ".yml"}:  # a pod has its own network
        return
    yield from script.running(_PORT)
    starts_ranks = "torchrun" in script.code or script.directives
    ports = ("MASTER_PORT", "PORT", "RDZV_PORT") if starts_ranks else ("MASTER_PORT",)
    for line, name, value in script.settings:
        if name in ports and re.fullmatch(r"[1-9]\d*", value):
            yield line
