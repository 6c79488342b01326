"""Off-policy estimates: the mean reward of another routing, estimated from logged decisions.

The weight of a decision is ``w = π_e(chosen) / propensity``, with the logged propensity. Estimators:

- IPS (Horvitz and Thompson 1952): ``mean(w r)``, unbiased;
- SNIPS (Swaminathan and Joachims 2015): ``Σ w r / Σ w``, slightly biased, usually with much less variance;
- DM: ``mean(Σ_a π_e(a) m(family, a))`` with the mean reward of each version in each family, unbiased only where the
  choice within a family does not depend on what decides the outcome;
- DR (Dudík, Langford and Li 2011): ``mean(Σ_a π_e(a) q(a) + w (r − q(chosen)))``, unbiased for any ``q`` that does
  not depend on the decision's outcome;
- switch-DR (Wang, Agarwal and Dudík 2017): DR that trusts ``q`` alone where ``w`` is above a limit, which is biased
  there as far as ``q`` is wrong.

``gain`` is the difference of the target's mean reward from that of the logged routing, DR on the differences of
probabilities, which is exactly 0 for a target that equals the logged routing.

All decisions of an episode have the weight of its first decision and count as one draw in the standard errors, the
effective sample size ``(Σ w)² / Σ w²`` and the maximum weight. A decision that could switch the episode's version
(``Decision.current``) begins another draw, given what served the episode before. Outcomes with a missing reward are
excluded and counted; this is unbiased only if missingness does not depend on the outcome. ``interval_of_mean`` has
the intervals.

An estimate is refused only for what the outcomes cannot influence: the target chooses versions that the log could
not have chosen. A refusal for a small effective sample size or a large weight would select. A bandit gives an agent
few decisions when it did badly at first, so the estimates that remain are biased upwards. Few samples make the
interval wide instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upturn.arbiter.off_policy_interval import Precision, interval_of_gain, interval_of_mean, interval_of_robust
from upturn.arbiter.off_policy_variance import Options, Outcomes, ScoreVariance, expected_variance, freedom_of
from upturn.records import Decision

SWITCH_WEIGHT = 10.0
"""Weight above which switch-DR trusts the reward model alone."""

Target = Callable[[Decision], Mapping[str, float]]
"""The routing to evaluate: returns the probability of each version for a decision; they sum to 1."""

RewardModel = Callable[[Decision, str], float]
"""Returns the predicted reward of a version for a decision; it must not be fitted on that decision's outcome."""

_Cell = tuple[str, str]
"""Family and version."""

Method = Literal["ips", "snips", "dm", "dr", "switch_dr", "gain"]


@dataclass(frozen=True, slots=True)
class LoggedOutcome:
    """A decision and its reward."""

    decision: Decision
    reward: float | None
    """In [0, 1]; None = no verdict."""
    cost_usd: float | None = None
    """What its call or task did cost; None = unknown."""
    seconds: float | None = None
    """How long its call or task took; None = unknown."""


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


@dataclass(slots=True)
class _Draws:
    """The decisions with a reward, one element per decision."""

    decisions: list[Decision] = field(default_factory=list)
    shares: list[Mapping[str, float]] = field(default_factory=list)
    """The target's probabilities; those of the first decision in an episode."""
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    rewards: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    draws: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Index of each decision's independent draw."""
    draw_weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """One weight per draw."""
    unsupported: int = 0
    """Number of draws in which the target chooses a version that the log could not have chosen."""
    missing: int = 0


def always(version: str) -> Target:
    """Returns the target that routes every task to one version."""
    return lambda _decision: {version: 1.0}


def inverse_propensity(logged: Sequence[LoggedOutcome], target: Target) -> OffPolicyEstimate:
    """Returns the IPS estimate of the target's mean reward.

    Its interval is that of SNIPS, which estimates the same: the weights of IPS vary with their sum too. A value
    outside of it shows that the weights are too heavy for IPS."""
    draws = _draws(logged, target)
    return _inverse_propensity(draws, _self_normalised(draws))


def self_normalised(logged: Sequence[LoggedOutcome], target: Target) -> OffPolicyEstimate:
    """Returns the SNIPS estimate of the target's mean reward, with the standard error of the linearised ratio."""
    return _self_normalised(_draws(logged, target))


