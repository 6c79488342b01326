"""A model's tensors by name: copying, hashing and putting them back in place.

Tied tensors appear once, under their first name. The hash is taken over values, not over files: a version stored in
bfloat16 and the float32 model loaded from it have the same hash.
"""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from upturn.errors import TrainingError


def weight_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and stored buffer by name; the model's own tensors, not copies."""
    stored = model.state_dict(keep_vars=True).keys()
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach() for name, tensor in named if name in stored}


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as they are now."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def put_back(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copies ``tensors`` into the model in place, so that whoever shares its weights sees them.

    Raises TrainingError, with the model untouched, when names or shapes are not the model's.
    """
    own = weight_tensors(model)
    differing = sorted(own.keys() ^ tensors.keys()) or sorted(
        name for name, tensor in own.items() if tensor.shape != tensors[name].shape
    )
    if differing:
        raise TrainingError(
            f"{len(differing)} tensors do not fit the model, the first is {differing[0]!r}; "
            "the weights belong to another architecture"
        )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        found.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def weights_hash(model: nn.Module) -> str:
    """The identity of a model's weights: 64 hexadecimal digits over their values as float32."""
    return digest({name: _as_float32(tensor) for name, tensor in weight_tensors(model).items()})


def _as_float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor
