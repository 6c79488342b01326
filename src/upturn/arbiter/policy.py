"""Routing policies: which agent should do a task, as probabilities.

A policy computes probabilities and learns. The router filters the candidates before and samples after, so no policy
can choose an ineligible agent or omit its propensity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from upturn.arbiter.posterior import Posterior, probability_best
from upturn.arbiter.tally import Tally
from upturn.records import Decision, Evaluation, Task

MAX_FLOOR = 0.05
"""Exploration costs at most one task in twenty."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An eligible agent as a policy sees it."""

    agent: str
    version: str
    """Id of the agent's incumbent version: during a canary the incumbent's results stand for the agent."""


@dataclass(frozen=True, slots=True)
class RoutingOutcome:
    """The outcome of a decision, as far as routing learns from it."""

    decision_id: str
    reward: float | None
    """In [0, 1]; None = no verdict (nothing is learned, the outcome is counted)."""

    @classmethod
    def of(cls, decision: Decision, evaluation: Evaluation | None) -> "RoutingOutcome":
        """1 for a success, 0 for a failure; None for a missing verdict or no evaluation at all."""
        if evaluation is None or evaluation.verdict == "missing":
            return cls(decision.id, None)
        return cls(decision.id, 1.0 if evaluation.is_success else 0.0)


class RoutingPolicy(Protocol):
    """Turns a task and its eligible candidates into probabilities, and learns from outcomes."""

    @property
    def name(self) -> str:
        """The policy's name in decisions and reports."""

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """One probability per candidate, each above 0, in the candidates' order; they sum to 1.

        ``candidates`` holds at least one. The result depends on nothing but the arguments and what was learned.
        """

    def learn(self, decision: Decision, outcome: RoutingOutcome) -> None:
        """Update from the outcome of one decision; called once for each."""

    def belief(self, family: str, version: str) -> Posterior | None:
        """The policy's posterior of a version's success rate in a family; None = it has none."""

    def snapshot(self) -> str:
        """A hash of everything that ``probabilities`` depends on besides its arguments."""


class _TallyPolicy:
    """Base of the policies that learn success counts per version and family."""

    def __init__(self, name: str, tally: Tally | None, **settings: str | float) -> None:
        self.name = name
        self.tally = tally if tally is not None else Tally()
        self._settings = settings
        self._snapshot: str | None = None  # None = not computed since the last outcome

    def learn(self, decision: Decision, outcome: RoutingOutcome) -> None:
        """Credit the outcome to the chosen version in the decision's family."""
        if outcome.decision_id != decision.id:
            raise ValueError(f"outcome of decision {outcome.decision_id!r} offered for decision {decision.id!r}")
        self.tally.add(decision.family, decision.chosen, outcome.reward)
        self._snapshot = None

    def belief(self, family: str, version: str) -> Posterior | None:
        """The posterior of the version's success rate in the family."""
        return self.tally.posterior(family, version)

    def state(self) -> str:
        """The learned counts as JSON text; the settings are configuration and not part of it."""
        return self.tally.state()

    def restore(self, state: str) -> None:
        """Replace the counts by those that ``state`` wrote; raises RecordError for any other text."""
        self.tally.restore(state)
        self._snapshot = None

    def snapshot(self) -> str:
        """Hash over the policy's name, settings and counts."""
        if self._snapshot is None:
            settings = {"discount": self.tally.discount, "borrow": self.tally.borrow, **self._settings}
            text = f"{self.name}\n{sorted(settings.items())!r}\n{self.tally.state()}"
            self._snapshot = sha256(text.encode()).hexdigest()[:16]
        return self._snapshot


class DiscountedThompson(_TallyPolicy):
    """Thompson sampling by task family, with forgetting and an exploration floor.

    ``p = (1 - floor) · P(best) + floor / K`` for K candidates: the probability of having the highest success rate,
    computed exactly, mixed with uniform exploration so that every logged propensity is at least ``floor / K``.
    """

    def __init__(self, *, floor: float = MAX_FLOOR, tally: Tally | None = None) -> None:
        self.floor = _checked_floor(floor)
        super().__init__("discounted_thompson", tally, floor=floor)

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """Probability of being best under the current posteriors, floor mixed in."""
        posteriors = [self.tally.posterior(task.family, candidate.version) for candidate in candidates]
        best = probability_best(tuple((posterior.alpha, posterior.beta) for posterior in posteriors))
        return _with_floor(best, self.floor)


class RuleBasedRouting(_TallyPolicy):
    """A fixed agent per family: the switch away from learned routing.

    It still explores with ``floor``, so its decisions stay usable for off-policy estimates, and still counts
    outcomes: with the tally of a learning policy, switching to rules and back loses no evidence.
    """

    def __init__(
        self,
        rules: Mapping[str, str],
        default: str,
        *,
        floor: float = MAX_FLOOR,
        tally: Tally | None = None,
    ) -> None:
        self.rules = dict(rules)
        self.default = default
        self.floor = _checked_floor(floor)
        super().__init__("rule_based", tally, floor=floor, default=default, rules=repr(sorted(rules.items())))

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """All but the floor to the family's agent, else to the default; uniform where neither is eligible."""
        agents = [candidate.agent for candidate in candidates]
        for preferred in (self.rules.get(task.family, self.default), self.default):
            if preferred in agents:
                return _with_floor([float(agent == preferred) for agent in agents], self.floor)
        return [1 / len(agents)] * len(agents)


class Uniform(_TallyPolicy):
    """Equal probabilities: the control arm of routing, and the smallest policy."""

    def __init__(self, *, tally: Tally | None = None) -> None:
        super().__init__("uniform", tally)

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:  # noqa: ARG002 - contract
        """1/K for each of K candidates."""
        return [1 / len(candidates)] * len(candidates)


class EpsilonGreedy(_TallyPolicy):
    """The candidate with the highest posterior mean, except for a share ``epsilon`` of uniform exploration."""

    def __init__(self, *, epsilon: float = 0.1, tally: Tally | None = None) -> None:
        if not 0 < epsilon <= 1:
            raise ValueError(
                f"epsilon must be above 0 (every candidate stays possible) and at most 1, got {epsilon!r}"
            )
        self.epsilon = epsilon
        super().__init__("epsilon_greedy", tally, epsilon=epsilon)

    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        """``1 - epsilon`` shared by the leaders (equal means tie), plus ``epsilon / K`` for each."""
        means = [self.tally.posterior(task.family, candidate.version).mean for candidate in candidates]
        leaders = [float(mean == max(means)) for mean in means]
        return _with_floor([leads / sum(leaders) for leads in leaders], self.epsilon)


def _checked_floor(floor: float) -> float:
    if not 0 < floor <= MAX_FLOOR:
        raise ValueError(f"the exploration floor must be above 0 and at most {MAX_FLOOR}, got {floor!r}")
    return floor


def _with_floor(probabilities: Sequence[float], floor: float) -> list[float]:
    return [(1 - floor) * probability + floor / len(probabilities) for probability in probabilities]
