"""Replay of routing policies on recorded outcomes: the reward of each policy if it had routed the recorded lines.

The outcome of every model on every line is known. A policy reads the lines in a random order, ``wave`` lines at a
time, chooses by its probabilities, and learns the outcomes of its choices at the end of each wave. This is repeated
over several orders. Baselines without learning: the best single model and the best model of each family in
hindsight, the best model for each line (the oracle) and, if costs are known, the cheapest model.

Intervals are 95 % percentile bootstraps over lines *and* orders, of differences line by line. The best single model
is chosen on the lines that it is measured on, which favours it, and the best model of each family even more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from upturn.arbiter.off_policy import LoggedOutcome, OffPolicyEstimate, all_estimates, always
from upturn.arbiter.policies import HierarchicalThompson
from upturn.arbiter.policy import (
    Candidate,
    DiscountedThompson,
    EpsilonGreedy,
    RoutingOutcome,
    RoutingPolicy,
    Uniform,
)
from upturn.arbiter.recording import Recording
from upturn.arbiter.tally import Tally
from upturn.records import Alternative, Decision, Task

PolicyMaker = Callable[[], RoutingPolicy]

_BOOTSTRAP_BLOCK = 4_000_000
"""Resampling weights in memory at a time (32 MB)."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay."""

    seeds: int = 10
    """Number of random orders of the lines for each learning policy."""
    wave: int = 8
    """Number of lines between two updates of the policy."""
    resamples: int = 2000
    """Bootstrap resamples for each interval."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PolicyReplay:
    """The result of one policy."""

    name: str
    reward: Interval
    """Mean reward per line."""
    regret_best: Interval
    """Mean reward of the best single model minus that of this policy; below 0 = this policy is better."""
    regret_oracle: Interval
    """Mean reward of the best model per line minus that of this policy."""
    shares: Mapping[str, float]
    """Share of the lines routed to each model."""
    cost: float | None
    """Mean cost per line; None = the recording has no costs."""


@dataclass(frozen=True, slots=True)
class FamilyReplay:
    """The mean rewards in one family."""

    lines: int
    best: str
    """The model with the highest mean reward."""
    models: Mapping[str, float]
    policies: Mapping[str, float]
    """Over all orders, learning included."""


@dataclass(frozen=True, slots=True)
class CheckedEstimates:
    """Off-policy estimates of one model's mean reward, beside the truth."""

    model: str
    truth: float
    """Mean reward of the model over all lines."""
    estimates: tuple[OffPolicyEstimate, ...]
    """From the log of one policy, which has the outcome of one model for each line."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The results of all policies on one recording."""

    models: Mapping[str, Interval]
    """Mean reward per line by model."""
    best_single: str
    policies: tuple[PolicyReplay, ...]
    families: Mapping[str, FamilyReplay]
    """In alphabetical order."""


def learning_policies(discount: float = 0.995, epsilon: float = 0.1) -> dict[str, PolicyMaker]:
    """Returns functions that create the policies to replay by default, by name."""
    return {
        "discounted_thompson": lambda: DiscountedThompson(tally=Tally(discount=discount)),
        "thompson": HierarchicalThompson,
        "epsilon_greedy": lambda: EpsilonGreedy(epsilon=epsilon, tally=Tally(discount=discount)),
        "uniform": lambda: Uniform(tally=Tally(discount=discount)),
    }


def replay(
    recording: Recording,
    policies: Mapping[str, PolicyMaker],
    options: ReplayOptions,
    on_order: Callable[[], None] = lambda: None,
) -> Replay:
    """Replays every policy and baseline on the recording; calls ``on_order`` after each order."""
    shape = (1, len(recording.rewards))
    best_single = int(recording.rewards.mean(axis=0).argmax())
    choices = {
        "best_single": np.full(shape, best_single),
        "best_by_family": _best_by_family(recording),
        "oracle": _oracle(recording),
    }
    if recording.costs is not None:
        choices["cheapest"] = np.full(shape, int(recording.costs.mean(axis=0).argmin()))
    for name, make in policies.items():
        orders = []
        for seed in range(options.seeds):
            orders.append(_choose(recording, make(), seed, options.wave))
            on_order()
        choices[name] = np.stack(orders)
    ordered = {name: choices[name] for name in (*policies, *choices)}
    intervals = _bootstrap(list(recording.rewards.T[:, None]), options.resamples)
    return Replay(
        models=dict(zip(recording.models, intervals, strict=True)),
        best_single=recording.models[best_single],
        policies=_summaries(ordered, recording, options.resamples),
        families=_families(ordered, recording),
    )


