"""Hashes that identify a model's weights."""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from upturn.models.engine.adapter import full_tensor, lora_layers, merged_state
from upturn.threads import usable_cores

_FROZEN = "upturn_frozen_hash"
_PIECE = 1 << 22
"""Bytes of a tensor that one thread hashes; a thread hashes about 0.5 to 1 GB a second."""
_PENDING = 256
"""Parts of a hash in memory."""
_Part: TypeAlias = bytes | memoryview | Future[bytes]


def weights_hash(model: PreTrainedModel) -> str:
    """32 hex digits over names, types, shapes and bits of all parameters and buffers; equal weights, equal hash.

    Independent of the device. Tied weights count once per name. A LoRA adapter is merged first, except on a base
    that is not in float32: then base and adapter are hashed. For a sharded model, every process must call it.
    """
    layers = lora_layers(model)
    if not layers or model.dtype == torch.float32:
        return _hash(merged_state(model))
    # Merging would round the adapter off, or undo the compression of the base, which never changes.
    base = torch.frombuffer(bytearray.fromhex(_frozen_hash(model)), dtype=torch.uint8)
    return _hash([("frozen", base), *_adapter_tensors(layers)])


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
    return {"adapter": f"LoRA {ranks} on {names}", "initial adapter": _hash(_adapter_tensors(layers))}


def _adapter_tensors(layers: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for name, layer in sorted(layers.items()):
        for kind in layer.active_adapters:
            for part in ("lora_A", "lora_B"):
                yield f"{name}.{part}", full_tensor(getattr(layer, part)[kind].weight)


def _frozen_hash(model: PreTrainedModel) -> str:
    """The hash of the parameters that are not trained; computed again only where one was replaced or written to."""
    frozen = {name: value for name, value in model.named_parameters() if not value.requires_grad}
    stamp = tuple((value.data_ptr(), 0 if value.is_inference() else value._version) for value in frozen.values())
    known: tuple[object, str] | None = getattr(model, _FROZEN, None)
    if known is None or known[0] != stamp:
        known = stamp, _hash(sorted(frozen.items()))
        setattr(model, _FROZEN, known)
    return known[1]


def weights_stamp(model: PreTrainedModel) -> tuple[tuple[int, int], ...]:
    """Changes when a parameter is replaced or written to in place; writes through ``.data`` are not detected."""
    return tuple(
        (parameter.data_ptr(), 0 if parameter.is_inference() else parameter._version)
        for parameter in model.parameters()
    )


def _hash(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Of names, types, shapes and bits; instead of the bits of a tensor larger than a piece, the hashes of its
    pieces, which threads compute."""
    digest = hashlib.blake2b(digest_size=16)
    with ThreadPoolExecutor(usable_cores()) as pool:  # starts threads on demand
        pending: deque[_Part] = deque()
        for name, tensor in tensors:
            pending.append(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            flat = tensor.detach().contiguous().reshape(-1)
            size = _PIECE // flat.element_size()
            if len(flat) <= size:
                pending.append(_bits(flat))
            else:
                pending += [pool.submit(_piece_hash, piece) for piece in flat.split(size)]
            while len(pending) > _PENDING:
                digest.update(_resolved(pending.popleft()))
        for part in pending:
            digest.update(_resolved(part))
    return digest.hexdigest()


def _resolved(part: _Part) -> bytes | memoryview:
    return part.result() if isinstance(part, Future) else part


def _piece_hash(piece: Tensor) -> bytes:
    return hashlib.blake2b(_bits(piece), digest_size=16).digest()


def _bits(flat: Tensor) -> memoryview:
    return flat.cpu().view(torch.uint8).numpy().data
