@dataclass(frozen=True)
class Network:
    """The network between the ranks, and DDP's use of the network."""

    within: Link  # two ranks of one node
    between: Link  # two nodes, all ranks of one together
    ranks_per_node: int
    algorithm: str  # one of ALGORITHMS; "auto": whichever is faster, as NCCL chooses
    bucket: int  # size of a bucket; 0: PyTorch's own
    wire: float  # which part of a gradient's size travels: 0.5 in bfloat16
    slowdown: float = 1.0  # a collective beside the backward pass, in relation to one by itself


@dataclass(frozen=True)
class Step:
    """One optimizer step of a rank that waits for no other."""

    compute: float  # operations run
    host: float  # none runs: Python and PyTorch prepare the next one
    data: float  # nothing is there to compute with
    gradients: tuple[Gradient, ...]

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return self.compute + self.host + self.data


def all_reduce(size: float, ranks: int, network: Network) -> float:
    """One all-reduce by itself.

    A ring sends 2 (n-1) messages of size / n one after the other (Patarasuk and Yuan 2009), a
    double binary tree of nodes the whole size up and down (Sanders, Speck and Träff 2009), with
    chains inside the nodes, as in NCCL. The slowest link sets the pace.
    """
    if ranks == 1:
        return 0.0
    nodes = -(-ranks // network.ranks_per_node)
    crossed = [network.within] if ranks > nodes else []
    crossed += [network.between] if nodes > 1 else []
    bandwidth = min(link.bandwidth for link in crossed)
    inner, outer = network.within.latency, network.between.latency
    chain = (-(-ranks // nodes) - 1) * inner
    ring = 2 * (
        (ranks - nodes) * inner + (nodes - 1) * outer + (ranks - 1) / ranks * size / bandwidth
    )
    tree = 2 * (chain + math.ceil(math.log2(nodes)) * outer + size / bandwidth)
    return {"ring": ring, "tree": tree, "auto": min(ring, tree)}[network.algorithm]


def buckets(gradients: Iterable[Gradient], size: int) -> list[Gradient]:
    """When each bucket is full, and what is in it: DDP closes one that has reached the size."""
    full: list[Gradient] = []
    limit, filled = size or FIRST, 0
    ready = 0.0
    for ready, grown in sorted(gradients):
        filled += grown
        if filled >= limit:
            full.append((ready, filled))
            limit, filled = size or OTHERS, 0
    return [*full, (ready, filled)] if filled else full


def exposed(step: Step, ranks: int, network: Network) -> float:
    """The seconds that a rank waits for gradients after its backward pass."""
    end = arrived = 0.0
    for ready, size in buckets(step.gradients, network.bucket):
        travel = network.slowdown * all_reduce(network.wire * size, ranks, network)
        end = ready
        arrived = max(arrived, ready) + travel
    return arrived - end


def communication(step: Step, ranks: int, network: Network) -> float:
    """All all-reduces of a step, one after the other, with no backward pass beside them."""
    sizes = (size for _, size in buckets(step.gradients, network.bucket))
    return sum(all_reduce(network.wire * size, ranks, network) for size in sizes)


def levers(step: Step, ranks: int, network: Network) -> list[tuple[float, str]]:
    """Changes that help, each with the factor by which samples per second grow; best first.

    A micro-batch twice as large takes twice as long to load and compute, and the host no longer.
    """
    now = seconds(step, ranks, network)
    best = min(BUCKETS, key=lambda mib: seconds(step, ranks, replace(network, bucket=mib * MIB)))
    in_buckets = seconds(step, ranks, replace(network, bucket=best * MIB))
    larger = replace(step, compute=2 * step.compute, data=2 * step.data)
    later = tuple((ready * larger.total / step.total, size) for ready, size in step.gradients)
    in_large = seconds(replace(larger, gradients=later), ranks, network)
    in_two = step.total + now
    found = [
        (now / in_buckets, f"ddp.bucket_mb={best}"),
        (2 * now / in_large, "twice as many samples per micro-batch"),
        (2 * now / in_two, "twice as many micro-batches per optimizer step"),
    ]
    if network.wire == 1:
        in_half = seconds(step, ranks, replace(network, wire=0.5))
        found.append((now / in_half, "ddp.compress=bf16 (option compression)"))
    return sorted(found, reverse=True)
