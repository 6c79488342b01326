"""One release's canary as a pure state machine on records: ``step(release, block) -> release``.

The release's evidence holds the rule's whole state, so a canary can be resumed at any block and the next verdict
depends on nothing else. A verdict is recorded once: a decided release takes no more blocks. At 100 % there is no
control arm: with a watch configured, the promoted candidate is tested against the incumbent's recorded rates, taken
as known (their sampling error is not in the test; every such block's reason says so).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, assert_never

import numpy as np

from upturn.config import CanarySettings
from upturn.deployment.rule import HOLD, PROMOTE, ROLLBACK, CanaryState, Counts, Reason, advance, is_unusable
from upturn.deployment.sequential import PRIOR_WEIGHT, one_arm_log_factor, posterior_mean
from upturn.errors import ReleaseError
from upturn.records import Arm, CanaryVerdict, Evaluation, Release, ReleaseEvidence, ReleaseState

_VERDICTS: dict[int, CanaryVerdict] = {HOLD: "hold", PROMOTE: "promote", ROLLBACK: "rollback"}


class Served(NamedTuple):
    """One task served while a canary ran."""

    arm: Arm
    """As the arbiter's decision recorded it."""
    evaluation: Evaluation | None
    """None: not judged. An evaluation with the verdict ``missing`` counts the same."""


@dataclass(frozen=True, slots=True)
class Block:
    """Tasks served since the last step, judged ones by arm; all of them routed at the release's present stage."""

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
        within = (
            0 <= self.candidate_successes <= self.candidate_tasks
            and 0 <= self.control_successes <= self.control_tasks
            and 0 <= self.candidate_violations <= self.candidate_tasks
            and 0 <= self.control_violations <= self.control_tasks
            and self.missing >= 0
        )
        if not within:
            raise ValueError(
                f"successes and violations must lie in 0..tasks of their arm, and no count below 0: {self!r}"
            )

    @classmethod
    def of(cls, served: Iterable[Served], safety_costs: Sequence[str] | None = None) -> "Block":
        """Counts of served tasks; ``safety_costs`` names the cost components that are violations (None = all)."""
        counts = {name: 0 for name in cls.__dataclass_fields__}
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
    """Advances releases under one set of settings; stateless."""

    def __init__(self, settings: CanarySettings) -> None:
        self.settings = settings

    def step(self, release: Release, block: Block) -> Release:
        """The release after ``block``, with the evidence and verdict appended.

        The stages are the release's own. Raises ReleaseError for a release that is already decided.
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
        after: ReleaseState = "canary"
        if verdict == PROMOTE:
            after = "watch" if settings.watch_tasks else "promoted"
            stage = len(release.stages) - 1
        elif verdict == ROLLBACK:
            after = "rolled_back"
        return replace(release, state=after, stage=stage, evidence=(*release.evidence, evidence))

    def _watch(self, release: Release, block: Block) -> Release:
        """One block at 100 %: the same evidence against the incumbent's recorded rates."""
        settings = replace(self.settings, stages=release.stages)
        start, last = _stage_start(release), release.evidence[-1]
        served = last.candidate_tasks - start.candidate_tasks
        log_e_worse = last.log_e_worse + _watched_factor(
            (block.candidate_tasks, block.candidate_tasks - block.candidate_successes),
            (served, served - (last.candidate_successes - start.candidate_successes)),
            (start.control_tasks, start.control_tasks - start.control_successes),
        )
        log_e_unsafe = last.log_e_unsafe + _watched_factor(
            (block.candidate_tasks, block.candidate_violations),
            (served, last.candidate_violations - start.candidate_violations),
            (start.control_tasks, start.control_violations),
        )
        served += block.candidate_tasks
        enough = math.log(settings.threshold)
        verdict: CanaryVerdict = "hold"
        after: ReleaseState = "watch"
        explanation = f"watched for {served} tasks"
        if log_e_worse >= enough or log_e_unsafe >= enough:
            verdict, after = "rollback", "rolled_back"
            harm = "less successful" if log_e_worse >= enough else "less safe"
            explanation = f"shown {harm} than before: E = {_e(max(log_e_worse, log_e_unsafe))} after {served} tasks"
        elif served >= settings.watch_tasks:
            after = "promoted"
            explanation = f"the watch ended after {served} tasks without a drop; the promotion stands"
        rate = start.control_successes / max(start.control_tasks, 1)
        totals = _counts(last).plus(_counts(block))
        state = replace(
            canary_state(release, settings),
            totals=totals,
            log_e_worse=np.array([log_e_worse]),
            log_e_unsafe=np.array([log_e_unsafe]),
        )
        explanation += (
            f" (against the incumbent's recorded {rate:.3f} of {start.control_tasks} tasks, taken as known)"
        )
        return replace(
            release, state=after, evidence=(*release.evidence, _evidence(release, state, verdict, explanation))
        )


