"""Which agent versions are in service, for which tenants, and with which share of the tasks.

Order of checks in ``screen``, the first that fails is the reason: tenant, capability, load cap. An agent is
eligible where its incumbent is; its canary candidate is considered only where the agent is eligible.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock

from upturn.errors import ReleaseError, UnknownNameError
from upturn.records import AgentVersion, Task, fields_json, from_fields, record


@record
class ServedAgent:
    """One agent in service. Immutable: every step of a release makes a new one."""

    incumbent: AgentVersion
    max_concurrent: int | None = None
    """Tasks it may have in flight; None = no cap."""
    candidate: AgentVersion | None = None
    """The version under canary; None = no canary runs."""
    weight: float = 0.0
    """The candidate's share of the agent's tasks, above 0 and at most 1 while a canary runs."""
    release: str | None = None
    """Id of the release that runs the canary; None = no canary runs."""

    @property
    def agent(self) -> str:
        """The agent's name, shared by its versions."""
        return self.incumbent.agent


@record
class RegistryState:
    """All agents in service at one moment, by name."""

    agents: tuple[ServedAgent, ...]


@dataclass(frozen=True, slots=True)
class Offer:
    """An eligible agent, its versions in service and the canary's share."""

    agent: str
    incumbent: str
    """``AgentVersion.id``"""
    candidate: str | None = None
    """Id of the version under canary; None = no canary for this task (none runs, or it may not serve it)."""
    weight: float = 0.0
    """Probability with which the coin picks the candidate."""
    release: str | None = None


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A version that may not do the task, and why."""

    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Screening:
    """The eligible agents and the excluded versions; each version in service is in exactly one of the two."""

    offers: tuple[Offer, ...]
    """By agent name."""
    exclusions: tuple[Exclusion, ...]


class Load:
    """Tasks in flight per agent. Safe to use from several threads."""

    def __init__(self) -> None:
        self._in_flight: Counter[str] = Counter()
        self._lock = Lock()

    def acquire(self, agent: str) -> None:
        """Count one more task of the agent as in flight."""
        with self._lock:
            self._in_flight[agent] += 1

    def release(self, agent: str) -> None:
        """One task of the agent is done; raises ValueError if none was in flight."""
        with self._lock:
            if not self._in_flight[agent]:
                raise ValueError(f"released a task of agent {agent!r} that was never acquired")
            self._in_flight[agent] -= 1

    def in_flight(self, agent: str) -> int:
        """How many tasks the agent has in flight."""
        with self._lock:
            return self._in_flight[agent]


class AgentRegistry:
    """The agents in service, and the changes of a release."""

    def __init__(self) -> None:
        self._agents: dict[str, ServedAgent] = {}

    def add(self, version: AgentVersion, *, max_concurrent: int | None = None) -> None:
        """Put a new agent into service; raises ReleaseError if the agent is already served."""
        if version.agent in self._agents:
            raise ReleaseError(
                f"agent {version.agent!r} is already served by {self._agents[version.agent].incumbent.id!r}; "
                "a new version enters by start_canary"
            )
        if max_concurrent is not None and max_concurrent < 1:
            raise ValueError(f"max_concurrent must be at least 1 or None (no cap), got {max_concurrent!r}")
        self._agents[version.agent] = ServedAgent(version, max_concurrent)

    def remove(self, agent: str) -> None:
        """Take an agent and its canary out of service."""
        self.served(agent)
        del self._agents[agent]

    def start_canary(self, release: str, candidate: AgentVersion, weight: float) -> None:
        """Let ``candidate`` serve the share ``weight`` of its agent's tasks; one canary per agent at a time."""
        served = self.served(candidate.agent)
        if served.candidate is not None:
            raise ReleaseError(
                f"agent {served.agent!r} already has candidate {served.candidate.id!r} under canary; "
                "promote it or roll it back first"
            )
        if candidate.id == served.incumbent.id:
            raise ReleaseError(f"{candidate.id!r} is the incumbent; a candidate needs another version name")
        self._agents[candidate.agent] = replace(
            served, candidate=candidate, weight=_checked_weight(weight), release=release
        )

    def set_weight(self, agent: str, weight: float) -> None:
        """Change the candidate's share; raises ReleaseError if no canary runs."""
        self._candidate(agent)
        self._agents[agent] = replace(self.served(agent), weight=_checked_weight(weight))

    def promote(self, agent: str) -> None:
        """Make the candidate the incumbent and end the canary."""
        candidate = self._candidate(agent)
        self._agents[agent] = ServedAgent(candidate, self.served(agent).max_concurrent)

    def rollback(self, agent: str) -> None:
        """Take the candidate out of service and end the canary."""
        self._candidate(agent)
        served = self.served(agent)
        self._agents[agent] = ServedAgent(served.incumbent, served.max_concurrent)

    def served(self, agent: str) -> ServedAgent:
        """The agent's present service; raises UnknownNameError naming the served agents."""
        if agent not in self._agents:
            known = ", ".join(sorted(self._agents)) or "none"
            raise UnknownNameError(f"unknown agent {agent!r}; in service: {known}")
        return self._agents[agent]

    def agents(self) -> Mapping[str, ServedAgent]:
        """All agents in service by name, in alphabetical order; a copy."""
        return dict(sorted(self._agents.items()))

    def screen(self, task: Task, load: Load) -> Screening:
        """The agents eligible for the task now, and why every other version in service is not."""
        offers: list[Offer] = []
        exclusions: list[Exclusion] = []
        for agent, served in sorted(self._agents.items()):
            reason = _ineligibility(served.incumbent, task) or _overload(served, load)
            if reason:
                exclusions.append(Exclusion(served.incumbent.id, reason))
                if served.candidate is not None:
                    exclusions.append(Exclusion(served.candidate.id, f"its incumbent may not serve: {reason}"))
                continue
            offer = Offer(agent, served.incumbent.id)
            if served.candidate is not None:
                if reason := _ineligibility(served.candidate, task):
                    exclusions.append(Exclusion(served.candidate.id, reason))
                else:
                    offer = replace(
                        offer, candidate=served.candidate.id, weight=served.weight, release=served.release
                    )
            offers.append(offer)
        return Screening(tuple(offers), tuple(exclusions))

    def state(self) -> str:
        """All agents in service as one JSON object."""
        return fields_json(RegistryState(tuple(self.agents().values())))

    def restore(self, state: str) -> None:
        """Replace the agents in service by those that ``state`` wrote; raises RecordError for anything else."""
        self._agents = {served.agent: served for served in from_fields(RegistryState, state).agents}

    def _candidate(self, agent: str) -> AgentVersion:
        candidate = self.served(agent).candidate
        if candidate is None:
            raise ReleaseError(f"agent {agent!r} has no version under canary; start_canary starts one")
        return candidate


def _ineligibility(version: AgentVersion, task: Task) -> str:
    """Why a version may not do a task, apart from load; empty = it may."""
    if version.tenants is not None and task.tenant not in version.tenants:
        return f"may not serve tenant {task.tenant!r}"
    if version.capabilities and task.environment not in version.capabilities:
        return f"cannot act in environment {task.environment!r}"
    return ""


def _overload(served: ServedAgent, load: Load) -> str:
    if served.max_concurrent is None or load.in_flight(served.agent) < served.max_concurrent:
        return ""
    return f"load cap reached: {load.in_flight(served.agent)} of {served.max_concurrent} tasks in flight"


def _checked_weight(weight: float) -> float:
    if not 0 < weight <= 1:
        raise ReleaseError(
            f"a canary's weight must be above 0 and at most 1, got {weight!r}; promote or rollback ends a canary"
        )
    return weight
