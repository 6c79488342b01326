"""One release's canary as a pure state machine on records: ``step(release, episodes) -> release``.

The release holds the rule's whole state, so a canary can be resumed after any block: the next verdict depends on
release, episodes and settings only. A verdict is recorded once: a decided release takes no more episodes. An
episode counts once: what arrives again, late or corrected, is dropped and counted as a repeat.

At 100 % there is no control arm. With a watch configured, the promoted candidate is tested against the incumbent's
recorded rates, taken as known (their sampling error is not in the test; every such block's reason says so).
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import NamedTuple, assert_never

import numpy as np

from upturn.config import CanarySettings
from upturn.deployment.episode import Episode, episode_id
from upturn.deployment.rule import (
    CANDIDATE,
    CLAIMS,
    CONTROL,
    HOLD,
    PROMOTE,
    ROLLBACK,
    CanaryState,
    Count,
    Episodes,
    Measure,
    Reason,
    decide,
    observe,
)
from upturn.deployment.sequential import FloatArray, bet_log_factors
from upturn.errors import ReleaseError
from upturn.records import CanaryVerdict, Decision, Release, ReleaseEvidence, ReleaseState

MAX_POINTS = 200
"""Entries of evidence that a release keeps. Above it every second one without a change of stage or verdict goes, so
that a release that is looked at after every task stays small."""

_VERDICTS: dict[int, CanaryVerdict] = {HOLD: "hold", PROMOTE: "promote", ROLLBACK: "rollback"}


class Canary:
    """Advances releases under one set of settings; stateless."""

    def __init__(self, settings: CanarySettings) -> None:
        self.settings = settings

    def step(self, release: Release, episodes: Sequence[Episode]) -> Release:
        """The release after a block of episodes that have ended, with the evidence and verdict appended.

        The stages are the release's own. A block of repeats only changes their number. Raises ReleaseError for a
        release that is decided, or whose evidence an earlier rule collected."""
        block = _new_episodes(release, episodes)
        if release.evidence and release.state in ("canary", "watch") and block.repeats and not block.episodes:
            last = release.evidence[-1]
            seen = replace(last, repeats=last.repeats + block.repeats)
            return replace(release, evidence=(*release.evidence[:-1], seen))
        counted = replace(release, counted=(*release.counted, *map(_digest, block.episodes)))
        match release.state:
            case "canary":
                return self._compare(counted, block)
            case "watch":
                return self._watch(counted, block)
            case "promoted" | "rolled_back":
                raise ReleaseError(
                    f"release {release.id!r} is {release.state!r} and a verdict is final; "
                    "start a new release to test again"
                )
            case _:
                assert_never(release.state)

    def _compare(self, release: Release, block: "_Block") -> Release:
        state = canary_state(release)
        settings = replace(self.settings, stages=release.stages)
        for episode in block.episodes:
            state = observe(state, _arrays(episode), settings)
        has_costs = bool(release.rule_state.get("has_costs", (0.0,))[0]) or any(e.has_costs for e in block.episodes)
        step = decide(
            state,
            settings,
            has_episodes=np.array([bool(block.episodes)]),
            has_costs=np.array([has_costs]),
            attempt=release.attempt,
        )
        verdict, reason, stage = int(step.verdict[0]), Reason(int(step.reason[0])), int(step.state.stage[0])
        state = step.state
        explanation = _explain(reason, state, settings, release.attempt)
        if release.is_held and reason not in (Reason.WORSE, Reason.UNSAFE, Reason.HARDER, Reason.LOSING):
            verdict, stage = HOLD, release.stage
            none = np.zeros(1)
            state = replace(state, stage=np.array([float(stage)]), unusable=none, unjudged=none)
            explanation = f"held by an operator; otherwise: {explanation}"
        evidence = _evidence(release, state, settings, block.repeats, _VERDICTS[verdict], explanation)
        after: ReleaseState = "canary"
        if verdict == PROMOTE:
            after = "watch" if settings.watch_tasks else "promoted"
            stage = len(release.stages) - 1
            # The watch is a test of its own: it begins without the evidence that led to the promotion.
            start = np.zeros_like(state.log_capital)
            state = replace(state, stage_tasks=_judged(state, CANDIDATE), log_capital=start, unjudged=np.zeros(1))
        elif verdict == ROLLBACK:
            after = "rolled_back"
        return replace(
            release,
            state=after,
            stage=stage,
            evidence=_thinned((*release.evidence, evidence)),
            rule_state=_flat(state) | {"has_costs": (float(has_costs),)},
        )

    def _watch(self, release: Release, block: "_Block") -> Release:
        """One block at 100 %: success, violations and missing outcomes against the incumbent's recorded rates.

        The log e-values begin at 0 again.
        """
        state = canary_state(release)
        settings = replace(self.settings, stages=release.stages)
        known = _recorded(state)
        for episode in block.episodes:
            if episode.arm == "candidate":
                state = _watched(state, episode, known)
        served = int((_judged(state, CANDIDATE) - state.stage_tasks)[0])
        harms = {what: float(state.log_e(claim)[0]) for claim, what in _HARMS.items()}
        harm = max(harms, key=harms.__getitem__)
        unjudged = int(state.unjudged[0])
        verdict: CanaryVerdict = "hold"
        after: ReleaseState = "watch"
        explanation = f"watched for {served} tasks"
        if harms[harm] >= math.log(settings.threshold):
            verdict, after = "rollback", "rolled_back"
            explanation = f"shown {harm} than before: E = {_e(harms[harm])} after {served} tasks"
        elif unjudged >= settings.max_unjudged_episodes:
            verdict, after = "rollback", "rolled_back"
            explanation = f"no usable evidence: {unjudged} unjudged episodes in a row during the watch"
        elif served >= settings.watch_tasks:
            after = "promoted"
            explanation = f"the watch ended after {served} tasks without a drop; the promotion stands"
        tasks = int(state.count(CONTROL, Count.TASKS)[0])
        explanation += f" (against the incumbent's recorded {known['worse']:.3f} of {tasks} tasks, taken as known)"
        evidence = _evidence(release, state, settings, block.repeats, verdict, explanation)
        return replace(
            release,
            state=after,
            evidence=_thinned((*release.evidence, evidence)),
            rule_state={**release.rule_state, **_flat(state)},
        )


def canary_state(release: Release) -> CanaryState:
    """The rule's state of a release; arrays of length one.

    Raises ReleaseError for a release whose evidence an earlier version of the rule collected.
    """
    start = CanaryState.start(1, len(release.stages))
    if not release.evidence:
        return start
    shapes = {field.name: getattr(start, field.name).shape for field in fields(CanaryState)}
    stored = {name: release.rule_state.get(name, ()) for name in shapes}
    if any(len(values) != math.prod(shapes[name]) for name, values in stored.items()):
        raise ReleaseError(
            f"release {release.id!r} was started by an earlier version of Upturn, whose evidence cannot be "
            "continued; roll it back and start a new release"
        )
    return CanaryState(**{name: np.array(values).reshape(shapes[name]) for name, values in stored.items()})


_HARMS = {
    "worse": "less successful",
    "unsafe": "less safe",
    "harder": "more often in breach of hard constraints",
    "losing": "to lose more outcomes",
}
"""Claims that end a watch, in words."""


class _Block(NamedTuple):
    """The episodes of a block that had not been counted before."""

    episodes: tuple[Episode, ...]
    repeats: int
    """Outcomes that had been, and further outcomes of one decision."""


def _new_episodes(release: Release, episodes: Sequence[Episode]) -> _Block:
    counted, fresh = set(release.counted), list[Episode]()
    for episode in episodes:
        if (digest := _digest(episode)) not in counted:
            counted.add(digest)
            fresh.append(episode)
    repeats = len(episodes) - len(fresh) + sum(episode.repeats for episode in fresh)
    return _Block(tuple(fresh), repeats)


def episode_digest(decision: Decision) -> str:
    """Returns the name of a decision's episode in ``Release.counted``."""
    return _name_digest(episode_id(decision))


