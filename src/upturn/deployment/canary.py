"""One release's canary as a pure state machine on records: ``step(release, block) -> release``.

The release's evidence contains the complete state of the rule, so a canary can be resumed after any block. A
verdict is final: a decided release accepts no more blocks. The last stage has no control arm. With ``watch_tasks``
set, the promoted candidate is then tested against the incumbent's recorded rates (state ``watch``). These rates are
taken as known: the test ignores their sampling error, and the reason of every such block states this.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import NamedTuple, assert_never

import numpy as np

from upturn.config import CanarySettings
from upturn.deployment.rule import HOLD, PROMOTE, ROLLBACK, CanaryState, Counts, Reason, advance, is_unusable
from upturn.deployment.sequential import PRIOR_WEIGHT, one_arm_log_factor, posterior_mean
from upturn.errors import ReleaseError
from upturn.records import Arm, CanaryVerdict, Evaluation, Release, ReleaseEvidence, ReleaseState

_VERDICTS: dict[int, CanaryVerdict] = {HOLD: "hold", PROMOTE: "promote", ROLLBACK: "rollback"}


class Served(NamedTuple):
    """One task that was served during a canary."""

    arm: Arm
    """The arm in the arbiter's decision."""
    evaluation: Evaluation | None
    """None = not evaluated, which counts like the verdict ``missing``."""


@dataclass(frozen=True, slots=True)
class Block:
    """Counts of the tasks served since the last step; all were routed in the release's current stage."""

    candidate_tasks: int = 0
    candidate_successes: int = 0
    control_tasks: int = 0
    control_successes: int = 0
    missing: int = 0
    """Tasks of either arm without an evaluation; in no other count."""
    candidate_violations: int = 0
    """Tasks with any safety cost."""
    control_violations: int = 0

    def __post_init__(self) -> None:
        is_valid = (
            0 <= self.candidate_successes <= self.candidate_tasks
            and 0 <= self.control_successes <= self.control_tasks
            and 0 <= self.candidate_violations <= self.candidate_tasks
            and 0 <= self.control_violations <= self.control_tasks
            and self.missing >= 0
        )
        if not is_valid:
            raise ValueError(f"successes and violations must be in 0..tasks of their arm, missing >= 0: {self!r}")

    @classmethod
    def of(cls, served: Iterable[Served], safety_costs: Sequence[str] | None = None) -> "Block":
        """Counts served tasks; ``safety_costs`` names the cost components that are violations (None = all)."""
        counts = asdict(cls())
        for arm, evaluation in served:
            if evaluation is None or evaluation.verdict == "missing":
                counts["missing"] += 1
                continue
            names = evaluation.costs if safety_costs is None else safety_costs
            counts[f"{arm}_tasks"] += 1
            counts[f"{arm}_successes"] += evaluation.is_success
            counts[f"{arm}_violations"] += any(evaluation.costs.get(name, 0.0) > 0 for name in names)
        return cls(**counts)


