"""Several processes that train one model.

Here: the process group and its collective calls, sharded weights, and copies of weights by name. Not here: the
assignment of micro-batches to processes (``optimisation.load_balance``). Start with ``process_group``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.distributed.process_group import (
    Limits,
    World,
    all_gather,
    broadcast_first,
    connect,
    refuse_different,
    world_from_environment,
)
from upturn.training.distributed.rank0 import Rank0Calls

if TYPE_CHECKING:
    from upturn.training.distributed.sharding import (
        as_forward_pass,
        gather_tensors,
        gradients,
        scatter_tensor,
        shard,
        shard_like,
        world_of,
    )
    from upturn.training.distributed.weights import (
        blend,
        copy_tensors,
        digest,
        restore_weights,
        trained_tensors,
        weight_tensors,
    )
else:
    _SHARDING = (
        "as_forward_pass",
        "gather_tensors",
        "gradients",
        "scatter_tensor",
        "shard",
        "shard_like",
        "world_of",
    )
    _WEIGHTS = ("blend", "copy_tensors", "digest", "restore_weights", "trained_tensors", "weight_tensors")
    __getattr__ = lazy_names(__name__, dict.fromkeys(_SHARDING, "sharding") | dict.fromkeys(_WEIGHTS, "weights"))

__all__ = [
    "Limits",
    "Rank0Calls",
    "World",
    "all_gather",
    "as_forward_pass",
    "blend",
    "broadcast_first",
    "connect",
    "copy_tensors",
    "digest",
    "gather_tensors",
    "gradients",
    "refuse_different",
    "restore_weights",
    "scatter_tensor",
    "shard",
    "shard_like",
    "trained_tensors",
    "weight_tensors",
    "world_from_environment",
    "world_of",
]
