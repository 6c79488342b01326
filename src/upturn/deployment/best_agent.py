"""Best-agent identification: stops an experiment between agents once one of them is shown to be the best.

For every ordered pair of agents (a, b) an e-process tests "a is worse than b". Its capital bets on the outcomes of
the tasks that went to a or b, scored with the logged probabilities (``sequential.arm_score``), so it is valid for
any routing policy that logs them, also one that learns, and however often one looks. An agent is identified where
all its e-values against the other agents reach (K − 1)/alpha for K agents. A wrong agent then needs a false claim
against the best one, and there are K − 1 such claims: the probability of ever identifying an agent that is worse
than another is at most alpha (Ville's inequality and the union bound). Agents that are equal are never told apart,
except with a ``margin``.

An episode is one observation, the mean outcome of its tasks, as its tasks share an agent. Missing outcomes count
against the claim: as failures of a, and as successes of b.

What is compared is the difference among the tasks in which both agents could be chosen, weighted by how evenly.
Where the policy treats families differently, ask for each family on its own.

Source of the bets: Waudby-Smith and Ramdas 2023 (arXiv 2010.09686); of the problem: Garivier and Kaufmann 2016
(arXiv 1602.04589)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upturn.arbiter import LoggedOutcome, agent_of
from upturn.deployment.sequential import (
    PRIOR_TASKS,
    FloatArray,
    arm_score,
    bet_log_factors,
    least_score,
    log_e_value,
)

DIFFERENCES = (0.02, 0.045, 0.1, 0.25)
"""Differences that bets are sized for. A bet gains where the true difference is above half of it."""

CAPITAL_SHARES = (0.15, 0.5, 0.2, 0.15)
"""Shares of the initial capital by ``DIFFERENCES``. Half is for .045, because differences of about 5 points decide
how long experiments take; larger ones are shown soon with any share."""


@dataclass(frozen=True, slots=True)
class BestAgentRule:
    """When an experiment between agents stops."""

    alpha: float = 0.05
    """Probability of ever identifying an agent that is worse than another by more than the margin."""
    margin: float = 0.0
    """An agent that is worse than the best by at most this much may be identified too. 0 = only the best."""

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha must be above 0 and below 1, got {self.alpha!r}")
        if not 0 <= self.margin < 1:
            raise ValueError(f"margin must be at least 0 and below 1, got {self.margin!r}")

    def log_threshold(self, agents: int) -> float:
        """Returns the log e-value that an agent needs against each of the others."""
        return float(np.log((agents - 1) / self.alpha))


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of R experiments between K agents."""

    counts: FloatArray
    """(K, R): judged observations by agent."""
    sums: FloatArray
    """(K, R): sums of outcomes."""
    squares: FloatArray
    log_capital: FloatArray
    """(E, K, K, R): by ``DIFFERENCES``, claimed better agent and other agent."""

    @classmethod
    def start(cls, agents: int, runs: int) -> "Evidence":
        """Returns R experiments before their first observation."""
        zeros = np.zeros((agents, runs))
        return cls(zeros, zeros, zeros, np.zeros((len(DIFFERENCES), agents, agents, runs)))

    def take(self, runs: npt.NDArray[np.bool_]) -> "Evidence":
        """Returns the evidence of these runs only."""
        return Evidence(
            self.counts[:, runs], self.sums[:, runs], self.squares[:, runs], self.log_capital[..., runs]
        )

    def log_e(self) -> FloatArray:
        """Returns (K, K, R): log e-value of "the first agent is better than the second"; 0 on the diagonal."""
        return log_e_value(self.log_capital, CAPITAL_SHARES)

    def best(self, rule: BestAgentRule) -> npt.NDArray[np.int64]:
        """Returns (R,): the identified agent; −1 = the experiment goes on."""
        agents = len(self.counts)
        against = self.log_e()
        against[np.arange(agents), np.arange(agents)] = np.inf
        weakest = against.min(axis=1)  # (K, R)
        is_shown = weakest.max(axis=0) >= rule.log_threshold(agents)
        return np.where(is_shown, weakest.argmax(axis=0), -1)


class Observations(NamedTuple):
    """One observation of each of R experiments."""

    chosen: npt.NDArray[np.int64]
    """(R,): the agent."""
    shares: FloatArray
    """(K, R): probability with which each agent was chosen; 0 = not eligible."""
    low: FloatArray
    """(R,): outcome in [0, 1] with missing parts as 0."""
    high: FloatArray
    """(R,): outcome with missing parts as 1; equal to ``low`` if nothing is missing."""


def observe(evidence: Evidence, observations: Observations, rule: BestAgentRule) -> Evidence:
    """Returns the evidence with one more observation of each experiment; the inputs are not changed."""
    chosen, shares, low, high = observations
    agents = np.arange(len(evidence.counts))
    is_chosen = agents[:, None] == chosen  # (K, R)
    is_first, is_second = is_chosen[:, None], is_chosen[None]
    both = shares[:, None] + shares[None]
    share = np.divide(shares[:, None], both, out=np.full(both.shape, 0.5), where=both > 0)
    weight = evidence.counts + PRIOR_TASKS
    mean = (evidence.sums + 0.5 * PRIOR_TASKS) / weight
    mean_square = (evidence.squares + 0.5 * PRIOR_TASKS) / weight
    # The centre with the smallest variance of the score, and that variance divided by share · (1 − share).
    centre = (1.0 - share) * mean[:, None] + share * mean[None]
    about = mean_square[:, None] - 2.0 * centre * mean[:, None] + centre**2
    about_other = mean_square[None] - 2.0 * centre * mean[None] + centre**2
    variance = (1.0 - share) * about + share * about_other
    offset = share * (1.0 - share) * rule.margin
    outcome = np.where(is_first, low, high)
    is_bet = (is_first | is_second) & (agents[:, None] != agents)[..., None]
    gain = np.where(is_bet, arm_score(is_first, outcome, share, centre) + offset, 0.0)
    least = np.minimum(least_score(share, centre, 1) + offset, -1e-12)
    grown = bet_log_factors(gain, least, variance, effects=DIFFERENCES)
    seen = is_chosen & (low == high)
    return Evidence(
        evidence.counts + seen,
        evidence.sums + seen * low,
        evidence.squares + seen * low**2,
        evidence.log_capital + grown,
    )


