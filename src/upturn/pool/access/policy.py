"""What a tenant has decided about its data. Each decision is an administrator's act, and the last one counts.

``Border`` applies it to what services store; exports and training ask ``current_policy``.
"""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic, time
from typing import Literal, TypeAlias, TypeVar

from pydantic_core import from_json, to_json
from sqlalchemy import Connection, Engine, select

from upturn.errors import SharingError
from upturn.pool.access.acts import append_act
from upturn.pool.access.pseudonym_keys import pseudonym_key
from upturn.pool.database import operator_transaction
from upturn.pool.privacy import Pseudonymiser, Replacer, anonymise, mask, replace_text
from upturn.pool.reader import PoolReader
from upturn.pool.schema import admin_acts
from upturn.records import AdminAct, JsonValue, fields_json, from_fields, record

KIND = "policy"
"""Of the acts."""
REFRESH_SECONDS = 0.5
"""Largest age of what a service knows about policies."""

RecordT = TypeVar("RecordT")
AnonymisedAt: TypeAlias = Literal["export", "write"]
ReplacedBy: TypeAlias = Literal["masks", "pseudonyms"]


@record
class TenantPolicy:
    """What a tenant has decided; the defaults hold for one that has decided nothing."""

    anonymise: AnonymisedAt = "export"
    """``write``: personal data and secrets are replaced before anything is stored."""
    replace_by: ReplacedBy = "masks"
    """What stands for them when they are replaced before anything is stored."""
    share: bool = False
    """Whether other tenants may train on its anonymised records."""


def current_policies(engine: Engine) -> dict[str, TenantPolicy]:
    """Returns the policies of the tenants that have decided something, by tenant."""
    with engine.connect() as connection:
        return _policies(connection)


def _policies(connection: Connection) -> dict[str, TenantPolicy]:
    query = select(admin_acts.c.record_id, admin_acts.c.fields).where(admin_acts.c.kind == KIND)
    latest = {row.record_id: row.fields for row in connection.execute(query.order_by(admin_acts.c.sequence))}
    return {tenant: from_fields(TenantPolicy, fields) for tenant, fields in latest.items()}


def current_policy(engine: Engine, *, tenant: str) -> TenantPolicy:
    """Returns the policy of a tenant."""
    return current_policies(engine).get(tenant, TenantPolicy())


def check_sharing(engine: Engine, tenants: Sequence[str]) -> None:
    """Raises SharingError unless all of the tenants let others train on their anonymised records."""
    policies = current_policies(engine)
    closed = [name for name in tenants if name not in policies or not policies[name].share]
    if closed:
        raise SharingError(
            f"{', '.join(map(repr, closed))} {'has' if len(closed) == 1 else 'have'} not opted in to training by "
            "other tenants; leave out what is not shared, or ask its administrator for `upturn pool policy --share`"
        )


def set_policy(
    pool: PoolReader, changes: Mapping[str, JsonValue], *, tenant: str, who: str, why: str, when: float
) -> TenantPolicy:
    """Stores fields that a tenant has changed, with the act; returns its policy, once it is durable.

    What does not change anything is no act."""
    with operator_transaction(pool.location) as connection:
        before = _policies(connection).get(tenant, TenantPolicy())
        policy = from_fields(TenantPolicy, to_json(from_json(fields_json(before)) | dict(changes)))
        if policy != before:
            changed = ", ".join(f"{name}={value}" for name, value in sorted(changes.items()))
            act = AdminAct(who, f"policy set {changed}", tenant, when, tenant, why)
            append_act(connection, act, kind=KIND, fields=fields_json(policy))
    return policy


class Border:
    """What a service stores of its tenants' records, by their policies. Safe to share between threads."""

    def __init__(
        self, pool: PoolReader, *, timer: Callable[[], float] = monotonic, clock: Callable[[], float] = time
    ) -> None:
        """``timer``: seconds that never go back; ``clock``: UTC seconds, for acts."""
        self._pool, self._timer, self._clock = pool, timer, clock
        self._replacers: Mapping[str, Replacer] = {}
        self._keyed: dict[bytes, Pseudonymiser] = {}
        """By key, so that a tenant's replacer stays the same object."""
        self._refreshed_at = float("-inf")

    def replacer(self, tenant: str) -> Replacer | None:
        """Returns what replaces findings before records of a tenant are stored; None = they are stored as they are.

        Raises StoreError if the pool cannot be read: nothing is stored on old knowledge."""
        if self._timer() - self._refreshed_at >= REFRESH_SECONDS:
            self.refresh()
        return self._replacers.get(tenant)

    def refresh(self) -> None:
        """Reads the policies now, such as after an act."""
        now = self._timer()
        policies = current_policies(self._pool.engine)
        self._replacers = {
            tenant: self._replacer(tenant, policy)
            for tenant, policy in policies.items()
            if policy.anonymise == "write"
        }
        self._refreshed_at = now

    def stored(self, record: RecordT, *, tenant: str) -> RecordT:
        """Returns the record as it is stored; the same object where nothing is replaced."""
        replacer = self.replacer(tenant)
        return record if replacer is None else anonymise(record, replacer)

    def stored_text(self, text: str, *, tenant: str) -> str:
        """Returns the text as it is stored."""
        replacer = self.replacer(tenant)
        return text if replacer is None else replace_text(text, replacer)

    def _replacer(self, tenant: str, policy: TenantPolicy) -> Replacer:
        if policy.replace_by == "masks":
            return mask
        key = pseudonym_key(self._pool.location, tenant=tenant, who="gateway", when=self._clock())
        return self._keyed.setdefault(key, Pseudonymiser(key))
