"""What the router believes and would do, for people and programs, and its endpoint."""

import asyncio
from collections.abc import Mapping, Sequence
from time import time
from typing import NamedTuple

from fastapi import APIRouter, Request
from pydantic import BaseModel
from sqlalchemy import Engine, func, select

from upturn.arbiter import candidates_of
from upturn.config import MetricConfig, ObjectiveConfig, PriceConfig, declared_metrics, dump_settings
from upturn.gateway.access import Guard
from upturn.gateway.openapi import errors
from upturn.loop.online import GENERAL, OnlineService
from upturn.pool import schema
from upturn.pool.access import current_freeze
from upturn.pool.serving import metric_counts, records_after
from upturn.records import MODEL_CALL, Forecast, Task

_MOST_FAMILIES = 100


class BeliefEntry(BaseModel):
    """The posterior of a version's success in a family."""

    mean: float
    low: float
    """Lower end of the 95 % credible interval."""
    high: float
    weight: float
    """Outcomes in it; discounted and borrowed ones count partly."""


class PriceEntry(BaseModel):
    """The declared price of a version's tokens, in USD per million."""

    input: float
    cached_input: float
    cache_write: float
    cache_write_1h: float
    output: float


class ForecastEntry(BaseModel):
    """What the next call of the family is expected to use with a version."""

    cost_usd: float | None
    """None = the version has no price."""
    seconds: float
    handicap: float
    """Weighted cost and latency, in units of reward; the policy maximises reward minus handicap."""
    calls: int
    """Calls and tasks in the family that it rests on, of the latest."""


class CandidateEntry(BaseModel):
    """One agent that calls may go to."""

    agent: str
    version: str
    probability: float
    """Of being chosen for the next call of the family; 0 = not eligible."""
    belief: BeliefEntry | None
    """None = the policy has none."""
    candidate: str | None
    """Version under canary; None = no canary."""
    candidate_share: float
    in_flight: int
    decisions: int
    """Stored decisions of the family for this version."""
    price: PriceEntry | None
    """None = unknown."""
    forecast: ForecastEntry | None
    """None = not eligible, or there are neither prices nor weights in the objective."""
    excluded_by: str
    """Why it is not eligible; empty = it is."""


class FamilyEntry(BaseModel):
    """The agents for one family."""

    family: str
    decisions: int
    candidates: list[CandidateEntry]


class ObjectiveEntry(BaseModel):
    """What the router maximises: reward − cost_weight · USD − latency_weight · seconds − switch_weight · switch."""

    cost_weight: float
    latency_weight: float
    switch_weight: float | None
    """None = an episode's version never changes while it may serve."""


class MetricEntry(BaseModel):
    """A metric of feedback, with what has arrived for the tenant's latest 1,000 decisions."""

    name: str
    level: str | None
    """None = what the feedback names."""
    direction: str
    low: float
    high: float
    delay_hours: float
    weight: float
    """In the reward that the router learns; 0 = none."""
    arrived: int
    """Decisions with a value, also on their episode."""
    waiting: int
    """Decisions without a value, younger than the delay."""
    missing: int
    """Decisions without a value, older than the delay."""


class FreezeEntry(BaseModel):
    """Who stopped the router from learning."""

    who: str
    why: str
    when: float
    """UTC, seconds since 1970."""
    waiting: int
    """Evaluations, values of feedback and calls stored since then, of all tenants; some of them will teach it."""


class RouterState(BaseModel):
    """The state of the router for one tenant."""

    policy: str
    policy_snapshot: str
    frozen: FreezeEntry | None
    """None = it learns."""
    objective: ObjectiveEntry
    route: str
    families: list[FamilyEntry]
    metrics: list[MetricEntry]
    """The primary one first."""


class Shown(NamedTuple):
    """What to show."""

    family: str | None
    """None = all with decisions."""
    route: str
    """Only the agents of this route; empty = all agents."""


class _Stored(NamedTuple):
    """What the state shows of the pool."""

    counts: Mapping[tuple[str, str], int]
    """Of decisions, by family and version, the commonest first."""
    frozen: FreezeEntry | None
    metrics: list[MetricEntry]


async def router_state(
    service: OnlineService, tenant: str, shown: Shown, *, metrics: Sequence[MetricConfig]
) -> RouterState:
    """Returns the state for a tenant; ``metrics``: the configured ones. Reads the pool in a thread."""
    family, route = shown
    among = service.routes.resolve(route).agents if route else None
    stored = await asyncio.to_thread(_read, service.pool.engine, tenant, metrics)
    view = _View(service, tenant, among, stored.counts)
    families = (
        [family] if family is not None else list(dict.fromkeys(name for name, _ in stored.counts)) or [GENERAL]
    )
    policy, objective = service.router.policy, service.router.objective
    weights = ObjectiveConfig() if objective is None else objective.weights
    return RouterState(
        policy=policy.name,
        policy_snapshot=policy.snapshot(),
        frozen=stored.frozen,
        objective=ObjectiveEntry(**dump_settings(weights)),
        route=route,
        families=[view.family(name) for name in families[:_MOST_FAMILIES]],
        metrics=stored.metrics,
    )


