"""The evidence of open releases from what a server has served: outcomes that arrive one by one, and late.

An episode is one observation. Its outcome is the first value of any of its decisions: a verdict, a feedback value
of the primary metric (a success from half of its range on), or the failure of a call that another version answered.
Without one it is missing once the metric's delay has passed. Episodes count in the order in which they began, so
that the evidence depends on no outcome's time of arrival.

The pool has everything: decisions with their release, outcomes, and the episodes that a release has counted. So a
new process continues where the last one ended.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import time
from typing import NamedTuple

from sqlalchemy import Engine, func, select

from upturn.config import CanarySettings, MetricConfig, declared_metrics
from upturn.deployment import Awaited, Served, episode_digest, split_settled
from upturn.errors import ReleaseError
from upturn.loop.live_release import take_evidence
from upturn.pool import Pool, schema
from upturn.pool.leases import Lease
from upturn.pool.serving import Value, last_sequence, values_of
from upturn.records import Decision, Evaluation, EvaluationVerdict, Release, from_fields

_MOST_WAITING = 1_000
"""Episodes of a release in memory; the others are read later."""
_PAGE = 64
"""Episodes whose outcomes are looked up at once."""
_FRACTION = 50
"""A block has at least this part of the counted episodes, because a release is stored whole after each block."""
_PATIENCE_SECONDS = 60.0
"""How long a smaller block waits."""
_log = logging.getLogger("upturn.gateway")


class _Waiting(NamedTuple):
    """An episode that is not counted yet."""

    digest: str
    decision: Decision
    """Its first one."""
    decided_at: float


@dataclass(slots=True)
class _Queue:
    """The episodes of a release in one of its states, in the order in which they began."""

    read: int
    """Number of the last decision that was read."""
    waiting: deque[_Waiting] = field(default_factory=deque)
    names: set[str] = field(default_factory=set)
    """Digests of all episodes that were read."""
    ready_since: float | None = None
    """When the next block got its first episode; None = it has none."""


class CanaryEvidence:
    """Gives open releases the outcomes of their episodes. For one thread at a time."""

    def __init__(
        self, pool: Pool, *, metrics: Sequence[MetricConfig] = (), clock: Callable[[], float] = time
    ) -> None:
        """``metrics``: the configured ones, of which the primary one counts; ``clock``: UTC seconds, as of the
        pool's records."""
        self._lease = Lease(pool, "releases")
        self._pool = self._lease.pool
        self._metric = declared_metrics(metrics)[0]
        self._clock = clock
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._failures: dict[str, str] = {}

    def close(self) -> None:
        """Lets another process advance the releases at once."""
        self._lease.release()

    def advance(self, releases: Iterable[Release], settings: CanarySettings) -> list[Release]:
        """Gives open releases their next block of evidence, if it has come; returns those that it changed.

        A release that cannot take its evidence is logged once and left as it is. Of several processes on a pool,
        one does this; in the others nothing changes.
        """
        if not self._lease.take():
            return []
        changed: list[Release] = []
        for release in releases:
            try:
                moved = self._advance(release, settings)
            except ReleaseError as exc:
                if self._failures.get(release.id) != str(exc):
                    self._failures[release.id] = str(exc)
                    _log.warning("release %s takes no evidence: %s", release.id, exc)
                continue
            if moved is not None:
                changed.append(moved)
        return changed

    def _advance(self, release: Release, settings: CanarySettings) -> Release | None:
        key = (release.id, release.state)
        if key not in self._queues:
            self._queues[key] = _Queue(_beginning(self._pool.engine, release))
        queue, counted = self._queues[key], set(release.counted)
        queue.waiting = deque(episode for episode in queue.waiting if episode.digest not in counted)
        if len(queue.waiting) < _MOST_WAITING:
            self._read(queue, release, counted)
        block = self._settled(queue.waiting)
        if not block:
            return None
        now = self._clock()
        queue.ready_since = now if queue.ready_since is None else queue.ready_since
        is_large = len(block) * _FRACTION >= len(counted)
        if not is_large and now - queue.ready_since < _PATIENCE_SECONDS:
            return None
        queue.ready_since = None
        moved = take_evidence(self._pool, release.id, block, settings, has_empty=False)
        if moved.state != release.state:
            _log.info("release %s of %s: %s", moved.id, moved.candidate, moved.state)
        return moved

    def _read(self, queue: _Queue, release: Release, counted: set[str]) -> None:
        """Adds the episodes that began since the last time."""
        table, end = schema.decisions, last_sequence(self._pool.engine)
        belongs = (
            table.c.chosen == release.candidate if release.state == "watch" else table.c.release_id == release.id
        )
        query = (
            select(table.c.sequence, table.c.fields, table.c.recorded_at)
            .where(table.c.sequence > queue.read, table.c.sequence <= end, belongs)
            .order_by(table.c.sequence)
            .limit(_MOST_WAITING)
        )
        with self._pool.engine.connect() as connection:
            rows = connection.execute(query).all()
        for row in rows:
            decision = replace(from_fields(Decision, row.fields), features=())
            digest = episode_digest(decision)
            if digest not in queue.names and digest not in counted:
                queue.names.add(digest)
                queue.waiting.append(_Waiting(digest, decision, row.recorded_at))
        queue.read = rows[-1].sequence if len(rows) == _MOST_WAITING else max(queue.read, end)

    def _settled(self, waiting: Sequence[_Waiting]) -> list[Served]:
        """Returns the episodes with final outcomes before the first one without."""
        settled: list[Served] = []
        episodes = list(waiting)
        for start in range(0, len(episodes), _PAGE):
            page = episodes[start : start + _PAGE]
            values = self._values([episode.decision for episode in page])
            awaited = [
                Awaited(Served(episode.decision, _evaluation(episode.decision, value)), episode.decided_at)
                for episode, value in zip(page, values, strict=True)
            ]
            delay = self._metric.delay_hours * 3_600.0
            final = split_settled(awaited, now=self._clock(), delay_seconds=delay, window_seconds=0.0).final
            settled += final
            if len(final) < len(page):
                break
        return settled

    def _values(self, decisions: Sequence[Decision]) -> list[Value | None]:
        """Returns the first value of each decision's episode; None = it has none yet."""
        engine = self._pool.engine
        members = _decisions_of_episodes(engine, decisions)
        ids = list(dict.fromkeys(member for names in members.values() for member in names))
        values = values_of(engine, ids, metrics=(self._metric,))
        return [
            min(
                (values[member] for member in members[decision.id] if member in values),
                key=lambda value: (value.reward is None, value.sequence),
                default=None,
            )
            for decision in decisions
        ]


