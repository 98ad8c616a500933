@dataclass(frozen=True)
class Network:
    """The network between the ranks, and FSDP's use of the network."""

    within: Link  # two ranks of one node
    between: Link  # two nodes, all ranks of one together
    ranks_per_node: int
    shard_over: str  # "world" or "node", as fsdp.shard_over
    slowdown: float = 1.0  # a collective beside computing, in relation to one by itself


@dataclass(frozen=True)
class Unit:
    """What travels together, a block or what is in no block, and its part of a micro-batch."""

    forward: float
    backward: float  # the forward pass once more included, where it is repeated
    weights: int  # as they travel, all shares together
    gradients: int
    again: bool  # weights are freed after the forward pass, and travel again


@dataclass(frozen=True)
class Step:
    """One optimizer step of a rank that waits for no other."""

    compute: float  # operations run
    host: float  # none runs: Python and PyTorch prepare the next one
    data: float  # nothing is there to compute with
    units: tuple[Unit, ...]  # the one around all blocks first, then these in order
    passes: int = 1  # micro-batches
    reduce_each: bool = True  # gradients travel after each micro-batch, not after the last only
    ahead: bool = True  # the host runs ahead of the device, and asks for the next weights early

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return self.compute + self.host + self.data


def share_out(size: float, ranks: int, network: Network) -> float:
    """One all-gather or reduce-scatter by itself, over those who share the weights.

    A ring sends n-1 messages of size / n one after the other, half of an all-reduce (Patarasuk and
    Yuan 2009). The slowest link sets the pace.
    """
    nodes = -(-ranks // network.ranks_per_node)
    own = network.shard_over == "node"
    nodes, sharing = (1, -(-ranks // nodes)) if own else (nodes, ranks)
    if sharing == 1:
        return 0.0
    crossed = [network.within] if sharing > nodes else []
    crossed += [network.between] if nodes > 1 else []
    bandwidth = min(link.bandwidth for link in crossed)
    messages = (sharing - nodes) * network.within.latency + (nodes - 1) * network.between.latency
    return messages + (sharing - 1) / sharing * size / bandwidth


def reduce(size: float, ranks: int, network: Network) -> float:
    """The sum of the gradients by itself: each share over those who share, then over the nodes.

    The ranks of a node share its link to the others.
    """
    nodes = -(-ranks // network.ranks_per_node)
    inside = share_out(size, ranks, network)
    if network.shard_over == "world" or nodes == 1:
        return inside
    link = network.between
    return inside + 2 * (nodes - 1) * (link.latency + size / nodes / link.bandwidth)


def exposed(step: Step, ranks: int, network: Network) -> float:
    """The seconds that a rank waits for weights and gradients."""
    whole, *blocks = step.units
    clock = free = 0.0  # until when the device computes, and the network sends

    def send(time: float, since: float) -> float:
        nonlocal free
        free = max(free, since) + network.slowdown * time
        return free

    def gather(unit: Unit, since: float) -> float:
        return send(share_out(unit.weights, ranks, network), since)

    def again(following: list[Unit], since: float) -> float:
        return max((gather(unit, since) for unit in following if unit.again), default=since)

    for number in range(step.passes):
        sums = step.reduce_each or number == step.passes - 1
        since = clock
        for unit in step.units:
            begin = max(clock, gather(unit, since))
            clock = begin + unit.forward
            since = begin if step.ahead else clock
        backwards = blocks[::-1]
        arrived = again(backwards[:1], clock)
        for place, unit in enumerate(backwards, start=1):
            begin = max(clock, arrived)
            arrived = again(backwards[place : place + 1], begin)
            clock = begin + unit.backward
            if sums:
                send(reduce(unit.gradients, ranks, network), clock)
        clock += whole.backward
        if sums:
            send(reduce(whole.gradients, ranks, network), clock)
    work = step.passes * sum(unit.forward + unit.backward for unit in step.units)
    return max(clock, free) - work


def communication(step: Step, ranks: int, network: Network) -> float:
    """All collectives of a step, one after the other, with no computing beside them."""
    gathers = sum((1 + unit.again) * share_out(unit.weights, ranks, network) for unit in step.units)
    sums = sum(reduce(unit.gradients, ranks, network) for unit in step.units)
    return step.passes * gathers + (step.passes if step.reduce_each else 1) * sums


def levers(step: Step, ranks: int, network: Network) -> list[tuple[float, str]]:
    """Changes that help, each with the factor by which samples per second grow; best first.

    A micro-batch twice as large takes twice as long to load and compute, and the host no longer.
    """
    now = seconds(step, ranks, network)
    kept = tuple(replace(unit, again=False) for unit in step.units)
    larger = replace(step, compute=2 * step.compute, data=2 * step.data)
    longer = (larger.compute + larger.host) / (step.compute + step.host)
    slower = tuple(
        replace(unit, forward=longer * unit.forward, backward=longer * unit.backward)
        for unit in step.units
    )
    doubled = {name: 2 * getattr(step, name) for name in ("compute", "host", "data", "passes")}
    no_second = "fsdp.reshard_after_forward=false, with more memory"
    changes = [
        (1, replace(step, units=kept), network, no_second),
        (2, replace(larger, units=slower), network, "twice as many samples per micro-batch"),
        (2, replace(step, **doubled), network, "twice as many micro-batches per optimizer step"),
    ]
    if network.shard_over == "world" and ranks > network.ranks_per_node > 1:
        inside = replace(network, shard_over="node")
        changes.append((1, step, inside, 'fsdp.shard_over="node", with more memory'))
    found = [(more * now / seconds(new, ranks, over), what) for more, new, over, what in changes]
    return sorted(found, reverse=True)
