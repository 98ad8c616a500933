def handed(monkeypatch: Patch, cfg: config.Config, device: torch.device) -> dict[str, Any]:
    """The arguments that DDP is given on a device, by their names."""
    calls = common.record(monkeypatch, distributed, "DistributedDataParallel")
    distributed.wrap(common.built(cfg), distributed.Process(5, 1, 8, device), cfg)
    return calls[0][1]


def test_model_is_moved_whole_before_the_wrap(tmp_path: Path, monkeypatch: Patch) -> None:
    """DDP is handed a model that is on its device, every tensor of it, under its own names."""
    cfg = common.settings(tmp_path, "run.compile=true")
    compiled = common.record(monkeypatch, nn.Module, "compile")  # torch takes seconds
    module = handed(monkeypatch, cfg, META)["module"]
    assert compiled, "run.compile is without effect"
    tensors = [*module.named_parameters(), *module.named_buffers()]
    assert not [n for n, t in tensors if t.device != META], "not on the device when DDP was made"
    assert list(module.state_dict()) == list(common.built(cfg).state_dict()), "other names in files"


@pytest.mark.parametrize("view", ["true", "false"])
def test_ddp_gets_gpu_and_config(view: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """The local rank's GPU, and each value of [ddp] that is DDP's."""
    monkeypatch.setattr(nn.Module, "to", lambda module, *_, **__: module)
    # {% if thorough %}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    # {% endif %}
    changed = ["ddp.bucket_mb=7", f"ddp.gradient_as_bucket_view={view}"{{ static_graph }}]
    options = handed(monkeypatch, common.settings(tmp_path, *changed), torch.device("cuda", 1))
    assert options["device_ids"] == [torch.device("cuda", 1)], "not the GPU of the local rank"
    assert (options["bucket_cap_mb"], options["gradient_as_bucket_view"]) == (7, view == "true")
    # {% if static_graph %}
    assert not options["find_unused_parameters"] and options["static_graph"], "searches each step"
    # {% else %}
    assert options["find_unused_parameters"] is {{ dynamic_graph }}, "{{ 'blocks are left out' if dynamic_graph else 'a search in each step, for nothing' }}"
    # {% endif %}
    # {% if thorough %}
    assert options.get("init_sync", True), "ranks with other layers would go unnoticed"
    # {% endif %}
    # {% if running_statistics == 'sync' %}
    kinds = {type(part) for part in options["module"].modules()}
    assert nn.SyncBatchNorm in kinds, "BatchNorm is not synchronised when DDP is made"
    assert not kinds & {nn.BatchNorm1d, nn.BatchNorm2d}
    # {% endif %}
