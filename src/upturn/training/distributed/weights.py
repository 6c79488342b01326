"""A model's tensors by name: copying them, putting them back or blending them in place, a digest against damage.

Tied tensors appear once, under their first name. Those of a sharded model are shards, each with the shape of the
whole; whole ones can be put back too, where every process holds them. The identity of weights is
``upturn.models.engine.weights_hash``.
"""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from upturn.errors import TrainingError
from upturn.training.distributed.sharding import laid_out


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
    with torch.no_grad():
        for own, tensor in _paired(model, tensors):
            own.copy_(tensor)


def blend(model: nn.Module, tensors: Mapping[str, Tensor], share: float) -> None:
    """Moves the model's weights in place to ``1 - share`` of their own and ``share`` of ``tensors``, in [0, 1].

    What lies between weights before and after fine-tuning keeps most of what either can do (WiSE-FT, arXiv
    2109.01903). Raises TrainingError, with the model untouched, when names or shapes are not the model's.
    """
    with torch.no_grad():
        for own, tensor in _paired(model, tensors):
            if own.is_floating_point():
                own.lerp_(tensor, share)


def _paired(model: nn.Module, tensors: Mapping[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """The model's tensors, each with its counterpart; raises TrainingError."""
    own = weight_tensors(model)
    differing = sorted(own.keys() ^ tensors.keys()) or sorted(
        name for name, tensor in own.items() if tensor.shape != tensors[name].shape
    )
    if differing:
        raise TrainingError(
            f"{len(differing)} tensors do not fit the model, the first is {differing[0]!r}; "
            "the weights belong to another architecture"
        )
    return [(tensor, laid_out(tensors[name], tensor)) for name, tensor in own.items()]


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        found.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
