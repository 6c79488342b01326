"""A model's tensors by name: copy, restore and blend them, and a digest that detects damage.

Tied tensors appear once, under their first name. Those of a sharded model are shards with the shape of the full
tensor; full tensors can be restored too, where every process holds them. Weights are identified by
``upturn.models.engine.weights_hash``.
"""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from upturn.errors import TrainingError
from upturn.training.distributed.sharding import shard_like


def weight_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and stored buffer by name; the model's own tensors, not copies."""
    stored = model.state_dict(keep_vars=True).keys()
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach() for name, tensor in named if name in stored}


def trained_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors that training changes, by name: the trained parameters, or all of ``weight_tensors`` where no
    parameter is frozen. The model's own tensors, not copies."""
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    tensors = weight_tensors(model)
    return {name: tensor for name, tensor in tensors.items() if name in trained} if frozen else tensors


def copy_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of the tensors."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def restore_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copies ``tensors``, all of the model's or all trained ones, into the model's own, in place.

    Raises TrainingError, with the model untouched, when names or shapes are not the model's.
    """
    with torch.no_grad():
        for current, tensor in _pairs(model, tensors):
            current.copy_(tensor)


def blend(model: nn.Module, tensors: Mapping[str, Tensor], share: float) -> None:
    """Moves the model's weights in place to ``1 - share`` of their own and ``share`` of ``tensors``, in [0, 1].

    Interpolating weights before and after fine-tuning keeps most abilities of both (WiSE-FT, arXiv
    2109.01903). Raises TrainingError, with the model untouched, when names or shapes are not the model's.
    """
    with torch.no_grad():
        for current, tensor in _pairs(model, tensors):
            if current.is_floating_point():
                current.lerp_(tensor.to(current), share)


def _pairs(model: nn.Module, tensors: Mapping[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """The model's tensors, each with its counterpart; raises TrainingError."""
    current = trained_tensors(model)
    if tensors.keys() != current.keys():
        current = weight_tensors(model)
    differing = sorted(current.keys() ^ tensors.keys()) or sorted(
        name for name, tensor in current.items() if tensor.shape != tensors[name].shape
    )
    if differing:
        raise TrainingError(
            f"{len(differing)} tensors do not fit the model, the first is {differing[0]!r}; "
            "the weights belong to another architecture"
        )
    return [(tensor, shard_like(tensors[name], tensor)) for name, tensor in current.items()]


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    sha256 = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        sha256.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        sha256.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha256.hexdigest()
