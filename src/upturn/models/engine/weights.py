"""Which weights a model has, as a hash."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from upturn.models.engine.adapter import lora_layers, merged_state, whole_tensor


def weights_hash(model: PreTrainedModel) -> str:
    """32 hex digits over names, types, shapes and bits of all parameters and buffers; equal weights, equal hash.

    Independent of the device. Tied weights count once per name. Of a model with a LoRA adapter it is that of the
    model with the adapter merged. Of a model in shards, all processes must ask.
    """
    return _hash(merged_state(model))


def adapter_facts(model: nn.Module) -> dict[str, str]:
    """What tells a model with a LoRA adapter from others of the same hash: kind, and the adapter's own tensors.

    Empty = it has none. Of a model in shards, all processes must ask.
    """
    layers: Mapping[str, Any] = lora_layers(model)
    if not layers:
        return {}
    kinds = sorted(
        {(each.r[name], each.scaling[name]) for each in layers.values() for name in each.active_adapters}
    )
    shown = " and ".join(f"of rank {rank} scaled by {scale:g}" for rank, scale in kinds)
    names = ", ".join(sorted({name.rpartition(".")[2] for name in layers}))
    tensors = (
        (f"{name}.{part}", whole_tensor(getattr(layer, part)[kind].weight))
        for name, layer in sorted(layers.items())
        for kind in layer.active_adapters
        for part in ("lora_A", "lora_B")
    )
    return {"adapter": f"LoRA {shown} on {names}", "initial adapter": _hash(tensors)}


def weights_stamp(model: PreTrainedModel) -> tuple[tuple[int, int], ...]:
    """Changes when a parameter is replaced or written to in place; what goes through ``.data`` escapes it."""
    return tuple(
        (parameter.data_ptr(), 0 if parameter.is_inference() else parameter._version)
        for parameter in model.parameters()
    )


def _hash(tensors: Iterable[tuple[str, Tensor]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        bits = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(bits.numpy().data)
    return digest.hexdigest()
