"""Tasks until the better of two agents is identified, by our rule and by TensorZero's.

TensorZero's rule, restated from ``track_and_stop/check_stopping.rs`` (commit 21455f77): stop where the generalised
likelihood ratio (gap² / (2 · (s₁²/n₁ + s₂²/n₂))) is above log((1 + log t)/δ) for t observations in all, at least 10
for each agent, and δ = .05. Its agents take turns here; ours are drawn with equal probabilities.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from upturn.deployment.best_agent import BestAgentRule
from upturn.deployment.best_agent_simulation import MAX_TASKS, Stops, median_with_limits, simulate_best_agent
from upturn.interval import Interval, clopper_pearson_interval
from upturn.records import Result

PAIRS = ((0.90, 0.50), (0.60, 0.50), (0.85, 0.80))
"""The last one has the bar."""
EQUAL = (0.50, 0.85, 0.95)
"""Rates of equal agents, of which the rules may not be sure: here any identification is counted."""
MAX_RATIO = 0.8
MIN_PULLS = 10
DELTA = 0.05


def simulate_tensorzero(
    rates: tuple[float, float], *, runs: int, seed: int, max_tasks: int = MAX_TASKS, look: int = 2
) -> Stops:
    """Returns how ``runs`` experiments end by TensorZero's rule, of which each is looked at every ``look``
    tasks."""
    rng = np.random.default_rng(seed)
    pulls = np.arange(1, max_tasks // 2 + 1)
    means = np.stack([np.cumsum(rng.random((runs, pulls.size)) < rate, axis=1) / pulls for rate in rates])
    sample = pulls / np.maximum(pulls - 1, 1)
    variances = np.maximum(means * (1.0 - means) * sample, 1e-12)
    ratio = (means[0] - means[1]) ** 2 / (2.0 * variances.sum(axis=0) / pulls)
    total = 2 * pulls
    is_stop = (ratio > np.log((1.0 + np.log(total)) / DELTA)) & (pulls >= MIN_PULLS) & (total % look == 0)
    first, is_stopped = is_stop.argmax(axis=1), is_stop.any(axis=1)
    leader = means[:, np.arange(runs), first].argmax(axis=0)
    return Stops(np.where(is_stopped, total[first], max_tasks + 1), np.where(is_stopped, leader, -1))


def measure_best_agent(
    *,
    runs: int,
    seed: int,
    max_tasks: int = MAX_TASKS,
    has_bars: bool = True,
    on_done: Callable[[], None] = lambda: None,
) -> tuple[Result, ...]:
    """Returns medians, shares of errors and of decisions of both rules, and the ratio of the medians.

    Bars: the ratio for the last pair, and that a worse agent, or one of two equal ones, is identified in at most
    alpha or 2 · alpha, broken where the lower limit of the share lies above it."""
    rule = BestAgentRule()
    results: list[Result] = []
    for pair in PAIRS:
        ours = simulate_best_agent(pair, rule, runs=runs, seed=seed, max_tasks=max_tasks)
        theirs = simulate_tensorzero(pair, runs=runs, seed=seed, max_tasks=max_tasks)
        name = f"{pair[0]:.2f}_{pair[1]:.2f}"
        results += _stops(f"{name}_ours", ours, rule.alpha if has_bars else None)
        results += _stops(f"{name}_tensorzero", theirs, None)
        ratio = _ratio(ours.tasks, theirs.tasks, seed).result(f"{name}_ratio", "ratio")
        if has_bars and pair == PAIRS[-1]:
            ratio = replace(ratio, bar=f"<= {MAX_RATIO:g}", holds=float(ratio.value) <= MAX_RATIO)
        results.append(ratio)
        on_done()
    for rate in EQUAL:
        for label, stops in (
            ("ours", simulate_best_agent((rate, rate), rule, runs=runs, seed=seed, max_tasks=max_tasks)),
            ("tensorzero", simulate_tensorzero((rate, rate), runs=runs, seed=seed, max_tasks=max_tasks)),
        ):
            limits = clopper_pearson_interval(int(stops.is_decided.sum()), runs)
            result = limits.result(f"equal_{rate:.2f}_{label}_decided")
            if has_bars and label == "ours":
                bar = 2 * rule.alpha
                result = replace(result, bar=f"<= {bar:g}", holds=limits.low <= bar)
            results.append(result)
        on_done()
    return tuple(results)


def _stops(name: str, stops: Stops, alpha: float | None) -> list[Result]:
    runs = stops.best.size
    median, low, high = median_with_limits(stops.tasks)
    wrong = clopper_pearson_interval(int((stops.best == 1).sum()), runs)
    error = wrong.result(f"{name}_wrong")
    if alpha is not None:
        error = replace(error, bar=f"<= {alpha:g}", holds=wrong.low <= alpha)
    decided = clopper_pearson_interval(int(stops.is_decided.sum()), runs)
    return [Result(f"{name}_median", median, "tasks", low, high, runs), error, decided.result(f"{name}_decided")]


def _ratio(ours: npt.NDArray[np.int64], theirs: npt.NDArray[np.int64], seed: int) -> Interval:
    """Returns the ratio of the medians with its 95 % bootstrap interval."""
    rng = np.random.default_rng(seed)
    drawn = [
        float(np.median(rng.choice(ours, ours.size)) / np.median(rng.choice(theirs, theirs.size)))
        for _ in range(2_000)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(np.median(ours) / np.median(theirs)), float(low), float(high), int(ours.size))
