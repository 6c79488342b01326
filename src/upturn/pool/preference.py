"""What the evidence says of better and worse: pairs of attempts from deployments and corrections, and thumbs.

All reads are one tenant's, and held-out tasks are left out: nothing may be trained on them. What cannot be compared
is left out and counted by cause, never taken for a difference of 0.
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
"""Metric of feedback on a trajectory: the one that it refers to is better."""


class Preferences(NamedTuple):
    """Pairs, and what could not become one."""

    pairs: tuple[PreferencePair, ...]
    left_out: Mapping[str, int]
    """How many comparisons, by cause."""
    tokenless: tuple[PreferencePair, ...] = ()
    """Those with a side that holds no written tokens, as what people and rules did: fit to be learned from once its
    text has been rendered to token rows. Counted under ``tokenless`` too."""


class Ratings(NamedTuple):
    """Rated attempts, and feedback that rates none."""

    rated: tuple[RatedTrajectory, ...]
    left_out: Mapping[str, int]
    """How many, by cause."""
    tokenless: tuple[RatedTrajectory, ...] = ()
    """Rated attempts without written tokens, as for pairs."""


def deployment_pairs(
    pool: PoolReader, *, tenant: str, old: str, new: str, min_margin: float = 0.0, selection: Selection = EVERYTHING
) -> Preferences:
    """Attempts of two agent versions at the same tasks, the better-scored side chosen, whichever version it is of.

    Of a task, the versions' first attempts are compared, then the second ones, and so on, so that neither version
    is judged by its luckiest. Left out: ``one_sided`` (attempts without a counterpart), ``unjudged`` (a score is
    missing), ``equal`` (scores that differ by ``min_margin`` or less), ``failed`` (the better-scored side failed,
    the other did not: a gate is no weight), ``tokenless``, ``unusable`` (see ``pair_problem``). Raises StoreError
    for two versions that are one, for a margin that is no distance, and for a selection of versions or of held-out
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
    chosen = replace(selection, agent_versions=(old, new), splits=_trainable(selection))
    attempts: dict[str, dict[str, list[Experience]]] = {}
    for experience in pool.experiences(chosen, tenant=tenant):
        sides = attempts.setdefault(experience.task.id, {old: [], new: []})
        sides[experience.trajectory.agent_version].append(experience)
    left_out: Counter[str] = Counter(one_sided=0, unjudged=0, equal=0, failed=0)
    pairs: list[PreferencePair] = []
    for sides in attempts.values():
        left_out["one_sided"] += abs(len(sides[old]) - len(sides[new]))
        for first, second in zip(sides[old], sides[new], strict=False):
            pairs += _judged(first, second, min_margin, left_out)
    return _sorted_out(pairs, left_out)


def _trainable(selection: Selection) -> tuple[Split, ...]:
    """Raises StoreError for a selection of held-out tasks."""
    if "heldout" in selection.splits:
        raise StoreError("held-out tasks are never trained on; leave 'heldout' out of the selection's splits")
    return ("train",)


def _judged(
    first: Experience, second: Experience, min_margin: float, left_out: Counter[str]
) -> Iterator[PreferencePair]:
    scores = [None if each.evaluation is None else each.evaluation.score for each in (first, second)]
    if scores[0] is None or scores[1] is None:
        left_out["unjudged"] += 1
        return
    margin = scores[0] - scores[1]
    better, worse = (first, second) if margin > 0 else (second, first)
    if abs(margin) <= min_margin:
        left_out["equal"] += 1
        return
    if _failed(better) and not _failed(worse):
        left_out["failed"] += 1
        return
    yield _pair(better.trajectory, worse.trajectory, "deployment", abs(margin))


def _failed(experience: Experience) -> bool:
    return experience.evaluation is not None and experience.evaluation.verdict == "failure"


def _pair(
    chosen: Trajectory, rejected: Trajectory, source: PreferenceSource, margin: float | None
) -> PreferencePair:
    return PreferencePair(f"{chosen.id} > {rejected.id}", chosen, rejected, source, margin)