class Canary:
    """Advances releases by blocks of served tasks; stateless."""

    def __init__(self, settings: CanarySettings) -> None:
        self.settings = settings

    def step(self, release: Release, block: Block) -> Release:
        """Returns the release after ``block``, with its evidence and verdict appended.

        The stages are those of the release, not of the settings. Raises ReleaseError if the release is decided.
        """
        match release.state:
            case "canary":
                return self._compare(release, block)
            case "watch":
                return self._watch(release, block)
            case "promoted" | "rolled_back":
                raise ReleaseError(
                    f"release {release.id!r} is {release.state!r} and a verdict is final; "
                    "start a new release to test again"
                )
            case _:
                assert_never(release.state)

    def _compare(self, release: Release, block: Block) -> Release:
        settings = replace(self.settings, stages=release.stages)
        state = canary_state(release, settings)
        moved, verdicts, reasons = advance(state, _counts(block), settings)
        verdict, reason, stage = int(verdicts[0]), Reason(int(reasons[0])), int(moved.stage[0])
        explanation = _explain(reason, moved, settings)
        if release.is_held and reason not in (Reason.WORSE, Reason.UNSAFE):
            verdict, stage = HOLD, release.stage
            explanation = f"held by an operator; otherwise: {explanation}"
        evidence = _evidence(release, moved, _VERDICTS[verdict], explanation)
        new_state: ReleaseState = "canary"
        if verdict == PROMOTE:
            new_state = "watch" if settings.watch_tasks else "promoted"
            stage = len(release.stages) - 1
        elif verdict == ROLLBACK:
            new_state = "rolled_back"
        return replace(release, state=new_state, stage=stage, evidence=(*release.evidence, evidence))

    def _watch(self, release: Release, block: Block) -> Release:
        """Tests one block in the last stage against the incumbent's recorded rates."""
        start, last = _stage_start(release), release.evidence[-1]
        served = last.candidate_tasks - start.candidate_tasks
        log_e_worse = last.log_e_worse + _one_arm_factor(
            (block.candidate_tasks, block.candidate_tasks - block.candidate_successes),
            (served, served - (last.candidate_successes - start.candidate_successes)),
            (start.control_tasks, start.control_tasks - start.control_successes),
        )
        log_e_unsafe = last.log_e_unsafe + _one_arm_factor(
            (block.candidate_tasks, block.candidate_violations),
            (served, last.candidate_violations - start.candidate_violations),
            (start.control_tasks, start.control_violations),
        )
        served += block.candidate_tasks
        threshold = math.log(self.settings.threshold)
        verdict: CanaryVerdict = "hold"
        new_state: ReleaseState = "watch"
        explanation = f"no drop after promotion in {served} tasks so far"
        if log_e_worse >= threshold or log_e_unsafe >= threshold:
            verdict, new_state = "rollback", "rolled_back"
            harm = "less successful" if log_e_worse >= threshold else "less safe"
            e_value = _format_e(max(log_e_worse, log_e_unsafe))
            explanation = f"shown {harm} than the incumbent: E = {e_value} after {served} tasks"
        elif served >= self.settings.watch_tasks:
            new_state = "promoted"
            explanation = f"no drop after promotion in {served} tasks; the promotion is final"
        rate = start.control_successes / max(start.control_tasks, 1)
        recorded = f"the incumbent's recorded success rate of {rate:.3f} in {start.control_tasks} tasks"
        evidence = replace(
            last,
            block=len(release.evidence),
            stage=release.stage,
            log_e_worse=log_e_worse,
            log_e_unsafe=log_e_unsafe,
            verdict=verdict,
            reason=f"{explanation} (compared with {recorded}, taken as known)",
            **{name: getattr(last, name) + count for name, count in asdict(block).items()},
        )
        return replace(release, state=new_state, evidence=(*release.evidence, evidence))


def canary_state(release: Release, settings: CanarySettings) -> CanaryState:
    """Returns the rule's state from the release's evidence, as arrays of length one."""
    if not release.evidence:
        return CanaryState.start(1)
    last = release.evidence[-1]
    return CanaryState(
        totals=_counts(last),
        stage=np.array([release.stage]),
        stage_start=_counts(_stage_start(release)),
        log_e_better=np.array([last.log_e_better]),
        log_e_worse=np.array([last.log_e_worse]),
        log_e_unsafe=np.array([last.log_e_unsafe]),
        log_e_mismatch=np.array([last.log_e_mismatch]),
        unusable=np.array([_unusable_streak(release.evidence, settings)]),
    )


_NO_EVIDENCE = ReleaseEvidence(-1, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, "hold", "")
"""Totals before the first block."""


def _stage_start(release: Release) -> ReleaseEvidence:
    """Returns the last evidence before the release's current stage."""
    earlier = [evidence for evidence in release.evidence if evidence.stage < release.stage]
    return earlier[-1] if earlier else _NO_EVIDENCE


def _unusable_streak(evidence: Sequence[ReleaseEvidence], settings: CanarySettings) -> int:
    """Returns the number of unusable blocks in a row at the end of the evidence."""
    streak = 0
    for before, after in reversed([*pairwise((_NO_EVIDENCE, *evidence))]):
        block = _counts(after) - _counts(before)
        if not is_unusable(block, np.array([after.log_e_mismatch]), settings)[0]:
            break
        streak += 1
    return streak