def check_estimates(
    recording: Recording, make: PolicyMaker, *, wave: int, seed: int = 0
) -> tuple[CheckedEstimates, ...]:
    """Returns the estimates of every model alone from the log of one policy on the recording, beside the truth.

    The log is drawn from the lines with replacement, so that the intervals, which are for further lines of the same
    kind, hold the mean over the recording's lines with the stated probability."""
    rng = np.random.default_rng(seed)
    count = len(recording.rewards)
    logged = route_lines(recording, make(), rng.integers(count, size=count), rng=rng, wave=wave).log(recording)
    truths = recording.rewards.mean(axis=0).tolist()
    return tuple(
        CheckedEstimates(model, truth, all_estimates(logged, always(model)))
        for model, truth in zip(recording.models, truths, strict=True)
    )


def _oracle(recording: Recording) -> NDArray[np.int64]:
    """Returns the model with the highest reward for each line; of equal ones the cheapest, then the first."""
    rewards = recording.rewards
    if recording.costs is None:
        return np.asarray(rewards.argmax(axis=1)[None], dtype=np.int64)
    costs = np.where(rewards == rewards.max(axis=1, keepdims=True), recording.costs, np.inf)
    return np.asarray(costs.argmin(axis=1)[None], dtype=np.int64)


def _lines_by_family(recording: Recording) -> dict[str, NDArray[np.int64]]:
    """Returns the indices of each family's lines, in alphabetical order."""
    names = np.array(recording.families)
    return {name: np.flatnonzero(names == name) for name in sorted(set(recording.families))}


def _best_by_family(recording: Recording) -> NDArray[np.int64]:
    """Returns the model with the highest mean reward in the family of each line, (1, lines)."""
    chosen = np.empty((1, len(recording.rewards)), dtype=np.int64)
    for lines in _lines_by_family(recording).values():
        chosen[0, lines] = recording.rewards[lines].mean(axis=0).argmax()
    return chosen


def _families(choices: Mapping[str, NDArray[np.int64]], recording: Recording) -> dict[str, FamilyReplay]:
    families = {}
    for family, lines in _lines_by_family(recording).items():
        means = recording.rewards[lines].mean(axis=0)
        families[family] = FamilyReplay(
            lines=len(lines),
            best=recording.models[int(means.argmax())],
            models=dict(zip(recording.models, means.tolist(), strict=True)),
            policies={
                name: float(recording.rewards[lines, chosen[:, lines]].mean()) for name, chosen in choices.items()
            },
        )
    return families


class RoutedLines(NamedTuple):
    """Lines that a policy routed, in the order in which it saw them."""

    lines: NDArray[np.int64]
    """(n,): index of each line in the recording."""
    chosen: NDArray[np.int64]
    """(n,): index of the chosen model."""
    probabilities: NDArray[np.float64]
    """(n, models)."""

    def log(self, recording: Recording) -> list[LoggedOutcome]:
        """Returns the decisions with their outcomes, as a pool would have logged them."""
        logged: list[LoggedOutcome] = []
        for position, (line, model) in enumerate(zip(self.lines, self.chosen, strict=True)):
            shares = self.probabilities[position].tolist()
            options = zip(recording.models, shares, strict=True)
            decision = replace(
                _decision("", recording, line, recording.models[model]),
                id=str(position),  # a line may occur several times
                alternatives=tuple(Alternative(name, share, None) for name, share in options),
                propensity=shares[model],
            )
            logged.append(LoggedOutcome(decision, float(recording.rewards[line, model])))
        return logged


