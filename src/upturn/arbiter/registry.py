"""The registry of agent versions in service, with their tenants and shares of the tasks.

``screen`` checks tenant, capability and load cap, in this order; the first failure is the reason. An agent is
eligible if its incumbent is; the candidate of its canary is considered only then.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock

from upturn.arbiter.policy import Candidate
from upturn.errors import ReleaseError, UnknownNameError
from upturn.records import (
    MODEL_CALL,
    AgentLimits,
    AgentVersion,
    Alternative,
    Task,
    fields_json,
    from_fields,
    record,
)

MAX_SCREENED = 1_000
"""Maximum number of remembered screenings; all are forgotten when there are more."""


@record
class ServedAgent:
    """One agent in service."""

    incumbent: AgentVersion
    max_concurrent: int | None = None
    """Maximum number of tasks in flight; None = no limit."""
    candidate: AgentVersion | None = None
    """The candidate of a canary; None = no canary."""
    weight: float = 0.0
    """The candidate's share of the agent's tasks, above 0 and at most 1 during a canary."""
    release: str | None = None
    """Id of the canary's release; None = no canary."""
    limits: AgentLimits | None = None
    """What an operator has set for the agent; None = nothing."""

    @property
    def load_cap(self) -> int | None:
        """Maximum number of tasks in flight, of the operator or else as configured; None = no limit."""
        if self.limits is not None and self.limits.max_concurrent is not None:
            return self.limits.max_concurrent
        return self.max_concurrent

    @property
    def agent(self) -> str:
        """The agent's name, shared by its versions."""
        return self.incumbent.agent


@record
class RegistryState:
    """All agents in service, by name."""

    agents: tuple[ServedAgent, ...]


@dataclass(frozen=True, slots=True)
class Offer:
    """An eligible agent with its versions in service and the canary's share."""

    agent: str
    incumbent: str
    """``AgentVersion.id``"""
    candidate: str | None = None
    """Id of the canary's candidate; None = no canary, or the candidate may not do the task."""
    weight: float = 0.0
    """Probability of the candidate."""
    release: str | None = None
    is_kept: bool = False
    """True = an episode has the candidate, so ``weight`` is 1."""

    @property
    def versions(self) -> tuple[str, ...]:
        """The incumbent, and the candidate if there is one."""
        return (self.incumbent,) if self.candidate is None else (self.incumbent, self.candidate)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A version that may not do the task, and why."""

    version: str
    reason: str


@dataclass(frozen=True)
class Screening:
    """The eligible agents and the excluded versions; every version in service is in exactly one of them.

    The registry keeps screenings, so what is derived from one is computed once."""

    offers: tuple[Offer, ...]
    """By agent name."""
    exclusions: tuple[Exclusion, ...]

    @cached_property
    def incumbents(self) -> tuple[str, ...]:
        """The incumbent of each offer."""
        return tuple(offer.incumbent for offer in self.offers)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The candidate of each offer, without handicap."""
        return tuple(Candidate(offer.agent, offer.incumbent) for offer in self.offers)

    @cached_property
    def excluded(self) -> tuple[Alternative, ...]:
        """The alternative of each exclusion."""
        return tuple(Alternative(excluded.version, 0.0, None, excluded.reason) for excluded in self.exclusions)

    @cached_property
    def has_canary(self) -> bool:
        """Whether an eligible agent has a candidate."""
        return any(offer.candidate is not None for offer in self.offers)


class Load:
    """Number of tasks in flight per agent; safe to share between threads."""

    def __init__(self) -> None:
        self._in_flight: Counter[str] = Counter()
        self._lock = Lock()

    def acquire(self, agent: str) -> None:
        """Adds a task in flight."""
        with self._lock:
            self._in_flight[agent] += 1

    def release(self, agent: str) -> None:
        """Removes a task in flight; raises ValueError if there is none."""
        with self._lock:
            if not self._in_flight[agent]:
                raise ValueError(f"released a task of agent {agent!r} that was never acquired")
            self._in_flight[agent] -= 1

    def in_flight(self, agent: str) -> int:
        """Returns the agent's number of tasks in flight."""
        with self._lock:
            return self._in_flight[agent]


_ScreeningKey = tuple[str, str, tuple[str, ...] | None]
"""Tenant, environment, and the agents to look at."""


class _Screened:
    """A screening without regard to load, of these agents."""

    def __init__(self, screening: Screening, agents: Sequence[ServedAgent]) -> None:
        self.screening = screening
        self.agents = agents
        self.capped = [served for served in agents if served.load_cap is not None]