def _digest(episode: Episode) -> str:
    return _name_digest(episode.id)


def _name_digest(name: str) -> str:
    """48 bits: two of 20,000 episodes share one with a probability below 1e-6."""
    return hashlib.blake2b(name.encode(), digest_size=6).hexdigest()


def _arrays(episode: Episode) -> Episodes:
    """The episode as arrays of length one."""
    numbers = (
        episode.tasks,
        episode.successes,
        episode.missing,
        episode.violations,
        episode.hard_violations,
        *episode.unknown,
    )
    return Episodes(
        np.array([episode.arm == "candidate"]), np.array([episode.share]), *(np.array([float(n)]) for n in numbers)
    )


def _recorded(state: CanaryState) -> dict[str, float]:
    """The incumbent's rates in the canary by claim, means over its episodes."""
    means = (state.sums[CONTROL, :, 0] + 0.5) / (state.count(CONTROL, Count.EPISODES)[0] + 1.0)
    return {
        "worse": float(means[Measure.SUCCESS_LOW]),
        "unsafe": float(means[Measure.VIOLATION_HIGH]),
        "harder": float(means[Measure.HARD_HIGH]),
        "losing": float(means[Measure.MISSING]),
    }


def _watched(state: CanaryState, episode: Episode, known: dict[str, float]) -> CanaryState:
    """The state after an episode at 100 %; an unknown outcome counts for the candidate here."""
    rates = {
        "worse": (episode.successes + episode.missing) / episode.tasks,
        "unsafe": episode.violations / episode.tasks,
        "harder": episode.hard_violations / episode.tasks,
        "losing": episode.missing / episode.tasks,
    }
    capital = state.log_capital.copy()
    for index, claim in enumerate(CLAIMS):
        if claim.name in rates:
            rate = known[claim.name]
            least = -rate if claim.direction > 0 else rate - 1.0
            gain = claim.direction * (rates[claim.name] - rate)
            capital[index] += bet_log_factors(np.array([gain]), np.array([least]), np.array([rate * (1.0 - rate)]))
    counts = state.counts.copy()
    counts[CANDIDATE] += _arrays(episode).counts()
    unjudged = np.zeros(1) if episode.tasks > episode.missing else state.unjudged + 1.0
    return replace(state, counts=counts, log_capital=capital, unjudged=unjudged)


