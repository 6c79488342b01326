"""The router: one decision per task, with its true propensity and a readable reason.

Order of steps: reuse the episode's decision if its version may still serve (with a switch weight in the objective,
decide again between staying and switching); screen the agents (tenant, capability,
load, constraints, budget); forecast costs and latencies; get the policy's probabilities of the eligible agents;
sample one; if the chosen agent has a canary, draw the version. The draws depend only on (seed, task id), not on the
order of tasks or earlier draws. The draw of the version is independent of the family, of learned outcomes and of
the draw of the agent, so that the mix of families differs between the arms of a canary by chance only.

The router does not count its own decisions as load: callers acquire the agent in ``load`` when they start a task
and release it at the end. A router must be used by one thread only.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b, sha256
from itertools import accumulate
from math import fsum
from typing import Literal

from upturn.arbiter.constraint import Constraints, without
from upturn.arbiter.objective import Objective
from upturn.arbiter.policy import Candidate, RoutingOutcome, RoutingPolicy, estimates_of, features_of
from upturn.arbiter.registry import AgentRegistry, Exclusion, Load, Offer, Screening
from upturn.errors import RoutingError
from upturn.records import Alternative, Arm, Decision, Forecast, Task, eligible_alternatives

MAX_EPISODES = 10_000
"""Maximum number of remembered episodes; the least recently used one is dropped first."""

Purpose = Literal["agent", "version"]


@dataclass(frozen=True, slots=True)
class RunKey:
    """The key of a run's decisions: unique ids and reproducible draws."""

    run: str
    """Part of every decision's id, so that the same task in another run is another decision."""
    seed: int = 0
    """Seed of all draws. With equal tasks and learned outcomes it gives equal choices, also in another run."""


