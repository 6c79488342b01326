"""Gradient checkpointing by policy: which activations the backward pass recomputes (arXiv 1604.06174).

``full`` keeps the input of each layer. ``selective`` also keeps the results of matrix products and of torch's
attention, so that only what is cheap is computed again: norms, rotations, activation functions.
"""

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import create_selective_checkpoint_contexts
from transformers import PreTrainedModel

from upturn.config import Recomputed

_ATEN = torch.ops.aten
_KEPT = [
    _ATEN.mm.default,
    _ATEN.addmm.default,
    _ATEN.bmm.default,
    _ATEN._scaled_dot_product_flash_attention.default,
    _ATEN._scaled_dot_product_efficient_attention.default,
    _ATEN._scaled_dot_product_flash_attention_for_cpu.default,
    _ATEN._scaled_dot_product_cudnn_attention.default,
]
"""Operations whose results ``selective`` keeps."""


def recompute(model: PreTrainedModel, policy: Recomputed) -> None:
    """Sets up a model's layers for the policy; ``none`` changes nothing."""
    if policy == "none":
        return
    arguments: dict[str, Any] = {"use_reentrant": False}
    if policy == "selective":
        arguments["context_fn"] = partial(create_selective_checkpoint_contexts, _KEPT)
    layers: Any = model  # the method's name depends on the version of transformers
    if hasattr(layers, "activation_checkpointing_enable"):
        layers.activation_checkpointing_enable(arguments)
    else:
        layers.gradient_checkpointing_enable(arguments)