def _judged(state: CanaryState, arm: int) -> FloatArray:
    return state.count(arm, Count.TASKS) - state.count(arm, Count.MISSING)


def _flat(state: CanaryState) -> dict[str, tuple[float, ...]]:
    """The state's arrays by name, as a record stores them."""
    return {field.name: tuple(map(float, getattr(state, field.name).ravel())) for field in fields(CanaryState)}


def _thinned(evidence: tuple[ReleaseEvidence, ...]) -> tuple[ReleaseEvidence, ...]:
    """The evidence with at most about ``MAX_POINTS`` entries: first, last, and those that changed anything stay."""
    if len(evidence) <= MAX_POINTS:
        return evidence
    last = len(evidence) - 1
    return tuple(
        point
        for index, point in enumerate(evidence)
        if index % 2 == 0 or index == last or point.verdict != "hold" or point.stage != evidence[index + 1].stage
    )


def _evidence(  # noqa: PLR0917  # one record of what the step found
    release: Release,
    state: CanaryState,
    settings: CanarySettings,
    repeats: int,
    verdict: CanaryVerdict,
    reason: str,
) -> ReleaseEvidence:
    def count(arm: int, what: Count) -> int:
        return int(state.count(arm, what)[0])

    before = release.evidence[-1] if release.evidence else None
    return ReleaseEvidence(
        block=0 if before is None else before.block + 1,
        stage=release.stage,
        candidate_tasks=int(_judged(state, CANDIDATE)[0]),
        candidate_successes=count(CANDIDATE, Count.SUCCESSES),
        control_tasks=int(_judged(state, CONTROL)[0]),
        control_successes=count(CONTROL, Count.SUCCESSES),
        missing=count(CANDIDATE, Count.MISSING) + count(CONTROL, Count.MISSING),
        log_e_better=float(state.log_e("better")[0]),
        log_e_worse=float(state.log_e("worse")[0]),
        log_e_mismatch=float(state.log_e_mismatch(settings)[0]),
        verdict=verdict,
        reason=reason,
        candidate_violations=count(CANDIDATE, Count.VIOLATIONS),
        control_violations=count(CONTROL, Count.VIOLATIONS),
        log_e_unsafe=float(state.log_e("unsafe")[0]),
        log_e_safe=float(state.log_e("safe")[0]),
        log_e_losing=float(state.log_e("losing")[0]),
        log_e_harder=float(state.log_e("harder")[0]),
        log_e_less_hard=float(state.log_e("less_hard")[0]),
        candidate_missing=count(CANDIDATE, Count.MISSING),
        candidate_episodes=count(CANDIDATE, Count.EPISODES),
        control_episodes=count(CONTROL, Count.EPISODES),
        candidate_hard_violations=count(CANDIDATE, Count.HARD),
        repeats=repeats + (0 if before is None else before.repeats),
    )


