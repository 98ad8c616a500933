def take_apart(trainer: Trainer) -> tuple[float, float, prediction.Step]:
    """Seconds of a step, seconds that wait for other ranks, and the rest: timed in turns."""
    trainer.warm_up()
    rounds = [
        (trainer.seconds(fresh=True), trainer.seconds(), trainer.seconds(alone=True))
        for _ in range(ROUNDS)
    ]
    whole, held, alone = (statistics.median(times) for times in zip(*rounds, strict=True))
    waiting_for_data = min(whole, max(0.0, whole - held))
    # A world of one has nobody to wait for: what DDP does there is work of the step.
    others = trainer.process.world_size > 1
    waited = min(whole - waiting_for_data, max(0.0, held - alone)) if others else 0.0
    busy = whole - waiting_for_data - waited
    host = without_operation(trainer, busy)
    ready = ready_times(trainer, busy)
    return whole, waited, prediction.Step(busy - host, host, waiting_for_data, ready)


def without_operation(trainer: Trainer, busy: float) -> float:
    """The part of a step's time in which no operation runs, from a recording of a few.

    Recording slows the host down, but no kernel of a GPU. On a CPU, where operations take longer
    too, the proportion is taken.
    """
    device = trainer.process.device
    with trainer.state.model.no_sync(), timeline.recording(device) as recorded:
        for step_batch in trainer.held:
            trainer.step(step_batch)
        timing.wait_for(device)
    computing, _ = timeline.spans(recorded, device)
    if device.type == "cuda":
        idle = busy - timeline.covered(computing) / 1e6 / HELD
    else:
        idle = busy * (1 - timeline.covered(computing) / timeline.extent(computing))
    return distributed.max_over_ranks(min(busy, max(0.0, idle)), device)


def ready_times(trainer: Trainer, busy: float) -> tuple[prediction.Gradient, ...]:
    """When each gradient is ready in a step of `busy` seconds, and its size.

    Of several micro-batches the last one counts: the others' gradients do not travel. A parameter
    that got none in these steps is ready at once.
    """
    device = trainer.process.device
    trained = [p for p in trainer.state.model.parameters() if p.requires_grad]
    marks: dict[Tensor, Any] = {}

    def arrived(parameter: Tensor) -> None:
        marks[parameter] = mark(device)

    hooks = [p.register_post_accumulate_grad_hook(arrived) for p in trained]
    times: dict[Tensor, list[float]] = {p: [] for p in trained}
    total = 0.0
    for step_batch in trainer.held:
        marks.clear()
        begin = mark(device)
        with trainer.state.model.no_sync():
            trainer.step(step_batch)
        end = mark(device)
        timing.wait_for(device)
        total += between(begin, end) / HELD
        for parameter, when in marks.items():
            times[parameter].append(between(begin, when))
    for hook in hooks:
        hook.remove()
    return tuple(
        (busy / total * statistics.fmean(times[p] or [0.0]), p.numel() * p.element_size())
        for p in trained
    )
