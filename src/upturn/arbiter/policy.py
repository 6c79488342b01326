"""Routing policies: the probability of each agent for a task.

A policy computes probabilities and learns from outcomes. The router filters the candidates and samples, so no
policy can choose an ineligible agent or log a wrong propensity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Protocol, cast, runtime_checkable

from upturn.arbiter.posterior import Posterior, probability_best
from upturn.arbiter.tally import Tally
from upturn.records import Decision, Evaluation, Task

MAX_FLOOR = 0.05
"""Maximum exploration floor: at most one task in twenty explores."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An eligible agent, for a policy."""

    agent: str
    version: str
    """Id of the agent's incumbent version, whose results represent the agent during a canary."""
    handicap: float = 0.0
    """Weighted cost, latency and switching in units of reward; a policy maximises reward − handicap."""


@dataclass(frozen=True, slots=True)
class RoutingOutcome:
    """The outcome of a decision, for learning."""

    decision_id: str
    reward: float | None
    """In [0, 1]; None = no verdict, which is counted but not learned from."""

    @classmethod
    def of(cls, decision: Decision, evaluation: Evaluation | None) -> "RoutingOutcome":
        """Returns the reward 1 for a success, 0 for a failure, and None for a missing verdict or evaluation."""
        if evaluation is None or evaluation.verdict == "missing":
            return cls(decision.id, None)
        return cls(decision.id, 1.0 if evaluation.is_success else 0.0)


class RoutingPolicy(Protocol):
    """Computes the probabilities of eligible candidates for a task, and learns from outcomes."""

    @property
    def name(self) -> str:
        """The policy's name in decisions and reports."""

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """Returns one probability per candidate, in their order, each above 0; they sum to 1.

        There is at least one candidate. The result depends only on the arguments and the learned outcomes.
        """

    def learn(self, decision: Decision, outcome: RoutingOutcome) -> None:
        """Learns the outcome of one decision; called once per decision."""

    def belief(self, family: str, version: str) -> Posterior | None:
        """Returns the posterior of a version's success rate in a family; None = the policy has no posterior."""

    def snapshot(self) -> str:
        """Returns a hash of everything that ``probabilities`` depends on, except its arguments."""


class StoredPolicy(RoutingPolicy, Protocol):
    """A policy whose learned state can be stored."""

    def state(self) -> str:
        """Returns what was learned as JSON text, without settings."""

    def restore(self, state: str) -> None:
        """Replaces what was learned; raises RecordError for invalid text."""


@runtime_checkable
class ContextualPolicy(RoutingPolicy, Protocol):
    """A policy that also depends on features of the task; the router stores them with the decision."""

    def features(self, task: Task) -> tuple[float, ...]:
        """Returns the features of the task that ``probabilities`` depends on, and that ``learn`` reads."""


def features_of(policy: RoutingPolicy, task: Task) -> tuple[float, ...]:
    """Returns the features that the policy sees of a task; empty = it uses none."""
    return cast(ContextualPolicy, policy).features(task) if _has_features(type(policy)) else ()


class ManyEstimates(Protocol):
    """A policy that gives the posterior means of many versions at once, in less time than one by one."""

    def estimates(self, family: str, versions: Sequence[str]) -> Sequence[float | None]:
        """Returns the mean of ``belief`` of each version; None = the policy has no posterior."""


def estimates_of(policy: RoutingPolicy, family: str, versions: Sequence[str]) -> Sequence[float | None]:
    """Returns the posterior mean of each version in the family; None = the policy has no posterior."""
    if _has_estimates(type(policy)):
        return cast(ManyEstimates, policy).estimates(family, versions)
    beliefs = [policy.belief(family, version) for version in versions]
    return [None if belief is None else belief.mean for belief in beliefs]


@lru_cache(maxsize=64)
def _has_estimates(kind: type) -> bool:
    """Returns True for a policy with estimates of many versions that are those of its own ``belief``.

    A class that replaces the belief of its base, and not the estimates, is asked for each belief."""
    names = next((vars(base).keys() for base in kind.__mro__ if {"belief", "estimates"} & vars(base).keys()), ())
    return "estimates" in names


@lru_cache(maxsize=64)
def _has_features(kind: type) -> bool:
    """Returns True for a contextual policy; isinstance with a protocol takes 20 µs."""
    return callable(getattr(kind, "features", None))