def _read(engine: Engine, tenant: str, metrics: Sequence[MetricConfig]) -> _Stored:
    return _Stored(
        _decision_counts(engine, tenant), _freeze_entry(engine), _metric_entries(engine, tenant, metrics)
    )


def _freeze_entry(engine: Engine) -> FreezeEntry | None:
    if (frozen := current_freeze(engine)) is None:
        return None
    act, waiting = frozen.act, records_after(engine, frozen.sequence)
    return FreezeEntry(who=act.who, why=act.why, when=act.when, waiting=waiting)


def _metric_entries(engine: Engine, tenant: str, configured: Sequence[MetricConfig]) -> list[MetricEntry]:
    metrics = declared_metrics(configured)
    return [
        MetricEntry(
            **dump_settings(count.metric), arrived=count.arrived, waiting=count.waiting, missing=count.missing
        )
        for count in metric_counts(engine, metrics, tenant=tenant, now=time())
    ]


class _View:
    """The router for one tenant and some agents."""

    def __init__(
        self,
        service: OnlineService,
        tenant: str,
        among: frozenset[str] | None,
        counts: Mapping[tuple[str, str], int],
    ) -> None:
        self._router = service.router
        self._price = service.price
        self._tenant = tenant
        self._among = among
        self._counts = counts

    def family(self, family: str) -> FamilyEntry:
        """Returns the agents for a family."""
        router = self._router
        task = Task(id="state", instruction="", family=family, environment=MODEL_CALL, tenant=self._tenant)
        screening = router.screen(task, self._among)
        forecasts = router.forecasts(family, screening.offers)
        candidates = candidates_of(screening, forecasts)
        probabilities = router.policy.probabilities(task, candidates) if candidates else []
        entries = [
            self._candidate(family, candidate.version, probability, forecasts.get(candidate.version))
            for candidate, probability in zip(candidates, probabilities, strict=True)
        ]
        entries += [
            self._candidate(family, excluded.version, 0.0).model_copy(update={"excluded_by": excluded.reason})
            for excluded in screening.exclusions
        ]
        decisions = sum(count for (name, _), count in self._counts.items() if name == family)
        return FamilyEntry(family=family, decisions=decisions, candidates=entries)

    def _candidate(
        self, family: str, version: str, probability: float, forecast: Forecast | None = None
    ) -> CandidateEntry:
        posterior = self._router.policy.belief(family, version)
        belief = None
        if posterior is not None:
            low, high = posterior.interval()
            belief = BeliefEntry(mean=posterior.mean, low=low, high=high, weight=posterior.weight)
        served = self._router.registry.served(version.rpartition("@")[0])
        return CandidateEntry(
            agent=served.agent,
            version=version,
            probability=probability,
            belief=belief,
            candidate=None if served.candidate is None else served.candidate.id,
            candidate_share=served.weight,
            in_flight=self._router.load.in_flight(served.agent),
            decisions=self._counts.get((family, version), 0),
            price=_price_entry(self._price(version)),
            forecast=self._forecast_entry(family, version, forecast),
            excluded_by="",
        )

    def _forecast_entry(self, family: str, version: str, forecast: Forecast | None) -> ForecastEntry | None:
        objective = self._router.objective
        if forecast is None or objective is None:
            return None
        return ForecastEntry(
            cost_usd=forecast.cost_usd,
            seconds=forecast.seconds,
            handicap=forecast.handicap,
            calls=objective.consumption.count(family, version),
        )


def _price_entry(price: PriceConfig | None) -> PriceEntry | None:
    if price is None:
        return None
    cached_input = price.input if price.cached_input is None else price.cached_input
    write = price.input if price.cache_write is None else price.cache_write
    hour = write if price.cache_write_1h is None else price.cache_write_1h
    return PriceEntry(
        input=price.input, cached_input=cached_input, cache_write=write, cache_write_1h=hour, output=price.output
    )


def _decision_counts(engine: Engine, tenant: str) -> dict[tuple[str, str], int]:
    """Returns the number of decisions by family and version, the commonest first."""
    table = schema.decisions
    query = (
        select(table.c.family, table.c.chosen, func.count())
        .where(table.c.tenant == tenant)
        .group_by(table.c.family, table.c.chosen)
        .order_by(func.count().desc())
    )
    with engine.connect() as connection:
        return {(row[0], row[1]): row[2] for row in connection.execute(query)}


def state_routes(service: OnlineService, guard: Guard, *, metrics: Sequence[MetricConfig]) -> APIRouter:
    """Returns the endpoint; ``metrics``: the configured ones."""
    routes = APIRouter()

    @routes.get("/v1/router/state", tags=["router"], responses=errors(401, 403, 404))
    async def state(request: Request, family: str | None = None, route: str = "") -> RouterState:
        """Explain the router: agents, counts, posteriors, probabilities, and why."""
        tenant = guard.client(request.scope, "observe").tenant
        await service.log.settle()
        return await router_state(service, tenant, Shown(family, route), metrics=metrics)

    return routes
