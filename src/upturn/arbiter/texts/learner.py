"""Learning from the texts of calls as a fold over the pool: their sketches, in the order of storage.

As in ``arbiter.learner``, what was learned up to a sequence number is a function of the pool, and a snapshot only
saves time. A call that continues an episode is not counted again.
"""

import json
from collections.abc import Callable
from time import time

from pydantic_core import from_json
from sqlalchemy import Engine, func, select

from upturn.arbiter.texts.cluster import ESTABLISHED, SIMILARITY, TextClusters
from upturn.arbiter.texts.sketch import BUCKETS, buckets_of
from upturn.pool import Pool, schema
from upturn.pool.access import current_freeze
from upturn.pool.serving import RouterSnapshot, load_router, save_router

_PAGE = 1_000
"""Decisions read at once."""


class TextLearner:
    """Teaches clusters what a pool has. ``clusters`` must be untrained; ``start`` comes first. For one thread."""

    def __init__(self, pool: Pool, clusters: TextClusters, *, clock: Callable[[], float] = time) -> None:
        self.clusters = clusters
        self.sequence = 0
        """Number of the last decision that was read; 0 = none."""
        self._pool = pool
        self._clock = clock
        self.key = f"texts-{BUCKETS}-{clusters.most}-{ESTABLISHED}-{SIMILARITY}"
        """Of the snapshot in the pool. Other settings have another key, and learn from the beginning."""

    def start(self) -> None:
        """Learns everything that is stored, from the snapshot on if there is one."""
        snapshot = load_router(self._pool.engine, self.key)
        if snapshot is not None:
            self.clusters.restore(json.loads(snapshot.state))
            self.sequence = snapshot.sequence
        self.catch_up()

    def catch_up(self) -> None:
        """Learns what was stored since the last call, or until an operator froze the router."""
        end, frozen = _last_decision(self._pool.engine), current_freeze(self._pool.engine)
        if frozen is not None:
            end = _last_decision(self._pool.engine, frozen.sequence)
        table = schema.decisions
        while self.sequence < end:
            query = select(table.c.sequence, table.c.fields).where(
                table.c.sequence > self.sequence, table.c.sequence <= end
            )
            with self._pool.engine.connect() as connection:
                rows = connection.execute(query.order_by(table.c.sequence).limit(_PAGE)).all()
            for row in rows:
                if sketch := from_json(row.fields).get("sketch"):
                    self.clusters.learn(buckets_of(sketch))
            self.sequence = rows[-1].sequence

    def snapshot(self) -> RouterSnapshot:
        """Returns everything that was learned, and the number of the last decision in it."""
        return RouterSnapshot(json.dumps(self.clusters.state(), separators=(",", ":")), self.sequence)

    def save(self, snapshot: RouterSnapshot | None = None) -> None:
        """Stores a snapshot, by default that of now, in the pool; see ``arbiter.Learner.save``."""
        save_router(self._pool, self.key, snapshot or self.snapshot(), now=self._clock())


def _last_decision(engine: Engine, until: int | None = None) -> int:
    column = schema.decisions.c.sequence
    query = select(func.max(column)) if until is None else select(func.max(column)).where(column <= until)
    with engine.connect() as connection:
        return connection.execute(query).scalar() or 0