class AgentRegistry:
    """The agents in service, and their changes by releases."""

    def __init__(self) -> None:
        self._agents: dict[str, ServedAgent] = {}
        self._screened: dict[_ScreeningKey, _Screened] = {}  # since the last change of the agents

    def add(self, version: AgentVersion, *, max_concurrent: int | None = None) -> None:
        """Puts a new agent into service; raises ReleaseError if the agent is already in service."""
        if version.agent in self._agents:
            raise ReleaseError(
                f"agent {version.agent!r} is already served by {self._agents[version.agent].incumbent.id!r}; "
                "add a new version with start_canary"
            )
        if max_concurrent is not None and max_concurrent < 1:
            raise ValueError(f"max_concurrent must be at least 1 or None (no limit), got {max_concurrent!r}")
        self.put(ServedAgent(version, max_concurrent))

    def put(self, served: ServedAgent) -> None:
        """Serves the agent as given, whatever it was before."""
        self._agents[served.agent] = served
        self._screened.clear()

    def remove(self, agent: str) -> None:
        """Takes an agent and its candidate out of service."""
        self.served(agent)
        del self._agents[agent]
        self._screened.clear()

    def start_canary(self, release: str, candidate: AgentVersion, weight: float) -> None:
        """Lets ``candidate`` serve ``weight`` of its agent's tasks; raises ReleaseError if a canary is running."""
        served = self.served(candidate.agent)
        if served.candidate is not None:
            raise ReleaseError(
                f"agent {served.agent!r} already has candidate {served.candidate.id!r} under canary; "
                "promote it or roll it back first"
            )
        if candidate.id == served.incumbent.id:
            raise ReleaseError(f"{candidate.id!r} is the incumbent; a candidate needs another version name")
        self.put(replace(served, candidate=candidate, weight=_checked_weight(weight), release=release))

    def set_weight(self, agent: str, weight: float) -> None:
        """Changes the candidate's share; raises ReleaseError without a canary."""
        self._candidate(agent)
        self.put(replace(self.served(agent), weight=_checked_weight(weight)))

    def promote(self, agent: str) -> None:
        """Makes the candidate the incumbent and ends the canary."""
        candidate = self._candidate(agent)
        served = self.served(agent)
        self.put(ServedAgent(candidate, served.max_concurrent, limits=served.limits))

    def rollback(self, agent: str) -> None:
        """Takes the candidate out of service and ends the canary."""
        self._candidate(agent)
        served = self.served(agent)
        self.put(ServedAgent(served.incumbent, served.max_concurrent, limits=served.limits))

    def served(self, agent: str) -> ServedAgent:
        """Returns the agent's entry; raises UnknownNameError with the agents in service."""
        if agent not in self._agents:
            known = ", ".join(sorted(self._agents)) or "none"
            raise UnknownNameError(f"unknown agent {agent!r}; in service: {known}")
        return self._agents[agent]

    def agents(self) -> Mapping[str, ServedAgent]:
        """Returns a copy of all agents in service by name, in alphabetical order."""
        return dict(sorted(self._agents.items()))

    def screen(self, task: Task, load: Load, among: Collection[str] | None = None) -> Screening:
        """Returns the agents that are eligible for the task, and why every other version is not.

        ``among``: names of the agents to look at; None = all.
        """
        key = (task.tenant, task.environment, None if among is None else tuple(among))
        known = self._screened.get(key)
        if known is None:
            agents = [served for name, served in sorted(self._agents.items()) if among is None or name in among]
            known = _Screened(_screening(agents, task, Load()), tuple(agents))
            if len(self._screened) >= MAX_SCREENED:
                self._screened.clear()
            self._screened[key] = known
        if any(_overload(served, load) for served in known.capped):
            return _screening(known.agents, task, load)
        return known.screening

    def state(self) -> str:
        """Returns all agents in service as one JSON object."""
        return fields_json(RegistryState(tuple(self.agents().values())))

    def restore(self, state: str) -> None:
        """Replaces the agents in service by those of ``state``; raises RecordError for invalid text."""
        self._agents = {served.agent: served for served in from_fields(RegistryState, state).agents}
        self._screened.clear()

    def _candidate(self, agent: str) -> AgentVersion:
        candidate = self.served(agent).candidate
        if candidate is None:
            raise ReleaseError(f"agent {agent!r} has no version under canary; start_canary starts one")
        return candidate


def _screening(agents: Iterable[ServedAgent], task: Task, load: Load) -> Screening:
    offers: list[Offer] = []
    exclusions: list[Exclusion] = []
    for served in agents:
        reason = _ineligibility(served.incumbent, task, served.limits) or _overload(served, load)
        if reason:
            exclusions.append(Exclusion(served.incumbent.id, reason))
            if served.candidate is not None:
                exclusions.append(Exclusion(served.candidate.id, f"its incumbent may not serve: {reason}"))
            continue
        offer = Offer(served.agent, served.incumbent.id)
        if served.candidate is not None:
            if reason := _ineligibility(served.candidate, task, served.limits):
                exclusions.append(Exclusion(served.candidate.id, reason))
            else:
                offer = replace(offer, candidate=served.candidate.id, weight=served.weight, release=served.release)
        offers.append(offer)
    return Screening(tuple(offers), tuple(exclusions))


def _ineligibility(version: AgentVersion, task: Task, limits: AgentLimits | None) -> str:
    """Returns why a version may not do a task, apart from load; empty = it may."""
    tenants, capabilities = version.tenants, version.capabilities
    if limits is not None:
        if limits.is_suspended:
            return f"suspended: {limits.reason}"
        tenants = tenants if limits.tenants is None else limits.tenants
        capabilities = capabilities if limits.capabilities is None else limits.capabilities
    if tenants is not None and task.tenant not in tenants:
        return f"may not serve tenant {task.tenant!r}"
    if capabilities and task.environment not in {*capabilities, MODEL_CALL}:
        return f"cannot act in environment {task.environment!r}"
    return ""


def _overload(served: ServedAgent, load: Load) -> str:
    if served.load_cap is None or load.in_flight(served.agent) < served.load_cap:
        return ""
    return f"load cap reached: {load.in_flight(served.agent)} of {served.load_cap} tasks in flight"


def _checked_weight(weight: float) -> float:
    if not 0 < weight <= 1:
        raise ReleaseError(
            f"a canary's weight must be above 0 and at most 1, got {weight!r}; promote or rollback ends a canary"
        )
    return weight
