"""The router: one decision per task, with its true propensity and a readable reason.

Order of steps: reuse the episode's decision while its version may still serve; screen the agents (tenant,
capability, load); let the policy give probabilities over the eligible agents; sample one; while the chosen agent
has a canary, throw a coin for its version. The draws depend only on (seed, task id), never on the order of tasks or
on earlier draws, and the coin is independent of the family, of what was learned and of the draw that chose the
agent. So the mix of families differs between the arms of a canary by chance only.

Not covered: the router does not count its own decisions as load. Callers acquire the agent in ``load`` when they
start a task and release it when it ends. A router is for one thread.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from math import fsum
from typing import Literal

from upturn.arbiter.policy import Candidate, RoutingOutcome, RoutingPolicy
from upturn.arbiter.registry import AgentRegistry, Load, Offer, Screening
from upturn.errors import RoutingError
from upturn.records import Alternative, Decision, Task

MAX_EPISODES = 10_000
"""Episodes remembered; the one longest unused is forgotten first, so that memory stays bounded."""

Purpose = Literal["agent", "version"]


@dataclass(frozen=True, slots=True)
class RunKey:
    """Makes decisions reproducible and their ids unique."""

    run: str
    """Part of every decision id: the same task in another run is another decision."""
    seed: int = 0
    """Of all draws: equal seeds, tasks and knowledge give equal choices, whatever the run."""


def draw(seed: int, task_id: str, purpose: Purpose) -> float:
    """A uniform number in [0, 1) that depends on nothing but the arguments: 53 bits of their hash."""
    digest = blake2b(f"{seed}\0{purpose}\0{task_id}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) * 2.0**-53


class Router:
    """Chooses the agent version for a task and passes outcomes to the policy."""

    def __init__(
        self,
        registry: AgentRegistry,
        policy: RoutingPolicy,
        key: RunKey,
        *,
        load: Load | None = None,
        max_episodes: int = MAX_EPISODES,
    ) -> None:
        self.registry = registry
        self.policy = policy
        """May be replaced at any time: the switch between learned and rule-based routing."""
        self.load = load if load is not None else Load()
        self._key = key
        self._max_episodes = max_episodes
        self._episodes: OrderedDict[tuple[str, str], Decision] = OrderedDict()

    def decide(self, task: Task, *, episode: str | None = None) -> Decision:
        """The decision for one task; raises RoutingError with every reason when no agent may do it.

        Within an ``episode`` (of one tenant) later tasks reuse the first decision as long as its version is in
        service and may do the task; the load cap does not break an episode. None: the task stands alone.
        """
        if episode is not None and (earlier := self._sticky_decision(task, episode)) is not None:
            return replace(
                earlier,
                id=self._decision_id(task),
                task_id=task.id,
                family=task.family,
                is_sticky=True,
                reason=f"{earlier.chosen} serves episode {episode!r} already",
            )
        decision = self._new_decision(task, episode)
        if episode is not None:
            self.remember(decision)
        return decision

    def decide_many(self, tasks: Iterable[Task]) -> tuple[Decision, ...]:
        """Decisions for a wave of tasks without episodes, in order, all from the present counts and load."""
        return tuple(self.decide(task) for task in tasks)

    def learn_many(self, decisions: Sequence[Decision], outcomes: Sequence[RoutingOutcome]) -> None:
        """Learn a wave's outcomes in the order of ``decisions``; both must match one to one."""
        for decision, outcome in zip(decisions, outcomes, strict=True):
            self.policy.learn(decision, outcome)

    def remember(self, decision: Decision) -> None:
        """Make a decision its episode's sticky one, e.g. after a restart; no-op outside of an episode."""
        if decision.episode is None:
            return
        self._episodes[decision.tenant, decision.episode] = decision
        self._episodes.move_to_end((decision.tenant, decision.episode))
        while len(self._episodes) > self._max_episodes:
            self._episodes.popitem(last=False)

    def _sticky_decision(self, task: Task, episode: str) -> Decision | None:
        """The episode's decision if its version may still do the task; None = decide anew."""
        decision = self._episodes.get((task.tenant, episode))
        if decision is None:
            return None
        # An empty Load: the cap refuses new work, it does not end an episode.
        for offer in self.registry.screen(task, Load()).offers:
            if decision.chosen in (offer.incumbent, offer.candidate):
                self._episodes.move_to_end((task.tenant, episode))
                return decision
        return None

    def _new_decision(self, task: Task, episode: str | None) -> Decision:
        screening = self.registry.screen(task, self.load)
        if not screening.offers:
            raise RoutingError(_no_agent(task, screening))
        probabilities = self._probabilities(task, screening.offers)
        index = _sample(probabilities, draw(self._key.seed, task.id, "agent"))
        offer = screening.offers[index]
        is_candidate = offer.candidate is not None and draw(self._key.seed, task.id, "version") < offer.weight
        alternatives = self._alternatives(task, screening, probabilities)
        chosen = offer.candidate if is_candidate and offer.candidate is not None else offer.incumbent
        reason = self._reason(task, screening.offers, probabilities, index)
        if offer.candidate is not None:
            reason += (
                f"; canary {offer.release}: the coin at {offer.weight:.0%} for {offer.candidate} gave {chosen}"
            )
        return Decision(
            id=self._decision_id(task),
            task_id=task.id,
            family=task.family,
            tenant=task.tenant,
            policy=self.policy.name,
            policy_snapshot=self.policy.snapshot(),
            alternatives=alternatives,
            agent=offer.agent,
            chosen=chosen,
            propensity=next(option.probability for option in alternatives if option.agent_version == chosen),
            reason=reason,
            episode=episode,
            release=offer.release,
            arm=None if offer.candidate is None else ("candidate" if is_candidate else "control"),
        )

    def _probabilities(self, task: Task, offers: Sequence[Offer]) -> Sequence[float]:
        """The policy's probabilities; raises RoutingError where they break the contract."""
        candidates = [Candidate(offer.agent, offer.incumbent) for offer in offers]
        probabilities = self.policy.probabilities(task, candidates)
        total = fsum(probabilities)
        if len(probabilities) != len(offers) or not min(probabilities) > 0 or not abs(total - 1) < 1e-9:
            raise RoutingError(
                f"policy {self.policy.name!r} gave probabilities {list(probabilities)!r} for {len(offers)} agents; "
                "they must be one per agent, each above 0, with sum 1"
            )
        return probabilities

    def _alternatives(
        self, task: Task, screening: Screening, probabilities: Sequence[float]
    ) -> tuple[Alternative, ...]:
        """Every version in service: eligible ones with their probability, the others with the reason."""
        alternatives: list[Alternative] = []
        for offer, probability in zip(screening.offers, probabilities, strict=True):
            shares = {offer.incumbent: 1 - offer.weight}
            if offer.candidate is not None:
                shares[offer.candidate] = offer.weight
            for version, share in shares.items():
                if share > 0:
                    belief = self.policy.belief(task.family, version)
                    mean = None if belief is None else belief.mean
                    alternatives.append(Alternative(version, probability * share, mean))
                else:
                    reason = f"release {offer.release}: {offer.candidate} takes all of the agent's tasks"
                    alternatives.append(Alternative(version, 0.0, None, reason))
        alternatives += [
            Alternative(excluded.version, 0.0, None, excluded.reason) for excluded in screening.exclusions
        ]
        return tuple(alternatives)

    def _reason(self, task: Task, offers: Sequence[Offer], probabilities: Sequence[float], index: int) -> str:
        """Why this agent was chosen, in one sentence with the deciding figures."""
        chosen = offers[index]
        described = self._described(task.family, chosen)
        if len(offers) == 1:
            return f"{described} is the only eligible agent for {task.family}"
        ranked = sorted(range(len(offers)), key=lambda place: -probabilities[place])
        leader, second = ranked[0], ranked[1]
        if probabilities[leader] == min(probabilities):
            equal = f"{self.policy.name} gives all {len(offers)} agents equal chances for {task.family}"
            return f"{equal}; drew {described}"
        probability = f"probability {probabilities[index]:.3f}"
        if index == leader or probabilities[index] == probabilities[leader]:
            other = offers[second if index == leader else leader]
            return (
                f"{self.policy.name} leads {task.family} to {described} with {probability}, "
                f"before {self._described(task.family, other)}"
            )
        return (
            f"{self.policy.name} explores {described} for {task.family} with {probability}; "
            f"it prefers {self._described(task.family, offers[leader])}"
        )

    def _described(self, family: str, offer: Offer) -> str:
        """``nano 0.83±0.05``: the agent and its incumbent's posterior mean with the half-width of 95 %."""
        belief = self.policy.belief(family, offer.incumbent)
        if belief is None:
            return offer.agent
        return f"{offer.agent} {belief.mean:.2f}±{1.96 * belief.deviation:.2f}"

    def _decision_id(self, task: Task) -> str:
        return sha256(f"{self._key.run}\0{task.id}".encode()).hexdigest()[:24]


def _sample(probabilities: Sequence[float], uniform: float) -> int:
    """The index whose slice of [0, 1) holds ``uniform``."""
    edge = 0.0
    for index, probability in enumerate(probabilities):
        edge += probability
        if uniform < edge:
            return index
    return len(probabilities) - 1  # rounding left the last edge a hair below 1


def _no_agent(task: Task, screening: Screening) -> str:
    if not screening.exclusions:
        return f"no agent is in service for task {task.id!r}; add one to the registry"
    reasons = "; ".join(f"{excluded.version}: {excluded.reason}" for excluded in screening.exclusions)
    return (
        f"no agent is eligible for task {task.id!r} (family {task.family!r}, tenant {task.tenant!r}, environment "
        f"{task.environment!r}): {reasons}. Add an agent that may do it, or wait where the load cap is the reason"
    )
