"""Off-policy estimates: what another way of routing would have earned on the logged decisions.

The weight of a decision is ``w = π_e(chosen) / propensity``, the propensity as logged when it was made. Estimates:

- IPS (Horvitz and Thompson 1952): ``mean(w r)``, unbiased;
- SNIPS (Swaminathan and Joachims 2015): ``Σ w r / Σ w``, slightly biased, usually far less noisy;
- DR (Dudík, Langford and Li 2011): ``mean(Σ_a π_e(a) q(a) + w (r − q(chosen)))``, unbiased for any ``q``.

All decisions of an episode share its first decision's weight and count as one draw: in the standard errors, in the
effective sample size ``(Σ w)² / Σ w²`` and in the maximum weight. Outcomes whose reward is missing are left out and
counted; that is unbiased only if what is missing does not depend on the outcome.

No number is given (the estimate says why) when the target routes where the log could not have, when the effective
sample size is below 100, or when a weight exceeds 100: such estimates look precise and are not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from upturn.records import Decision

MIN_EFFECTIVE_SAMPLES = 100
MAX_WEIGHT = 100

Target = Callable[[Decision], Mapping[str, float]]
"""The routing to be estimated: for a decision the probability of each version it would choose; they sum to 1."""

RewardModel = Callable[[Decision, str], float]
"""The predicted reward of a version for a decision; must not have been fitted on the same outcomes."""

Method = Literal["ips", "snips", "dr"]


@dataclass(frozen=True, slots=True)
class LoggedOutcome:
    """A decision and what it earned."""

    decision: Decision
    reward: float | None
    """None = the judgement is missing."""


@dataclass(frozen=True, slots=True)
class OffPolicyEstimate:
    """A figure with its uncertainty, or the reason why there is none."""

    method: Method
    value: float | None
    """Estimated mean reward per decision; None = refused, as are the three below."""
    standard_error: float | None
    low: float | None
    """Lower end of the 95 % normal interval."""
    high: float | None
    decisions: int
    """Decisions with a reward."""
    missing: int
    """Decisions without one, left out."""
    effective_samples: float
    max_weight: float
    refusal: str = ""
    """Why no number is given; empty = one is."""


@dataclass(frozen=True, slots=True)
class _Draws:
    """The judged decisions as arrays, one place per decision."""

    weights: NDArray[np.float64]
    rewards: NDArray[np.float64]
    draws: NDArray[np.int64]
    """Number of the independent draw each decision belongs to, counted from 0."""
    draw_weights: NDArray[np.float64]
    """One weight per draw."""
    unsupported: int
    """Draws in which the target chooses a version that the log could not have chosen."""


def always(version: str) -> Target:
    """The target that sends every task to one version."""
    return lambda _decision: {version: 1.0}


def inverse_propensity(logged: Sequence[LoggedOutcome], target: Target) -> OffPolicyEstimate:
    """The IPS estimate of the target's mean reward."""
    seen = _draws(logged, target)
    return _estimate("ips", seen, len(logged), seen.weights * seen.rewards)


def self_normalised(logged: Sequence[LoggedOutcome], target: Target) -> OffPolicyEstimate:
    """The SNIPS estimate of the target's mean reward; its standard error is that of the linearised ratio."""
    seen = _draws(logged, target)
    total = float(seen.weights.sum())
    if not total:
        return _estimate("snips", seen, len(logged), seen.weights)
    value = float(seen.weights @ seen.rewards) / total
    mean_weight = total / len(seen.weights)
    return _estimate("snips", seen, len(logged), value + seen.weights * (seen.rewards - value) / mean_weight)


def doubly_robust(logged: Sequence[LoggedOutcome], target: Target, model: RewardModel) -> OffPolicyEstimate:
    """The DR estimate of the target's mean reward; ``model`` predicting 0 throughout gives IPS."""
    seen = _draws(logged, target)
    judged = [outcome.decision for outcome in logged if outcome.reward is not None]
    predicted = np.array([model(decision, decision.chosen) for decision in judged])
    expected = np.array(
        [
            fsum(share * model(decision, version) for version, share in target(decision).items() if share)
            for decision in judged
        ]
    )
    return _estimate("dr", seen, len(logged), expected + seen.weights * (seen.rewards - predicted))


def _draws(logged: Sequence[LoggedOutcome], target: Target) -> _Draws:
    weights: list[float] = []
    rewards: list[float] = []
    draws: list[int] = []
    draw_weights: list[float] = []
    episodes: dict[tuple[str, str], int] = {}
    unsupported = 0
    for outcome in logged:
        if outcome.reward is None:
            continue
        decision = outcome.decision
        known = None if decision.episode is None else episodes.get((decision.tenant, decision.episode))
        if known is None:
            known = len(draw_weights)
            if decision.episode is not None:
                episodes[decision.tenant, decision.episode] = known
            wanted = _checked(target(decision))
            possible = {seen.agent_version for seen in decision.alternatives if seen.probability > 0}
            unsupported += any(share > 0 and version not in possible for version, share in wanted.items())
            draw_weights.append(wanted.get(decision.chosen, 0.0) / decision.propensity)
        draws.append(known)
        weights.append(draw_weights[known])
        rewards.append(outcome.reward)
    return _Draws(
        np.array(weights, dtype=np.float64),
        np.array(rewards, dtype=np.float64),
        np.array(draws, dtype=np.int64),
        np.array(draw_weights, dtype=np.float64),
        unsupported,
    )


def _estimate(method: Method, seen: _Draws, logged: int, scores: NDArray[np.float64]) -> OffPolicyEstimate:
    """The mean of the decisions' scores, with the standard error over independent draws, or a refusal."""
    squares = float(seen.draw_weights @ seen.draw_weights)
    effective = float(seen.draw_weights.sum()) ** 2 / squares if squares else 0.0
    largest = float(seen.draw_weights.max(initial=0.0))
    count = len(scores)
    refused = OffPolicyEstimate(
        method,
        None,
        None,
        None,
        None,
        count,
        logged - count,
        effective,
        largest,
        _refusal(seen, effective, largest),
    )
    if refused.refusal:
        return refused
    value = float(scores.mean())
    independent = len(seen.draw_weights)
    sums = np.bincount(seen.draws, weights=scores - value)
    error = float(np.sqrt(sums @ sums * independent / (independent - 1))) / count
    return replace(refused, value=value, standard_error=error, low=value - 1.96 * error, high=value + 1.96 * error)


def _refusal(seen: _Draws, effective: float, largest: float) -> str:
    if not len(seen.rewards):
        return "no decision has a judged outcome"
    if seen.unsupported:
        return (
            f"no support: in {seen.unsupported} of {len(seen.draw_weights)} draws the target chooses a version "
            "that could not have been chosen; log with exploration that reaches it, or narrow the target"
        )
    if largest > MAX_WEIGHT:
        return f"a weight of {largest:.0f} exceeds {MAX_WEIGHT}; log with a higher exploration floor"
    if effective < MIN_EFFECTIVE_SAMPLES:
        return f"effective sample size {effective:.1f} is below {MIN_EFFECTIVE_SAMPLES}; log more decisions"
    return ""


def _checked(wanted: Mapping[str, float]) -> Mapping[str, float]:
    if any(not share >= 0 for share in wanted.values()) or not abs(fsum(wanted.values()) - 1) < 1e-9:
        raise ValueError(f"a target's probabilities must be 0 or more and sum to 1, got {dict(wanted)!r}")
    return wanted
