"""The local engine: a causal language model of ``transformers`` behind the contract of ``Model``. Needs torch."""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.models.engine.table import Counters

if TYPE_CHECKING:
    from upturn.models.engine.adapter import lora_layers, unwrapped, weight_of, whole_tensor
    from upturn.models.engine.engine import LocalEngine
    from upturn.models.engine.verification import Forward
    from upturn.models.engine.weights import adapter_facts, weights_hash
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "lora_layers": "adapter",
            "unwrapped": "adapter",
            "weight_of": "adapter",
            "whole_tensor": "adapter",
            "LocalEngine": "engine",
            "Forward": "verification",
            "adapter_facts": "weights",
            "weights_hash": "weights",
        },
    )

__all__ = [
    "Counters",
    "Forward",
    "LocalEngine",
    "adapter_facts",
    "lora_layers",
    "unwrapped",
    "weight_of",
    "weights_hash",
    "whole_tensor",
]
