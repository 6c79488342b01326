"""The queries of a batch, over the narrow tables of points and strata alone.

Candidates are drawn by the database: a point is one if ``(a · trajectory + b) mod p`` is below a threshold, with a
and b from the seed. For a random seed, any point is a candidate with the same probability, independently of any
other one (Carter and Wegman 1979, universal hashing).
"""

import random
from collections.abc import Collection, Mapping, Sequence
from math import ceil, sqrt
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from upturn.pool.batches.choice import Candidate
from upturn.pool.batches.criteria import BatchCriteria
from upturn.pool.points import Stratum
from upturn.pool.schema import points, strata
from upturn.pool.tags import tagged

_PRIME = 2**31 - 1
"""Products of two smaller numbers fit in 64 bits."""

_MARGIN = 5.0
"""Standard deviations of the number of candidates above the number that is needed."""

_STEPS = 64
"""Points of different strata are drawn with rates of 2⁰, 2⁻¹ᐟ⁴ … 2⁻¹⁶, so that one query has few conditions."""

_STRATA_PER_CONDITION = 900
"""SQLite allows 999 values in older versions; the condition has a few others."""


class Draw(NamedTuple):
    """What a batch depends on."""

    criteria: BatchCriteria
    tenant: str
    seed: int
    bound: int
    """The last sequence number of the pool that is read."""


def matching_strata(connection: Connection, draw: Draw) -> dict[int, Stratum]:
    """Returns the strata that meet the criteria, by id."""
    table, criteria = strata.c, draw.criteria
    conditions: list[ColumnElement[bool]] = [table.tenant == draw.tenant]
    for column, allowed in (
        (table.family, criteria.families),
        (table.environment, criteria.environments),
        (table.split, criteria.splits),
        (table.level, criteria.levels),
        (table.agent, criteria.agents),
        (table.agent_version, criteria.agent_versions),
        (table.origin, criteria.origins),
        (table.outcome, criteria.outcomes),
    ):
        if allowed:
            conditions.append(column.in_(allowed))
    rows = connection.execute(select(strata).where(*conditions)).all()
    return {row[0]: Stratum(*row[1:]) for row in rows}


def available(connection: Connection, draw: Draw, ids: Collection[int]) -> dict[int, int]:
    """Returns the number of points of each of these strata that meet the criteria, in the order of the ids."""
    query = select(points.c.stratum, func.count()).where(*_conditions(draw)).group_by(points.c.stratum)
    # All strata are counted: the database reads the whole table anyway.
    rows = connection.execute(query.order_by(points.c.stratum))
    return {row[0]: row[1] for row in rows if row[0] in ids}


def candidates(connection: Connection, draw: Draw, rates: Mapping[int, float]) -> list[tuple[int, Candidate]]:
    """Returns the stratum and the rest of some points of each stratum, at least of about the share ``rates``.

    The same arguments give the same points, in the order of their trajectories.
    """
    if not rates:
        return []
    generator = random.Random(draw.seed)
    multiplier, shift = generator.randrange(1, _PRIME), generator.randrange(_PRIME)
    table = points.c
    hashed = ((table.trajectory % _PRIME) * multiplier + shift) % _PRIME
    by_step: dict[int, list[int]] = {}
    for stratum, rate in rates.items():
        step = next((step for step in range(_STEPS) if rate > _rate(step + 1)), _STEPS)
        by_step.setdefault(step, []).append(stratum)
    columns = (table.stratum, table.trajectory, table.task, table.evaluation, table.verdict, table.score)
    query = select(*columns, table.written_tokens).where(*_conditions(draw))
    chosen: list[tuple[int, Candidate]] = []
    for page in _pages(by_step):
        drawn = [
            and_(table.stratum.in_(ids), hashed < int(_PRIME * _rate(step))) if step else table.stratum.in_(ids)
            for step, ids in page.items()
        ]
        rows = connection.execute(query.where(or_(*drawn)))
        chosen.extend((row[0], Candidate("", *row[1:])) for row in rows)
    return sorted(chosen, key=lambda item: item[1].trajectory)


def _rate(step: int) -> float:
    return float(0.5 ** (step / 4))


def rate_for(needed: int, count: int) -> float:
    """Returns the share of ``count`` points of which at least ``needed`` become candidates, but for rare cases."""
    return 1.0 if needed >= count else min(1.0, ceil(needed + _MARGIN * sqrt(needed) + _MARGIN**2) / count)


def _pages(by_step: Mapping[int, Sequence[int]]) -> list[dict[int, list[int]]]:
    """Returns the strata in parts that a query can name."""
    pages: list[dict[int, list[int]]] = [{}]
    room = _STRATA_PER_CONDITION
    for step in sorted(by_step):
        for stratum in sorted(by_step[step]):
            if not room:
                pages.append({})
                room = _STRATA_PER_CONDITION
            pages[-1].setdefault(step, []).append(stratum)
            room -= 1
    return pages


def _conditions(draw: Draw) -> list[ColumnElement[bool]]:
    table, criteria, bound = points.c, draw.criteria, draw.bound
    conditions: list[Any] = [table.sequence <= bound, or_(table.until.is_(None), table.until > bound)]
    conditions += tagged(table.task, criteria.tags, bound, by="task")
    if criteria.verdicts:
        conditions.append(table.verdict.in_(criteria.verdicts))
    if criteria.min_score is not None:
        conditions.append(table.score >= criteria.min_score)
    if criteria.max_score is not None:
        conditions.append(table.score <= criteria.max_score)
    if criteria.since is not None:
        conditions.append(table.recorded_at >= criteria.since)
    if criteria.before is not None:
        conditions.append(table.recorded_at < criteria.before)
    return conditions
