"""The canary's error rates and speed, measured by its own rule on simulated traffic.

Many canaries run as arrays through ``rule.observe`` and ``rule.decide``, the code that decides real releases. Only
the traffic is simulated: episodes of one or more tasks whose success is correlated within the episode, whose
outcomes may be missing at a rate that depends on arm and outcome, and whose success rate may drift in both arms
alike.

Not here: repeated outcomes, which ``canary`` drops before they reach the rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from upturn.config import CanarySettings
from upturn.deployment.rule import (
    CANDIDATE,
    HOLD,
    PROMOTE,
    ROLLBACK,
    BoolArray,
    CanaryState,
    Count,
    Episodes,
    IntArray,
    Reason,
    decide,
    observe,
)
from upturn.deployment.sequential import FloatArray
from upturn.interval import clopper_pearson_interval
from upturn.records import Result

Expected = Literal["promote", "rollback", "no promotion"]

DRIFT_EPISODES = 500
"""Episodes of one cycle of a drifting success rate."""


class Missing(NamedTuple):
    """Probability that an outcome is missing, by arm and outcome."""

    candidate_failure: float = 0.0
    candidate_success: float = 0.0
    control_failure: float = 0.0
    control_success: float = 0.0


NONE_MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Scenario:
    """True rates of both versions, the shape of the traffic, and the expected outcome."""

    incumbent: float
    """Success rate of a task."""
    candidate: float
    expected: Expected
    episode_tasks: int = 1
    correlation: float = 0.0
    """Of two tasks' success within an episode."""
    missing: Missing = NONE_MISSING
    violations: tuple[float, float] = (0.0, 0.0)
    """Rates of safety violations of incumbent and candidate."""
    drift: float = 0.0
    """Amplitude of a sine that is added to both success rates."""
    block: int = 1
    """Episodes between two looks."""
    label: str = ""
    """Ends the scenario's name; empty = nothing to add."""

    @property
    def name(self) -> str:
        """For example ``0.70_to_0.80_sessions_5_0.3``."""
        parts = [f"{self.incumbent:.2f}_to_{self.candidate:.2f}"]
        if self.episode_tasks > 1:
            parts.append(f"sessions_{self.episode_tasks}_{self.correlation:g}")
        if self.block > 1:
            parts.append(f"blocks_{self.block}")
        return "_".join([*parts, *filter(None, [self.label])])


SCENARIOS = (
    Scenario(0.50, 0.50, "no promotion"),
    Scenario(0.70, 0.70, "no promotion"),
    Scenario(0.88, 0.88, "no promotion"),
    Scenario(0.70, 0.70, "no promotion", 5, 0.6),
    Scenario(0.70, 0.70, "no promotion", missing=Missing(0.3), label="failures_missing_0.3"),
    Scenario(0.90, 0.80, "no promotion", missing=Missing(1.0), label="failures_missing"),
    Scenario(0.70, 0.90, "no promotion", violations=(0.0, 0.02), label="violations_0.02"),
    Scenario(0.70, 0.80, "promote"),
    Scenario(0.70, 0.80, "promote", 5, 0.3),
    Scenario(0.88, 0.68, "rollback"),
    Scenario(0.88, 0.73, "rollback"),
    Scenario(0.90, 0.00, "rollback"),
    Scenario(0.90, 0.85, "rollback"),
)
"""What ``upturn release simulate`` measures by default."""


