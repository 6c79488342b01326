"""Which points a batch may have, and which of them are candidates, as arrays.

A point is a candidate if ``(a · trajectory + b) mod p`` is below a threshold, with a and b from the seed. For a
random seed, any point is a candidate with the same probability, independently of any other one (Carter and Wegman
1979, universal hashing).
"""

import random
from collections.abc import Mapping
from math import ceil, isnan, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from upturn.pool.batches.choice import Candidate
from upturn.pool.batches.criteria import BatchCriteria
from upturn.pool.points import VERDICTS, PointColumns, has_tags, read_points

_PRIME = 2**31 - 1
"""Products of two smaller numbers fit in 64 bits."""

_MARGIN = 5.0
"""Standard deviations of the number of candidates above the number that is needed."""

_STEPS = 64
"""Points of different strata are drawn with rates of 2⁰, 2⁻¹ᐟ⁴ … 2⁻¹⁶."""


class Draw(NamedTuple):
    """What a batch depends on."""

    criteria: BatchCriteria
    tenant: str
    seed: int
    bound: int
    """The last sequence number of the pool that is read."""


def available(connection: Connection, draw: Draw) -> PointColumns:
    """Returns the points that meet the criteria."""
    criteria = draw.criteria
    among = {
        "family": criteria.families,
        "environment": criteria.environments,
        "split": criteria.splits,
        "level": criteria.levels,
        "agent": criteria.agents,
        "agent_version": criteria.agent_versions,
        "origin": criteria.origins,
        "outcome": criteria.outcomes,
    }
    points = read_points(connection, tenant=draw.tenant, among=among, bound=draw.bound)
    score, recorded_at = points.rows["score"], points.rows["recorded_at"]  # no score is NaN, which meets nothing
    mask = np.ones(len(score), bool)
    if criteria.verdicts:
        mask &= np.isin(points.rows["verdict"], [VERDICTS.index(verdict) for verdict in criteria.verdicts])
    if criteria.min_score is not None:
        mask &= score >= criteria.min_score
    if criteria.max_score is not None:
        mask &= score <= criteria.max_score
    if criteria.since is not None:
        mask &= recorded_at >= criteria.since
    if criteria.before is not None:
        mask &= recorded_at < criteria.before
    mask &= has_tags(connection, points, criteria.tags, until=draw.bound)
    return points if mask.all() else points.where(mask)


def candidates(points: PointColumns, seed: int, rates: Mapping[int, float]) -> list[tuple[int, Candidate]]:
    """Returns the stratum, by its index, and the rest of some points of each stratum, at least of about the share
    ``rates``.

    The same arguments give the same points, in the order of their trajectories.
    """
    if not rates:
        return []
    thresholds = np.zeros(len(points.strata), np.int64)
    for stratum, rate in rates.items():
        step = next((step for step in range(_STEPS) if rate > _rate(step + 1)), _STEPS)
        thresholds[stratum] = int(_PRIME * _rate(step)) if step else _PRIME
    drawn = points.where(_hashed(points.column("trajectory"), seed) < thresholds[points.stratum])
    order = np.argsort(drawn.rows["trajectory"], kind="stable")
    names = ("trajectory", "task", "evaluation", "verdict", "score", "written_tokens")
    columns = [drawn.rows[name][order].tolist() for name in names]
    return [
        (stratum, _candidate(points.strata[stratum].family, row))
        for stratum, row in zip(drawn.stratum[order].tolist(), zip(*columns, strict=True), strict=True)
    ]


def _candidate(family: str, row: tuple[Any, ...]) -> Candidate:
    trajectory, task, evaluation, verdict, score, written_tokens = row
    number = None if isnan(score) else score
    return Candidate(family, trajectory, task, evaluation or None, VERDICTS[verdict], number, written_tokens)


def _hashed(trajectories: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Returns a number below ``_PRIME`` for each."""
    generator = random.Random(seed)
    multiplier, shift = generator.randrange(1, _PRIME), generator.randrange(_PRIME)
    hashed: NDArray[np.int64] = ((trajectories % _PRIME) * multiplier + shift) % _PRIME
    return hashed


def _rate(step: int) -> float:
    return float(0.5 ** (step / 4))


def rate_for(needed: int, count: int) -> float:
    """Returns the share of ``count`` points of which at least ``needed`` become candidates, but for rare cases."""
    return 1.0 if needed >= count else min(1.0, ceil(needed + _MARGIN * sqrt(needed) + _MARGIN**2) / count)
