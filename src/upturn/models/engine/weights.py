"""Hashes that identify a model's weights."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from upturn.models.engine.adapter import full_tensor, lora_layers, merged_state


def weights_hash(model: PreTrainedModel) -> str:
    """32 hex digits over names, types, shapes and bits of all parameters and buffers; equal weights, equal hash.

    Independent of the device. Tied weights count once per name. A LoRA adapter is merged first. For a sharded
    model, every process must call it.
    """
    return _hash(merged_state(model))


def adapter_identity(model: nn.Module) -> dict[str, str]:
    """Distinguishes LoRA models with the same merged weights: rank and layers, and a hash of the adapter's tensors.

    Empty = no adapter. For a sharded model, every process must call it.
    """
    layers: Mapping[str, Any] = lora_layers(model)
    if not layers:
        return {}
    kinds = sorted(
        {(layer.r[name], layer.scaling[name]) for layer in layers.values() for name in layer.active_adapters}
    )
    ranks = " and ".join(f"of rank {rank} scaled by {scale:g}" for rank, scale in kinds)
    names = ", ".join(sorted({name.rpartition(".")[2] for name in layers}))
    tensors = (
        (f"{name}.{part}", full_tensor(getattr(layer, part)[kind].weight))
        for name, layer in sorted(layers.items())
        for kind in layer.active_adapters
        for part in ("lora_A", "lora_B")
    )
    return {"adapter": f"LoRA {ranks} on {names}", "initial adapter": _hash(tensors)}


def weights_stamp(model: PreTrainedModel) -> tuple[tuple[int, int], ...]:
    """Changes when a parameter is replaced or written to in place; writes through ``.data`` are not detected."""
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
