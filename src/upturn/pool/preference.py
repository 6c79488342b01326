"""Preference data from the pool: pairs of trajectories from deployments and corrections, and ratings of
trajectories.

All reads are of one tenant and exclude held-out tasks, which are never trained on. Trajectories that cannot be
compared are excluded and counted by cause; they are never treated as equal.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from upturn.config import THUMBS
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

CORRECTION = "correction"
"""Metric of a correction: the trajectory in ``refers_to`` is better."""


class Preferences(NamedTuple):
    """Preference pairs, and the number of comparisons without a pair."""

    pairs: tuple[PreferencePair, ...]
    left_out: Mapping[str, int]
    """Number of excluded comparisons by cause."""
    tokenless: tuple[PreferencePair, ...] = ()
    """Pairs with a side without written tokens, e.g. by a person: trainable after its text is rendered to token
    rows. Also counted in ``left_out``."""


class Ratings(NamedTuple):
    """Rated trajectories, and the number of ratings that are not used."""

    rated: tuple[RatedTrajectory, ...]
    left_out: Mapping[str, int]
    """Number of excluded ratings or trajectories by cause."""
    tokenless: tuple[RatedTrajectory, ...] = ()
    """Rated trajectories without written tokens, as in ``Preferences``."""


def deployment_pairs(
    pool: PoolReader, *, tenant: str, old: str, new: str, min_margin: float = 0.0, selection: Selection = EVERYTHING
) -> Preferences:
    """Returns pairs of trajectories of two agent versions on the same tasks; the one with the higher score is
    chosen.

    For each task the first trajectories of the versions are compared, then the second ones, and so on, so that no
    version is represented by its best trajectory. Excluded are ``one_sided`` (no counterpart), ``unjudged`` (a
    score is missing), ``equal`` (scores differ by ``min_margin`` or less), ``failed`` (the side with the higher
    score failed and the other did not), ``tokenless``, and ``unusable`` (see ``pair_problem``). Raises StoreError
    for equal versions, a negative or infinite margin, and a selection of versions or of held-out tasks.
    """
    if old == new:
        raise StoreError(
            f"old and new version are both {old!r}; name two versions with trajectories of the same tasks"
        )
    if not (math.isfinite(min_margin) and min_margin >= 0):
        raise StoreError(f"min_margin must be 0 or more, got {min_margin!r}")
    if selection.agent_versions:
        raise StoreError(
            f"the selection names the versions {', '.join(map(repr, selection.agent_versions))}, but old={old!r} "
            f"and new={new!r} already do; omit agent_versions from the selection"
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
    """Returns the splits to read; raises StoreError for a selection of held-out tasks."""
    if "heldout" in selection.splits:
        raise StoreError("held-out tasks are never trained on; remove 'heldout' from the selection's splits")
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
    """Sorts the pairs into usable, tokenless and unusable ones."""
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
    """Returns pairs of a correction, which is another trajectory of the same task, and the corrected trajectory.

    They come from feedback on a trajectory with the metric ``correction``; repeated ones count once. Excluded are
    ``dangling`` (feedback on another subject, or a side that is not of a training task of the tenant),
    ``unselected`` (a side outside of the selection), ``tokenless``, and ``unusable`` (see ``pair_problem``). Raises
    StoreError for a selection of held-out tasks.
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
    stored = _trajectories(pool, tenant, [side for link in usable for side in link])
    return _preferences(
        (_pair(stored[better], stored[worse], "correction", None) for better, worse in usable), left_out
    )


def trajectory_ratings(pool: PoolReader, *, tenant: str, selection: Selection = EVERYTHING) -> Ratings:
    """Returns trajectories that people rated good or bad, by the sum of a trajectory's thumbs-up/down ratings.

    They come from feedback on a trajectory with the metric ``thumbs``. Excluded are ``undecided`` (a sum of 0),
    ``dangling`` (feedback on another subject, or not of a training task of the tenant), ``unselected`` (outside of
    the selection), and ``tokenless``. Raises StoreError for a selection of held-out tasks.
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
    """Yields feedback on trajectories with this metric, in the order of arrival."""
    for feedback in pool.feedback(tenant=tenant):
        if feedback.metric != metric:
            continue
        if feedback.subject_kind == "trajectory":
            yield feedback
        else:
            left_out["dangling"] += 1


def _trajectory_ids(pool: PoolReader, tenant: str, selection: Selection = EVERYTHING) -> set[str]:
    """Returns the ids of the tenant's selected trajectories of training tasks."""
    trainable = replace(selection, splits=_training_splits(selection))
    return {row.trajectory_id for row in pool.selected(trainable, tenant=tenant)}


def _trajectories(pool: PoolReader, tenant: str, ids: Sequence[str]) -> dict[str, Trajectory]:
    experiences = pool.experiences_of(list(dict.fromkeys(ids)), tenant=tenant)
    return {experience.trajectory.id: experience.trajectory for experience in experiences}