def grid() -> tuple[Scenario, ...]:
    """Kinds of traffic in which an unchanged, worse or unsafe candidate might be promoted, one scenario a cell."""
    rates = (0.05, 0.3, 0.5, 0.7, 0.95)
    cells = [Scenario(rate, rate, "no promotion", block=block) for rate, block in product(rates, (1, 7, 50))]
    sessions = product((0.3, 0.7, 0.95), (2, 5, 20), (0.0, 0.3, 0.6, 0.9))
    cells += [Scenario(rate, rate, "no promotion", size, correlation) for rate, size, correlation in sessions]
    for share, rate in product((0.1, 0.3, 1.0), (0.5, 0.7, 0.9)):
        for label, missing in (
            ("candidate_failures", Missing(candidate_failure=share)),
            ("control_successes", Missing(control_success=share)),
            ("control_failures", Missing(control_failure=share)),
            ("candidate_successes", Missing(candidate_success=share)),
            ("both", Missing(*[share / 2] * 4)),
        ):
            name = f"missing_{label}_{share:g}"
            cells.append(Scenario(rate, rate, "no promotion", missing=missing, label=name))
            cells.append(Scenario(rate, rate - 0.1, "no promotion", missing=missing, label=name))
    cells += [Scenario(rate, rate, "no promotion", drift=0.2, label="drift") for rate in (0.3, 0.5, 0.7)]
    cells += [
        Scenario(
            0.7, 0.9, "no promotion", violations=(low, low + 0.02), label=f"violations_{low:g}_to_{low + 0.02:g}"
        )
        for low in (0.0, 0.01, 0.05)
    ]
    return tuple(cells)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How R simulated canaries of one scenario ended; arrays are (R,)."""

    scenario: Scenario
    verdicts: IntArray
    """Never HOLD: every canary ends."""
    reasons: IntArray
    candidate_tasks: FloatArray
    """Served by the candidate until the verdict."""
    tasks: FloatArray
    """Served by both versions."""

    def decided(self, verdict: int) -> BoolArray:
        """True (R,) where evidence, not a lack of it, gave the verdict."""
        is_open = np.isin(self.reasons, (Reason.EXHAUSTED, Reason.UNUSABLE))
        return np.asarray((self.verdicts == verdict) & ~is_open)


def simulate(scenario: Scenario, settings: CanarySettings, *, runs: int, seed: int, attempt: int = 1) -> Outcome:
    """``runs`` canaries of the scenario, each until its verdict; the same seed gives the same outcome."""
    rng = np.random.default_rng(seed)
    state = CanaryState.start(runs, len(settings.stages))
    outcome = Outcome(
        scenario, np.full(runs, HOLD), np.full(runs, int(Reason.OPEN)), np.zeros(runs), np.zeros(runs)
    )
    running, shares, episode = np.arange(runs), np.asarray(settings.stages), 0
    while running.size:
        for _ in range(scenario.block):
            share = shares[state.stage.astype(np.int64)]
            state = observe(state, _draw(scenario, share, episode, rng), settings)
            episode += 1
        yes = np.ones(running.size, dtype=np.bool_)
        state, verdict, reason = decide(state, settings, has_episodes=yes, has_costs=yes, attempt=attempt)
        ended = verdict != HOLD
        if ended.any():
            which = running[ended]
            outcome.verdicts[which], outcome.reasons[which] = verdict[ended], reason[ended]
            outcome.candidate_tasks[which] = state.count(CANDIDATE, Count.TASKS)[ended]
            outcome.tasks[which] = state.counts[:, Count.TASKS].sum(axis=0)[ended]
            running, state = running[~ended], state.take(~ended)
    return outcome


def _draw(scenario: Scenario, share: FloatArray, episode: int, rng: np.random.Generator) -> Episodes:
    """One episode of every canary; ``share`` (R,) is the candidate's."""
    is_candidate = rng.random(share.size) < share
    rate = np.where(is_candidate, scenario.candidate, scenario.incumbent)
    if scenario.drift:
        wave = scenario.drift * np.sin(2.0 * np.pi * episode / DRIFT_EPISODES)
        rate = np.clip(rate + wave, 0.0, 1.0)
    size, correlation = scenario.episode_tasks, scenario.correlation
    if correlation:  # beta-binomial: its intra-class correlation is 1/(a + b + 1)
        weight = (1.0 - correlation) / correlation
        rate = rng.beta(np.maximum(rate * weight, 1e-9), np.maximum((1.0 - rate) * weight, 1e-9))
    successes = rng.binomial(size, rate)
    lost = scenario.missing
    lost_successes = rng.binomial(successes, np.where(is_candidate, lost.candidate_success, lost.control_success))
    lost_failures = rng.binomial(
        size - successes, np.where(is_candidate, lost.candidate_failure, lost.control_failure)
    )
    missing = lost_successes + lost_failures
    harm = np.where(is_candidate, scenario.violations[1], scenario.violations[0])
    return Episodes(
        is_candidate=is_candidate,
        share=share,
        tasks=np.full(share.size, float(size)),
        successes=(successes - lost_successes).astype(np.float64),
        missing=missing.astype(np.float64),
        violations=rng.binomial(size - missing, harm).astype(np.float64),
        hard_violations=np.zeros(share.size),
        unreported=missing.astype(np.float64),
        hard_unreported=np.zeros(share.size),
    )


def simulation_results(
    settings: CanarySettings,
    *,
    runs: int,
    seed: int,
    scenarios: Sequence[Scenario] = SCENARIOS,
    on_done: Callable[[Scenario], None] = lambda _: None,
) -> tuple[Result, ...]:
    """Every scenario's shares with 95 % Clopper–Pearson limits and its candidate tasks to the verdict.

    Bars: a candidate that must not be promoted is promoted in at most alpha/2, one that is 10 points better in at
    least 95 %. A share above alpha/2 breaks its bar where its lower limit lies above too: the guarantee is exact,
    the measurement is not.
    """
    results: list[Result] = []
    for index, scenario in enumerate(scenarios):
        results += _results(simulate(scenario, settings, runs=runs, seed=seed + index), settings)
        on_done(scenario)
    return tuple(results)


def _results(outcome: Outcome, settings: CanarySettings) -> list[Result]:
    scenario = outcome.scenario
    promoted = _share("promoted", outcome, outcome.decided(PROMOTE))
    rolled_back = _share("rolled_back", outcome, outcome.decided(ROLLBACK))
    if scenario.expected == "no promotion":
        bar = settings.alpha / 2.0
        promoted = replace(promoted, bar=f"<= {bar:g}", holds=(promoted.low or 0.0) <= bar)
        return [promoted, rolled_back, _share("inconclusive", outcome, outcome.reasons == Reason.EXHAUSTED)]
    main, code = (promoted, PROMOTE) if scenario.expected == "promote" else (rolled_back, ROLLBACK)
    if scenario.expected == "promote":
        main = replace(main, bar=">= 0.95", holds=float(main.value) >= 0.95)
    tasks = outcome.candidate_tasks[outcome.decided(code)]
    if not tasks.size:
        return [main]
    return [main, _quantile(scenario, tasks, "median_tasks", 0.5), _quantile(scenario, tasks, "tasks_95", 0.95)]


def _share(what: str, outcome: Outcome, mask: BoolArray) -> Result:
    limits = clopper_pearson_interval(int(mask.sum()), mask.size)
    return Result(f"{outcome.scenario.name}_{what}", limits.mean, "share", limits.low, limits.high, mask.size)


def _quantile(scenario: Scenario, tasks: FloatArray, what: str, quantile: float) -> Result:
    return Result(f"{scenario.name}_{what}", float(np.quantile(tasks, quantile)), "candidate tasks", n=tasks.size)
