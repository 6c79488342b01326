"""Reads of clients' model calls, and the deletion of what was said in them.

Calls are written like all records, with ``Pool.append``. Start with ``reads``.
"""

from upturn.pool.calls.reads import (
    StoredCall,
    call_by_id,
    calls_of_episode,
    episode_decision,
    latest_prefix,
)
from upturn.pool.calls.retention import delete_contents

__all__ = [
    "StoredCall",
    "call_by_id",
    "calls_of_episode",
    "delete_contents",
    "episode_decision",
    "latest_prefix",
]
