"""Routing policies replayed on recorded outcomes: the reward of each, had it routed the recorded lines.

Every model's outcome is known for every line, so only the spread is estimated: a policy reads the lines in a random
order, ``wave`` at a time, chooses by its probabilities, and learns the outcomes of its choices at the end of each
wave. This is repeated over several orders. Baselines that need no learning: the single model that is best in
hindsight, the best model for each line (the oracle) and, where costs are known, the cheapest model.

Intervals are 95 % percentile bootstraps over lines *and* orders; differences are taken line by line before. Not
covered: the best single model is chosen on the lines it is measured on, which favours it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
from upturn.records import Decision, Task

PolicyMaker = Callable[[], RoutingPolicy]

_BOOTSTRAP_BLOCK = 4_000_000
"""Cells of one block of resampling weights: 32 MB."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a recording is replayed."""

    seeds: int = 10
    """Random orders of the lines for each learning policy."""
    wave: int = 8
    """Lines decided between two updates of the policy."""
    resamples: int = 2000
    """Bootstrap resamples of each interval."""

    def __post_init__(self) -> None:
        for name, value in (("seeds", self.seeds), ("wave", self.wave), ("resamples", self.resamples)):
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
    """Mean per line."""
    regret_best: Interval
    """Mean reward of the best single model minus this policy's; below 0 = better than it."""
    regret_oracle: Interval
    """Mean reward of the best model per line minus this policy's."""
    shares: Mapping[str, float]
    """Share of the lines sent to each model."""
    cost: float | None
    """Mean per line; None = the recording has no costs."""


@dataclass(frozen=True, slots=True)
class Replay:
    """All policies on one recording."""

    models: Mapping[str, Interval]
    """Mean reward per line of each model."""
    best_single: str
    policies: tuple[PolicyReplay, ...]


def learning_policies(discount: float = 0.995, epsilon: float = 0.1) -> dict[str, PolicyMaker]:
    """The policies that are replayed by default, by name; each call of a value makes a new policy."""
    return {
        "discounted_thompson": lambda: DiscountedThompson(tally=Tally(discount=discount)),
        "epsilon_greedy": lambda: EpsilonGreedy(epsilon=epsilon, tally=Tally(discount=discount)),
        "uniform": lambda: Uniform(tally=Tally(discount=discount)),
    }


def replay(
    recording: Recording,
    policies: Mapping[str, PolicyMaker],
    options: ReplayOptions,
    on_order: Callable[[], None] = lambda: None,
) -> Replay:
    """Every policy and baseline on the recording; ``on_order`` is called after each replayed order."""
    choices = {"best_single": _best_single(recording), "oracle": _oracle(recording)}
    if recording.costs is not None:
        cheapest = int(recording.costs.mean(axis=0).argmin())
        choices["cheapest"] = np.full((1, len(recording.rewards)), cheapest)
    for name, make in policies.items():
        orders = []
        for seed in range(options.seeds):
            orders.append(_choices(recording, make(), seed, options.wave))
            on_order()
        choices[name] = np.stack(orders)
    ordered = {name: choices[name] for name in (*policies, *choices)}
    means = recording.rewards.mean(axis=0)
    return Replay(
        models=dict(
            zip(recording.models, _bootstrapped(list(recording.rewards.T[:, None]), options.resamples), strict=True)
        ),
        best_single=recording.models[int(means.argmax())],
        policies=_summaries(ordered, recording, options.resamples),
    )


def _best_single(recording: Recording) -> NDArray[np.int64]:
    best = int(recording.rewards.mean(axis=0).argmax())
    return np.full((1, len(recording.rewards)), best)


def _oracle(recording: Recording) -> NDArray[np.int64]:
    """Per line the model with the highest reward: of equals the cheapest, then the first."""
    rewards = recording.rewards
    if recording.costs is None:
        return np.asarray(rewards.argmax(axis=1)[None], dtype=np.int64)
    costs = np.where(rewards == rewards.max(axis=1, keepdims=True), recording.costs, np.inf)
    return np.asarray(costs.argmin(axis=1)[None], dtype=np.int64)


def _choices(recording: Recording, policy: RoutingPolicy, seed: int, wave: int) -> NDArray[np.int64]:
    """The model chosen for each line, shape (lines,) in the recording's order; the policy learns along the way."""
    generator = np.random.default_rng(seed)
    count = len(recording.rewards)
    order = generator.permutation(count)
    uniforms = generator.random(count)
    candidates = [Candidate(model, model) for model in recording.models]
    chosen = np.empty(count, dtype=np.int64)
    for start in range(0, count, wave):
        lines = order[start : start + wave]
        edges: dict[str, NDArray[np.float64]] = {}  # a policy does not learn within a wave
        for line, uniform in zip(lines, uniforms[start : start + wave], strict=True):
            family = recording.families[line]
            if family not in edges:
                edges[family] = np.cumsum(policy.probabilities(_task(family, line), candidates))
            place = int(np.searchsorted(edges[family], uniform, side="right"))
            chosen[line] = min(place, len(candidates) - 1)
        for line in lines:
            decision = _decision(policy, recording, line, recording.models[chosen[line]])
            policy.learn(decision, RoutingOutcome(decision.id, float(recording.rewards[line, chosen[line]])))
    return chosen


def _task(family: str, line: int) -> Task:
    return Task(id=str(line), instruction="", family=family, environment="recording")


def _decision(policy: RoutingPolicy, recording: Recording, line: int, model: str) -> Decision:
    """The part of a decision that a policy learns from; it is not stored."""
    return Decision(
        id=str(line),
        task_id=str(line),
        family=recording.families[line],
        tenant="default",
        policy=policy.name,
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
    for earned in rewards.values():
        series += [earned, rewards["best_single"] - earned, rewards["oracle"] - earned]
    intervals = _bootstrapped(series, resamples)
    summaries: list[PolicyReplay] = []
    for place, (name, chosen) in enumerate(choices.items()):
        counts = np.bincount(chosen.ravel(), minlength=len(recording.models)) / chosen.size
        reward, regret_best, regret_oracle = intervals[3 * place : 3 * place + 3]
        shares = dict(zip(recording.models, counts.tolist(), strict=True))
        cost = None if recording.costs is None else float(recording.costs[lines, chosen].mean())
        summaries.append(PolicyReplay(name, reward, regret_best, regret_oracle, shares, cost))
    return tuple(summaries)


def _bootstrapped(series: Sequence[NDArray[np.float64]], resamples: int) -> list[Interval]:
    """The means of several (orders, lines) arrays; lines are resampled in common, orders for each array."""
    generator = np.random.default_rng(0)
    lines = series[0].shape[1]
    means: list[list[float]] = [[] for _ in series]
    block = max(1, _BOOTSTRAP_BLOCK // lines)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        by_line = generator.multinomial(lines, np.full(lines, 1 / lines), size) / lines
        for place, values in enumerate(series):
            orders = len(values)
            by_order = generator.multinomial(orders, np.full(orders, 1 / orders), size) / orders
            means[place] += (by_order * (by_line @ values.T)).sum(axis=1).tolist()
    return [
        Interval(float(values.mean()), *(float(edge) for edge in np.percentile(drawn, (2.5, 97.5))))
        for values, drawn in zip(series, means, strict=True)
    ]