class _TallyPolicy:
    """Base of policies that count successes per version and family."""

    def __init__(self, name: str, tally: Tally | None, **settings: str | float) -> None:
        self.name = name
        self.tally = tally if tally is not None else Tally()
        self._settings = settings
        self._snapshot: str | None = None  # None = not computed since the last outcome

    def learn(self, decision: Decision, outcome: RoutingOutcome) -> None:
        """Adds the outcome to the counts of the chosen version in the decision's family."""
        if outcome.decision_id != decision.id:
            raise ValueError(f"the outcome is of decision {outcome.decision_id!r}, not of {decision.id!r}")
        self.tally.add(decision.family, decision.chosen, outcome.reward)
        self._snapshot = None

    def belief(self, family: str, version: str) -> Posterior | None:
        """Returns the posterior of the version's success rate in the family."""
        return self.tally.posterior(family, version)

    def estimates(self, family: str, versions: Sequence[str]) -> Sequence[float]:
        """Returns the posterior means of the versions in the family."""
        return self.tally.means(family, versions)

    def state(self) -> str:
        """Returns the counts as JSON text, without settings."""
        return self.tally.state()

    def restore(self, state: str) -> None:
        """Replaces the counts by those of ``state``; raises RecordError for invalid text."""
        self.tally.restore(state)
        self._snapshot = None

    def snapshot(self) -> str:
        """Returns a hash of the policy's name, settings and counts."""
        if self._snapshot is None:
            settings = {"discount": self.tally.discount, "borrow": self.tally.borrow, **self._settings}
            text = f"{self.name}\n{sorted(settings.items())!r}\n{self.tally.state()}"
            self._snapshot = sha256(text.encode()).hexdigest()[:16]
        return self._snapshot


class DiscountedThompson(_TallyPolicy):
    """Thompson sampling by task family, with discounting and an exploration floor.

    ``p = (1 - floor) · P(best) + floor / K`` for K candidates, where P(best) is the exact probability of having the
    highest success rate. Every logged propensity is at least ``floor / K``.
    """

    def __init__(self, *, floor: float = MAX_FLOOR, tally: Tally | None = None) -> None:
        self.floor = _checked_floor(floor)
        super().__init__("discounted_thompson", tally, floor=floor)

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """Returns the probability of being best under the current posteriors, with the floor."""
        posteriors = [self.tally.posterior(task.family, candidate.version) for candidate in candidates]
        best = probability_best(tuple((posterior.alpha, posterior.beta) for posterior in posteriors))
        return _with_floor(best, self.floor)


class RuleBasedRouting(_TallyPolicy):
    """A fixed agent per family, instead of learned routing.

    It explores with ``floor``, so that its decisions are usable for off-policy estimates, and counts outcomes, so
    that switching between it and a learning policy with the same tally loses no evidence.
    """

    def __init__(
        self, rules: Mapping[str, str], default: str, *, floor: float = MAX_FLOOR, tally: Tally | None = None
    ) -> None:
        self.rules = dict(rules)
        self.default = default
        self.floor = _checked_floor(floor)
        super().__init__("rule_based", tally, floor=floor, default=default, rules=repr(sorted(rules.items())))

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """Returns 1 − floor for the family's agent, else for the default; uniform if neither is eligible."""
        agents = [candidate.agent for candidate in candidates]
        for preferred in (self.rules.get(task.family, self.default), self.default):
            if preferred in agents:
                return _with_floor([float(agent == preferred) for agent in agents], self.floor)
        return [1 / len(agents)] * len(agents)


class Uniform(_TallyPolicy):
    """Equal probabilities, as a control."""

    def __init__(self, *, tally: Tally | None = None) -> None:
        super().__init__("uniform", tally)

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:  # noqa: ARG002 - contract
        """Returns 1/K for each of K candidates."""
        return [1 / len(candidates)] * len(candidates)


class EpsilonGreedy(_TallyPolicy):
    """The highest posterior mean minus handicap, except for a share ``epsilon`` of uniform exploration."""

    def __init__(self, *, epsilon: float = 0.1, tally: Tally | None = None) -> None:
        if not 0 < epsilon <= 1:
            raise ValueError(f"epsilon must be above 0 (to explore every candidate) and at most 1, got {epsilon!r}")
        self.epsilon = epsilon
        super().__init__("epsilon_greedy", tally, epsilon=epsilon)

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """Returns ``epsilon / K`` for each, and ``1 - epsilon`` shared by those with the highest mean."""
        means = [
            self.tally.posterior(task.family, candidate.version).mean - candidate.handicap
            for candidate in candidates
        ]
        leaders = [float(mean == max(means)) for mean in means]
        return _with_floor([leader / sum(leaders) for leader in leaders], self.epsilon)


def _checked_floor(floor: float) -> float:
    if not 0 < floor <= MAX_FLOOR:
        raise ValueError(f"the exploration floor must be above 0 and at most {MAX_FLOOR}, got {floor!r}")
    return floor


def _with_floor(probabilities: Sequence[float], floor: float) -> list[float]:
    return [(1 - floor) * probability + floor / len(probabilities) for probability in probabilities]
