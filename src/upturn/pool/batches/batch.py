"""Drawing a batch of data points, freezing it as a snapshot, and drawing a snapshot's batch again.

A batch depends on its criteria, its seed, its tenant, and the points up to a sequence number of the pool (the
bound): the same four give the same points in the same order, whatever was stored since. Only erasing points changes
it.

Order: strata that meet the criteria; the number of points in each; equal shares of the combinations that the batch
is balanced over; about four times as many candidates, drawn by a hash; their order by seed and priorities;
the limit for each task and the quality gates. What a combination then lacks is shared among the others.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, bindparam, func, select

from upturn.errors import StoreError
from upturn.pool import schema
from upturn.pool.batches.allocation import allocate
from upturn.pool.batches.choice import Candidate, is_held_out, limited, ranked, strategy_of
from upturn.pool.batches.criteria import UNIFORM, Axis, BatchCriteria
from upturn.pool.batches.draw import Draw, available, candidates, rate_for
from upturn.pool.points import PointColumns, Stratum
from upturn.pool.quality import inspect
from upturn.pool.reader import Experience, PoolReader
from upturn.pool.snapshot import find_snapshot, store_snapshot
from upturn.pool.store import Pool
from upturn.records import EvaluationVerdict, Snapshot, from_fields

_OVERSAMPLING = 4
"""Candidates for each point where priorities, limits or gates choose among them."""
_PAGE = 500
"""Ids in a query."""

_Group = tuple[str | int, ...]
"""A combination of the values that a batch is balanced over."""
_Strategy = tuple[str, tuple[str, ...]]
"""A family, and the names of actions (``strategy_of``)."""


class BatchPoint(NamedTuple):
    """A data point of a batch, without its content."""

    trajectory_id: str
    task_id: str
    evaluation_id: str | None
    """None = no evaluation was stored."""
    family: str
    level: int
    agent_version: str
    verdict: EvaluationVerdict
    score: float | None
    is_held_out: bool
    """True for all points of a held-out task: measure with them, never train on them."""


class Batch(NamedTuple):
    """A batch, and all that it depends on."""

    points: tuple[BatchPoint, ...]
    """In the order of arrival."""
    available: int
    """Number of points that meet the criteria, without ``is_clean`` and ``max_per_task``."""
    draw: Draw

    @property
    def manifest(self) -> str:
        """The criteria, seed and bound as JSON, from which ``redraw`` draws the batch again."""
        criteria = json.loads(self.draw.criteria.text)
        drawn: dict[str, Any] = {"batch": criteria, "seed": self.draw.seed, "bound": self.draw.bound}
        return json.dumps(drawn, separators=(",", ":"))


def get_batch(
    pool: PoolReader, criteria: BatchCriteria, *, tenant: str, seed: int = 0, bound: int | None = None
) -> Batch:
    """Returns a batch of the tenant's points; ``bound`` None = of all that are stored now."""
    with pool.engine.connect() as connection:
        draw = Draw(criteria, tenant, seed, _last(connection, criteria) if bound is None else bound)
        points = available(connection, draw)
    chosen = sorted(_Drawing(pool, draw, points).chosen(), key=lambda item: item[1].trajectory)
    return Batch(_points(pool, draw, points.strata, chosen), len(points.rows), draw)


def _last(connection: Connection, criteria: BatchCriteria) -> int:
    """Returns the last sequence number that such a batch may depend on."""
    tables = (schema.points, *((schema.feedback,) if criteria.tags else ()))
    return max(connection.execute(select(func.max(table.c.sequence))).scalar() or 0 for table in tables)


def freeze_batch(pool: Pool, batch: Batch) -> Snapshot:
    """Stores the batch as a snapshot and returns it; the same batch has the same id, also in a copy of the pool."""
    pairs = ((point.trajectory_id, point.evaluation_id) for point in batch.points)
    return store_snapshot(pool, pairs, (batch.draw.tenant,), batch.manifest)


def redraw(pool: PoolReader, snapshot_id: str) -> Batch:
    """Draws the batch of a snapshot again.

    Raises UnknownNameError for a snapshot that is not stored, and StoreError for one that is no batch or is not the
    same again, because points were erased.
    """
    snapshot = find_snapshot(pool, snapshot_id)
    drawn = json.loads(snapshot.criteria)
    if "batch" not in drawn:
        raise StoreError(f"snapshot {snapshot_id!r} was not drawn as a batch; its points are those that it lists")
    criteria = from_fields(BatchCriteria, json.dumps(drawn["batch"]))
    batch = get_batch(pool, criteria, tenant=snapshot.tenants[0], seed=drawn["seed"], bound=drawn["bound"])
    ids = {point.trajectory_id for point in batch.points}
    if lost := [name for name in snapshot.trajectory_ids if name not in ids]:
        raise StoreError(
            f"snapshot {snapshot_id!r} cannot be drawn again: {len(lost)} of its "
            f"{len(snapshot.trajectory_ids)} points are not drawn any more, such as {lost[0]!r}; were some erased?"
        )
    return batch