def _one_arm_factor(block: tuple[int, int], past: tuple[int, int], reference: tuple[int, int]) -> float:
    """Returns the log factor of "more bad tasks than in the reference"; each argument is (tasks, bad tasks).

    It is 0 unless the past was worse than the reference. The predicted rate starts at the reference, so the first
    block is no evidence, as with two arms.
    """
    known = float(posterior_mean(reference[1], reference[0]))
    weight = 2.0 * PRIOR_WEIGHT
    predicted = (past[1] + weight * known) / (past[0] + weight)
    return float(one_arm_log_factor(block[0], block[1], predicted, known)) if predicted > known else 0.0


def _counts(totals: Block | ReleaseEvidence) -> Counts:
    """Returns the record's counts as arrays of length one."""
    return Counts(*(np.array([float(getattr(totals, field.name))]) for field in fields(Counts)))


def _evidence(release: Release, state: CanaryState, verdict: CanaryVerdict, reason: str) -> ReleaseEvidence:
    counts = {field.name: int(getattr(state.totals, field.name)[0]) for field in fields(Counts)}
    return ReleaseEvidence(
        block=len(release.evidence),
        stage=release.stage,
        log_e_better=float(state.log_e_better[0]),
        log_e_worse=float(state.log_e_worse[0]),
        log_e_mismatch=float(state.log_e_mismatch[0]),
        log_e_unsafe=float(state.log_e_unsafe[0]),
        verdict=verdict,
        reason=reason,
        **counts,
    )


def _format_e(log_e: float) -> str:
    """Formats an e-value; ``>1e300`` for larger values, which would overflow."""
    return f"{math.exp(log_e):.3g}" if log_e < 690 else ">1e300"


_REASON_TEXTS: dict[Reason, str] = {
    Reason.OPEN: "not decided after {tasks} candidate tasks: E(better) = {better}, E(worse) = {worse}, bar {bar:g}",
    Reason.ADVANCED: "no alarm in this stage; the candidate's share rises to {share:.0%}",
    Reason.BETTER: "shown better: E = {better} ≥ {bar:g} after {tasks} candidate tasks",
    Reason.WORSE: "shown worse: E = {worse} ≥ {bar:g} after {tasks} candidate tasks",
    Reason.UNSAFE: "shown less safe: E = {unsafe} ≥ {bar:g} after {tasks} candidate tasks",
    Reason.NO_DATA: "no task was evaluated; unusable block {unusable} of {patience} in a row that mean rollback",
    Reason.MISSING: "more than {s.max_missing_share:.0%} of the block's evaluations are missing; "
    "unusable block {unusable} of {patience} in a row that mean rollback",
    Reason.MISMATCH: "traffic is not split as configured: E = {mismatch} ≥ {alarm:g}; "
    "unusable block {unusable} of {patience} in a row that mean rollback",
    Reason.TOO_FEW: "E(better) = {better} on {tasks} candidate tasks; promotion needs {s.min_candidate_tasks}",
    Reason.SMALL_EFFECT: "E(better) = {better}, but an effect above {s.minimum_effect} is not shown yet",
    Reason.SAFETY_OPEN: "E(better) = {better}, but the candidate's violation rate is more than "
    "{s.safety_margin:g} above the control's",
    Reason.PATIENCE: "{unusable} unusable blocks in a row, which reaches the limit (patience_blocks)",
    Reason.EXHAUSTED: "inconclusive after {tasks} of {s.max_candidate_tasks} candidate tasks",
}


def _explain(reason: Reason, state: CanaryState, settings: CanarySettings) -> str:
    """Returns the reason of a block's verdict as a sentence with its figures."""
    return _REASON_TEXTS[reason].format(
        tasks=int(state.totals.candidate_tasks[0]),
        better=_format_e(float(state.log_e_better[0])),
        worse=_format_e(float(state.log_e_worse[0])),
        unsafe=_format_e(float(state.log_e_unsafe[0])),
        mismatch=_format_e(float(state.log_e_mismatch[0])),
        unusable=int(state.unusable[0]),
        patience=settings.patience_blocks,
        bar=settings.threshold,
        alarm=1.0 / settings.mismatch_alpha,
        share=settings.stages[int(state.stage[0])],
        s=settings,
    )
