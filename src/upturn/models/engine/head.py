"""From a model's last hidden states to its logits, also where the model scales or caps them after its output layer.

Nothing is known about families: a head that is more than the output layer is the model's own code, run with its
backbone replaced by the hidden states. Letters: U positions, d hidden size, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from upturn.models.engine.adapter import unwrap

_PROBES = 4
"""Hidden states on which the output layer is compared with the model's own code."""
_LARGE = 100.0
"""Largest logit of the comparison: a cap of 50 changes it by half, whatever the weights."""
_TOLERANCE = 1e-3
"""Largest relative difference that rounding explains in float32 (about 1e-6); other types: 100 times."""


def backbone_of(model: PreTrainedModel) -> Any:
    """The part of the model up to its last hidden states; raises ValueError where there is none to be found."""
    base: Any = unwrap(model)  # nn.Module does not know the methods of PreTrainedModel
    decoder: Any = base.get_decoder()
    if decoder is not base and isinstance(decoder, PreTrainedModel):
        return decoder
    backbone = next((child for child in base.children() if isinstance(child, PreTrainedModel)), None)
    if backbone is None:
        raise ValueError(f"{type(base).__name__} has no backbone apart from its head")
    return backbone


def head_of(model: PreTrainedModel) -> Any:
    """The output layer where nothing follows it, else an ``OwnHead``: ``(U, d)`` to logits ``(U, V)``.

    Decided on a few large random hidden states. For a sharded model, call it within a forward pass.
    """
    base: Any = unwrap(model)
    output_layer: Any = base.get_output_embeddings()
    own = OwnHead(model)
    return output_layer if output_layer is not None and _is_plain(output_layer, own) else own


class OwnHead:
    """What the model's own code does after its backbone; gradients pass through. Its weights are the model's."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model: Any = unwrap(model)
        self._backbone = backbone_of(model)

    @property
    def weight(self) -> Tensor:
        """The output layer's, ``(V, d)``; without one, the embedding's."""
        layer: Any = self._model.get_output_embeddings() or self._model.get_input_embeddings()
        weight: Tensor = layer.weight
        return weight

    def __call__(self, hidden: Tensor) -> Tensor:
        """``(U, V)``: logits of the hidden states ``(U, d)``."""
        ids = torch.zeros((1, len(hidden)), dtype=torch.int64, device=hidden.device)
        with _replaced(self._backbone, _Output(hidden[None])):
            # not by calling the model, which would gather sharded weights again within a pass
            output: Any = self._model.forward(input_ids=ids, use_cache=False)
        logits: Tensor = output.logits[0]
        return logits


class _Output:
    """The output of a backbone, of any type: the hidden states first, None for everything else."""

    def __init__(self, hidden: Tensor) -> None:
        self.last_hidden_state = hidden

    def __getattr__(self, _name: str) -> None:
        return None

    def __getitem__(self, index: int | slice) -> Any:
        return (self.last_hidden_state,)[index]


@contextmanager
def _replaced(backbone: nn.Module, output: _Output) -> Iterator[None]:
    """Within it, the backbone returns the output."""
    before = backbone.__dict__.get("forward")
    backbone.__dict__["forward"] = lambda *_arguments, **_names: output
    try:
        yield
    finally:
        del backbone.__dict__["forward"]
        if before is not None:
            backbone.__dict__["forward"] = before


@torch.no_grad()
def _is_plain(output_layer: Any, own: OwnHead) -> bool:
    """Whether the output layer alone gives the logits of the model's own code."""
    weight = own.weight
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn((_PROBES, weight.shape[1]), generator=generator).to(weight.device, weight.dtype)
    ours = output_layer(hidden)
    scale = _LARGE / ours.abs().max().clamp(min=1e-6)
    ours, theirs = output_layer(hidden * scale).float(), own(hidden * scale).float()
    allowed = _TOLERANCE if weight.dtype == torch.float32 else 100 * _TOLERANCE
    return ours.shape == theirs.shape and bool((ours - theirs).abs().max() <= allowed * _LARGE)
