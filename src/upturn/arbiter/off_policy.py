"""Off-policy estimates: the mean reward of another routing, estimated from logged decisions.

The weight of a decision is ``w = π_e(chosen) / propensity``, with the logged propensity. Estimators:

- IPS (Horvitz and Thompson 1952): ``mean(w r)``, unbiased;
- SNIPS (Swaminathan and Joachims 2015): ``Σ w r / Σ w``, slightly biased, usually with much less variance;
- DR (Dudík, Langford and Li 2011): ``mean(Σ_a π_e(a) q(a) + w (r − q(chosen)))``, unbiased for any ``q``.

All decisions of an episode have the weight of its first decision and count as one draw in the standard errors, the
effective sample size ``(Σ w)² / Σ w²`` and the maximum weight. Outcomes with a missing reward are excluded and
counted; this is unbiased only if missingness does not depend on the outcome.

The interval is Wilson's for a sample of ``n`` rewards, with n the smaller of the effective sample size and ``p (1 −
p) / standard error²``. The normal interval is too short for weights with a long tail: with a few dozen effective
samples of a logging bandit it covers 84 to 92 %. DR may count as 1.5 times the effective samples, since its
residuals vary less than rewards. The weights of IPS vary with their sum too, so its interval is that of SNIPS,
which estimates the same; a value outside of it shows that the weights are too heavy for IPS.

An estimate is refused only for what the outcomes cannot influence: the target chooses versions that the log could
not have chosen. A refusal for a small effective sample size or a large weight would select. A bandit gives an agent
few decisions when it did badly at first, so the estimates that remain are biased upwards. Few samples make the
interval wide instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from upturn.interval import wilson_limits
from upturn.records import Decision

DR_SAMPLES = 1.5
"""Samples that an effective one counts as in DR: on the logs of a learning policy its intervals then cover about
95 %, with 1 up to 99 % (``python -m benchmarks off-policy``)."""

Target = Callable[[Decision], Mapping[str, float]]
"""The routing to evaluate: returns the probability of each version for a decision; they sum to 1."""

RewardModel = Callable[[Decision, str], float]
"""Returns the predicted reward of a version for a decision; it must not be fitted on the same outcomes."""

Method = Literal["ips", "snips", "dr"]


@dataclass(frozen=True, slots=True)
class LoggedOutcome:
    """A decision and its reward."""

    decision: Decision
    reward: float | None
    """In [0, 1]; None = no verdict."""


@dataclass(frozen=True, slots=True)
class OffPolicyEstimate:
    """An estimate with its uncertainty, or the reason why there is none."""

    method: Method
    value: float | None
    """Estimated mean reward per decision; this and the next three fields are None if the estimate is refused."""
    standard_error: float | None
    low: float | None
    """Lower limit of the 95 % interval."""
    high: float | None
    decisions: int
    """Number of decisions with a reward."""
    missing: int
    """Number of decisions without a reward, which are excluded."""
    effective_samples: float
    max_weight: float
    refusal: str = ""
    """Why the estimate is refused; empty = it is not."""


@dataclass(frozen=True, slots=True)
class _Draws:
    """The decisions with a reward as arrays, one element per decision."""

    weights: NDArray[np.float64]
    rewards: NDArray[np.float64]
    draws: NDArray[np.int64]
    """Index of each decision's independent draw."""
    draw_weights: NDArray[np.float64]
    """One weight per draw."""
    unsupported: int
    """Number of draws in which the target chooses a version that the log could not have chosen."""


def always(version: str) -> Target:
    """Returns the target that routes every task to one version."""
    return lambda _decision: {version: 1.0}


def inverse_propensity(logged: Sequence[LoggedOutcome], target: Target) -> OffPolicyEstimate:
    """Returns the IPS estimate of the target's mean reward."""
    draws = _draws(logged, target)
    estimate = _estimate("ips", draws, len(logged), draws.weights * draws.rewards)
    interval = self_normalised(logged, target)
    return replace(estimate, low=interval.low, high=interval.high)


