"""Sharded weights: each process holds a shard of every parameter, of its gradient and of the optimiser's state.

FSDP2 (``torch.distributed.fsdp.fully_shard``, designed as in arXiv 2304.11277) gathers a layer's weights when they
are needed and drops them afterwards. It is applied on every device: Accelerate silently skips it on CPUs. Gradients
are *summed* over the processes, because a stream's loss is a sum over its own denominator; FSDP2 would average
them.

A sharded model is used like any other, with three exceptions: code that reads its weights outside ``forward`` runs
within ``as_forward_pass``, ``full_tensor`` gives full weights (a collective call), and it cannot be copied
(``upturn.training.optimisation.FullCopy`` is made before).
"""

from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.models.engine import adapter_identity, full_tensor, weights_hash
from upturn.training.distributed.process_group import World, broadcast_first, refuse_different

ValueT = TypeVar("ValueT")

_WORLD = "upturn_world"
_PASS = "upturn_pass"


def shard(model: PreTrainedModel, world: World | None) -> None:
    """Shards the model in place; this process keeps its shards. None = a single process, no effect.

    Call it after adding adapters and before anything else refers to the parameters, such as an optimiser. Raises
    TrainingError in every process when the processes do not have the same weights.
    """
    if world is None:
        return
    if world_of(model) is not None:
        raise TrainingError("the model is sharded already; shard it once")
    facts = {"the model": type(model).__name__, "the weights before training": weights_hash(model)}
    refuse_different(world, facts | {f"the {name}": fact for name, fact in adapter_identity(model).items()})
    kind = torch.device(world.device).type
    mesh = init_device_mesh(kind, (world.size,))
    parts = [*_layers(model), model]
    for part in parts:
        fully_shard(part, mesh=mesh)
    for part in parts:
        assert isinstance(part, FSDPModule)
        part.set_force_sum_reduction_for_comms(True)
        part.set_gradient_divide_factor(1.0)
        if kind == "cpu":
            # prefetching the next layer during this one's backward pass saves no time on a CPU
            part.set_modules_to_backward_prefetch([part])
    setattr(model, _WORLD, world)
    setattr(model, _PASS, MethodType(_run, model))
    register_fsdp_forward_method(model, _PASS)


def world_of(model: nn.Module) -> World | None:
    """The process group over which the model is sharded; None = not sharded."""
    world = getattr(model, _WORLD, None)
    return world if isinstance(world, World) else None


def as_forward_pass(model: nn.Module, compute: Callable[[], ValueT]) -> ValueT:
    """Runs ``compute`` as the model's forward pass: inside, weights outside the layers are full tensors.

    Its result must contain the tensors at which the backward pass starts. Must not be nested.
    """
    if world_of(model) is None:
        return compute()
    sharded: Any = model  # FSDP2 adds methods at run time
    try:
        result: ValueT = getattr(model, _PASS)(compute)
    except Exception:
        sharded.reset_iter_state()
        raise
    if not torch.is_grad_enabled():
        sharded.reshard()  # a backward pass would do it
    return result


def gather_tensors(tensors: Mapping[str, Tensor], world: World | None) -> dict[str, Tensor]:
    """All tensors in full, in the main memory of the first process; empty elsewhere. A collective call.

    A single process returns the tensors unchanged. The other processes hold at most one full tensor at a time.
    """
    if world is None:
        return dict(tensors)
    gathered = {}
    for name, tensor in tensors.items():
        full = full_tensor(tensor)
        if world.is_first:
            gathered[name] = full.cpu()
    return gathered


def scatter_tensor(full: Tensor | None, like: Tensor | None, world: World) -> Tensor:
    """The first process's ``full`` tensor, sharded as ``like``, or in full where that is not sharded.

    A collective call.
    """
    if not isinstance(like, DTensor):
        tensor = broadcast_first(world, lambda: full)
        assert tensor is not None
        return tensor
    source = torch.empty(like.shape, dtype=like.dtype) if full is None else full.to(like.dtype)
    return distribute_tensor(source.to(like.device), like.device_mesh, like.placements)


def shard_like(tensor: Tensor, like: Tensor) -> Tensor:
    """The tensor sharded as ``like``; a full tensor that every process holds is sharded without communication."""
    if not isinstance(like, DTensor) or isinstance(tensor, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def gradients(loss: Tensor, parameters: Sequence[nn.Parameter], world: World | None) -> list[Tensor | None]:
    """The gradient of the loss for each parameter, without changing ``.grad``; None = the parameter is unused.

    For sharded weights this is a collective call that sums the gradients.
    """
    if world is None:
        return list(torch.autograd.grad(loss, parameters, allow_unused=True))
    saved = [parameter.grad for parameter in parameters]  # FSDP2's parameters are not those of the graph
    for parameter in parameters:
        parameter.grad = None
    loss.backward()
    computed = [parameter.grad for parameter in parameters]
    for parameter, before in zip(parameters, saved, strict=True):
        parameter.grad = before
    return computed


def _run(_: nn.Module, compute: Callable[[], ValueT]) -> ValueT:
    return compute()


def _layers(model: PreTrainedModel) -> list[nn.Module]:
    """The layers that a model of ``transformers`` declares indivisible; empty = undeclared."""
    names: Any = getattr(model, "_no_split_modules", None)  # a list, a set or nothing, by version
    kinds = set(names or ())
    return [part for part in model.modules() if type(part).__name__ in kinds]