def direct_method(logged: Sequence[LoggedOutcome], target: Target) -> OffPolicyEstimate:
    """Returns the DM estimate of the target's mean reward, from the mean reward of each version in each family.

    The interval is that of post-stratified means: each decision has the weight of its family and version in the
    target, divided by their number in the log. A version without an outcome in a family has the mean of its other
    outcomes (½ if it has none) in the value, and 0 and 1 in the limits."""
    return _direct_method(_draws(logged, target))


def doubly_robust(
    logged: Sequence[LoggedOutcome], target: Target, model: RewardModel | None = None
) -> OffPolicyEstimate:
    """Returns the DR estimate of the target's mean reward; a ``model`` that always predicts 0 gives IPS.

    ``model``: None = ``running_means(logged)``."""
    draws = _draws(logged, target)
    return _doubly_robust(draws, _predict(draws, model or running_means(logged)))


def switch_doubly_robust(
    logged: Sequence[LoggedOutcome],
    target: Target,
    model: RewardModel | None = None,
    *,
    max_weight: float = SWITCH_WEIGHT,
) -> OffPolicyEstimate:
    """Returns the switch-DR estimate: DR in which decisions with a weight above ``max_weight`` have weight 0.

    Its interval is that of DR: its smaller standard error does not include the bias. A value outside of it shows
    that the model is wrong where the log rarely chose."""
    draws = _draws(logged, target)
    predictions = _predict(draws, model or running_means(logged))
    return _switch_doubly_robust(draws, predictions, max_weight, _doubly_robust(draws, predictions))


def policy_gain(
    logged: Sequence[LoggedOutcome], target: Target, model: RewardModel | None = None
) -> OffPolicyEstimate:
    """Returns the estimate of the target's mean reward minus that of the logged routing, in [−1, 1].

    The score of a decision is ``Σ_a (π_e(a) − π_b(a)) q(a) + (w − 1) (r − q(chosen))`` with the logged
    probabilities π_b, the difference of the DR scores of both routings."""
    draws = _draws(logged, target)
    predict = model or running_means(logged)
    scores = np.array(
        [
            fsum(share * predict(decision, version) for version, share in _difference(decision, shares).items())
            + (weight - 1.0) * (reward - predict(decision, decision.chosen))
            for decision, shares, weight, reward in zip(
                draws.decisions, draws.shares, draws.weights, draws.rewards, strict=True
            )
        ]
    )
    return _estimate("gain", draws, scores)


def all_estimates(
    logged: Sequence[LoggedOutcome], target: Target, model: RewardModel | None = None
) -> tuple[OffPolicyEstimate, ...]:
    """Returns IPS, SNIPS, DM, DR and switch-DR of the target's mean reward, in this order."""
    draws = _draws(logged, target)
    predictions = _predict(draws, model or running_means(logged))
    snips, robust = _self_normalised(draws), _doubly_robust(draws, predictions)
    return (
        _inverse_propensity(draws, snips),
        snips,
        _direct_method(draws),
        robust,
        _switch_doubly_robust(draws, predictions, SWITCH_WEIGHT, robust),
    )


def running_means(logged: Sequence[LoggedOutcome]) -> RewardModel:
    """Returns the model that predicts a version's mean reward in the family from the decisions before.

    A prediction starts at ½, with the weight of one outcome. It uses no outcome of the decision's own episode, so
    that estimates with it are unbiased. It predicts only decisions of ``logged``, and versions of their
    alternatives; others have ½."""
    sums: dict[_Cell, tuple[float, int]] = {}
    episodes: dict[tuple[str, str], dict[_Cell, tuple[float, int]]] = {}
    predictions: dict[str, dict[str, float]] = {}
    for outcome in logged:
        decision = outcome.decision
        episode = None if decision.episode is None else episodes.setdefault((decision.tenant, decision.episode), {})
        predicted = {}
        for option in decision.alternatives:
            cell = (decision.family, option.agent_version)
            total, count = sums.get(cell, (0.0, 0))
            own_total, own_count = (0.0, 0) if episode is None else episode.get(cell, (0.0, 0))
            predicted[option.agent_version] = (total - own_total + 0.5) / (count - own_count + 1.0)
        predictions[decision.id] = predicted
        if outcome.reward is not None:
            for counts in (sums,) if episode is None else (sums, episode):
                total, count = counts.get((decision.family, decision.chosen), (0.0, 0))
                counts[decision.family, decision.chosen] = (total + outcome.reward, count + 1)
    return lambda decision, version: predictions[decision.id].get(version, 0.5)


