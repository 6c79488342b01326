"""The endpoints for administrators: reload the configuration, read the log of acts."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from upturn.dialects import RequestError
from upturn.errors import ConfigError
from upturn.gateway.openapi import errors
from upturn.gateway.operations.operator import ActBody, Operators
from upturn.gateway.operations.reload import Reloader, summary
from upturn.loop.run import ConfigChanges
from upturn.pool import ALL_TENANTS
from upturn.pool.access import admin_acts


class ReloadBody(ActBody):
    """Why the configuration is reloaded."""

    why: Annotated[str, Field(max_length=1_000)] = ""


class ReloadEntry(BaseModel):
    """What a new configuration has changed."""

    config_hash: str
    added: list[str]
    """Agents."""
    removed: list[str]
    changed: list[str]
    """Agents with other settings; they serve as new versions where their answers depend on them."""
    is_policy_changed: bool
    settings: list[str]
    """Other changed settings."""
    keys: list[str]
    """Agents, and ``gateway.embeddings``, with another API key."""
    held: list[str]
    """Ids of releases that are held because their agent is removed."""
    warnings: list[str]
    """What is allowed, but probably not meant."""
    summary: str


class ActEntry(BaseModel):
    """One act of an operator or an administrator."""

    who: str
    what: str
    subject: str
    when: float
    """UTC, seconds since 1970."""
    tenant: str
    """Empty = the whole installation."""
    why: str


class ActList(BaseModel):
    """Acts, the oldest first."""

    data: list[ActEntry]


def admin_routes(operators: Operators, reloader: Reloader) -> APIRouter:
    """Returns the endpoints."""
    routes = APIRouter(tags=["admin"])

    @routes.post("/v1/admin/reload", responses=errors(400, 401, 403, 409, 413))
    async def reload(request: Request, body: ReloadBody | None = None) -> ReloadEntry:
        """Reload the configuration file; a wrong one is refused as a whole, and the one before stays in effect."""
        override = (body or ReloadBody()).override(operators.caller(request, "administer"))
        try:
            return _entry(await reloader.reload(override))
        except ConfigError as exc:
            raise RequestError(str(exc), status=409, code="config_refused") from exc

    @routes.get("/v1/admin/acts", responses=errors(400, 401, 403))
    async def acts(request: Request) -> ActList:
        """List what operators and administrators did to what belongs to the key's tenant or to the installation."""
        caller = operators.caller(request, "administer")
        scope = ALL_TENANTS if caller.key is None else caller.tenant
        stored = await operators.read(lambda pool: admin_acts(pool.engine, tenant=scope))
        names = ActEntry.model_fields
        return ActList(data=[ActEntry(**{name: getattr(act, name) for name in names}) for act in stored])

    return routes


def _entry(changes: ConfigChanges) -> ReloadEntry:
    return ReloadEntry(
        config_hash=changes.config.config_hash,
        added=[agent.name for agent in changes.added],
        removed=list(changes.removed),
        changed=[agent.name for agent in changes.changed],
        is_policy_changed=changes.is_policy_changed,
        settings=list(changes.settings),
        keys=list(changes.keys),
        held=list(changes.held),
        warnings=list(changes.warnings),
        summary=summary(changes),
    )