def canary_state(release: Release, settings: CanarySettings) -> CanaryState:
    """The rule's state of a release, from its evidence; arrays of length one."""
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
    """The evidence with which the release entered its present stage."""
    earlier = [evidence for evidence in release.evidence if evidence.stage < release.stage]
    return earlier[-1] if earlier else _NO_EVIDENCE


def _unusable_streak(evidence: Sequence[ReleaseEvidence], settings: CanarySettings) -> int:
    """Unusable blocks in a row at the end of the evidence."""
    streak = 0
    before = (_NO_EVIDENCE, *evidence[:-1])
    for last, now in zip(reversed(before), reversed(evidence), strict=True):
        block = _counts(now).minus(_counts(last))
        if not is_unusable(block, np.array([now.log_e_mismatch]), settings)[0]:
            break
        streak += 1
    return streak


def _watched_factor(block: tuple[int, int], past: tuple[int, int], reference: tuple[int, int]) -> float:
    """Log factor of (tasks, bad ones) against the reference's rate; 0 unless the past was worse than the reference.

    The guess starts at the reference, so that the first block is no evidence, as with two arms.
    """
    known = float(posterior_mean(reference[1], reference[0]))
    weight = 2.0 * PRIOR_WEIGHT
    guess = (past[1] + weight * known) / (past[0] + weight)
    return float(one_arm_log_factor(block[0], block[1], guess, known)) if guess > known else 0.0


def _counts(totals: Block | ReleaseEvidence) -> Counts:
    """The record's counts as arrays of length one."""
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


def _e(log_e: float) -> str:
    """An e-value for people; beyond 1e300 only that it is larger."""
    return f"{math.exp(log_e):.3g}" if log_e < 690 else ">1e300"


_SENTENCES: dict[Reason, str] = {
    Reason.OPEN: "not decided after {tasks} candidate tasks: E(better) = {better}, E(worse) = {worse}, bar {bar:g}",
    Reason.ADVANCED: "no alarm in this stage; the candidate's share rises to {share:.0%}",
    Reason.BETTER: "shown better: E = {better} ≥ {bar:g} after {tasks} candidate tasks",
    Reason.WORSE: "shown worse: E = {worse} ≥ {bar:g} after {tasks} candidate tasks",
    Reason.UNSAFE: "shown less safe: E = {unsafe} ≥ {bar:g} after {tasks} candidate tasks",
    Reason.NO_DATA: "no task was evaluated; unusable block {idle}, {patience} in a row mean rollback",
    Reason.MISSING: "more than {s.max_missing_share:.0%} of the block's evaluations are missing; "
    "unusable block {idle}, {patience} in a row mean rollback",
    Reason.MISMATCH: "traffic is not split as configured: E = {mismatch} ≥ {alarm:g}; unusable block {idle}, "
    "{patience} in a row mean rollback",
    Reason.TOO_FEW: "E(better) = {better}, on {tasks} candidate tasks; promotion needs {s.min_candidate_tasks}",
    Reason.SMALL_EFFECT: "E(better) = {better}, but an effect above {s.minimum_effect} is not shown yet",
    Reason.SAFETY_OPEN: "E(better) = {better}, but the candidate's violation rate lies more than "
    "{s.safety_margin:g} above the control's",
    Reason.PATIENCE: "{idle} unusable blocks in a row: patience is used up",
    Reason.EXHAUSTED: "inconclusive after {tasks} of {s.max_candidate_tasks} candidate tasks",
}


def _explain(reason: Reason, state: CanaryState, settings: CanarySettings) -> str:
    """The reason of a block's verdict for people, with its figures."""
    return _SENTENCES[reason].format(
        tasks=int(state.totals.candidate_tasks[0]),
        better=_e(float(state.log_e_better[0])),
        worse=_e(float(state.log_e_worse[0])),
        unsafe=_e(float(state.log_e_unsafe[0])),
        mismatch=_e(float(state.log_e_mismatch[0])),
        idle=int(state.unusable[0]),
        patience=settings.patience_blocks,
        bar=settings.threshold,
        alarm=1.0 / settings.mismatch_alpha,
        share=settings.stages[int(state.stage[0])],
        s=settings,
    )
