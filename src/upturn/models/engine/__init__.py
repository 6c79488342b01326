"""The local engine: a causal language model of ``transformers`` behind the contract of ``Model``. Needs torch.

``engine`` does continuous batching over session slots (``table``, ``batch``, ``sampler``); two backends compute the
forward pass: ``direct`` (our own decoder) and ``modules`` (the model's); ``verification`` chooses one and compares
it with the model. Not here: rendering text (``upturn.models``) and training. Start with ``engine``, then
``backend``. ``adapter`` and ``weights`` (LoRA merging, hashes) are also used by training.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.models.engine.table import Counters

if TYPE_CHECKING:
    from upturn.models.engine.adapter import full_tensor, lora_layers, unwrap, weight_of
    from upturn.models.engine.engine import LocalEngine
    from upturn.models.engine.verification import Forward
    from upturn.models.engine.weights import adapter_identity, weights_hash, weights_stamp
else:
    _ADAPTER = ("full_tensor", "lora_layers", "unwrap", "weight_of")
    _WEIGHTS = ("adapter_identity", "weights_hash", "weights_stamp")
    __getattr__ = lazy_names(
        __name__,
        {"LocalEngine": "engine", "Forward": "verification"}
        | dict.fromkeys(_ADAPTER, "adapter")
        | dict.fromkeys(_WEIGHTS, "weights"),
    )

__all__ = [
    "Counters",
    "Forward",
    "LocalEngine",
    "adapter_identity",
    "full_tensor",
    "lora_layers",
    "unwrap",
    "weight_of",
    "weights_hash",
    "weights_stamp",
]
