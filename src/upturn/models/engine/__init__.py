"""The local engine: a causal language model of ``transformers`` behind the contract of ``Model``. Needs torch.

``engine`` does continuous batching over session slots (``table``, ``batch``, ``sampler``); three backends compute
the forward pass: ``direct`` (our own decoder; ``replay`` records its steps), ``modules`` (the model's, over our
cache) and ``fallback`` (the model over its own cache); ``verification`` chooses one and compares it with the model.
Not here: rendering text (``upturn.models``) and training. Start with ``engine``, then ``backend``. ``adapter``,
``head``, ``loading`` and ``weights`` (LoRA merging, logits, folders, hashes) are also used by training.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.models.engine.table import Counters

if TYPE_CHECKING:
    from upturn.models.engine.adapter import full_tensor, is_quantised, lora_layers, unwrap, update_of, weight_of
    from upturn.models.engine.engine import LocalEngine
    from upturn.models.engine.head import backbone_of, head_of
    from upturn.models.engine.loading import (
        UnsupportedModelError,
        auto_class,
        freeze_other_parts,
        is_composite,
        language_part,
    )
    from upturn.models.engine.verification import Forward
    from upturn.models.engine.weights import adapter_identity, weights_hash, weights_stamp
else:
    _ADAPTER = ("full_tensor", "is_quantised", "lora_layers", "unwrap", "update_of", "weight_of")
    _WEIGHTS = ("adapter_identity", "weights_hash", "weights_stamp")
    __getattr__ = lazy_names(
        __name__,
        {"LocalEngine": "engine", "Forward": "verification"}
        | dict.fromkeys(_ADAPTER, "adapter")
        | dict.fromkeys(("backbone_of", "head_of"), "head")
        | dict.fromkeys(
            ("UnsupportedModelError", "auto_class", "freeze_other_parts", "is_composite", "language_part"),
            "loading",
        )
        | dict.fromkeys(_WEIGHTS, "weights"),
    )

__all__ = [
    "Counters",
    "Forward",
    "LocalEngine",
    "UnsupportedModelError",
    "adapter_identity",
    "auto_class",
    "backbone_of",
    "freeze_other_parts",
    "full_tensor",
    "head_of",
    "is_composite",
    "is_quantised",
    "language_part",
    "lora_layers",
    "unwrap",
    "update_of",
    "weight_of",
    "weights_hash",
    "weights_stamp",
]
