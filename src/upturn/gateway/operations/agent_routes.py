"""The endpoints for agents: list, read with capability profiles, change limits, add and validate versions."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from upturn.arbiter import Capability, Router, ServedAgent
from upturn.config import Config
from upturn.deployment import (
    CapabilityProfiles,
    CapabilityUpdate,
    Validation,
    VersionChange,
    add_version,
    update_agent_capabilities,
    validate_agent_performance,
)
from upturn.dialects import RequestError
from upturn.gateway.openapi import Wire, errors
from upturn.gateway.operations.operator import ActBody, Operators
from upturn.gateway.operations.release_routes import VersionId
from upturn.pool import Pool
from upturn.records import AgentVersion

Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=1_000)]


class LimitsBody(ActBody):
    """What to change about an agent; fields that are left out stay as they are."""

    environments: Names | None = None
    """Environments that it may act in; empty = any. Model calls are always allowed."""
    tenants: Names | None = None
    """Tenants that it may serve."""
    max_concurrent: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Maximum number of tasks and calls in flight."""
    is_suspended: bool | None = None
    """True = it gets no tasks and no calls."""


class VersionBody(ActBody):
    """A new version of an agent, from another one; fields that are left out are as there."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    """Name of the version, without its agent."""
    base: VersionId | None = None
    """The version that it comes from; None = the one that serves."""
    model: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """For an endpoint: another model at the same server."""
    prompt: Annotated[str, Field(max_length=1_000_000)] | None = None
    """For a local model or an endpoint. In the calls of an endpoint, the client's messages alone count."""
    temperature: float | None = None
    """As ``prompt``."""


class ValidationBody(Wire):
    """Two versions to compare."""

    candidate: VersionId
    incumbent: VersionId | None = None
    """None = the version that serves."""


class CapabilityEntry(BaseModel):
    """The results of one version in one family of routed tasks."""

    version: str
    family: str
    outcomes: int
    successes: float
    """Sum of rewards."""
    missing: int
    """Outcomes with a missing verdict; not in ``outcomes``."""
    mean: float
    """Posterior mean of the success rate."""
    low: float
    """Lower end of its 95 % credible interval."""
    high: float


class LimitsEntry(BaseModel):
    """What operators have set; None = as configured."""

    environments: list[str] | None = None
    tenants: list[str] | None = None
    max_concurrent: int | None = None
    is_suspended: bool = False
    reason: str = ""
    """Who set it, and why; empty = nobody has."""


class VersionEntry(BaseModel):
    """A version of an agent."""

    id: str
    kind: str
    model: str
    """Folder, name at the server, or import path."""
    parent: str | None
    """The version that it comes from; None = the first."""


class AgentEntry(BaseModel):
    """An agent in service."""

    name: str
    kind: str
    version: str
    """The version that serves."""
    candidate: str | None
    """The version under canary; None = no canary."""
    candidate_share: float
    release: str | None
    """Of the canary."""
    load_cap: int | None
    """Maximum number of tasks and calls in flight; None = no limit."""
    in_flight: int
    limits: LimitsEntry


class AgentDetail(AgentEntry):
    """An agent with its versions and what they have achieved for the caller's tenant."""

    versions: list[VersionEntry]
    profile: list[CapabilityEntry]


class AgentList(BaseModel):
    """The agents in service, by name."""

    data: list[AgentEntry]


class ValidationEntry(BaseModel):
    """The comparison of two versions on the held-out tasks that both have done."""

    verdict: Literal["pass", "hold", "fail"]
    reasons: list[str]
    tasks: int
    gain: float | None
    """In success rate; None = nothing was compared."""
    low: float | None
    """Lower end of its interval, at the confidence 1 − ``validation.alpha``."""
    high: float | None


