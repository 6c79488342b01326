"""Signed checkpoints of the audit log, outside the database: who changes the pool cannot change them along.

Not here: the log (``upturn.pool.audit``). Start with ``note``, the signature, then ``checkpoint``.
"""

from upturn.pool.checkpoints.checkpoint import Checkpoint, checkpoint_problems, read_checkpoints, write_checkpoint
from upturn.pool.checkpoints.checkpointer import Checkpointer, checkpointed_pool
from upturn.pool.checkpoints.note import KEY_FILE, PUBLIC_KEY_FILE, read_public_key

__all__ = [
    "KEY_FILE",
    "PUBLIC_KEY_FILE",
    "Checkpoint",
    "Checkpointer",
    "checkpoint_problems",
    "checkpointed_pool",
    "read_checkpoints",
    "read_public_key",
    "write_checkpoint",
]
