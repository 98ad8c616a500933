def wrap(model: nn.Module, process: Process, cfg: config.Config) -> DistributedDataParallel:
    """Prepare the model for this rank: moved first, as DDP keeps references to the parameters."""
    # {% if running_statistics == 'sync' %}
    # Before the move, so that new modules move, too.
    if process.device.type == "cuda":
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    elif process.is_main:
        print("SyncBatchNorm needs GPUs: on CPUs each rank normalises its own micro-batch")
    # {% endif %}
    model = model.to(process.device)
    if cfg.run.compile:  # in place: names of weights stay as they are
        model.compile()
    return DistributedDataParallel(
        model,
        device_ids=[process.device] if process.device.type == "cuda" else None,
        bucket_cap_mb=cfg.ddp.bucket_mb or None,  # None also makes the first bucket small
        gradient_as_bucket_view=cfg.ddp.gradient_as_bucket_view,
        # {% if dynamic_graph %}
        # Blocks are skipped at random: DDP must find out which gradients will not come.
        find_unused_parameters=True,
        # {% elif not accumulation %}
        static_graph=cfg.ddp.static_graph,
        # {% endif %}
    )
