"""Which weights a model has, as a hash."""

import hashlib

import torch
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel


def weights_hash(model: PreTrainedModel) -> str:
    """32 hex digits over names, types, shapes and bits of all parameters and buffers; equal weights, equal hash.

    Independent of the device. Tied weights count once per name. Of a model in shards, all processes must ask.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        bits = whole.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(bits.numpy().data)
    return digest.hexdigest()


def weights_stamp(model: PreTrainedModel) -> tuple[tuple[int, int], ...]:
    """Changes when a parameter is replaced or written to in place; what goes through ``.data`` escapes it."""
    return tuple(
        (parameter.data_ptr(), 0 if parameter.is_inference() else parameter._version)
        for parameter in model.parameters()
    )