def _draws(logged: Sequence[LoggedOutcome], target: Target) -> _Draws:
    draws = _Draws()
    weights: list[float] = []
    indices: list[int] = []
    draw_weights: list[float] = []
    episodes: dict[tuple[str, str], tuple[int, Mapping[str, float]]] = {}
    for outcome in logged:
        if outcome.reward is None:
            draws.missing += 1
            continue
        decision = outcome.decision
        is_later = decision.episode is not None and decision.current is None
        known = episodes.get((decision.tenant, decision.episode or "")) if is_later else None
        if known is None:
            known = (len(draw_weights), _checked(target(decision)))
            if decision.episode is not None:
                episodes[decision.tenant, decision.episode] = known
            possible = {option.agent_version for option in decision.alternatives if option.probability > 0}
            draws.unsupported += any(share > 0 and version not in possible for version, share in known[1].items())
            draw_weights.append(known[1].get(decision.chosen, 0.0) / decision.propensity)
        draw, shares = known
        draws.decisions.append(decision)
        draws.shares.append(shares)
        indices.append(draw)
        weights.append(draw_weights[draw])
    draws.weights = np.array(weights, dtype=np.float64)
    draws.rewards = np.array([o.reward for o in logged if o.reward is not None], dtype=np.float64)
    draws.draws = np.array(indices, dtype=np.int64)
    draws.draw_weights = np.array(draw_weights, dtype=np.float64)
    return draws


class _Predictions(NamedTuple):
    """What a reward model predicts for each decision, (n,)."""

    chosen: NDArray[np.float64]
    """For the chosen version."""
    expected: NDArray[np.float64]
    """The mean over the target's probabilities."""
    options: Options
    """The versions that the target may choose."""
    cells: Mapping[_Cell, int]
    """Indices of families and versions."""


def _predict(draws: _Draws, model: RewardModel) -> _Predictions:
    cells: dict[_Cell, int] = {}
    rows: list[tuple[int, int, float, float, float]] = []
    expected: list[float] = []
    for index, (decision, shares) in enumerate(zip(draws.decisions, draws.shares, strict=True)):
        logged = {option.agent_version: option.probability for option in decision.alternatives}
        terms: list[float] = []
        for version, share in shares.items():
            if share:
                cell = cells.setdefault((decision.family, version), len(cells))
                predicted = model(decision, version)
                terms.append(share * predicted)
                if probability := logged.get(version, 0.0):  # 0 only after the first decision of an episode
                    rows.append((index, cell, share, probability, predicted))
        expected.append(fsum(terms))
    table = np.array(rows).reshape(-1, 5)
    options = Options(table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2], table[:, 3], table[:, 4])
    chosen = np.array([model(decision, decision.chosen) for decision in draws.decisions])
    return _Predictions(chosen, np.array(expected), options, cells)


def _expected_variance(draws: _Draws, predictions: _Predictions) -> ScoreVariance:
    """Returns the variance that the logged probabilities give to DR, if every decision were a draw of its own."""
    cells = dict(predictions.cells)
    chosen = [cells.setdefault((decision.family, decision.chosen), len(cells)) for decision in draws.decisions]
    versions: dict[str, int] = {}
    by_cell = [versions.setdefault(version, len(versions)) for _, version in cells]
    return expected_variance(predictions.options, Outcomes(draws.rewards, np.array(chosen), np.array(by_cell)))


def _inverse_propensity(draws: _Draws, snips: OffPolicyEstimate) -> OffPolicyEstimate:
    estimate = _estimate("ips", draws, draws.weights * draws.rewards)
    return replace(estimate, low=snips.low, high=snips.high)


def _self_normalised(draws: _Draws) -> OffPolicyEstimate:
    total = float(draws.weights.sum())
    if not total:
        return _estimate("snips", draws, draws.weights)
    value = float(draws.weights @ draws.rewards) / total
    mean_weight = total / len(draws.weights)
    return _estimate("snips", draws, value + draws.weights * (draws.rewards - value) / mean_weight)


def _doubly_robust(draws: _Draws, predictions: _Predictions) -> OffPolicyEstimate:
    residuals = draws.rewards - predictions.chosen
    scores = predictions.expected + draws.weights * residuals
    estimate = _estimate("dr", draws, scores)
    if estimate.value is None or estimate.standard_error is None:
        return estimate
    expected = _expected_variance(draws, predictions)
    single = float(scores.var(ddof=1)) / len(scores) if len(scores) > 1 else 0.0
    # Outcomes of one episode depend on each other: both variances grow alike (Kish 1965, the design effect).
    effect = max(estimate.standard_error**2 / single, 1.0) if single else 1.0
    deviations = np.asarray(np.bincount(draws.draws, scores - estimate.value), dtype=np.float64)
    observed = ScoreVariance(estimate.standard_error**2, freedom_of(deviations))
    expected = expected._replace(variance=expected.variance * effect)
    low, high = interval_of_robust(estimate.value, observed, expected, estimate.effective_samples)
    return replace(estimate, low=low, high=high)


