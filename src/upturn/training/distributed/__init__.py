"""Several processes that train one model.

Here: the process group and its collective calls, sharded weights, and copies of weights by name. Not here:
which process computes which micro-batch (``optimisation.load_balance``). Start with ``process_group``.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.distributed.process_group import (
    Limits,
    World,
    agreed,
    connected,
    everyone,
    refuse_different,
    shared,
    world_from_environment,
)

if TYPE_CHECKING:
    from upturn.training.distributed.sharding import (
        as_pass,
        gathered,
        gradients,
        laid_out,
        scattered,
        shard,
        world_of,
    )
    from upturn.training.distributed.weights import blend, copied, digest, put_back, weight_tensors
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "as_pass": "sharding",
            "gathered": "sharding",
            "gradients": "sharding",
            "laid_out": "sharding",
            "scattered": "sharding",
            "shard": "sharding",
            "world_of": "sharding",
            "blend": "weights",
            "copied": "weights",
            "digest": "weights",
            "put_back": "weights",
            "weight_tensors": "weights",
        },
    )

__all__ = [
    "Limits",
    "World",
    "agreed",
    "as_pass",
    "blend",
    "connected",
    "copied",
    "digest",
    "everyone",
    "gathered",
    "gradients",
    "laid_out",
    "put_back",
    "refuse_different",
    "scattered",
    "shard",
    "shared",
    "weight_tensors",
    "world_from_environment",
    "world_of",
]
