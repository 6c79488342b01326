"""How long experiments between agents take until the best one is identified, and how often a wrong one is.

Many experiments run as arrays through ``best_agent.observe``, the code that decides real ones. Each task goes to
one of the agents with equal probabilities, and agents succeed independently at fixed rates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upturn.deployment.best_agent import BestAgentRule, Evidence, Observations, observe
from upturn.interval import clopper_pearson_interval
from upturn.records import Result

MAX_TASKS = 4_000
"""Tasks after which an experiment ends undecided."""

REFERENCE_TASKS = 1_760
"""Median tasks of TensorZero's stopping rule for .85 against .80 (``python -m benchmarks best-agent``)."""
REFERENCE_SHARE = 0.8
"""Largest allowed share of the reference."""


class Experiment(NamedTuple):
    """The agents' success rates, and the allowed median of tasks."""

    rates: tuple[float, ...]
    max_median: float | None = None
    """None = no bar."""

    @property
    def name(self) -> str:
        """For example ``best_of_0.85_0.80``."""
        return "best_of_" + "_".join(f"{rate:.2f}" for rate in self.rates)


EXPERIMENTS = (
    Experiment((0.85, 0.80), REFERENCE_SHARE * REFERENCE_TASKS),
    Experiment((0.60, 0.50)),
    Experiment((0.90, 0.50)),
    Experiment((0.85, 0.80, 0.75, 0.70)),
    Experiment((0.80, 0.80, 0.75)),
)
"""What ``upturn release simulate --best-agent`` measures."""


@dataclass(frozen=True, slots=True)
class Stops:
    """How R simulated experiments ended; arrays are (R,)."""

    tasks: npt.NDArray[np.int64]
    """Until the stop; one more than the allowed tasks = undecided."""
    best: npt.NDArray[np.int64]
    """The identified agent; −1 = undecided."""

    @property
    def is_decided(self) -> npt.NDArray[np.bool_]:
        """True where an agent was identified."""
        return np.asarray(self.best >= 0)


def simulate_best_agent(
    rates: Sequence[float],
    rule: BestAgentRule,
    *,
    runs: int,
    seed: int,
    max_tasks: int = MAX_TASKS,
    look: int = 1,
) -> Stops:
    """Returns how ``runs`` experiments ended, of which each is looked at after every ``look`` tasks."""
    rng = np.random.default_rng(seed)
    chances, agents = np.asarray(rates), len(rates)
    evidence = Evidence.start(agents, runs)
    stops = Stops(np.full(runs, max_tasks + 1), np.full(runs, -1))
    running = np.arange(runs)
    for task in range(1, max_tasks + 1):
        chosen = rng.integers(agents, size=running.size)
        reward = (rng.random(running.size) < chances[chosen]).astype(np.float64)
        shares = np.full((agents, running.size), 1.0 / agents)
        evidence = observe(evidence, Observations(chosen, shares, reward, reward), rule)
        if task % look:
            continue
        best = evidence.best(rule)
        ended = best >= 0
        if ended.any():
            stops.tasks[running[ended]], stops.best[running[ended]] = task, best[ended]
            running, evidence = running[~ended], evidence.take(~ended)
            if not running.size:
                break
    return stops


def median_with_limits(tasks: npt.NDArray[np.int64], confidence: float = 0.95) -> tuple[float, float, float]:
    """Returns the median and its exact limits, which are order statistics (David and Nagaraja 2003, section
    7.1)."""
    from scipy.stats import binom  # half a second to import

    ordered = np.sort(tasks)
    low = int(binom.ppf((1.0 - confidence) / 2.0, ordered.size, 0.5))
    last = ordered.size - 1
    return (
        float(np.median(tasks)),
        float(ordered[max(low - 1, 0)]),
        float(ordered[min(ordered.size - low, last)]),
    )


def best_agent_results(
    rule: BestAgentRule,
    *,
    runs: int,
    seed: int,
    experiments: Sequence[Experiment] = EXPERIMENTS,
    on_done: Callable[[Experiment], None] = lambda _: None,
) -> tuple[Result, ...]:
    """Every experiment's share of decisions and of errors, with 95 % limits, and the tasks until a decision.

    Bars: a worse agent is identified in at most alpha (broken where the lower limit lies above it), and the median
    tasks are at most those of the experiment."""
    results: list[Result] = []
    for index, experiment in enumerate(experiments):
        stops = simulate_best_agent(experiment.rates, rule, runs=runs, seed=seed + index)
        decided = clopper_pearson_interval(int(stops.is_decided.sum()), runs)
        gaps = max(experiment.rates) - np.asarray(experiment.rates)[stops.best]
        is_wrong = stops.is_decided & (gaps > rule.margin + 1e-12)
        wrong = clopper_pearson_interval(int(is_wrong.sum()), runs).result(f"{experiment.name}_wrong")
        results.append(decided.result(f"{experiment.name}_decided"))
        results.append(replace(wrong, bar=f"<= {rule.alpha:g}", holds=(wrong.low or 0.0) <= rule.alpha))
        median, low, high = median_with_limits(stops.tasks)
        if median <= MAX_TASKS:
            bar = experiment.max_median
            holds = None if bar is None else median <= bar
            text = None if bar is None else f"<= {bar:g}"
            results.append(Result(f"{experiment.name}_median_tasks", median, "tasks", low, high, runs, text, holds))
        on_done(experiment)
    return tuple(results)
