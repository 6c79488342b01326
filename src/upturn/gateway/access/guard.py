"""The checks of every request, in this order: caller, permission, rates and budgets, a place in service."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from starlette.types import Scope

from upturn.config import AccessConfig, refuse
from upturn.gateway.access.admission import AdmissionQueue
from upturn.gateway.access.keys import Caller, Gate, KeyRing, Permission
from upturn.gateway.access.limits import Limiter, Usage
from upturn.gateway.http import headers_of
from upturn.loop.online import Client
from upturn.pool import ALL_TENANTS, Pool, schema
from upturn.pool.access import KeyReader, spending
from upturn.records import ApiKey


class Permitted(NamedTuple):
    """A caller that may do what it asks for."""

    caller: Caller
    client: Client
    """The same, for decisions and storage."""


class Guard:
    """The checks of one server. For one event loop."""

    def __init__(self, gate: Gate, limiter: Limiter, queue: AdmissionQueue) -> None:
        self.gate = gate
        self.limiter = limiter
        self.queue = queue

    def permit(self, headers: Mapping[str, str], permission: Permission) -> Permitted:
        """Returns the caller; raises RequestError (401, 403). ``headers``: by name in lower case."""
        caller = self.gate.caller(headers)
        caller.require(permission)
        return Permitted(caller, Client(caller.tenant, caller.id))

    def client(self, scope: Scope, permission: Permission) -> Client:
        """Returns the client of a request; see ``permit``."""
        return self.permit(headers_of(scope), permission).client

    def admit(self, caller: Caller) -> None:
        """Counts a request that is no model call; raises RequestError (429) above a rate or a budget."""
        self.limiter.admit(caller).settle(tokens=0, cost_usd=None)

    @asynccontextmanager
    async def place(self, caller: Caller, *, tokens: int) -> AsyncIterator[Usage]:
        """Holds a place in service for a call with about so many tokens; settle the usage in the block.

        Raises RequestError (429, 503) with Retry-After. A call that is not settled used nothing.
        """
        usage = self.limiter.admit(caller, tokens=tokens)
        try:
            async with self.queue.slot(caller.tenant):
                yield usage
        finally:
            usage.settle_once(tokens=0, cost_usd=None)


def open_guard(
    access: AccessConfig,
    pool: Pool,
    *,
    host: str,
    tenant: str,
    on_queue: Callable[[int, int], None] = lambda _in_flight, _waiting: None,
    on_keys: Callable[[Collection[ApiKey]], None] = lambda _: None,
) -> Guard:
    """Returns the checks of a server at ``host``; ``tenant``: that of callers without a key.

    ``on_queue`` is called with the numbers of calls in service and of waiting ones, ``on_keys`` with
    all API keys at first and after each change. Raises ConfigError for an
    address that other machines reach and that everybody might use.
    """
    ring = None if access.keys == "off" else KeyRing(KeyReader(pool.engine), on_change=on_keys)
    refuse(access.bind_problem(host, has_keys=ring is not None and ring.has_valid_key))
    gate = Gate(
        ring,
        tenant=tenant,
        is_required=access.requires_keys(host),
        allowed_origins=access.allowed_origins,
    )
    limiter = Limiter(access)
    day, month = limiter.budgets.since
    limiter.budgets.rebuild(
        spending(pool.engine, schema.calls, day_start=day, month_start=month, tenant=ALL_TENANTS)
    )
    return Guard(gate, limiter, AdmissionQueue(access, on_change=on_queue))
