"""The canary's rule, for many canaries at once: arrays in, arrays out.

``observe`` adds one episode to the evidence and ``decide`` gives the verdict on it. A recorded release runs them
with arrays of length one (``canary``), a simulation with thousands (``simulation``), so the two agree. Evidence
grows by episode, never by block: how traffic is cut into blocks changes only how often a verdict is asked for.

Seven claims about the candidate compared with the control have an e-process each (``CLAIMS``). Every claim is made
against the least favourable reading of missing outcomes: for *better* the candidate's count as failures and the
control's as successes, for *worse* the other way round. The same holds for costs that are not reported.

Order of checks, first match wins:

1. shown worse, less safe, to break hard constraints more often, or to lose more outcomes → ``rollback``
2. unusable block (no episode, or traffic not split as configured) → ``hold``; ``max_unusable_blocks`` in a row, or
``max_unjudged_episodes`` episodes in a row without a judged task → ``rollback``
3. shown better, enough candidate tasks, safety shown, hard constraints kept → ``promote``
4. ``max_candidate_episodes`` reached without a verdict → ``rollback``
5. otherwise ``hold``; a stage below the last comparison stage with enough tasks moves up"""

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from upturn.config import CanarySettings
from upturn.deployment.sequential import (
    EFFECTS,
    PRIOR_TASKS,
    FloatArray,
    arm_score,
    bet_log_factors,
    least_score,
    log_e_value,
    mismatch_log_e,
)

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

HOLD, PROMOTE, ROLLBACK = 0, 1, 2
"""Verdict codes in arrays."""

CANDIDATE, CONTROL = 0, 1
"""Arms, as an axis of arrays."""


class Reason(IntEnum):
    """Why a block got its verdict."""

    OPEN = 0
    """hold: the evidence is not yet enough."""
    ADVANCED = 1
    """hold: on to the next stage."""
    BETTER = 2
    WORSE = 3
    UNSAFE = 4
    LOSING = 5
    """rollback: more of the candidate's outcomes are missing than of the control's."""
    NO_DATA = 6
    MISMATCH = 7
    TOO_FEW = 8
    """hold: shown better, on fewer tasks than required."""
    SAFETY_OPEN = 9
    """hold: shown better, while its violations are not yet shown to be within the margin."""
    HARD_OPEN = 10
    """hold: shown better, while a hard constraint was broken or too few tasks kept it."""
    UNUSABLE = 11
    """rollback: too many unusable blocks, or unjudged episodes, in a row."""
    EXHAUSTED = 12
    """rollback: no verdict within the candidate episodes allowed."""
    HARDER = 13
    """rollback: the candidate breaks hard constraints more often."""


class Count(IntEnum):
    """What is counted in each arm."""

    EPISODES = 0
    TASKS = 1
    """Missing ones included."""
    SUCCESSES = 2
    MISSING = 3
    VIOLATIONS = 4
    HARD = 5
    """Tasks that broke a hard constraint."""
    HARD_UNREPORTED = 6
    """Tasks whose hard costs are unknown."""


class Measure(IntEnum):
    """An episode's outcome as a share of its tasks, in [0, 1]. LOW and HIGH count unknown tasks as 0 and as 1."""

    SUCCESS_LOW = 0
    SUCCESS_HIGH = 1
    VIOLATION_LOW = 2
    VIOLATION_HIGH = 3
    HARD_LOW = 4
    HARD_HIGH = 5
    MISSING = 6


class Claim(NamedTuple):
    """A one-sided claim about the difference candidate − control in a measure."""

    name: str
    direction: int
    """1: the difference is above the margin; −1: below it."""
    candidate: Measure
    """How the candidate's episodes are measured."""
    control: Measure


