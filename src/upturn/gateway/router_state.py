"""What the router believes and would do, for people and programs."""

from pydantic import BaseModel
from sqlalchemy import func, select

from upturn.arbiter import Candidate
from upturn.loop.online import OnlineService
from upturn.loop.online.call_task import GENERAL
from upturn.pool import schema
from upturn.records import MODEL_CALL, Task

_MOST_FAMILIES = 100


class BeliefEntry(BaseModel):
    """The posterior of a version's success in a family."""

    mean: float
    low: float
    """Lower end of the 95 % credible interval."""
    high: float
    weight: float
    """Outcomes in it; discounted and borrowed ones count partly."""


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
    excluded_by: str
    """Why it is not eligible; empty = it is."""


class FamilyEntry(BaseModel):
    """The agents for one family."""

    family: str
    decisions: int
    candidates: list[CandidateEntry]


class RouterState(BaseModel):
    """The state of the router for one tenant."""

    policy: str
    policy_snapshot: str
    route: str
    families: list[FamilyEntry]


def router_state(service: OnlineService, tenant: str, family: str | None, route: str) -> RouterState:
    """Returns the state for a family (None = all with decisions), among the agents of a route (empty = all)."""
    among = service.routes.resolve(route).agents if route else None
    counts = _decision_counts(service, tenant)
    families = [family] if family is not None else list(dict.fromkeys(name for name, _ in counts)) or [GENERAL]
    policy = service.router.policy
    return RouterState(
        policy=policy.name,
        policy_snapshot=policy.snapshot(),
        route=route,
        families=[_family(service, tenant, name, among, counts) for name in families[:_MOST_FAMILIES]],
    )


def _decision_counts(service: OnlineService, tenant: str) -> dict[tuple[str, str], int]:
    """Returns the number of decisions by family and version, the commonest families first."""
    table = schema.decisions
    query = (
        select(table.c.family, table.c.chosen, func.count())
        .where(table.c.tenant == tenant)
        .group_by(table.c.family, table.c.chosen)
        .order_by(func.count().desc())
    )
    with service.pool.engine.connect() as connection:
        return {(row[0], row[1]): row[2] for row in connection.execute(query)}


def _family(
    service: OnlineService,
    tenant: str,
    family: str,
    among: frozenset[str] | None,
    counts: dict[tuple[str, str], int],
) -> FamilyEntry:
    router = service.router
    task = Task(id="state", instruction="", family=family, environment=MODEL_CALL, tenant=tenant)
    screening = router.registry.screen(task, router.load, among)
    offers = screening.offers
    probabilities = (
        router.policy.probabilities(task, [Candidate(offer.agent, offer.incumbent) for offer in offers])
        if offers
        else []
    )
    entries = [
        _candidate(service, family, offer.agent, offer.incumbent, probability, counts)
        for offer, probability in zip(offers, probabilities, strict=True)
    ]
    for excluded in screening.exclusions:
        agent = excluded.version.rpartition("@")[0]
        entry = _candidate(service, family, agent, excluded.version, 0.0, counts)
        entries.append(entry.model_copy(update={"excluded_by": excluded.reason}))
    decisions = sum(count for (name, _), count in counts.items() if name == family)
    return FamilyEntry(family=family, decisions=decisions, candidates=entries)


def _candidate(
    service: OnlineService,
    family: str,
    agent: str,
    version: str,
    probability: float,
    counts: dict[tuple[str, str], int],
) -> CandidateEntry:
    router = service.router
    posterior = router.policy.belief(family, version)
    belief = None
    if posterior is not None:
        low, high = posterior.interval()
        belief = BeliefEntry(mean=posterior.mean, low=low, high=high, weight=posterior.weight)
    served = router.registry.served(agent)
    return CandidateEntry(
        agent=agent,
        version=version,
        probability=probability,
        belief=belief,
        candidate=None if served.candidate is None else served.candidate.id,
        candidate_share=served.weight,
        in_flight=router.load.in_flight(agent),
        decisions=counts.get((family, version), 0),
        excluded_by="",
    )
