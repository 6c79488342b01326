"""The endpoints for releases: list, read, start, promote, hold, resume, roll back."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from upturn.config import Config
from upturn.deployment import (
    ACTS,
    Override,
    Validation,
    candidate_share,
    deploy_improved_agent,
    find_release,
    release_status,
    validate_agent_performance,
)
from upturn.gateway.operations.operator import ActBody, Operators
from upturn.pool import Pool
from upturn.records import Release, ReleaseEvidence

VersionId = Annotated[str, Field(min_length=3, max_length=300)]
Act = Literal["promote", "hold", "resume", "rollback"]


class ReleaseBody(ActBody):
    """A release to start."""

    incumbent: VersionId
    """The serving version, such as ``nano@base``."""
    candidate: VersionId
    """The new version of the same agent; it is stored in the pool."""
    skip_validation: bool = False
    """True: it starts without a validation; ``why`` says why. False: both versions are validated on the held-out
    tasks that both have done."""


class EvidenceEntry(BaseModel):
    """The evidence of a release's canary up to now. E-values are natural logarithms."""

    candidate_tasks: int
    """Judged tasks."""
    candidate_successes: int
    control_tasks: int
    control_successes: int
    missing: int
    """Tasks without an outcome, of both versions."""
    log_e_better: float
    log_e_worse: float
    verdict: Literal["promote", "hold", "rollback"]
    reason: str


class ReleaseEntry(BaseModel):
    """A release."""

    id: str
    agent: str
    incumbent: str
    candidate: str
    state: Literal["canary", "held", "watch", "promoted", "rolled_back"]
    share: float
    """The candidate's share of its agent's tasks."""
    attempt: int
    """Number among the agent's releases since its last promotion."""
    validation: str
    operators: str
    """What operators did, and why."""
    evidence: EvidenceEntry | None
    """None = none yet."""


class ReleaseList(BaseModel):
    """Releases, in the order of their last change."""

    data: list[ReleaseEntry]


def release_routes(operators: Operators, config: Callable[[], Config]) -> APIRouter:
    """Returns the endpoints; ``config``: the configuration in effect."""
    routes = APIRouter(tags=["releases"])

    @routes.get("/v1/releases")
    async def listing(request: Request) -> ReleaseList:
        """List all releases."""
        operators.caller(request, "observe")
        releases = await operators.read(lambda pool: pool.states(Release))
        return ReleaseList(data=[_entry(release) for release in releases])

    @routes.get("/v1/releases/{release}")
    async def read(release: str, request: Request) -> ReleaseEntry:
        """Show a release: its state, the evidence so far, and what operators did."""
        operators.caller(request, "observe")
        return _entry(await operators.read(lambda pool: find_release(pool.states(Release), release)))

    @routes.post("/v1/releases", status_code=201)
    async def start(body: ReleaseBody, request: Request) -> ReleaseEntry:
        """Start the canary of a version: it serves its share of the agent's calls and tasks from now on."""
        caller = operators.caller(request, "operate")
        override = body.override(caller)
        work = partial(_start, body=body, config=config(), override=override, tenant=caller.tenant)
        return _entry(await operators.act("releases start", override, work, body.candidate))

    @routes.post("/v1/releases/{release}/{act}")
    async def change(release: str, act: Act, body: ActBody, request: Request) -> ReleaseEntry:
        """Promote, hold, resume or roll back a release; it takes effect at once."""
        override = body.override(operators.caller(request, "operate"))

        def work(pool: Pool) -> Release:
            return pool.change(Release, lambda states: ACTS[act](find_release(states.all(), release), override))

        return _entry(await operators.act(f"releases {act}", override, work, release))

    return routes


def _start(pool: Pool, *, body: ReleaseBody, config: Config, override: Override, tenant: str) -> Release:
    ground: Validation | Override = override
    if not body.skip_validation:
        ground = validate_agent_performance(pool, body.incumbent, body.candidate, config.validation, tenant=tenant)
    return deploy_improved_agent(pool, body.incumbent, body.candidate, ground, config.canary)


def _entry(release: Release) -> ReleaseEntry:
    last = release.evidence[-1] if release.evidence else None
    return ReleaseEntry(
        id=release.id,
        agent=release.agent,
        incumbent=release.incumbent,
        candidate=release.candidate,
        state=release_status(release),
        share=candidate_share(release),
        attempt=release.attempt,
        validation=release.validation,
        operators=release.reason,
        evidence=None if last is None else _evidence(last),
    )


def _evidence(evidence: ReleaseEvidence) -> EvidenceEntry:
    return EvidenceEntry(**{name: getattr(evidence, name) for name in EvidenceEntry.model_fields})