CLAIMS = (
    Claim("better", 1, Measure.SUCCESS_LOW, Measure.SUCCESS_HIGH),
    Claim("worse", -1, Measure.SUCCESS_HIGH, Measure.SUCCESS_LOW),
    Claim("unsafe", 1, Measure.VIOLATION_LOW, Measure.VIOLATION_HIGH),
    Claim("safe", -1, Measure.VIOLATION_HIGH, Measure.VIOLATION_LOW),
    Claim("losing", 1, Measure.MISSING, Measure.MISSING),
    Claim("harder", 1, Measure.HARD_LOW, Measure.HARD_HIGH),
    Claim("less_hard", -1, Measure.HARD_HIGH, Measure.HARD_LOW),
)
"""In the order of ``CanaryState.log_capital``. ``better`` has the margin ``minimum_effect``, ``safe``
``safety_margin``; the others have none."""

_SAFE_SCALE = 0.25
"""Bets on ``safe`` are a quarter of the others: violations are rare, and with larger bets one violation of the
candidate costs nearly all of the capital."""

_INDEX = {claim.name: index for index, claim in enumerate(CLAIMS)}
_SCALES = np.array([[_SAFE_SCALE if claim.name == "safe" else 1.0] for claim in CLAIMS])
_DIRECTIONS = np.array([claim.direction for claim in CLAIMS])[:, None]
_MEASURES = np.array([[claim.candidate for claim in CLAIMS], [claim.control for claim in CLAIMS]])


@dataclass(frozen=True, slots=True)
class Episodes:
    """One episode of each of R canaries; each array is (R,)."""

    is_candidate: BoolArray
    share: FloatArray
    """Probability with which it was assigned to the candidate."""
    tasks: FloatArray
    """Missing ones included; 0 means that this canary has no episode here."""
    successes: FloatArray
    missing: FloatArray
    violations: FloatArray
    hard_violations: FloatArray
    unreported: FloatArray
    """Tasks whose safety costs are unknown."""
    hard_unreported: FloatArray

    def counts(self) -> FloatArray:
        """(C, R) in the order of ``Count``."""
        return np.array(
            [
                self.tasks > 0,
                self.tasks,
                self.successes,
                self.missing,
                self.violations,
                self.hard_violations,
                self.hard_unreported,
            ],
            dtype=np.float64,
        )

    def measures(self) -> FloatArray:
        """(M, R) in the order of ``Measure``."""
        events = np.array([self.successes, self.violations, self.hard_violations], dtype=np.float64)
        unknown = np.array([self.missing, self.unreported, self.hard_unreported], dtype=np.float64)
        low_high = np.stack([events, events + unknown], axis=1).reshape(6, -1)
        return np.asarray(np.concatenate([low_high, self.missing[None]]) / np.maximum(self.tasks, 1.0))


@dataclass(frozen=True, slots=True)
class CanaryState:
    """The evidence of R canaries."""

    counts: FloatArray
    """(2, C, R): totals by arm and ``Count``."""
    sums: FloatArray
    """(2, M, R): sums over episodes by arm and ``Measure``."""
    squares: FloatArray
    """(2, M, R): sums of squares."""
    log_capital: FloatArray
    """(K, E, R): by ``CLAIMS`` and ``EFFECTS``."""
    split: FloatArray
    """(S, 2, R): episodes by the stage that they were assigned in, and arm."""
    stage: FloatArray
    """(R,): index into the stages."""
    stage_tasks: FloatArray
    """(R,): the candidate's tasks when the present stage began."""
    unusable: FloatArray
    """(R,): unusable blocks in a row."""
    unjudged: FloatArray
    """(R,): episodes in a row without a judged task."""

    @classmethod
    def start(cls, runs: int, stages: int) -> "CanaryState":
        """R canaries with this many stages, before their first episode."""
        arms = (2, len(Measure), runs)
        zeros = [np.zeros(runs) for _ in range(4)]
        capital = np.zeros((len(CLAIMS), len(EFFECTS), runs))
        return cls(
            np.zeros((2, len(Count), runs)),
            np.zeros(arms),
            np.zeros(arms),
            capital,
            np.zeros((stages, 2, runs)),
            *zeros,
        )

    def take(self, runs: BoolArray) -> "CanaryState":
        """The state of these runs only."""
        return CanaryState(*(getattr(self, field.name)[..., runs] for field in fields(self)))

    def count(self, arm: int, what: Count) -> FloatArray:
        """(R,): a total of one arm."""
        return np.asarray(self.counts[arm, what])

    def log_e(self, name: str) -> FloatArray:
        """(R,): log e-value of a claim."""
        return log_e_value(self.log_capital[_INDEX[name]])

    def log_e_mismatch(self, settings: CanarySettings) -> FloatArray:
        """(R,): log e-value against the configured split of episodes, the product over the stages."""
        shares = np.asarray(settings.stages)[:, None]
        compared = slice(0, settings.last_comparison + 1)
        split = self.split[compared]
        return np.asarray(mismatch_log_e(split[:, CANDIDATE], split[:, CONTROL], shares[compared]).sum(axis=0))


