"""The canary's decision rule, for many canaries at once: arrays in, arrays out.

Every canary decision is made by ``advance``: ``canary`` calls it with arrays of length one for a recorded release,
``simulation`` with thousands of canaries.

Order of checks after each block; the first match gives the verdict:

1. shown worse or less safe → ``rollback``
2. unusable block (nothing evaluated, too much missing, traffic not split as configured) → ``hold``; the
   ``patience_blocks``-th in a row → ``rollback``
3. shown better, on enough candidate tasks, with the required effect and safety → ``promote``
4. ``max_candidate_tasks`` reached without a verdict → ``rollback``
5. otherwise ``hold``; a stage before the last comparison that has enough tasks moves to the next one

The evidence for "better" and for "worse" are two one-sided e-processes. Each multiplies only the factors of blocks
before which the *past* favoured its direction, and both continue across stages. The probability of a false alarm is
at most alpha/2 for each, at any number of looks.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upturn.config import CanarySettings
from upturn.deployment.sequential import (
    FloatArray,
    asymptotic_half_width,
    mismatch_log_e,
    posterior_mean,
    two_arm_log_factor,
)

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

HOLD, PROMOTE, ROLLBACK = 0, 1, 2
"""Verdict codes in arrays."""


class Reason(IntEnum):
    """Reason of a verdict."""

    OPEN = 0
    """hold: not enough evidence."""
    ADVANCED = 1
    """hold: the canary moves to the next stage."""
    BETTER = 2
    WORSE = 3
    UNSAFE = 4
    NO_DATA = 5
    MISSING = 6
    MISMATCH = 7
    TOO_FEW = 8
    """hold: shown better, on fewer tasks than required."""
    SMALL_EFFECT = 9
    """hold: shown better, but not by the required effect."""
    SAFETY_OPEN = 10
    """hold: shown better, but the candidate's violation rate is too far above the control's."""
    PATIENCE = 11
    """rollback: too many unusable blocks in a row."""
    EXHAUSTED = 12
    """rollback: no verdict within ``max_candidate_tasks``."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Task counts of both arms; each field is (R,) for R canaries. Missing evaluations are in no other count."""

    candidate_tasks: FloatArray
    candidate_successes: FloatArray
    candidate_violations: FloatArray
    """Tasks with any safety cost."""
    control_tasks: FloatArray
    control_successes: FloatArray
    control_violations: FloatArray
    missing: FloatArray
    """Tasks of either arm without an evaluation."""

    def __add__(self, other: "Counts") -> "Counts":
        return self._combine(other, np.add)

    def __sub__(self, other: "Counts") -> "Counts":
        return self._combine(other, np.subtract)

    def where(self, mask: BoolArray, other: "Counts") -> "Counts":
        """Returns these counts where ``mask`` is True and the other's elsewhere."""
        return self._combine(other, lambda left, right: np.where(mask, left, right))

    def _combine(self, other: "Counts", operation: Callable[[FloatArray, FloatArray], FloatArray]) -> "Counts":
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Counts(*(operation(left, right) for left, right in pairs))

    @classmethod
    def zeros(cls, runs: int) -> "Counts":
        """Returns zero counts for ``runs`` canaries."""
        return cls(*(np.zeros(runs) for _ in fields(cls)))


@dataclass(frozen=True, slots=True)
class CanaryState:
    """The evidence of R canaries; each array is (R,)."""

    totals: Counts
    stage: IntArray
    stage_start: Counts
    """The totals at the start of the current stage."""
    log_e_better: FloatArray
    log_e_worse: FloatArray
    log_e_unsafe: FloatArray
    log_e_mismatch: FloatArray
    unusable: IntArray
    """Number of unusable blocks in a row up to now."""

    @classmethod
    def start(cls, runs: int) -> "CanaryState":
        """Returns the state of ``runs`` canaries before their first block."""
        zeros, ints = np.zeros(runs), np.zeros(runs, dtype=np.int64)
        return cls(Counts.zeros(runs), ints, Counts.zeros(runs), zeros, zeros, zeros, zeros, ints)


class Step(NamedTuple):
    """The state after a block and the verdict on it, each (R,)."""

    state: CanaryState
    verdict: IntArray
    """HOLD, PROMOTE or ROLLBACK."""
    reason: IntArray
    """``Reason`` codes."""


def advance(state: CanaryState, block: Counts, settings: CanarySettings) -> Step:
    """Returns the state and verdict of every canary after one more block; the inputs are not changed.

    Raises ValueError in the last stage, which has no control arm.
    """
    if (state.stage > settings.last_comparison).any():
        raise ValueError("the canary's rule compares two arms; the last stage has no control arm")
    updated = _add_evidence(state, block, settings)
    verdict, reason = _verdict(updated, block, settings)
    enough = updated.totals.candidate_tasks - updated.stage_start.candidate_tasks >= settings.min_candidate_tasks
    rises = (verdict == HOLD) & (reason == Reason.OPEN) & (updated.stage < settings.last_comparison) & enough
    stage_start = updated.totals.where(rises, updated.stage_start)
    moved = replace(updated, stage=updated.stage + rises, stage_start=stage_start)
    return Step(moved, verdict, np.where(rises, int(Reason.ADVANCED), reason))


def is_unusable(block: Counts, log_e_mismatch: FloatArray, settings: CanarySettings) -> BoolArray:
    """Returns True (R,) for blocks with nothing evaluated, too much missing, or a wrong traffic split."""
    evaluated = block.candidate_tasks + block.control_tasks
    is_missing = block.missing > settings.max_missing_share * (evaluated + block.missing)
    return np.asarray((evaluated == 0) | is_missing | _is_mismatch(log_e_mismatch, settings))


