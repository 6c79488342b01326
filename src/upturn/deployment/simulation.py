"""The canary's error rates and speed, measured by its own rule on simulated tasks.

Many canaries run as arrays through ``rule.advance``, the code that decides real releases. Only the tasks are
simplified: they succeed independently at fixed rates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from upturn.config import CanarySettings
from upturn.deployment.interval import clopper_pearson_interval
from upturn.deployment.rule import (
    HOLD,
    PROMOTE,
    ROLLBACK,
    BoolArray,
    CanaryState,
    Counts,
    IntArray,
    Reason,
    advance,
)
from upturn.deployment.sequential import FloatArray
from upturn.records import Result

Assignment = Literal["coin", "dealt"]
"""``coin``: each task's version is drawn at random, as in the arbiter. ``dealt``: every block is split exactly."""

BLOCK_TASKS = 10
"""Tasks of both arms between two looks."""


class Published(NamedTuple):
    """Published figures of this rule, reported beside the measured ones."""

    verdict_share: float
    median_tasks: int
    tasks_95: int | None = None
    """None = not published."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """True success rates of a canary, and the expected outcome."""

    incumbent: float
    candidate: float
    assignment: Assignment
    expected: Literal["promote", "rollback", "neither"]
    published: Published | None = None
    """None: none are published."""

    @property
    def name(self) -> str:
        """E.g. ``0.70_to_0.80_dealt``."""
        return f"{self.incumbent:.2f}_to_{self.candidate:.2f}_{self.assignment}"


SCENARIOS = (
    Scenario(0.50, 0.50, "coin", "neither"),
    Scenario(0.70, 0.70, "coin", "neither"),
    Scenario(0.88, 0.88, "coin", "neither"),
    Scenario(0.70, 0.80, "coin", "promote"),
    Scenario(0.70, 0.80, "dealt", "promote", Published(1.0, 360, 990)),
    Scenario(0.88, 0.68, "dealt", "rollback", Published(1.0, 60, 200)),
    Scenario(0.88, 0.73, "dealt", "rollback", Published(1.0, 115, 360)),
    Scenario(0.90, 0.85, "dealt", "rollback", Published(0.92, 800)),
)
"""The first four have bars; the others have published figures, which were made with dealt blocks."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How R simulated canaries of one scenario ended; arrays are (R,)."""

    scenario: Scenario
    verdicts: IntArray
    """Never HOLD: every canary ends."""
    reasons: IntArray
    candidate_tasks: FloatArray
    """Served by the candidate until the verdict."""

    def decided(self, verdict: int) -> BoolArray:
        """True (R,) where evidence, not a lack of it, gave the verdict."""
        shown = (self.reasons == Reason.BETTER) | (self.reasons == Reason.WORSE)
        return np.asarray((self.verdicts == verdict) & shown)


def simulate(
    scenario: Scenario, settings: CanarySettings, *, runs: int, seed: int, block_tasks: int = BLOCK_TASKS
) -> Outcome:
    """``runs`` canaries of the scenario, each until its verdict; the same seed gives the same outcome."""
    rng = np.random.default_rng(seed)
    state = CanaryState.start(runs)
    verdicts, reasons = np.full(runs, HOLD), np.full(runs, int(Reason.OPEN))
    tasks = np.zeros(runs)
    running = np.ones(runs, dtype=np.bool_)
    while running.any():
        block = _draw(scenario, np.asarray(settings.stages)[state.stage], block_tasks, rng)
        # Decided canaries continue but are not read: masking them costs more than it saves.
        state, verdict, reason = advance(state, block, settings)
        ended = running & (verdict != HOLD)
        verdicts[ended], reasons[ended] = verdict[ended], reason[ended]
        tasks[ended] = state.totals.candidate_tasks[ended]
        running &= ~ended
    return Outcome(scenario, verdicts, reasons, tasks)


def _draw(scenario: Scenario, share: FloatArray, block_tasks: int, rng: np.random.Generator) -> Counts:
    """One block for every canary; ``share`` (R,) is the candidate's."""
    if scenario.assignment == "coin":
        candidate = rng.binomial(block_tasks, share)
    else:
        candidate = np.rint(share * block_tasks).astype(np.int64)
    control = block_tasks - candidate
    none = np.zeros(share.size)
    return Counts(
        candidate_tasks=candidate.astype(np.float64),
        candidate_successes=rng.binomial(candidate, scenario.candidate).astype(np.float64),
        candidate_violations=none,
        control_tasks=control.astype(np.float64),
        control_successes=rng.binomial(control, scenario.incumbent).astype(np.float64),
        control_violations=none,
        missing=none,
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

    Bars: an identical candidate is promoted in at most 2.5 %, one 10 points better at .7 in at least 95 %.
    """
    results: list[Result] = []
    for index, scenario in enumerate(scenarios):
        outcome = simulate(scenario, settings, runs=runs, seed=seed + index)
        results += _results(outcome)
        on_done(scenario)
    return tuple(results)


def _results(outcome: Outcome) -> list[Result]:
    scenario = outcome.scenario
    promoted = _share("promoted", outcome, outcome.decided(PROMOTE))
    rolled_back = _share("rolled_back", outcome, outcome.decided(ROLLBACK))
    if scenario.expected == "neither":
        promoted = replace(promoted, bar="<= 0.025", holds=float(promoted.value) <= 0.025)
        return [promoted, rolled_back, _share("inconclusive", outcome, outcome.reasons == Reason.EXHAUSTED)]
    main, code = (promoted, PROMOTE) if scenario.expected == "promote" else (rolled_back, ROLLBACK)
    if scenario.assignment == "coin":
        main = replace(main, bar=">= 0.95", holds=float(main.value) >= 0.95)
    tasks = outcome.candidate_tasks[outcome.decided(code)]
    rows = [main]
    if tasks.size:
        rows += [_quantile(scenario, tasks, "median_tasks", 0.5), _quantile(scenario, tasks, "tasks_95", 0.95)]
    return rows + _published(main, scenario)


def _share(what: str, outcome: Outcome, mask: BoolArray) -> Result:
    limits = clopper_pearson_interval(int(mask.sum()), mask.size)
    return Result(f"{outcome.scenario.name}_{what}", limits.mean, "share", limits.low, limits.high, mask.size)


def _quantile(scenario: Scenario, tasks: FloatArray, what: str, quantile: float) -> Result:
    return Result(f"{scenario.name}_{what}", float(np.quantile(tasks, quantile)), "candidate tasks", n=tasks.size)


def _published(main: Result, scenario: Scenario) -> list[Result]:
    published = scenario.published
    if published is None:
        return []
    rows = [
        Result(f"{main.name}_published", published.verdict_share, "share"),
        Result(f"{scenario.name}_median_tasks_published", float(published.median_tasks), "candidate tasks"),
    ]
    if published.tasks_95 is not None:
        rows.append(Result(f"{scenario.name}_tasks_95_published", float(published.tasks_95), "candidate tasks"))
    return rows