def self_normalised(logged: Sequence[LoggedOutcome], target: Target) -> OffPolicyEstimate:
    """Returns the SNIPS estimate of the target's mean reward, with the standard error of the linearised ratio."""
    draws = _draws(logged, target)
    total = float(draws.weights.sum())
    if not total:
        return _estimate("snips", draws, len(logged), draws.weights)
    value = float(draws.weights @ draws.rewards) / total
    mean_weight = total / len(draws.weights)
    return _estimate("snips", draws, len(logged), value + draws.weights * (draws.rewards - value) / mean_weight)


def doubly_robust(logged: Sequence[LoggedOutcome], target: Target, model: RewardModel) -> OffPolicyEstimate:
    """Returns the DR estimate of the target's mean reward; a ``model`` that always predicts 0 gives IPS."""
    draws = _draws(logged, target)
    decisions = [outcome.decision for outcome in logged if outcome.reward is not None]
    predicted = np.array([model(decision, decision.chosen) for decision in decisions])
    expected = np.array(
        [
            fsum(share * model(decision, version) for version, share in target(decision).items() if share)
            for decision in decisions
        ]
    )
    return _estimate("dr", draws, len(logged), expected + draws.weights * (draws.rewards - predicted))


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
        draw = None if decision.episode is None else episodes.get((decision.tenant, decision.episode))
        if draw is None:
            draw = len(draw_weights)
            if decision.episode is not None:
                episodes[decision.tenant, decision.episode] = draw
            shares = _checked(target(decision))
            possible = {version.agent_version for version in decision.alternatives if version.probability > 0}
            unsupported += any(share > 0 and version not in possible for version, share in shares.items())
            draw_weights.append(shares.get(decision.chosen, 0.0) / decision.propensity)
        draws.append(draw)
        weights.append(draw_weights[draw])
        rewards.append(outcome.reward)
    return _Draws(
        np.array(weights, dtype=np.float64),
        np.array(rewards, dtype=np.float64),
        np.array(draws, dtype=np.int64),
        np.array(draw_weights, dtype=np.float64),
        unsupported,
    )


def _estimate(method: Method, draws: _Draws, logged: int, scores: NDArray[np.float64]) -> OffPolicyEstimate:
    """Returns the mean of the scores with the standard error over independent draws, or a refusal."""
    squares = float(draws.draw_weights @ draws.draw_weights)
    effective = float(draws.draw_weights.sum()) ** 2 / squares if squares else 0.0
    largest = float(draws.draw_weights.max(initial=0.0))
    count = len(scores)
    refusal = _refusal(draws)
    estimate = OffPolicyEstimate(method, None, None, None, None, count, logged - count, effective, largest, refusal)
    if refusal:
        return estimate
    value = float(scores.mean())
    independent = len(draws.draw_weights)
    sums = np.bincount(draws.draws, weights=scores - value)
    error = float(np.sqrt(sums @ sums * independent / max(independent - 1, 1))) / count
    low, high = _interval(value, error, effective * (DR_SAMPLES if method == "dr" else 1.0))
    return replace(estimate, value=value, standard_error=error, low=low, high=high)


def _interval(value: float, error: float, effective: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a mean in [0, 1]; a value beyond the range has the interval of its end."""
    mean = min(max(value, 0.0), 1.0)
    samples = min(effective, mean * (1.0 - mean) / error**2) if error and 0.0 < mean < 1.0 else effective
    return wilson_limits(mean, samples)


def _refusal(draws: _Draws) -> str:
    if not len(draws.rewards):
        return "no decision has an evaluated outcome"
    if draws.unsupported:
        return (
            f"no support: in {draws.unsupported} of {len(draws.draw_weights)} draws the target chooses a version "
            "that could not have been chosen; log with exploration that reaches it, or narrow the target"
        )
    if not draws.draw_weights.any():
        return "no decision chose what the target chooses; log more decisions"
    return ""


def _checked(shares: Mapping[str, float]) -> Mapping[str, float]:
    if any(not share >= 0 for share in shares.values()) or not abs(fsum(shares.values()) - 1) < 1e-9:
        raise ValueError(f"a target's probabilities must be 0 or more and sum to 1, got {dict(shares)!r}")
    return shares
