"""Gradient checkpointing: the layers whose activations the backward pass recomputes (arXiv 1604.06174)."""

from typing import Any

from transformers import PreTrainedModel

from upturn.config import Recomputed
from upturn.errors import TrainingError


def recompute(model: PreTrainedModel, policy: Recomputed) -> None:
    """Sets up a model's layers: ``full`` recomputes all, ``half`` those with an even number, ``none`` none.

    Raises TrainingError for ``half`` where the layers cannot be set up one by one.
    """
    if policy == "none":
        return
    whole: Any = model  # the method's name depends on the version of transformers
    if hasattr(whole, "activation_checkpointing_enable"):
        whole.activation_checkpointing_enable({"use_reentrant": False})
    else:
        whole.gradient_checkpointing_enable({"use_reentrant": False})
    if policy == "full":
        return
    layers = getattr(whole.get_decoder(), "layers", None)
    if not layers or not all(getattr(layer, "gradient_checkpointing", False) for layer in layers):
        raise TrainingError(
            f"the layers of {type(model).__name__} cannot be recomputed one by one; set "
            "optimiser.gradient_checkpointing to 'full' or 'none', got 'half'"
        )
    for layer in layers[1::2]:
        layer.gradient_checkpointing = False
