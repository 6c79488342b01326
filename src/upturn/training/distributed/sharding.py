"""Weights in shards: each process holds its part of every parameter, of its gradient and of the optimiser's state.

FSDP2 (``torch.distributed.fsdp.fully_shard``, by the design of arXiv 2304.11277) gathers a layer's weights when
they are needed and drops them after it. It is called here, on every device: Accelerate leaves it out on CPUs
without a word. Gradients are *added* over the processes, since a stream's loss is a sum over its own denominator;
FSDP2 would take their mean.

A sharded model is used like any other, with three exceptions: what reads its weights outside ``forward`` does so
within ``as_pass``, whoever needs them whole asks ``full_tensor`` (all processes at once), and it cannot be copied
(``upturn.training.optimisation.full_weights.WholeCopy`` is made before).
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
from upturn.models.engine import adapter_identity, weights_hash, full_tensor
from upturn.training.distributed.process_group import World, agreed, refuse_different

ValueT = TypeVar("ValueT")

_WORLD = "upturn_world"
_PASS = "upturn_pass"


def shard(model: PreTrainedModel, world: World | None) -> None:
    """Leaves this process its part of the model's weights, in place; None = one process, nothing changes.

    To be called before anything else holds the parameters, such as an optimiser; adapters come before. Raises
    TrainingError, in every process, when the processes do not hold the same weights.
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
            # by itself it would gather the next layer during this one's backward pass: on a CPU that saves no time
            part.set_modules_to_backward_prefetch([part])
    setattr(model, _WORLD, world)
    setattr(model, _PASS, MethodType(_run, model))
    register_fsdp_forward_method(model, _PASS)


def world_of(model: nn.Module) -> World | None:
    """The processes that hold the model's weights together; None = this one holds all of them."""
    found = getattr(model, _WORLD, None)
    return found if isinstance(found, World) else None


def as_pass(model: nn.Module, compute: Callable[[], ValueT]) -> ValueT:
    """``compute``, run as the model's forward pass: inside, the weights that no layer holds are whole tensors.

    What it returns must be, or contain, the tensors that the backward pass begins with. Not to be nested.
    """
    if world_of(model) is None:
        return compute()
    sharded: Any = model  # FSDP2 gives the class its methods at run time
    try:
        found: ValueT = getattr(model, _PASS)(compute)
    except Exception:
        sharded.reset_iter_state()
        raise
    if not torch.is_grad_enabled():
        sharded.reshard()  # a backward pass would
    return found


def gathered(tensors: Mapping[str, Tensor], world: World | None) -> dict[str, Tensor]:
    """All tensors whole, in the first process only and there in main memory; elsewhere empty. All must call.

    One process: the tensors as they are. No process holds more than one whole tensor at a time beside those.
    """
    if world is None:
        return dict(tensors)
    found = {}
    for name, tensor in tensors.items():
        whole = full_tensor(tensor)
        if world.is_first:
            found[name] = whole.cpu()
    return found


def scattered(whole: Tensor | None, like: Tensor | None, world: World) -> Tensor:
    """The first process's ``whole`` in all of them: laid out as ``like``, or whole where that is. All must call."""
    if not isinstance(like, DTensor):
        return agreed(world, lambda: _there(whole))
    given = torch.empty(like.shape, dtype=like.dtype) if whole is None else whole.to(like.dtype)
    return distribute_tensor(given.to(like.device), like.device_mesh, like.placements)


def laid_out(tensor: Tensor, like: Tensor) -> Tensor:
    """The tensor laid out as ``like`` is; a whole one that every process holds is cut without talking."""
    if not isinstance(like, DTensor) or isinstance(tensor, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def gradients(loss: Tensor, parameters: Sequence[nn.Parameter], world: World | None) -> list[Tensor | None]:
    """Of the loss, one per parameter; what has been accumulated in ``.grad`` stays as it is. None = unused.

    Where weights are sharded, all processes must call it, and the gradients are added over them.
    """
    if world is None:
        return list(torch.autograd.grad(loss, parameters, allow_unused=True))
    held = [each.grad for each in parameters]  # FSDP2's parameters are not those of the graph
    for parameter in parameters:
        parameter.grad = None
    loss.backward()
    found = [each.grad for each in parameters]
    for each, before in zip(parameters, held, strict=True):
        each.grad = before
    return found


def _there(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor


def _run(_: nn.Module, compute: Callable[[], ValueT]) -> ValueT:
    return compute()


def _layers(model: PreTrainedModel) -> list[nn.Module]:
    """The repeated parts that a model of ``transformers`` says must stay whole; none = it does not say."""
    names: Any = getattr(model, "_no_split_modules", None)  # a list, a set or nothing, by version
    kinds = set(names or ())
    return [part for part in model.modules() if type(part).__name__ in kinds]