def _switch_doubly_robust(
    draws: _Draws, predictions: _Predictions, max_weight: float, robust: OffPolicyEstimate
) -> OffPolicyEstimate:
    weights = np.where(draws.weights <= max_weight, draws.weights, 0.0)
    residuals = draws.rewards - predictions.chosen
    estimate = _estimate("switch_dr", draws, predictions.expected + weights * residuals)
    return replace(estimate, low=robust.low, high=robust.high)


def _direct_method(draws: _Draws) -> OffPolicyEstimate:
    sums: dict[_Cell, tuple[float, int]] = {}
    mass: dict[_Cell, float] = {}
    for decision, shares, reward in zip(draws.decisions, draws.shares, draws.rewards, strict=True):
        key = (decision.family, decision.chosen)
        total, count = sums.get(key, (0.0, 0))
        sums[key] = (total + float(reward), count + 1)
        for version, share in shares.items():
            if share > 0:
                mass[decision.family, version] = mass.get((decision.family, version), 0.0) + share
    means = {key: total / count for key, (total, count) in sums.items()}
    for key in mass:
        if key not in means:
            others = [outcome for (_, version), outcome in sums.items() if version == key[1]]
            count = sum(number for _, number in others)
            means[key] = fsum(total for total, _ in others) / count if count else 0.5
    keys = [(decision.family, decision.chosen) for decision in draws.decisions]
    weights = np.array([mass.get(key, 0.0) / sums[key][1] for key in keys])
    expected = np.array(
        [
            fsum(share * means[decision.family, version] for version, share in shares.items() if share > 0)
            for decision, shares in zip(draws.decisions, draws.shares, strict=True)
        ]
    )
    residuals = draws.rewards - np.array([means[key] for key in keys])
    per_draw = np.bincount(draws.draws, weights) / np.maximum(np.bincount(draws.draws), 1)
    estimate = _estimate("dm", replace(draws, draw_weights=per_draw), expected + weights * residuals)
    if estimate.low is None or estimate.high is None:
        return estimate
    guessed = {key: share / len(keys) for key, share in mass.items() if key not in sums}
    below = fsum(share * means[key] for key, share in guessed.items())
    above = fsum(share * (1.0 - means[key]) for key, share in guessed.items())
    return replace(estimate, low=max(estimate.low - below, 0.0), high=min(estimate.high + above, 1.0))


def _difference(decision: Decision, shares: Mapping[str, float]) -> Mapping[str, float]:
    """Returns the target's probabilities minus the logged ones, by version, without zeros."""
    difference = dict(shares)
    for option in decision.alternatives:
        difference[option.agent_version] = difference.get(option.agent_version, 0.0) - option.probability
    return {version: change for version, change in difference.items() if change}


def _estimate(method: Method, draws: _Draws, scores: NDArray[np.float64]) -> OffPolicyEstimate:
    """Returns the mean of the scores with the standard error over independent draws, or a refusal."""
    squares = float(draws.draw_weights @ draws.draw_weights)
    effective = float(draws.draw_weights.sum()) ** 2 / squares if squares else 0.0
    largest = float(draws.draw_weights.max(initial=0.0))
    count = len(scores)
    refusal = _refusal(draws)
    estimate = OffPolicyEstimate(method, None, None, None, None, count, draws.missing, effective, largest, refusal)
    if refusal:
        return estimate
    value = float(scores.mean())
    independent = len(draws.draw_weights)
    sums = np.bincount(draws.draws, weights=scores - value)
    error = float(np.sqrt(sums @ sums * independent / max(independent - 1, 1))) / count
    precision = Precision.of(draws.rewards, draws.draw_weights, error, effective)
    if method == "gain":
        change = float(np.mean((draws.draw_weights - 1.0) ** 2))
        low, high = interval_of_gain(value, precision, change / independent)
    else:
        low, high = interval_of_mean(value, precision)
    return replace(estimate, value=value, standard_error=error, low=low, high=high)


def _refusal(draws: _Draws) -> str:
    if not draws.decisions:
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
