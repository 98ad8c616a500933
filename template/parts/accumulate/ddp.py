    for batch in step_batch.batches[:-1]:
        with state.model.no_sync():  # around forward too: DDP decides there what it reduces
            backward(state, batch, weight, process.device)
    backward(state, step_batch.batches[-1], weight, process.device)
