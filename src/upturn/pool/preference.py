"""Preference data from the pool: pairs of trajectories from deployments and corrections, and thumb ratings.

All reads are one tenant's and leave out held-out tasks, which are never trained on. What cannot be compared is left
out and counted by cause, never treated as a difference of 0.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from upturn.errors import StoreError
from upturn.pool.reader import Experience, PoolReader
from upturn.pool.selection import EVERYTHING, Selection
from upturn.records import (
    Feedback,
    PreferencePair,
    PreferenceSource,
    RatedTrajectory,
    Split,
    Trajectory,
    pair_problem,
)

THUMBS = "thumbs"
"""Metric of feedback on a trajectory: above 0 = good, below 0 = bad."""
CORRECTION = "correction"
"""Metric of feedback on a trajectory: the trajectory in ``refers_to`` is better."""


class Preferences(NamedTuple):
    """Preference pairs, and the comparisons that give none."""

    pairs: tuple[PreferencePair, ...]
    left_out: Mapping[str, int]
    """How many comparisons, by cause."""
    tokenless: tuple[PreferencePair, ...] = ()
    """Pairs with a side without written tokens, such as work of people and rules: trainable once its text is
    rendered to token rows. Counted under ``tokenless`` too."""


class Ratings(NamedTuple):
    """Rated trajectories, and the feedback that rates none."""

    rated: tuple[RatedTrajectory, ...]
    left_out: Mapping[str, int]
    """How many, by cause."""
    tokenless: tuple[RatedTrajectory, ...] = ()
    """Rated trajectories without written tokens, as for pairs."""


def deployment_pairs(
    pool: PoolReader, *, tenant: str, old: str, new: str, min_margin: float = 0.0, selection: Selection = EVERYTHING
) -> Preferences:
    """Trajectories of two agent versions on the same tasks; the better-scored one is chosen, from either version.

    Of each task, the versions' first trajectories are compared, then the second ones, and so on, so that no version
    is represented by its luckiest. Left out: ``one_sided`` (trajectories without a counterpart), ``unjudged`` (a
    score is missing), ``equal`` (scores that differ by ``min_margin`` or less), ``failed`` (the better-scored side
    failed, the other did not: a gate is no weight), ``tokenless``, ``unusable`` (see ``pair_problem``). Raises
    StoreError for equal versions, for a negative or infinite margin, and for a selection of versions or of held-out
    tasks.
    """
    if old == new:
        raise StoreError(f"old and new version are both {old!r}; name two versions that did the same tasks")
    if not (math.isfinite(min_margin) and min_margin >= 0):
        raise StoreError(f"min_margin must be 0 or more, got {min_margin!r}")
    if selection.agent_versions:
        raise StoreError(
            f"the selection names the versions {', '.join(map(repr, selection.agent_versions))}, old={old!r} and "
            f"new={new!r} do so too; leave them out of the selection"
        )
    both = replace(selection, agent_versions=(old, new), splits=_training_splits(selection))
    by_task: dict[str, dict[str, list[Experience]]] = {}
    for experience in pool.experiences(both, tenant=tenant):
        sides = by_task.setdefault(experience.task.id, {old: [], new: []})
        sides[experience.trajectory.agent_version].append(experience)
    left_out: Counter[str] = Counter(one_sided=0, unjudged=0, equal=0, failed=0)
    pairs: list[PreferencePair] = []
    for sides in by_task.values():
        left_out["one_sided"] += abs(len(sides[old]) - len(sides[new]))
        for first, second in zip(sides[old], sides[new], strict=False):
            pairs += _score_pair(first, second, min_margin, left_out)
    return _preferences(pairs, left_out)


def _training_splits(selection: Selection) -> tuple[Split, ...]:
    """Raises StoreError for a selection of held-out tasks."""
    if "heldout" in selection.splits:
        raise StoreError("held-out tasks are never trained on; leave 'heldout' out of the selection's splits")
    return ("train",)


def _score_pair(
    first: Experience, second: Experience, min_margin: float, left_out: Counter[str]
) -> Iterator[PreferencePair]:
    scores = [None if side.evaluation is None else side.evaluation.score for side in (first, second)]
    if scores[0] is None or scores[1] is None:
        left_out["unjudged"] += 1
        return
    margin = scores[0] - scores[1]
    better, worse = (first, second) if margin > 0 else (second, first)
    if abs(margin) <= min_margin:
        left_out["equal"] += 1
    elif _failed(better) and not _failed(worse):
        left_out["failed"] += 1
    else:
        yield _pair(better.trajectory, worse.trajectory, "deployment", abs(margin))


def _failed(experience: Experience) -> bool:
    return experience.evaluation is not None and experience.evaluation.verdict == "failure"


def _pair(
    chosen: Trajectory, rejected: Trajectory, source: PreferenceSource, margin: float | None
) -> PreferencePair:
    return PreferencePair(f"{chosen.id} > {rejected.id}", chosen, rejected, source, margin)


def _preferences(pairs: Iterable[PreferencePair], left_out: Mapping[str, int]) -> Preferences:
    """The pairs sorted into usable, tokenless and unusable ones."""
    usable, tokenless, unusable = list[PreferencePair](), list[PreferencePair](), 0
    for pair in pairs:
        if not (_has_tokens(pair.chosen) and _has_tokens(pair.rejected)):
            tokenless.append(pair)
        elif pair_problem(pair) is None:
            usable.append(pair)
        else:
            unusable += 1
    counts = {**left_out, "tokenless": len(tokenless), "unusable": unusable}
    return Preferences(tuple(usable), counts, tuple(tokenless))


def _has_tokens(trajectory: Trajectory) -> bool:
    return any(row.spans for row in trajectory.rows)


def correction_pairs(pool: PoolReader, *, tenant: str, selection: Selection = EVERYTHING) -> Preferences:
    """Corrected trajectories: the correction, stored as another trajectory of the same task, against the original.

    Read from feedback on a trajectory with the metric ``correction`` and ``refers_to``. A repeated correction
    counts once. Left out: ``dangling`` (feedback on another subject, or an end that is not among the tenant's
    training tasks), ``unselected`` (an end outside of the selection), ``tokenless``, ``unusable`` (see
    ``pair_problem``). Raises StoreError for a selection of held-out tasks.
    """
    left_out: Counter[str] = Counter(dangling=0, unselected=0)
    links: dict[tuple[str, str], None] = {}
    for feedback in _trajectory_feedback(pool, tenant, CORRECTION, left_out):
        if feedback.refers_to is None:
            left_out["dangling"] += 1
        else:
            links[feedback.refers_to, feedback.subject_id] = None
    trainable, selected = _trajectory_ids(pool, tenant), _trajectory_ids(pool, tenant, selection)
    left_out["dangling"] += sum(not trainable.issuperset(link) for link in links)
    usable = [link for link in links if selected.issuperset(link)]
    left_out["unselected"] += sum(trainable.issuperset(link) for link in links) - len(usable)
    stored = _trajectories(pool, tenant, [end for link in usable for end in link])
    return _preferences(
        (_pair(stored[better], stored[worse], "correction", None) for better, worse in usable), left_out
    )


def thumb_ratings(pool: PoolReader, *, tenant: str, selection: Selection = EVERYTHING) -> Ratings:
    """Trajectories that people rated good or bad, by the sum of all thumbs on each.

    Read from feedback on a trajectory with the metric ``thumbs``. Left out: ``undecided`` (thumbs that sum to 0),
    ``dangling`` (feedback on another subject, or on none of the tenant's training tasks), ``unselected``
    (trajectories outside of the selection), ``tokenless``. Raises StoreError for a selection of held-out tasks.
    """
    left_out: Counter[str] = Counter(undecided=0, dangling=0, unselected=0)
    sums: dict[str, float] = {}
    for feedback in _trajectory_feedback(pool, tenant, THUMBS, left_out):
        sums[feedback.subject_id] = sums.get(feedback.subject_id, 0.0) + feedback.value
    trainable, selected = _trajectory_ids(pool, tenant), _trajectory_ids(pool, tenant, selection)
    left_out["dangling"] += sum(name not in trainable for name in sums)
    left_out["unselected"] += sum(name in trainable and name not in selected for name in sums)
    left_out["undecided"] += sum(name in selected and value == 0 for name, value in sums.items())
    decided = [name for name, value in sums.items() if name in selected and value != 0]
    stored = _trajectories(pool, tenant, decided)
    rated = [RatedTrajectory(stored[name], sums[name] > 0) for name in decided]
    usable = tuple(rating for rating in rated if _has_tokens(rating.trajectory))
    tokenless = tuple(rating for rating in rated if not _has_tokens(rating.trajectory))
    return Ratings(usable, {**left_out, "tokenless": len(tokenless)}, tokenless)


def _trajectory_feedback(pool: PoolReader, tenant: str, metric: str, left_out: Counter[str]) -> Iterator[Feedback]:
    """Feedback on trajectories with this metric, in the order of arrival."""
    for feedback in pool.feedback(tenant=tenant):
        if feedback.metric != metric:
            continue
        if feedback.subject_kind == "trajectory":
            yield feedback
        else:
            left_out["dangling"] += 1


def _trajectory_ids(pool: PoolReader, tenant: str, selection: Selection = EVERYTHING) -> set[str]:
    """The tenant's selected trajectories of training tasks."""
    trainable = replace(selection, splits=_training_splits(selection))
    return {row.trajectory_id for row in pool.selected(trainable, tenant=tenant)}


def _trajectories(pool: PoolReader, tenant: str, ids: Sequence[str]) -> dict[str, Trajectory]:
    experiences = pool.experiences_of(list(dict.fromkeys(ids)), tenant=tenant)
    return {experience.trajectory.id: experience.trajectory for experience in experiences}
