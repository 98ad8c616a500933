def take_apart(trainer: Trainer) -> tuple[float, float, prediction.Step]:
    """Seconds of a step, seconds that wait for other ranks, and the rest: timed, and recorded."""
    trainer.warm_up()
    rounds = [(trainer.seconds(fresh=True), trainer.seconds()) for _ in range(ROUNDS)]
    whole, held = (statistics.median(times) for times in zip(*rounds, strict=True))
    waiting_for_data = min(whole, max(0.0, whole - held))
    host, waited = without_operation(trainer, whole - waiting_for_data)
    busy = whole - waiting_for_data - waited
    alone = prediction.Step(
        busy - host,
        host,
        waiting_for_data,
        units(trainer, busy),
        # {% if accumulation %}
        trainer.batches.accumulation_steps,
        trainer.cfg.fsdp.reduce_each_micro_batch,
        # {% endif %}
        ahead=trainer.process.device.type != "cpu",
    )
    return whole, waited, alone


def without_operation(trainer: Trainer, held: float) -> tuple[float, float]:
    """The parts of a step's time in which nothing runs, and in which collectives alone run.

    From a recording of a few steps. Recording slows the host down, but no kernel of a GPU. On a
    CPU, where operations take longer too, the proportions are taken. The rank that waits least is
    the one that the others wait for; a world of one waits for nobody.
    """
    device = trainer.process.device
    with timeline.recording(device) as recorded:
        for step_batch in trainer.held:
            trainer.step(step_batch)
        timing.wait_for(device)
    computing, sending = timeline.spans(recorded, device)
    busy, either = timeline.covered(computing), timeline.covered([*computing, *sending])
    seconds = 1e-6 / HELD if device.type == "cuda" else held / timeline.extent(computing)
    waited = max(0.0, min(held, seconds * (either - busy)))
    if trainer.process.world_size == 1:
        waited = 0.0
    waited = held - distributed.max_over_ranks(held - waited, device)
    idle = max(0.0, min(held - waited, held - seconds * either))
    return distributed.max_over_ranks(idle, device), waited


def units(trainer: Trainer, busy: float) -> tuple[prediction.Unit, ...]:
    """What travels together, and the parts of the `busy` seconds of a step.

    The forward passes are looked at; of the rest each unit has the same part as of these.
    """
    # {% if accumulation %}
    busy /= trainer.batches.accumulation_steps
    # {% endif %}
    spent = forward_times(trainer)
    forward = sum(spent.values())
    shares = ((part, own / forward) for part, own in spent.items())
    forward = min(forward, busy)
    return tuple(
        unit_of(part, trainer, share * forward, share * (busy - forward)) for part, share in shares
    )


def unit_of(part: nn.Module, trainer: Trainer, forward: float, backward: float) -> prediction.Unit:
    """The unit of a module, which has all parameters that no module inside has taken."""
    # {% if amp != 'off' %}
    low = steps.autocasts(trainer.process.device)  # gradients travel in float32 all the same
    # {% endif %}
    inside = [m for m in part.modules() if m is not part and isinstance(m, FSDPModule)]
    taken = {parameter for module in inside for parameter in module.parameters()}
    own = [parameter for parameter in part.parameters() if parameter not in taken]
    return prediction.Unit(
        forward,
        backward,
        weights=sum(p.numel() * {{ 'p.element_size()' if amp == 'off' else '(2 if low else p.element_size())' }} for p in own),
        gradients=sum(p.numel() * p.element_size() for p in own if p.requires_grad),
        again=not inside and trainer.cfg.fsdp.reshard_after_forward,  # see sharding.wrap
    )


def forward_times(trainer: Trainer) -> dict[nn.Module, float]:
    """Seconds of a micro-batch's forward pass by unit, in their order, without the waits."""
    forward = Forward(trainer.state.model, trainer.process.device)
    trainer.step(trainer.held[0])  # compiled blocks are compiled anew, with the hooks
    forward.marks.clear()
    for step_batch in trainer.held:
        trainer.step(step_batch)
    timing.wait_for(trainer.process.device)
    forward.remove()
    return forward.times()


class Forward:
    """Marks of forward passes, on both sides of FSDP's own hooks, which wait for weights.

    Forward passes of blocks that a backward pass repeats are passed over.
    """

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        self.network = network
        self.device = device
        self.inside = False
        self.marks: list[tuple[nn.Module | None, Any]] = []  # who works from here on; None: nobody
        wait, work, end = map(torch.compiler.disable, (self.wait, self.work, self.end))
        self.hooks = [network.register_forward_hook(end, prepend=True)]
        for part in network.modules():
            if isinstance(part, FSDPModule):
                self.hooks.append(part.register_forward_pre_hook(wait, prepend=True))
                self.hooks.append(part.register_forward_pre_hook(work))

    def wait(self, *_: object) -> None:
        """The next unit's weights may not be there yet."""
        if self.inside:
            self.marks.append((None, mark(self.device)))

    def work(self, part: nn.Module, *_: object) -> None:
        """The weights are there."""
        self.inside |= part is self.network
        if self.inside:
            self.marks.append((part, mark(self.device)))

    def end(self, *_: object) -> None:
        """The forward pass is over."""
        self.wait()
        self.inside = False

    def remove(self) -> None:
        """Leave no mark any more."""
        for hook in self.hooks:
            hook.remove()

    def times(self) -> dict[nn.Module, float]:
        """Seconds of one forward pass by unit, in their order."""
        found: dict[nn.Module, float] = {}
        passes = sum(part is self.network for part, _ in self.marks)
        for (part, since), (_, until) in pairwise(self.marks):
            if part is not None:
                found[part] = found.get(part, 0.0) + between(since, until) / passes
        return found
