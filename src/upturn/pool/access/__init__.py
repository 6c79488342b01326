"""API keys in the pool, the acts of operators, policies of tenants, erasures, the switch of learning, and what
callers have spent.

Start with ``keys``, then ``acts``."""

from upturn.pool.access.acts import admin_acts, append_act, record_act
from upturn.pool.access.erasure import record_erasure
from upturn.pool.access.freeze import Freeze, current_freeze, freeze, unfreeze
from upturn.pool.access.keys import KeyReader, KeyStore
from upturn.pool.access.policy import (
    AnonymisedAt,
    Border,
    ReplacedBy,
    TenantPolicy,
    check_sharing,
    current_policies,
    current_policy,
    set_policy,
)
from upturn.pool.access.pseudonym_keys import delete_pseudonym_key, has_pseudonym_key, pseudonym_key
from upturn.pool.access.secret import NewKey, key_digest, key_id, make_key
from upturn.pool.access.spending import Spending, TaskUsage, spending, task_usage

__all__ = [
    "AnonymisedAt",
    "Border",
    "Freeze",
    "KeyReader",
    "KeyStore",
    "NewKey",
    "ReplacedBy",
    "Spending",
    "TaskUsage",
    "TenantPolicy",
    "admin_acts",
    "append_act",
    "check_sharing",
    "current_freeze",
    "current_policies",
    "current_policy",
    "delete_pseudonym_key",
    "freeze",
    "has_pseudonym_key",
    "key_digest",
    "key_id",
    "make_key",
    "pseudonym_key",
    "record_act",
    "record_erasure",
    "set_policy",
    "spending",
    "task_usage",
    "unfreeze",
]