class _Drawing:
    """The choice of points for one batch."""

    def __init__(self, pool: PoolReader, draw: Draw, points: PointColumns) -> None:
        self._pool, self._draw, self._criteria, self._available = pool, draw, draw.criteria, points
        counted = np.bincount(points.stratum, minlength=len(points.strata)).tolist()
        self._counts = {stratum: count for stratum, count in enumerate(counted) if count}
        self._groups = {stratum: _group(points.strata[stratum], draw.criteria.balance) for stratum in self._counts}
        self._complete = set[_Group]()
        """Groups all of whose points are candidates, because some of them were not enough."""

    def chosen(self) -> list[tuple[int, Candidate]]:
        """Returns the stratum and the candidate of each point."""
        left = Counter[_Group]()
        for number, count in sorted(self._counts.items(), key=lambda item: (self._groups[item[0]], item[0])):
            left[self._groups[number]] += count
        sizes = dict(left)
        while True:
            shares = allocate(self._criteria.size, sizes)
            chosen = self._choose(shares, left)
            short = {group: len(members) for group, members in chosen.items() if len(members) < shares[group]}
            if not short:
                return [member for members in chosen.values() for member in members]
            for group, count in short.items():
                if group in self._complete or self._rate(shares[group], left[group]) == 1.0:
                    sizes[group] = count
                self._complete.add(group)

    def _choose(
        self, shares: Mapping[_Group, int], left: Mapping[_Group, int]
    ) -> dict[_Group, list[tuple[int, Candidate]]]:
        rates = {
            number: 1.0 if group in self._complete else self._rate(shares[group], left[group])
            for number, group in self._groups.items()
            if shares[group]
        }
        drawn = candidates(self._available, self._draw.seed, rates)
        members: dict[_Group, list[Candidate]] = defaultdict(list)
        stratum_of: dict[int, int] = {}
        for number, candidate in drawn:
            stratum_of[candidate.trajectory] = number
            members[self._groups[number]].append(candidate)
        counts, strategies = Counter[int](), Counter[_Strategy]()
        chosen: dict[_Group, list[tuple[int, Candidate]]] = {}
        for group, share in shares.items():
            order = ranked(members[group], self._criteria.priorities, self._draw.seed)
            few = limited(order, self._criteria.max_per_task, counts)
            picked = list(islice(self._admitted(few, strategies), share))
            counts.update(candidate.task for candidate in picked)
            chosen[group] = [(stratum_of[candidate.trajectory], candidate) for candidate in picked]
        return chosen

    def _rate(self, share: int, count: int) -> float:
        is_free = (
            self._criteria.priorities == UNIFORM
            and self._criteria.max_per_task is None
            and self._criteria.max_per_strategy is None
            and not self._criteria.is_clean
        )
        return rate_for(share if is_free else _OVERSAMPLING * share, count)

    def _admitted(self, order: Iterable[Candidate], strategies: Counter[_Strategy]) -> Iterator[Candidate]:
        """Yields the candidates that pass the quality gates and have no frequent strategy, if that is asked for.

        ``strategies``: how many of each the batch has; counts those that are yielded.
        """
        most = self._criteria.max_per_strategy
        if not self._criteria.is_clean and most is None:
            yield from order
            return
        rest = iter(order)
        while page := list(islice(rest, _PAGE)):
            for candidate, point in zip(page, self._read(page), strict=True):
                if self._criteria.is_clean and not inspect(point).is_clean:
                    continue
                strategy = candidate.family, strategy_of(point.trajectory)
                if most is None or strategies[strategy] < most:
                    strategies[strategy] += 1
                    yield candidate

    def _read(self, page: Sequence[Candidate]) -> Iterator[Experience]:
        names = _names(self._pool, schema.trajectories, [candidate.trajectory for candidate in page])
        ids = [names[candidate.trajectory][0] for candidate in page]
        draw = self._draw
        return self._pool.experiences_of(
            ids, tenant=draw.tenant, has_tokens=draw.criteria.is_clean, until=draw.bound
        )


def _group(stratum: Stratum, balance: Sequence[Axis]) -> _Group:
    return tuple(getattr(stratum, axis) for axis in balance)


def _points(
    pool: PoolReader, draw: Draw, strata: Sequence[Stratum], chosen: Sequence[tuple[int, Candidate]]
) -> tuple[BatchPoint, ...]:
    trajectories = _names(pool, schema.trajectories, [candidate.trajectory for _, candidate in chosen])
    evaluated = [candidate.evaluation for _, candidate in chosen if candidate.evaluation is not None]
    evaluations = _names(pool, schema.evaluations, evaluated)
    return tuple(
        BatchPoint(
            *trajectories[candidate.trajectory],
            None if candidate.evaluation is None else evaluations[candidate.evaluation][0],
            strata[number].family,
            strata[number].level,
            strata[number].agent_version,
            candidate.verdict,
            candidate.score,
            is_held_out(draw.seed, candidate.task, draw.criteria.heldout_share),
        )
        for number, candidate in chosen
    )


def _names(pool: PoolReader, table: Any, sequences: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Returns the id and the task's id of each record with one of these sequence numbers."""
    names: dict[int, tuple[str, str]] = {}
    # as one parameter, because SQLAlchemy takes longer to look at 500 of them than the database
    page: Any = bindparam("page", expanding=True)
    query = select(table.c.sequence, table.c.id, table.c.task_id).where(table.c.sequence.in_(page))
    with pool.engine.connect() as connection:
        for start in range(0, len(sequences), _PAGE):
            rows: Any = connection.execute(query, {"page": sequences[start : start + _PAGE]}).cursor
            names.update((row[0], (row[1], row[2])) for row in rows.fetchall())
    return names