def _sorted_out(pairs: Iterable[PreferencePair], left_out: Mapping[str, int]) -> Preferences:
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
    """Attempts that somebody corrected: the corrected one, which is stored as a trajectory of its own at the same
    task, against the one that it corrects.

    Read from feedback on a trajectory with the metric ``correction`` and ``refers_to``. A correction that is given
    twice counts once. Left out: ``dangling`` (feedback on something else, or an end that is not among the tenant's
    training tasks), ``unselected`` (an end that the selection does not mean), ``tokenless``, ``unusable`` (see
    ``pair_problem``). Raises StoreError for a selection of held-out tasks.
    """
    left_out: Counter[str] = Counter(dangling=0, unselected=0)
    ends: dict[tuple[str, str], None] = {}
    for said in _said(pool, tenant, CORRECTION, left_out):
        if said.refers_to is None:
            left_out["dangling"] += 1
        else:
            ends[said.refers_to, said.subject_id] = None
    known, meant = _known(pool, tenant), _known(pool, tenant, selection)
    left_out["dangling"] += sum(not set(each) <= known for each in ends)
    linked = [each for each in ends if set(each) <= meant]
    left_out["unselected"] += sum(set(each) <= known for each in ends) - len(linked)
    stored = _stored(pool, tenant, [name for each in linked for name in each])
    return _sorted_out(
        (_pair(stored[better], stored[worse], "correction", None) for better, worse in linked), left_out
    )


def thumbs(pool: PoolReader, *, tenant: str, selection: Selection = EVERYTHING) -> Ratings:
    """Attempts that people thought well of, or not, by the sum of all thumbs on each.

    Read from feedback on a trajectory with the metric ``thumbs``. Left out: ``undecided`` (attempts whose thumbs
    add up to 0), ``dangling`` (feedback on something else, or on nothing among the tenant's training tasks),
    ``unselected`` (attempts that the selection does not mean), ``tokenless``. Raises StoreError for a selection of
    held-out tasks.
    """
    left_out: Counter[str] = Counter(undecided=0, dangling=0, unselected=0)
    sums: dict[str, float] = {}
    for said in _said(pool, tenant, THUMBS, left_out):
        sums[said.subject_id] = sums.get(said.subject_id, 0.0) + said.value
    known, selected = _known(pool, tenant), _known(pool, tenant, selection)
    left_out["dangling"] += sum(name not in known for name in sums)
    left_out["unselected"] += sum(name in known and name not in selected for name in sums)
    left_out["undecided"] += sum(name in selected and value == 0 for name, value in sums.items())
    meant = [name for name, value in sums.items() if name in selected and value != 0]
    stored = _stored(pool, tenant, meant)
    rated = [RatedTrajectory(stored[name], sums[name] > 0) for name in meant]
    tokenless = tuple(each for each in rated if not _has_tokens(each.trajectory))
    usable = tuple(each for each in rated if _has_tokens(each.trajectory))
    return Ratings(usable, {**left_out, "tokenless": len(tokenless)}, tokenless)


def _said(pool: PoolReader, tenant: str, metric: str, left_out: Counter[str]) -> Iterator[Feedback]:
    """Feedback on trajectories, in the order of arrival."""
    for said in pool.feedback(tenant=tenant):
        if said.metric != metric:
            continue
        if said.subject_kind == "trajectory":
            yield said
        else:
            left_out["dangling"] += 1


def _known(pool: PoolReader, tenant: str, selection: Selection = EVERYTHING) -> set[str]:
    """The tenant's trajectories that are meant and may be trained on."""
    chosen = replace(selection, splits=_trainable(selection))
    return {each.trajectory_id for each in pool.selected(chosen, tenant=tenant)}


def _stored(pool: PoolReader, tenant: str, ids: Sequence[str]) -> dict[str, Trajectory]:
    found = pool.experiences_of(list(dict.fromkeys(ids)), tenant=tenant)
    return {each.trajectory.id: each.trajectory for each in found}
