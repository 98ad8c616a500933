    sharding.reduce_next(state.model, cfg.fsdp.reduce_each_micro_batch)
    for batch in step_batch.batches[:-1]:
        backward(state, batch, weight, process.device)
    sharding.reduce_next(state.model, True)
    backward(state, step_batch.batches[-1], weight, process.device)