class Step(NamedTuple):
    """The state after a block, and the verdict on it, each (R,)."""

    state: CanaryState
    verdict: IntArray
    """HOLD, PROMOTE or ROLLBACK."""
    reason: IntArray
    """``Reason`` codes."""


def observe(state: CanaryState, episodes: Episodes, settings: CanarySettings) -> CanaryState:
    """The state with one more episode of each canary; the inputs are not changed."""
    is_present = episodes.tasks > 0
    arm = np.where(episodes.is_candidate, CANDIDATE, CONTROL)
    in_arm = np.stack([episodes.is_candidate, ~episodes.is_candidate])[:, None] & is_present
    outcomes = episodes.measures()
    nearest = np.abs(np.asarray(settings.stages)[:, None] - episodes.share).argmin(axis=0)
    split = state.split.copy()
    split[nearest, arm, np.arange(arm.size)] += is_present
    judged = episodes.tasks - episodes.missing
    return replace(
        state,
        counts=state.counts + in_arm * episodes.counts(),
        sums=state.sums + in_arm * outcomes,
        squares=state.squares + in_arm * outcomes**2,
        log_capital=state.log_capital + is_present * _log_factors(state, episodes, outcomes, settings),
        split=split,
        unjudged=np.where(judged > 0, 0.0, state.unjudged + is_present),
    )


def _log_factors(
    state: CanaryState, episodes: Episodes, outcomes: FloatArray, settings: CanarySettings
) -> FloatArray:
    """(K, E, R): the growth of every claim's capital by this episode, with bets fixed by the episodes before."""
    share, arms = episodes.share, np.array([[CANDIDATE], [CONTROL]])
    weight = state.counts[:, [Count.EPISODES]] + PRIOR_TASKS
    means = ((state.sums + 0.5 * PRIOR_TASKS) / weight)[arms, _MEASURES]
    mean_squares = ((state.squares + 0.5 * PRIOR_TASKS) / weight)[arms, _MEASURES]
    shares = np.stack([share, 1.0 - share])[:, None]
    centre = (shares * means).sum(axis=0)
    variance = (shares * mean_squares).sum(axis=0) - centre**2
    outcome = np.where(episodes.is_candidate, outcomes[_MEASURES[CANDIDATE]], outcomes[_MEASURES[CONTROL]])
    margins = {"better": settings.minimum_effect or 0.0, "safe": settings.safety_margin}
    margin = np.array([[margins.get(claim.name, 0.0)] for claim in CLAIMS])
    offset = -_DIRECTIONS * share * (1.0 - share) * margin
    gain = _DIRECTIONS * arm_score(episodes.is_candidate, outcome, share, centre) + offset
    least = np.minimum(least_score(share, centre, _DIRECTIONS) + offset, -1e-12)
    return bet_log_factors(gain, least, variance, _SCALES).swapaxes(0, 1)


