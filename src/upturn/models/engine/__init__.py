"""The local engine: a causal language model of ``transformers`` behind the contract of ``Model``. Needs torch."""

from upturn.models.engine.engine import LocalEngine
from upturn.models.engine.table import Counters
from upturn.models.engine.verification import Forward
from upturn.models.engine.weights import adapter_facts, weights_hash

__all__ = ["Counters", "Forward", "LocalEngine", "adapter_facts", "weights_hash"]