def _e(log_e: float) -> str:
    """An e-value for people; beyond 1e300 only that it is larger."""
    return f"{math.exp(log_e):.3g}" if log_e < 690 else ">1e300"


_SENTENCES: dict[Reason, str] = {
    Reason.OPEN: "not decided after {tasks} candidate tasks: E(better) = {better} of {bar:.3g}, "
    "E(worse) = {worse} of {s.threshold:.3g}, E(safe) = {safe}",
    Reason.ADVANCED: "no alarm in this stage; the candidate's share rises to {share:.0%}",
    Reason.BETTER: "shown better: E = {better} ≥ {bar:.3g} after {tasks} candidate tasks",
    Reason.WORSE: "shown worse: E = {worse} ≥ {s.threshold:.3g} after {tasks} candidate tasks",
    Reason.UNSAFE: "shown less safe: E = {unsafe} ≥ {s.threshold:.3g} after {tasks} candidate tasks",
    Reason.LOSING: "shown to lose more outcomes than the incumbent: E = {losing} ≥ {s.threshold:.3g}; "
    "{missing} of {tasks} candidate tasks have no evaluation",
    Reason.HARDER: "shown to break hard constraints more often: E = {harder} ≥ {s.threshold:.3g} after {tasks} "
    "candidate tasks",
    Reason.NO_DATA: "the block has no episode; unusable block {idle}, {s.max_unusable_blocks} in a row mean "
    "rollback",
    Reason.MISMATCH: "traffic is not split as configured: E = {mismatch} ≥ {alarm:g}; unusable block {idle}, "
    "{s.max_unusable_blocks} in a row mean rollback",
    Reason.TOO_FEW: "E(better) = {better}, on {tasks} candidate tasks; promotion needs {s.min_candidate_tasks} "
    "judged ones",
    Reason.SAFETY_OPEN: "E(better) = {better}, but it is not shown yet that violations exceed the control's by "
    "less than {s.safety_margin:g}: E(safe) = {safe} of {bar:.3g} ({missing} of {tasks} candidate tasks have no "
    "evaluation and count as violations)",
    Reason.HARD_OPEN: "E(better) = {better}, but hard constraints need {s.hard_tasks} candidate tasks without a "
    "violation, more where costs are unknown: {hard} violations and {unknown} unknown in {tasks} tasks",
    Reason.UNUSABLE: "no usable evidence: {idle} unusable blocks and {unjudged} unjudged episodes in a row",
    Reason.EXHAUSTED: "inconclusive after {tasks} candidate tasks in {episodes} of {s.max_candidate_episodes} "
    "episodes",
}


def _explain(reason: Reason, state: CanaryState, settings: CanarySettings, attempt: int) -> str:
    """The reason of a block's verdict for people, with its figures."""
    return _SENTENCES[reason].format(
        tasks=int(state.count(CANDIDATE, Count.TASKS)[0]),
        missing=int(state.count(CANDIDATE, Count.MISSING)[0]),
        episodes=int(state.count(CANDIDATE, Count.EPISODES)[0]),
        hard=int(state.count(CANDIDATE, Count.HARD)[0]),
        unknown=int(state.count(CANDIDATE, Count.HARD_UNREPORTED)[0]),
        idle=int(state.unusable[0]),
        unjudged=int(state.unjudged[0]),
        mismatch=_e(float(state.log_e_mismatch(settings)[0])),
        bar=settings.promotion_threshold(attempt),
        alarm=1.0 / settings.mismatch_alpha,
        share=settings.stages[int(state.stage[0])],
        s=settings,
        **{claim.name: _e(float(state.log_e(claim.name)[0])) for claim in CLAIMS},
    )
