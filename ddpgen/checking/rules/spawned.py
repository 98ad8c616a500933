"""D4, D10, G13: the numbers of ranks that a program starts itself, on several nodes."""

import ast
import re
from collections.abc import Iterator
from itertools import product

from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    matches,
    method_name,
    operands,
    source,
)
from ddpgen.checking.reading.guards import zero_guard
from ddpgen.checking.reading.numbers import Rank, Start, starts, value
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.values import DDP, mentions
from ddpgen.checking.registry import rule

_HERE = r"tcp://(localhost|127\.0\.0\.1|\[?::1)|file:/+tmp\b"
_DRAWN = r"rand(int|range)\(|random_port|free_port|unused_port|\.bind\("


class Job:
    """What a program says of its ranks on several nodes, where it starts those of a node itself."""

    def __init__(self, start: Start, module: Module, call: ast.Call) -> None:
        self.start, self.module = start, module
        self.rank, self.world = keyword(call, "rank", 4), keyword(call, "world_size", 3)
        self.processes = keyword(start.call, "nprocs", 2)

    def started(self, rank: Rank) -> int | None:
        """How many processes each node starts."""
        return value(self.start.module, self.processes, rank)

    def of_nodes(self) -> bool:
        """Whether any of the numbers depends on the nodes."""
        numbers = [
            (value(self.module, self.rank, r), value(self.module, self.world, r), self.started(r))
            for r in (Rank(0, 1), Rank(1, 1), Rank(0, 1, nodes=2))
        ]
        return len({*numbers}) > 1

    def mistake(self, in_all: bool) -> tuple[Module, ast.expr] | None:
        """The number that does not fit, in one of the two ways to read a name like `gpus`."""
        one = Rank(0, 0, in_all=in_all)
        if isinstance(known := constant(self.processes), int):
            one = one._replace(gpus=known)
        if self.started(one) != one.gpus and self.processes and self.started(one) is not None:
            return self.start.module, self.processes
        places = [
            one._replace(node=node, number=number)
            for node, number in product(range(one.nodes), range(one.gpus))
        ]
        ranks = [value(self.module, self.rank, place) for place in places]
        known_ranks = sorted(number for number in ranks if number is not None)
        if self.rank and len(known_ranks) == len(places) and known_ranks != [*range(len(places))]:
            return self.module, self.rank
        world = value(self.module, self.world, one)
        if self.world and not isinstance(self.world, ast.Constant) and world is not None:
            return None if world == len(places) else (self.module, self.world)
        return None


@once
def jobs(module: Module) -> list[Job]:
    """The groups of a program that starts ranks on several nodes by itself."""
    groups = module.program.called("init_process_group")
    found = [Job(start, m, call) for start in starts(module) for m, call in groups]
    return [job for job in found if job.of_nodes()]


@rule(
    "D10",
    "on several nodes these numbers do not fit: a rank is there twice, or missing",
    "rank = node_rank * gpus_per_node + index, world size = nodes * gpus_per_node, "
    "and a process for each GPU of the node",
)
def numbers_that_do_not_fit(module: Module) -> Iterator[ast.AST]:
    for job in jobs(module):
        found = [job.mistake(in_all) for in_all in (False, True)]
        if None not in found and found[0] and found[0][0] is module:
            yield found[0][1]


@rule(
    "D4",
    "the number among all ranks is taken for that of a GPU, which a second node does not have",
    "take the number that spawn gives: that of the rank on its node",
)
def gpu_of_another_node(module: Module) -> Iterator[ast.AST]:
    if not jobs(module):
        return
    last = Rank(2, 1)
    for call, name in module.calls:
        given: list[ast.expr] = []
        if name.endswith("cuda.set_device") or method_name(call) == "cuda":
            given = call.args[:1]
        elif name.endswith(DDP) and isinstance(ids := keyword(call, "device_ids", 1), ast.List):
            given = ids.elts
        for number in given:
            found = value(module, number, last)
            if found is not None and found >= last.gpus:
                yield number


@rule(
    "D10",
    "each node looks for rank 0 at itself, though the numbers of ranks are those of several nodes",
    "name the first node, in MASTER_ADDR or init_method",
)
def rank_zero_on_each_node(module: Module) -> Iterator[ast.AST]:
    if not jobs(module):
        return
    for call in module.called("init_process_group"):
        method = keyword(call, "init_method", 1)
        if method is not None and mentions(module, method, _HERE, 1):
            yield call
    for node, target in module.assignments(ast.Subscript):
        if constant(target.slice) == "MASTER_ADDR" and matches(node.value, r"localhost|127\.0"):
            yield node


@rule(
    "D10",
    "each rank draws a port of its own: the ranks do not find together",
    "draw the port once, before the ranks start, or take the launcher's",
)
def port_of_each_rank(module: Module) -> Iterator[ast.AST]:
    given: list[tuple[ast.AST, ast.expr | None]] = [
        (call, keyword(call, "init_method", 1)) for call in module.called("init_process_group")
    ]
    given += [
        (node, node.value)
        for node, target in module.assignments(ast.Subscript)
        if constant(target.slice) == "MASTER_PORT"
    ]
    for node, method in given:
        tests = [source(test) for test, _ in conditions(module, node)]
        if method is None or any(re.search("PORT|RANK|rank", test) for test in tests):
            continue
        drawn = mentions(module, method, _DRAWN) and zero_guard(module, node) is None
        if drawn and on_ranks(module, node):
            yield node


@rule(
    "G13",
    "the learning rate grows with the GPUs of a node, and the batch with those of all nodes",
    "multiply by the world size and the number of accumulated micro-batches",
)
def rate_of_one_node(module: Module) -> Iterator[ast.AST]:
    if not jobs(module):
        return
    one, more = Rank(0, 0), Rank(0, 0, nodes=5)
    for call, name in module.calls:
        if re.match(r"torch\.optim\.[A-Z]\w+$", name):
            for factor in operands(keyword(call, "lr", 1), ast.Mult):
                if value(module, factor, one) == value(module, factor, more) == one.gpus:
                    yield factor
