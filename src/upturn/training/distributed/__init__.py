"""Several processes that train one model.

Here: the process group and its collective calls, sharded weights, and copies of weights by name. Not here:
which process computes which micro-batch (``optimisation.load_balance``). Start with ``process_group``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.distributed.process_group import (
    Limits,
    World,
    all_gather,
    broadcast_first,
    connected,
    first_process_only,
    refuse_different,
    world_from_environment,
)

if TYPE_CHECKING:
    from upturn.training.distributed.sharding import (
        as_forward_pass,
        gather_tensors,
        gradients,
        scatter_tensor,
        shard,
        sharded_like,
        world_of,
    )
    from upturn.training.distributed.weights import blend, copy_tensors, digest, restore_weights, weight_tensors
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "as_forward_pass": "sharding",
            "gather_tensors": "sharding",
            "gradients": "sharding",
            "sharded_like": "sharding",
            "scatter_tensor": "sharding",
            "shard": "sharding",
            "world_of": "sharding",
            "blend": "weights",
            "copy_tensors": "weights",
            "digest": "weights",
            "restore_weights": "weights",
            "weight_tensors": "weights",
        },
    )

__all__ = [
    "Limits",
    "World",
    "all_gather",
    "as_forward_pass",
    "blend",
    "broadcast_first",
    "connected",
    "copy_tensors",
    "digest",
    "first_process_only",
    "gather_tensors",
    "gradients",
    "refuse_different",
    "restore_weights",
    "scatter_tensor",
    "shard",
    "sharded_like",
    "weight_tensors",
    "world_from_environment",
    "world_of",
]