def _beginning(engine: Engine, release: Release) -> int:
    """Returns the number of the release's first state."""
    table = schema.history
    query = select(func.min(table.c.sequence)).where(
        table.c.kind == schema.releases.name, table.c.record_id == release.id
    )
    with engine.connect() as connection:
        return connection.execute(query).scalar() or 0


def _decisions_of_episodes(engine: Engine, decisions: Sequence[Decision]) -> Mapping[str, Sequence[str]]:
    """Returns the ids of all decisions of each decision's episode, by the id of the latter.

    A call has the id of its decision; only calls have episodes.
    """
    table = schema.calls
    members: dict[str, list[str]] = {decision.id: [decision.id] for decision in decisions}
    openings = {(decision.tenant, decision.episode or ""): decision.id for decision in decisions}
    with engine.connect() as connection:
        for tenant in {decision.tenant for decision in decisions}:
            episodes = [episode for owner, episode in openings if owner == tenant and episode]
            query = select(table.c.episode, table.c.id).where(
                table.c.tenant == tenant, table.c.episode.in_(episodes)
            )
            for row in connection.execute(query):
                members[openings[tenant, row.episode]].append(row.id)
    return members


def _evaluation(decision: Decision, value: Value | None) -> Evaluation | None:
    """Returns a value as an evaluation; None = there is no value."""
    if value is None or value.evaluation is not None:
        return None if value is None else value.evaluation
    assert value.reward is not None  # only verdicts are missing
    verdict: EvaluationVerdict = "success" if value.reward >= 0.5 else "failure"
    return Evaluation(
        f"value-{value.sequence}", decision.task_id, "", "feedback", verdict, (), {}, {}, value.reward
    )