def route_lines(
    recording: Recording, policy: RoutingPolicy, lines: NDArray[np.int64], *, rng: np.random.Generator, wave: int
) -> RoutedLines:
    """Routes the lines in this order; the policy learns the outcomes of its choices after every ``wave`` lines."""
    uniforms = rng.random(len(lines))
    candidates = [Candidate(model, model) for model in recording.models]
    chosen = np.empty(len(lines), dtype=np.int64)
    probabilities = np.empty((len(lines), len(candidates)))
    for start in range(0, len(lines), wave):
        positions = range(start, min(start + wave, len(lines)))
        shares: dict[str, NDArray[np.float64]] = {}  # a policy does not learn within a wave
        for position in positions:
            line = lines[position]
            family = recording.families[line]
            if family not in shares:
                task = Task(id=str(line), instruction="", family=family, environment="recording")
                shares[family] = np.asarray(policy.probabilities(task, candidates), dtype=np.float64)
            index = int(np.searchsorted(np.cumsum(shares[family]), uniforms[position], side="right"))
            probabilities[position] = shares[family]
            chosen[position] = min(index, len(candidates) - 1)
        for position in positions:
            line, model = lines[position], chosen[position]
            decision = _decision(policy.name, recording, line, recording.models[model])
            policy.learn(decision, RoutingOutcome(decision.id, float(recording.rewards[line, model])))
    return RoutedLines(lines, chosen, probabilities)


def _choose(recording: Recording, policy: RoutingPolicy, seed: int, wave: int) -> NDArray[np.int64]:
    """Returns the chosen model of each line, shape (lines,) in the recording's order; the policy learns."""
    rng = np.random.default_rng(seed)
    routed = route_lines(recording, policy, rng.permutation(len(recording.rewards)), rng=rng, wave=wave)
    chosen = np.empty_like(routed.chosen)
    chosen[routed.lines] = routed.chosen
    return chosen


def _decision(policy: str, recording: Recording, line: int, model: str) -> Decision:
    """Returns a decision with the fields that a policy learns from; it is not stored."""
    return Decision(
        id=str(line),
        task_id=str(line),
        family=recording.families[line],
        tenant="default",
        policy=policy,
        policy_snapshot="",
        alternatives=(),
        agent=model,
        chosen=model,
        propensity=1.0,
        reason="replayed",
    )


def _summaries(
    choices: Mapping[str, NDArray[np.int64]], recording: Recording, resamples: int
) -> tuple[PolicyReplay, ...]:
    lines = np.arange(len(recording.rewards))
    rewards = {name: recording.rewards[lines, chosen] for name, chosen in choices.items()}
    series: list[NDArray[np.float64]] = []
    for values in rewards.values():
        series += [values, rewards["best_single"] - values, rewards["oracle"] - values]
    intervals = _bootstrap(series, resamples)
    summaries: list[PolicyReplay] = []
    for index, (name, chosen) in enumerate(choices.items()):
        counts = np.bincount(chosen.ravel(), minlength=len(recording.models)) / chosen.size
        shares = dict(zip(recording.models, counts.tolist(), strict=True))
        cost = None if recording.costs is None else float(recording.costs[lines, chosen].mean())
        reward, regret_best, regret_oracle = intervals[3 * index : 3 * index + 3]
        summaries.append(PolicyReplay(name, reward, regret_best, regret_oracle, shares, cost))
    return tuple(summaries)


def _bootstrap(series: Sequence[NDArray[np.float64]], resamples: int) -> list[Interval]:
    """Returns the means of (orders, lines) arrays; lines are resampled jointly, orders for each array."""
    generator = np.random.default_rng(0)
    lines = series[0].shape[1]
    means: list[list[float]] = [[] for _ in series]
    block = max(1, _BOOTSTRAP_BLOCK // lines)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        by_line = generator.multinomial(lines, np.full(lines, 1 / lines), size) / lines
        for index, values in enumerate(series):
            orders = len(values)
            by_order = generator.multinomial(orders, np.full(orders, 1 / orders), size) / orders
            means[index] += (by_order * (by_line @ values.T)).sum(axis=1).tolist()
    return [
        Interval(float(values.mean()), *(float(edge) for edge in np.percentile(drawn, (2.5, 97.5))))
        for values, drawn in zip(series, means, strict=True)
    ]
