"""FSDP2 as one writes it by hand after the tutorial: blocks first, the whole model last."""

from pathlib import Path

import model
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint import state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from bench.cases import received


def share_out(network: nn.Module, mesh: DeviceMesh | None = None) -> nn.Module:
    """Share the weights out over all ranks, which keep those of one block at a time."""
    amp = received().amp
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if amp else None,
        reduce_dtype=torch.float32 if amp else None,
        cast_forward_inputs=False,  # token ids; autocast casts the rest
    )
    for block in [part for part in network.modules() if isinstance(part, model.BLOCK)]:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(network, mesh=mesh, reshard_after_forward=False, mp_policy=policy)
    return network


def save(network: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Write each rank's share."""
    weights, moments = state_dict.get_state_dict(network, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    dist.barrier()


def load(network: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Read each rank's share."""
    weights, moments = state_dict.get_state_dict(network, optimizer)
    content = {"model": weights, "optimizer": moments}
    dcp.load(content, checkpoint_id=folder)
    state_dict.set_state_dict(
        network,
        optimizer,
        model_state_dict=content["model"],
        optim_state_dict=content["optimizer"],
    )