class Agents:
    """The agents of one server."""

    def __init__(self, operators: Operators, router: Router, config: Callable[[], Config]) -> None:
        self.operators = operators
        self.config = config
        self._router = router
        self._profiles: dict[str, CapabilityProfiles] = {}
        self._lock = asyncio.Lock()

    def served(self, agent: str) -> ServedAgent:
        """Returns the agent; raises RequestError (404) for one that is not in service."""
        agents = self._router.registry.agents()
        if agent not in agents:
            known = ", ".join(agents) or "none"
            raise RequestError(
                f"unknown agent {agent!r}; in service: {known}", status=404, code="unknown_name", field="agent"
            )
        return agents[agent]

    def entry(self, served: ServedAgent) -> AgentEntry:
        """Returns what is shown of an agent."""
        limits = served.limits
        return AgentEntry(
            name=served.agent,
            kind=served.incumbent.kind,
            version=served.incumbent.id,
            candidate=None if served.candidate is None else served.candidate.id,
            candidate_share=served.weight,
            release=served.release,
            load_cap=served.load_cap,
            in_flight=self._router.load.in_flight(served.agent),
            limits=LimitsEntry()
            if limits is None
            else LimitsEntry(
                environments=_listed(limits.capabilities),
                tenants=_listed(limits.tenants),
                max_concurrent=limits.max_concurrent,
                is_suspended=limits.is_suspended,
                reason=limits.reason,
            ),
        )

    def all(self) -> list[AgentEntry]:
        """Returns all agents in service."""
        return [self.entry(served) for served in self._router.registry.agents().values()]

    async def detail(self, agent: str, tenant: str) -> AgentDetail:
        """Returns an agent with its versions and profile."""
        entry = self.entry(self.served(agent))
        versions = await self.operators.read(lambda pool: list(pool.agent_versions()))
        async with self._lock:
            profile = await self.operators.read(partial(self._profile, agent=agent, tenant=tenant))
        return AgentDetail(
            **entry.model_dump(),
            versions=[_version(version) for version in versions if version.agent == agent],
            profile=[CapabilityEntry(**{name: getattr(row, name) for name in _CAPABILITY}) for row in profile],
        )

    def _profile(self, pool: Pool, *, agent: str, tenant: str) -> list[Capability]:
        if tenant not in self._profiles:
            metrics = self.config().gateway.metrics
            self._profiles[tenant] = CapabilityProfiles(pool, tenant=tenant, metrics=metrics)
        return self._profiles[tenant].of([agent])


_CAPABILITY = tuple(CapabilityEntry.model_fields)


def agent_routes(agents: Agents) -> APIRouter:
    """Returns the endpoints."""
    routes, operators = APIRouter(tags=["agents"]), agents.operators

    @routes.get("/v1/agents", responses=errors(401, 403))
    async def listing(request: Request) -> AgentList:
        """List the agents in service."""
        operators.caller(request, "observe")
        return AgentList(data=agents.all())

    @routes.get("/v1/agents/{agent}", responses=errors(401, 403, 404))
    async def read(agent: str, request: Request) -> AgentDetail:
        """Show an agent: its versions, limits, and success by family with 95 % intervals."""
        return await agents.detail(agent, operators.caller(request, "observe").tenant)

    @routes.patch("/v1/agents/{agent}", responses=errors(400, 401, 403, 404, 409, 413))
    async def limit(agent: str, body: LimitsBody, request: Request) -> AgentEntry:
        """Change what an agent may do; it holds from the next decision on."""
        override = body.override(operators.caller(request, "operate"))
        agents.served(agent)
        change = CapabilityUpdate(
            agent,
            capabilities=None if body.environments is None else tuple(body.environments),
            tenants=None if body.tenants is None else tuple(body.tenants),
            max_concurrent=body.max_concurrent,
            is_suspended=body.is_suspended,
        )
        await operators.act(
            "agents update", override, lambda pool: update_agent_capabilities(pool, change, override), agent
        )
        return agents.entry(agents.served(agent))

    @routes.post("/v1/agents/{agent}/versions", status_code=201, responses=errors(400, 401, 403, 404, 409, 413))
    async def add(agent: str, body: VersionBody, request: Request) -> VersionEntry:
        """Store a new version of an agent. A release (``POST /v1/releases``) gives it calls and tasks."""
        override = body.override(operators.caller(request, "operate"))
        base = _own(agent, body.base or agents.served(agent).incumbent.id)
        change = VersionChange(base, body.name, body.model, body.prompt, body.temperature)
        subject = f"{agent}@{body.name}"
        work = partial(add_version, change=change)
        return _version(await operators.act("agents add-version", override, work, subject))

    @routes.post("/v1/agents/{agent}/validations", responses=errors(400, 401, 403, 404, 409, 413))
    async def validate(agent: str, body: ValidationBody, request: Request) -> ValidationEntry:
        """Compare two versions on the held-out tasks that both have done for your tenant; nothing changes."""
        tenant = operators.caller(request, "observe").tenant
        incumbent = _own(agent, body.incumbent or agents.served(agent).incumbent.id)
        settings = agents.config().validation
        return _validation(
            await operators.read(
                lambda pool: validate_agent_performance(
                    pool, incumbent, _own(agent, body.candidate), settings, tenant=tenant
                )
            )
        )

    return routes


def _own(agent: str, version: str) -> str:
    """Returns the version; raises RequestError unless it is one of the agent."""
    if version.rpartition("@")[0] != agent:
        raise RequestError(f"{version!r} is no version of the agent {agent!r}", field="candidate")
    return version


def _listed(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _version(version: AgentVersion) -> VersionEntry:
    return VersionEntry(
        id=version.id, kind=version.kind, model=version.model_name or version.model, parent=version.parent
    )


def _validation(validation: Validation) -> ValidationEntry:
    return ValidationEntry(
        verdict=validation.verdict,
        reasons=list(validation.reasons),
        tasks=validation.n,
        gain=validation.gain,
        low=validation.low,
        high=validation.high,
    )