def draw(seed: int, task_id: str, purpose: Purpose) -> float:
    """Returns a uniform number in [0, 1) from 53 bits of a hash of the arguments."""
    digest = blake2b(f"{seed}\0{purpose}\0{task_id}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) * 2.0**-53


class Router:
    """Chooses an agent version for each task and passes outcomes to the policy."""

    def __init__(
        self,
        registry: AgentRegistry,
        policy: RoutingPolicy,
        key: RunKey,
        *,
        load: Load | None = None,
        objective: Objective | None = None,
        max_episodes: int = MAX_EPISODES,
    ) -> None:
        """``objective``: None = quality alone."""
        self.registry = registry
        self.objective = objective
        self.constraints = Constraints()
        """Of the configured agents. They and the objective may be replaced at any time, like the policy."""
        self.policy = policy
        """May be replaced at any time, e.g. to switch between learned and rule-based routing."""
        self.load = load if load is not None else Load()
        self._key = key
        self._max_episodes = max_episodes
        self._episodes: OrderedDict[tuple[str, str], Decision] = OrderedDict()

    def decide(
        self,
        task: Task,
        *,
        episode: str | None = None,
        among: Collection[str] | None = None,
        budget_usd: float | None = None,
        may_switch: bool = True,
    ) -> Decision:
        """Returns the decision for one task; raises RoutingError with all reasons if no agent is eligible.

        ``among``: names of the agents that may be chosen; None = all in service. ``budget_usd``: what the task may
        probably cost; None = anything.

        Later tasks of an ``episode`` (of one tenant) reuse its first decision while that version is in service and
        may do the task, even if the load cap is reached. They belong to its release until the release ends, or a
        task comes that only one of its versions may do. None = the task belongs to no episode. With a switch weight
        in the objective, later tasks may go to another agent at that price, unless ``may_switch`` is False."""
        earlier = None if episode is None else self._sticky_decision(task, episode, among)
        if earlier is not None and may_switch and self.objective is not None and self.objective.may_switch:
            decision = self._new_decision(task, episode, self._screening(task, among, budget_usd), earlier)
        elif earlier is not None:
            if reason := self._over_budget(task, (earlier.chosen,), budget_usd):
                raise RoutingError(f"{earlier.chosen} serves episode {episode!r}: {reason}", kind="over_budget")
            return replace(
                earlier,
                id=self.decision_id(task),
                task_id=task.id,
                family=task.family,
                features=features_of(self.policy, task),
                is_sticky=True,
                reason=f"{earlier.chosen} serves episode {episode!r} already",
                current=None,
            )
        else:
            decision = self._new_decision(task, episode, self._screening(task, among, budget_usd))
        if episode is not None:
            self.remember(decision)
        return decision

    def decide_many(self, tasks: Iterable[Task]) -> tuple[Decision, ...]:
        """Returns decisions for tasks without episodes, in order, all from the current counts and load."""
        return tuple(self.decide(task) for task in tasks)

    def learn_many(self, decisions: Sequence[Decision], outcomes: Sequence[RoutingOutcome]) -> None:
        """Learns outcomes in the order of ``decisions``; there must be one per decision."""
        for decision, outcome in zip(decisions, outcomes, strict=True):
            self.policy.learn(decision, outcome)

    def remembered(self, tenant: str, episode: str) -> Decision | None:
        """Returns the decision that the tenant's episode reuses; None = none is remembered."""
        return self._episodes.get((tenant, episode))

    def forget(self, tenant: str, episode: str) -> None:
        """Forgets the decision of the tenant's episode; no-op if none is remembered."""
        self._episodes.pop((tenant, episode), None)

    def remember(self, decision: Decision) -> None:
        """Makes a decision the one that its episode reuses, e.g. after a restart; no-op without an episode."""
        if decision.episode is None:
            return
        self._episodes[decision.tenant, decision.episode] = decision
        self._episodes.move_to_end((decision.tenant, decision.episode))
        while len(self._episodes) > self._max_episodes:
            self._episodes.popitem(last=False)

    def _sticky_decision(self, task: Task, episode: str, among: Collection[str] | None) -> Decision | None:
        """Returns the episode's decision if its version may do the task; None = a new decision is needed."""
        decision = self._episodes.get((task.tenant, episode))
        if decision is None:
            return None
        # Without load, because the cap does not end an episode.
        screening = self.constraints.screened(self.registry.screen(task, Load(), among), task)
        for offer in screening.offers:
            if decision.chosen in (offer.incumbent, offer.candidate):
                if decision.release != offer.release:  # ended, or one of its versions may not do the task
                    decision = replace(decision, release=None, arm=None)
                self.remember(decision)
                return decision
        return None

    def screen(self, task: Task, among: Collection[str] | None = None) -> Screening:
        """Returns the eligible agents, apart from budgets, and why others are not; ``among``: see ``decide``."""
        return self.constraints.screened(self.registry.screen(task, self.load, among), task)

    def _screening(self, task: Task, among: Collection[str] | None, budget_usd: float | None) -> Screening:
        """Returns at least one eligible agent; raises RoutingError if there is none."""
        known = self.registry.screen(task, self.load, among)
        able = self.constraints.screened(known, task)
        if not able.offers:
            if known.offers:
                raise RoutingError(f"{_no_agent(task, able)}. Change the request, or add an agent", kind="unable")
            cure = "Add an agent that may do it, or wait where the load cap is the reason"
            raise RoutingError(f"{_no_agent(task, able)}. {cure}" if able.exclusions else _no_agent(task, able))
        if budget_usd is None or self.objective is None:
            return able
        reasons = {offer: self._over_budget(task, offer.versions, budget_usd) for offer in able.offers}
        affordable = without(able, reasons)
        if not affordable.offers:
            reasons_left = "; ".join(f"{offer.incumbent}: {reason}" for offer, reason in reasons.items())
            raise RoutingError(reasons_left, kind="over_budget")
        return affordable

    def _over_budget(self, task: Task, versions: Sequence[str], budget_usd: float | None) -> str:
        """Returns why the dearest of the versions is not affordable; empty = it is, or has no price."""
        if budget_usd is None or self.objective is None:
            return ""
        costs = [self.objective.expected_usd(task, version) for version in versions]
        cost = max((cost for cost in costs if cost is not None), default=0.0)
        if cost <= budget_usd:
            return ""
        return f"expected to cost {cost:.3g} USD, and {max(0.0, budget_usd):.3g} USD of the budget are left"

    def _new_decision(
        self, task: Task, episode: str | None, screening: Screening, earlier: Decision | None = None
    ) -> Decision:
        """Samples an agent and its version. ``earlier``: the decision of the episode, which may be kept."""
        staying: Sequence[str] = ()
        if earlier is not None:
            screening = _kept_version(screening, earlier)
            staying = [
                option for offer in screening.offers if offer.agent == earlier.agent for option in offer.versions
            ]
        forecasts = self.forecasts(task.family, screening.offers, staying)
        candidates = candidates_of(screening, forecasts)
        probabilities = self._probabilities(task, candidates)
        index = _sample(probabilities, draw(self._key.seed, task.id, "agent"))
        offer = screening.offers[index]
        coin = task.id
        if episode is not None and self.objective is not None and self.objective.may_switch:
            coin = f"{task.tenant}\0{episode}"  # the same arm whenever the episode comes back to the agent
        is_candidate = offer.candidate is not None and draw(self._key.seed, coin, "version") < offer.weight
        alternatives = self._alternatives(task.family, screening, probabilities, forecasts)
        chosen, propensity = offer.incumbent, probabilities[index]
        if offer.candidate is not None:
            chosen = offer.candidate if is_candidate else offer.incumbent
            propensity *= offer.weight if is_candidate else 1 - offer.weight
        reason = self._reason(task, candidates, probabilities, index)
        kept = earlier if earlier is not None and earlier.agent == offer.agent else None
        if offer.candidate is not None and kept is None:
            reason += (
                f"; canary {offer.release}: the coin at {offer.weight:.0%} for {offer.candidate} gave {chosen}"
            )
        return Decision(
            id=self.decision_id(task),
            task_id=task.id,
            family=task.family,
            tenant=task.tenant,
            policy=self.policy.name,
            policy_snapshot=self.policy.snapshot(),
            alternatives=alternatives,
            agent=offer.agent,
            chosen=chosen,
            propensity=propensity,
            reason=reason,
            episode=episode,
            release=offer.release if kept is None else kept.release,
            arm=_arm(offer, is_candidate=is_candidate) if kept is None else kept.arm,
            features=features_of(self.policy, task),
            current=None if earlier is None else earlier.chosen,
        )

    def forecasts(
        self, family: str, offers: Sequence[Offer], staying: Sequence[str] = ()
    ) -> Mapping[str, Forecast]:
        """Returns the forecasts of the offered versions by id; empty without an objective.

        The handicap of an agent is that of its incumbent, also during a canary. ``staying``: see
        ``Objective.forecasts``."""
        if self.objective is None:
            return {}
        versions = [version for offer in offers for version in offer.versions]
        return dict(zip(versions, self.objective.forecasts(family, versions, staying), strict=True))

    def _probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """Returns the policy's probabilities; raises RoutingError if they violate the contract."""
        probabilities = self.policy.probabilities(task, candidates)
        total = fsum(probabilities)
        if len(probabilities) != len(candidates) or not min(probabilities) > 0 or not abs(total - 1) < 1e-9:
            raise RoutingError(
                f"policy {self.policy.name!r} gave probabilities {list(probabilities)!r} for {len(candidates)} "
                "agents; they must be one per agent, each above 0, with sum 1"
            )
        return probabilities

    def _alternatives(
        self,
        family: str,
        screening: Screening,
        probabilities: Sequence[float],
        forecasts: Mapping[str, Forecast],
    ) -> tuple[Alternative, ...]:
        """Returns every version in service: eligible ones with their probability, then others with the reason."""
        versions: Sequence[str] = screening.incumbents
        excluded: list[Alternative] = []
        if screening.has_canary:
            versions, probabilities, excluded = _arms(screening.offers, probabilities)
        estimates = estimates_of(self.policy, family, versions)
        expected = [forecasts.get(version) for version in versions] if forecasts else [None] * len(versions)
        eligible = eligible_alternatives(versions, probabilities, estimates, expected)
        return (*eligible, *excluded, *screening.excluded)

    def _reason(
        self, task: Task, candidates: Sequence[Candidate], probabilities: Sequence[float], index: int
    ) -> str:
        """Returns why this agent was chosen, as a sentence with the deciding figures."""
        name, family = self.policy.name, task.family
        agent = self._describe(family, candidates[index])
        if len(candidates) == 1:
            return f"{agent} is the only eligible agent for {family}"
        most = max(probabilities)
        leader = probabilities.index(most)
        if most == probabilities[0] == min(probabilities):
            return f"{name} gives all {len(candidates)} agents equal chances for {family}; drew {agent}"
        probability = f"probability {probabilities[index]:.3f}"
        if index == leader or probabilities[index] == probabilities[leader]:
            others = [*probabilities[:index], 0.0, *probabilities[index + 1 :]]
            other = self._describe(family, candidates[others.index(max(others))])
            return f"{name} leads {family} to {agent} with {probability}, before {other}"
        preferred = self._describe(family, candidates[leader])
        return f"{name} explores {agent} for {family} with {probability}; it prefers {preferred}"

    def _describe(self, family: str, candidate: Candidate) -> str:
        """Returns e.g. ``nano 0.83±0.05``: the incumbent's posterior mean with the half-width of 95 %.

        A handicap follows, as in ``nano 0.83±0.05 (handicap 0.012)``."""
        handicap = f" (handicap {candidate.handicap:.3g})" if candidate.handicap else ""
        belief = self.policy.belief(family, candidate.version)
        if belief is None:
            return f"{candidate.agent}{handicap}"
        return f"{candidate.agent} {belief.mean:.2f}±{1.96 * belief.deviation:.2f}{handicap}"

    def decision_id(self, task: Task) -> str:
        """Returns the id of the run's decision for the task."""
        return sha256(f"{self._key.run}\0{task.id}".encode()).hexdigest()[:24]


def _arm(offer: Offer, *, is_candidate: bool) -> Arm | None:
    if offer.candidate is None:
        return None
    return "candidate" if is_candidate else "control"


def _kept_version(screening: Screening, earlier: Decision) -> Screening:
    """Returns the screening in which the episode's agent has the episode's version only."""
    offers: list[Offer] = []
    exclusions = list(screening.exclusions)
    for offer in screening.offers:
        if offer.candidate is None or earlier.chosen not in offer.versions:
            offers.append(offer)
        elif earlier.chosen == offer.candidate:
            offers.append(replace(offer, weight=1.0, is_kept=True))
        else:
            offers.append(replace(offer, candidate=None, weight=0.0))
            exclusions.append(Exclusion(offer.candidate, f"the episode has {earlier.chosen}"))
    return Screening(tuple(offers), tuple(exclusions))


def _arms(
    offers: Sequence[Offer], probabilities: Sequence[float]
) -> tuple[list[str], list[float], list[Alternative]]:
    """Returns versions with a share of the tasks, their probabilities, and the alternatives without a share."""
    versions: list[str] = []
    shares: list[float] = []
    excluded: list[Alternative] = []
    for offer, probability in zip(offers, probabilities, strict=True):
        if offer.candidate is None:
            versions.append(offer.incumbent)
            shares.append(probability)
            continue
        for version, share in ((offer.incumbent, 1 - offer.weight), (offer.candidate, offer.weight)):
            if share > 0:
                versions.append(version)
                shares.append(probability * share)
                continue
            reason = f"release {offer.release}: {offer.candidate} takes all of the agent's tasks"
            if offer.is_kept:
                reason = f"the episode has {offer.candidate}"
            excluded.append(Alternative(version, 0.0, None, reason))
    return versions, shares, excluded


def candidates_of(screening: Screening, forecasts: Mapping[str, Forecast]) -> tuple[Candidate, ...]:
    """Returns the candidates that a policy sees, with the handicaps of their incumbents."""
    if not forecasts:
        return screening.candidates
    return tuple(
        [
            _candidate(offer.agent, offer.incumbent, forecasts[offer.incumbent].handicap)
            for offer in screening.offers
        ]
    )


@lru_cache(maxsize=10_000)
def _candidate(agent: str, version: str, handicap: float) -> Candidate:
    """Returns the candidate; equal ones are one object, because making an object takes longer than a look-up."""
    return Candidate(agent, version, handicap)


def _sample(probabilities: Sequence[float], uniform: float) -> int:
    """Returns the index whose slice of [0, 1) contains ``uniform``."""
    for index, edge in enumerate(accumulate(probabilities)):
        if uniform < edge:
            return index
    return len(probabilities) - 1  # by rounding, the last edge may be below 1


def _no_agent(task: Task, screening: Screening) -> str:
    if not screening.exclusions:
        return f"no agent is in service for task {task.id!r}; add one to the registry"
    reasons = "; ".join(f"{excluded.version}: {excluded.reason}" for excluded in screening.exclusions)
    return (
        f"no agent is eligible for task {task.id!r} (family {task.family!r}, tenant {task.tenant!r}, environment "
        f"{task.environment!r}): {reasons}"
    )
