"""Whole tensors of a checkpoint from the shares of all ranks, and back."""

from typing import Any

from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from engine import sharding


def gathered(values: Any, keep: bool) -> Any:
    """Dictionaries and lists with whole tensors, on the CPU; every rank must call it.

    Only where `keep`, so that the other ranks hold one whole tensor at a time.
    """
    if isinstance(values, dict):
        return {name: gathered(value, keep) for name, value in values.items()}
    if isinstance(values, list):
        return [gathered(value, keep) for value in values]
    if not isinstance(values, DTensor):
        return values
    tensor = sharding.whole(values)
    return tensor.cpu() if keep else None


def of_model(network: nn.Module, saved: dict[str, Tensor]) -> dict[str, Tensor]:
    """This rank's shares of the saved weights; other models' weights stay whole, and do not fit."""
    own = network.state_dict()
    return {n: _share(tensor, own.get(n, tensor)) for n, tensor in saved.items()}


def of_optimizer(optimizer: Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    """This rank's shares of the saved moments, which have the numbers of their parameters."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    state = {
        n: {name: _share(value, like=p) for name, value in saved["state"][n].items()}
        for n, p in zip(numbers, parameters, strict=True)
        if n in saved["state"]
    }
    return saved | {"state": state}


def _share(tensor: Tensor, like: Tensor) -> Tensor:
    """This rank's share of a whole tensor, in its own memory, and divided as `like` is.

    Nothing is sent: each rank has the whole tensor, mapped, and reads its share only.
    """
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor.clone()
    own = distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)
    return own.clone()
