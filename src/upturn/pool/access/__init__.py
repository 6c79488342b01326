"""API keys in the pool, the acts of operators, and what callers have spent. Start with ``keys``."""

from upturn.pool.access.acts import admin_acts, record_act
from upturn.pool.access.keys import KeyStore
from upturn.pool.access.secret import NewKey, key_digest, key_id, make_key
from upturn.pool.access.spending import Spending, spending

__all__ = [
    "KeyStore",
    "NewKey",
    "Spending",
    "admin_acts",
    "key_digest",
    "key_id",
    "make_key",
    "record_act",
    "spending",
]
