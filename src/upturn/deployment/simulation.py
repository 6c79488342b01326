"""Simulation of the canary's error rates and speed.

Thousands of canaries run as arrays through ``rule.advance``, the code that decides real releases. Only the tasks
are simulated: they succeed independently at fixed rates.
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
"""Tasks of both arms in a block."""


class Published(NamedTuple):
    """Published figures of this rule, which are reported with the measured ones."""

    verdict_share: float
    """Share of canaries with the expected verdict."""
    median_tasks: int
    tasks_95: int | None = None
    """95 % quantile of the candidate tasks; None = not published."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """True success rates of both versions, and the expected outcome."""

    incumbent: float
    candidate: float
    assignment: Assignment
    expected: Literal["promote", "rollback", "neither"]
    published: Published | None = None
    """None = no published figures."""

    @property
    def name(self) -> str:
        """Name of the scenario in results, e.g. ``0.70_to_0.80_dealt``."""
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
"""The first four have bars. The others have published figures, which were measured with ``dealt`` blocks."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcomes of R simulated canaries of one scenario; arrays are (R,)."""

    scenario: Scenario
    verdicts: IntArray
    """PROMOTE or ROLLBACK; every canary ends."""
    reasons: IntArray
    candidate_tasks: FloatArray
    """Tasks that the candidate served up to the verdict."""

    def is_decided(self, verdict: int) -> BoolArray:
        """Returns True (R,) for canaries with this verdict because the candidate was shown better or worse."""
        is_shown = (self.reasons == Reason.BETTER) | (self.reasons == Reason.WORSE)
        return np.asarray((self.verdicts == verdict) & is_shown)


def simulate(
    scenario: Scenario, settings: CanarySettings, *, runs: int, seed: int, block_tasks: int = BLOCK_TASKS
) -> Outcome:
    """Simulates ``runs`` canaries of the scenario, each until its verdict; equal seeds give equal outcomes."""
    rng = np.random.default_rng(seed)
    state = CanaryState.start(runs)
    verdicts, reasons = np.full(runs, HOLD), np.full(runs, int(Reason.OPEN))
    tasks = np.zeros(runs)
    running = np.ones(runs, dtype=np.bool_)
    while running.any():
        block = _draw_block(scenario, np.asarray(settings.stages)[state.stage], block_tasks, rng)
        # Decided canaries continue without effect: masking them would cost more than it saves.
        state, verdict, reason = advance(state, block, settings)
        ended = running & (verdict != HOLD)
        verdicts[ended], reasons[ended] = verdict[ended], reason[ended]
        tasks[ended] = state.totals.candidate_tasks[ended]
        running &= ~ended
    return Outcome(scenario, verdicts, reasons, tasks)


def _draw_block(scenario: Scenario, share: FloatArray, block_tasks: int, rng: np.random.Generator) -> Counts:
    """Draws one block for every canary; ``share`` (R,) is the candidate's share of the tasks."""
    if scenario.assignment == "coin":
        candidate = rng.binomial(block_tasks, share)
    else:
        candidate = np.rint(share * block_tasks).astype(np.int64)
    control = block_tasks - candidate
    zeros = np.zeros(share.size)
    return Counts(
        candidate_tasks=candidate.astype(np.float64),
        candidate_successes=rng.binomial(candidate, scenario.candidate).astype(np.float64),
        candidate_violations=zeros,
        control_tasks=control.astype(np.float64),
        control_successes=rng.binomial(control, scenario.incumbent).astype(np.float64),
        control_violations=zeros,
        missing=zeros,
    )


def simulation_results(
    settings: CanarySettings,
    *,
    runs: int,
    seed: int,
    scenarios: Sequence[Scenario] = SCENARIOS,
    on_done: Callable[[Scenario], None] = lambda _: None,
) -> tuple[Result, ...]:
    """Returns each scenario's share of verdicts, with 95 % Clopper–Pearson limits, and candidate tasks to the
    verdict.

    Bars: an identical candidate is promoted in at most 2.5 % of canaries, one at .8 over .7 in at least 95 %.
    """
    results: list[Result] = []
    for index, scenario in enumerate(scenarios):
        outcome = simulate(scenario, settings, runs=runs, seed=seed + index)
        results += _results(outcome)
        on_done(scenario)
    return tuple(results)


def _results(outcome: Outcome) -> list[Result]:
    scenario = outcome.scenario
    promoted = _share("promoted", outcome, outcome.is_decided(PROMOTE))
    rolled_back = _share("rolled_back", outcome, outcome.is_decided(ROLLBACK))
    if scenario.expected == "neither":
        promoted = replace(promoted, bar="<= 0.025", holds=float(promoted.value) <= 0.025)
        return [promoted, rolled_back, _share("inconclusive", outcome, outcome.reasons == Reason.EXHAUSTED)]
    main, code = (promoted, PROMOTE) if scenario.expected == "promote" else (rolled_back, ROLLBACK)
    if scenario.assignment == "coin":
        main = replace(main, bar=">= 0.95", holds=float(main.value) >= 0.95)
    results = [main]
    tasks, unit = outcome.candidate_tasks[outcome.is_decided(code)], "candidate tasks"
    for name, quantile in (("median_tasks", 0.5), ("tasks_95", 0.95)) if tasks.size else ():
        value = float(np.quantile(tasks, quantile))
        results.append(Result(f"{scenario.name}_{name}", value, unit, n=tasks.size))
    if (published := scenario.published) is not None:
        results.append(Result(f"{main.name}_published", published.verdict_share, "share"))
        for name, count in (("median_tasks", published.median_tasks), ("tasks_95", published.tasks_95)):
            if count is not None:
                results.append(Result(f"{scenario.name}_{name}_published", float(count), unit))
    return results


def _share(name: str, outcome: Outcome, mask: BoolArray) -> Result:
    limits = clopper_pearson_interval(int(mask.sum()), mask.size)
    return Result(f"{outcome.scenario.name}_{name}", limits.mean, "share", limits.low, limits.high, mask.size)