def decide(
    state: CanaryState, settings: CanarySettings, *, has_episodes: BoolArray, has_costs: BoolArray, attempt: int = 1
) -> Step:
    """The verdict on each canary after a block, and its next state. Raises ValueError for the last stage.

    ``has_episodes`` is False where the block was empty. ``has_costs`` is False where no evaluation reported a
    safety cost; there is nothing to show about safety then. ``attempt``: see
    ``CanarySettings.promotion_threshold``."""
    if (state.stage > settings.last_comparison).any():
        raise ValueError("the canary's rule compares two arms; the last stage has none to compare with")
    is_mismatched = state.log_e_mismatch(settings) >= np.log(1.0 / settings.mismatch_alpha)
    unusable = np.where(~has_episodes | is_mismatched, state.unusable + 1, 0)
    state = replace(state, unusable=unusable)
    promotes, rolls_back = np.log(settings.promotion_threshold(attempt)), np.log(settings.threshold)
    is_better = state.log_e("better") >= promotes
    tasks = state.count(CANDIDATE, Count.TASKS)
    judged = tasks - state.count(CANDIDATE, Count.MISSING)
    is_short = judged < settings.min_candidate_tasks
    is_safe = ~has_costs | (state.log_e("safe") >= promotes)
    has_hard = bool(settings.hard_costs)
    keeps_hard = _keeps_hard(state, settings) | (state.log_e("less_hard") >= promotes) | (not has_hard)
    is_usable = (unusable < settings.max_unusable_blocks) & (state.unjudged < settings.max_unjudged_episodes)
    cases: list[tuple[BoolArray, int, Reason]] = [
        (state.log_e("worse") >= rolls_back, ROLLBACK, Reason.WORSE),
        (state.log_e("unsafe") >= rolls_back, ROLLBACK, Reason.UNSAFE),
        (has_hard & (state.log_e("harder") >= rolls_back), ROLLBACK, Reason.HARDER),
        (state.log_e("losing") >= rolls_back, ROLLBACK, Reason.LOSING),
        (~is_usable, ROLLBACK, Reason.UNUSABLE),
        (is_mismatched, HOLD, Reason.MISMATCH),
        (~has_episodes, HOLD, Reason.NO_DATA),
        (is_better & ~is_short & is_safe & keeps_hard, PROMOTE, Reason.BETTER),
        (state.count(CANDIDATE, Count.EPISODES) >= settings.max_candidate_episodes, ROLLBACK, Reason.EXHAUSTED),
        (is_better & is_short, HOLD, Reason.TOO_FEW),
        (is_better & ~keeps_hard, HOLD, Reason.HARD_OPEN),
        (is_better & ~is_safe, HOLD, Reason.SAFETY_OPEN),
    ]
    masks = [mask for mask, _, _ in cases]
    verdict = np.select(masks, [code for _, code, _ in cases], HOLD).astype(np.int64)
    reason = np.select(masks, [int(reason) for _, _, reason in cases], int(Reason.OPEN)).astype(np.int64)
    rises = (verdict == HOLD) & (reason != Reason.MISMATCH) & (reason != Reason.NO_DATA)
    rises &= (state.stage < settings.last_comparison) & (tasks - state.stage_tasks >= settings.min_candidate_tasks)
    moved = replace(state, stage=state.stage + rises, stage_tasks=np.where(rises, tasks, state.stage_tasks))
    return Step(moved, verdict, np.where(rises & (reason == Reason.OPEN), int(Reason.ADVANCED), reason))


def _keeps_hard(state: CanaryState, settings: CanarySettings) -> BoolArray:
    """(R,): the candidate broke no hard constraint, and its rate of violations is shown to be small enough.

    The exact upper 95 % limit of the rate must be at most that of 0 violations in ``hard_tasks`` tasks, where a
    task with unknown costs counts as a violation."""
    tasks, unknown = state.count(CANDIDATE, Count.TASKS), state.count(CANDIDATE, Count.HARD_UNREPORTED)
    limit = 1.0 - 0.05 ** (1.0 / settings.hard_tasks)
    upper = betaincinv(unknown + 1.0, np.maximum(tasks - unknown, 1e-9), 0.95)
    return np.asarray((state.count(CANDIDATE, Count.HARD) == 0) & (upper <= limit * (1.0 + 1e-9)))
