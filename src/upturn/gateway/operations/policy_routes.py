"""The endpoints for what a tenant has decided about its data. An administrator acts for the tenant of the key."""

import asyncio
from time import time

from fastapi import APIRouter, Request
from pydantic import BaseModel

from upturn.dialects import RequestError
from upturn.gateway.openapi import errors
from upturn.gateway.operations.operator import ActBody, Operators
from upturn.pool.access import AnonymisedAt, Border, ReplacedBy, TenantPolicy, current_policy, set_policy


class PolicyBody(ActBody):
    """What changes; what is left out stays."""

    anonymise: AnonymisedAt | None = None
    """``write``: personal data and secrets are replaced before anything is stored; ``export``: before anything is
    exported."""
    replace_by: ReplacedBy | None = None
    """What stands for them when they are replaced before anything is stored."""
    share: bool | None = None
    """Whether other tenants may train on its anonymised records."""


class PolicyEntry(BaseModel):
    """What a tenant has decided about its data."""

    tenant: str
    anonymise: AnonymisedAt
    replace_by: ReplacedBy
    share: bool


def policy_routes(operators: Operators, border: Border) -> APIRouter:
    """Returns the endpoints; ``border`` applies a change at once."""
    routes = APIRouter(tags=["admin"])

    @routes.get("/v1/admin/policy", responses=errors(401, 403))
    async def show(request: Request) -> PolicyEntry:
        """Show what the tenant of the key has decided about its data."""
        tenant = operators.caller(request, "administer").tenant
        return _entry(tenant, await operators.read(lambda pool: current_policy(pool.engine, tenant=tenant)))

    @routes.post("/v1/admin/policy", responses=errors(400, 401, 403, 413))
    async def change(body: PolicyBody, request: Request) -> PolicyEntry:
        """Change what the tenant of the key has decided, from the next call on; the act is recorded."""
        caller = operators.caller(request, "administer")
        override, tenant = body.override(caller), caller.tenant
        changes = body.model_dump(exclude={"who", "why"}, exclude_none=True)
        if not changes:
            raise RequestError(f"nothing to change; give one of {', '.join(_CHANGES)}", field=_CHANGES[0])
        changed = await operators.read(
            lambda pool: set_policy(pool, changes, tenant=tenant, who=override.who, why=override.why, when=time())
        )
        await asyncio.to_thread(border.refresh)
        return _entry(tenant, changed)

    return routes


_CHANGES = [name for name in PolicyBody.model_fields if name not in ActBody.model_fields]


def _entry(tenant: str, policy: TenantPolicy) -> PolicyEntry:
    return PolicyEntry(tenant=tenant, anonymise=policy.anonymise, replace_by=policy.replace_by, share=policy.share)