def _is_mismatch(log_e_mismatch: FloatArray, settings: CanarySettings) -> BoolArray:
    return np.asarray(log_e_mismatch >= np.log(1.0 / settings.mismatch_alpha))


def _add_evidence(state: CanaryState, block: Counts, settings: CanarySettings) -> CanaryState:
    """Returns the state with the block's counts and evidence added; the stage is unchanged."""
    past, totals = state.totals, state.totals + block
    tasks = (block.candidate_tasks, block.control_tasks)
    success_rates = (
        posterior_mean(past.candidate_successes, past.candidate_tasks),
        posterior_mean(past.control_successes, past.control_tasks),
    )
    quality = two_arm_log_factor(tasks, (block.candidate_successes, block.control_successes), success_rates)
    violation_rates = (
        posterior_mean(past.candidate_violations, past.candidate_tasks),
        posterior_mean(past.control_violations, past.control_tasks),
    )
    harm = two_arm_log_factor(tasks, (block.candidate_violations, block.control_violations), violation_rates)
    share = np.asarray(settings.stages)[state.stage]
    before, after = past - state.stage_start, totals - state.stage_start
    log_e_mismatch = (
        state.log_e_mismatch
        + mismatch_log_e(after.candidate_tasks, after.control_tasks, share)
        - mismatch_log_e(before.candidate_tasks, before.control_tasks, share)
    )
    return replace(
        state,
        totals=totals,
        log_e_better=state.log_e_better + np.where(success_rates[0] > success_rates[1], quality, 0.0),
        log_e_worse=state.log_e_worse + np.where(success_rates[0] < success_rates[1], quality, 0.0),
        log_e_unsafe=state.log_e_unsafe + np.where(violation_rates[0] > violation_rates[1], harm, 0.0),
        log_e_mismatch=log_e_mismatch,
        unusable=np.where(is_unusable(block, log_e_mismatch, settings), state.unusable + 1, 0),
    )


def _verdict(state: CanaryState, block: Counts, settings: CanarySettings) -> tuple[IntArray, IntArray]:
    """Returns verdict and reason codes (R,), by the order of checks in the module's docstring."""
    threshold, totals = np.log(settings.threshold), state.totals
    is_bad_block = state.unusable > 0
    is_better = state.log_e_better >= threshold
    is_short = totals.candidate_tasks < settings.min_candidate_tasks
    is_small = effect_lower_limit(totals, settings) <= (settings.minimum_effect or 0.0)
    is_small &= settings.minimum_effect is not None
    is_harmful = violation_excess(totals) > settings.safety_margin
    cases: list[tuple[BoolArray, int, Reason]] = [
        (state.log_e_worse >= threshold, ROLLBACK, Reason.WORSE),
        (state.log_e_unsafe >= threshold, ROLLBACK, Reason.UNSAFE),
        (state.unusable >= settings.patience_blocks, ROLLBACK, Reason.PATIENCE),
        (is_bad_block & _is_mismatch(state.log_e_mismatch, settings), HOLD, Reason.MISMATCH),
        (is_bad_block & (block.missing > 0), HOLD, Reason.MISSING),
        (is_bad_block & (block.candidate_tasks + block.control_tasks == 0), HOLD, Reason.NO_DATA),
        (is_better & ~is_short & ~is_small & ~is_harmful, PROMOTE, Reason.BETTER),
        (totals.candidate_tasks >= settings.max_candidate_tasks, ROLLBACK, Reason.EXHAUSTED),
        (is_better & is_short, HOLD, Reason.TOO_FEW),
        (is_better & is_small, HOLD, Reason.SMALL_EFFECT),
        (is_better & is_harmful, HOLD, Reason.SAFETY_OPEN),
    ]
    masks = [mask for mask, _, _ in cases]
    verdict = np.select(masks, [code for _, code, _ in cases], HOLD)
    reason = np.select(masks, [int(reason) for _, _, reason in cases], int(Reason.OPEN))
    return verdict.astype(np.int64), reason.astype(np.int64)


def effect_lower_limit(totals: Counts, settings: CanarySettings) -> FloatArray:
    """Returns the lower limit (R,) of candidate minus control success rate, valid at every look.

    It comes from the asymptotic confidence sequence of the difference.
    """
    n_a, n_b = totals.candidate_tasks, totals.control_tasks
    p_a, p_b = posterior_mean(totals.candidate_successes, n_a), posterior_mean(totals.control_successes, n_b)
    error = np.sqrt(p_a * (1.0 - p_a) / np.maximum(n_a, 1.0) + p_b * (1.0 - p_b) / np.maximum(n_b, 1.0))
    # Tightest at half of max_candidate_tasks in each arm, where a verdict on a small effect is most likely.
    half = asymptotic_half_width(
        error, n_a + n_b, alpha=settings.alpha, planned_n=float(settings.max_candidate_tasks)
    )
    return np.asarray(p_a - p_b - half)


def violation_excess(totals: Counts) -> FloatArray:
    """Returns the candidate's minus the control's observed violation rate (R,); without tasks a rate is 0."""
    candidate = totals.candidate_violations / np.maximum(totals.candidate_tasks, 1.0)
    return np.asarray(candidate - totals.control_violations / np.maximum(totals.control_tasks, 1.0))