@dataclass(frozen=True, slots=True)
class BestAgent:
    """The state of one experiment."""

    best: str | None
    """The identified agent; None = the experiment goes on. It stays once it is identified."""
    observations: int
    """Episodes and tasks without an episode until the identification, or so far."""
    means: Mapping[str, float | None]
    """Mean outcome by agent until then; None = no judged observation."""
    e_values: Mapping[str, float]
    """By agent: the smallest of its e-values against the other agents."""
    threshold: float
    """The e-value that identifies an agent."""
    reason: str
    """One sentence."""


@dataclass
class BestAgentSearch:
    """One experiment, observation by observation. Not thread-safe."""

    agents: tuple[str, ...]
    """At least two."""
    rule: BestAgentRule = field(default_factory=BestAgentRule)

    def __post_init__(self) -> None:
        if len(set(self.agents)) < 2 or len(set(self.agents)) != len(self.agents):
            raise ValueError(f"an experiment needs two or more different agents, got {self.agents!r}")
        self._evidence = Evidence.start(len(self.agents), 1)
        self._observations = 0
        self._best: str | None = None

    def observe(self, chosen: str, shares: Mapping[str, float], low: float, high: float) -> None:
        """Adds one observation; ignored once an agent is identified, or if ``chosen`` is not in the experiment.

        ``shares`` are the logged probabilities by agent. ``low`` and ``high``: see ``Observations``."""
        if self._best is not None or chosen not in self.agents:
            return
        if not 0 <= low <= high <= 1 or not shares.get(chosen, 0.0) > 0:
            raise ValueError(
                f"an observation needs 0 <= low <= high <= 1 and a probability of {chosen!r} above 0, "
                f"got {low!r}, {high!r} and {dict(shares)!r}"
            )
        self._evidence = observe(
            self._evidence,
            Observations(
                np.array([self.agents.index(chosen)]),
                np.array([[shares.get(agent, 0.0)] for agent in self.agents]),
                np.array([low]),
                np.array([high]),
            ),
            self.rule,
        )
        self._observations += 1
        index = int(self._evidence.best(self.rule)[0])
        self._best = None if index < 0 else self.agents[index]

    def state(self) -> BestAgent:
        """Returns the experiment's state."""
        counts, sums = self._evidence.counts[:, 0], self._evidence.sums[:, 0]
        log_e = self._evidence.log_e()[..., 0]
        np.fill_diagonal(log_e, np.inf)
        threshold = float(np.exp(self.rule.log_threshold(len(self.agents))))
        weakest = dict(zip(self.agents, np.exp(np.minimum(log_e.min(axis=1), 700.0)).tolist(), strict=True))
        means = {
            agent: float(total / count) if count else None
            for agent, total, count in zip(self.agents, sums, counts, strict=True)
        }
        state = BestAgent(self._best, self._observations, means, weakest, threshold, "")
        return replace(state, reason=_reason(state, self.rule))


def _reason(state: BestAgent, rule: BestAgentRule) -> str:
    if state.best is not None:
        within = "" if not rule.margin else f" or within {rule.margin:g} of the best"
        return (
            f"{state.best} is shown to be the best{within} after {state.observations} observations, with an error "
            f"probability of at most {rule.alpha:g}"
        )
    leader = max(state.e_values, key=state.e_values.__getitem__)
    return (
        f"no agent is shown to be the best after {state.observations} observations: {leader} has the e-value "
        f"{state.e_values[leader]:.3g} of the {state.threshold:g} that it needs"
    )


def identify_best(
    logged: Iterable[LoggedOutcome], agents: Sequence[str], rule: BestAgentRule | None = None
) -> BestAgent:
    """Returns the state of the experiment between ``agents`` after these outcomes, in the order of their decisions.

    An episode counts at its first decision, so all its outcomes must be there: leave out episodes that go on. An
    outcome without a reward counts as missing: leave out decisions whose outcome may still arrive."""
    episodes: dict[tuple[str, ...], list[LoggedOutcome]] = {}
    for outcome in logged:
        decision = outcome.decision
        key = (decision.id,) if decision.episode is None else (decision.tenant, decision.episode)
        episodes.setdefault(key, []).append(outcome)
    search = BestAgentSearch(tuple(agents), rule if rule is not None else BestAgentRule())
    for outcomes in episodes.values():
        shares: dict[str, float] = {}
        for option in outcomes[0].decision.alternatives:
            agent = agent_of(option)
            shares[agent] = shares.get(agent, 0.0) + option.probability
        known = [outcome.reward for outcome in outcomes if outcome.reward is not None]
        low, missing = sum(known), len(outcomes) - len(known)
        search.observe(outcomes[0].decision.agent, shares, low / len(outcomes), (low + missing) / len(outcomes))
    return search.state()
