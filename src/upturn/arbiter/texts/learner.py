"""Learning from the texts of calls as a fold over the pool: their sketches, in the order of storage.

As in ``arbiter.learner``, what was learned up to a sequence number is a function of the pool, and a snapshot only
saves time. A call that continues an episode is not counted again.
"""

import json
from collections.abc import Callable, Mapping
from time import time

from pydantic_core import from_json
from sqlalchemy import Engine, func, select

from upturn.arbiter.texts.basis import FEATURES, FIRST_FIT, GROWTH, TextBasis
from upturn.arbiter.texts.cluster import ESTABLISHED, SIMILARITY, TextClusters
from upturn.arbiter.texts.sketch import BUCKETS, buckets_of
from upturn.pool import Pool, schema
from upturn.pool.access import current_freeze
from upturn.pool.serving import RouterSnapshot, load_router, save_router
from upturn.records import JsonValue

_PAGE = 1_000
"""Decisions read at once."""


class TextLearner:
    """Teaches clusters and features what a pool has. ``start`` comes first. For one thread.

    Clusters learn from the calls whose family no client and no rule names, features from all calls.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        clusters: TextClusters | None = None,
        basis: TextBasis | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        """``clusters`` and ``basis`` must be untrained; None = none are learned."""
        self.clusters = clusters
        self.basis = basis
        self.sequence = 0
        """Number of the last decision that was read; 0 = none."""
        self._pool = pool
        self._clock = clock
        parts = [f"texts-{BUCKETS}"]
        if clusters is not None:
            parts.append(f"clusters-{clusters.most}-{ESTABLISHED}-{SIMILARITY}")
        if basis is not None:
            parts.append(f"features-{FEATURES}-{FIRST_FIT}-{GROWTH}")
        self.key = "-".join(parts)
        """Of the snapshot in the pool. Other settings have another key, and learn from the beginning."""

    def start(self) -> None:
        """Learns everything that is stored, from the snapshot on if there is one."""
        snapshot = load_router(self._pool.engine, self.key)
        if snapshot is not None:
            state = json.loads(snapshot.state)
            if self.clusters is not None:
                self.clusters.restore(state["clusters"])
            if self.basis is not None:
                self.basis.restore(state["basis"])
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
                self._learn(from_json(row.fields))
            self.sequence = rows[-1].sequence

    def _learn(self, decision: Mapping[str, JsonValue]) -> None:
        buckets = buckets_of(str(decision.get("sketch", "")))
        if self.clusters is not None and decision.get("family_source") in ("cluster", "default"):
            self.clusters.learn(buckets)
        if self.basis is not None:
            self.basis.learn(buckets)

    def snapshot(self) -> RouterSnapshot:
        """Returns everything that was learned, and the number of the last decision in it."""
        state = {
            "clusters": None if self.clusters is None else self.clusters.state(),
            "basis": None if self.basis is None else self.basis.state(),
        }
        return RouterSnapshot(json.dumps(state, separators=(",", ":")), self.sequence)

    def save(self, snapshot: RouterSnapshot | None = None) -> None:
        """Stores a snapshot, by default that of now, in the pool; see ``arbiter.Learner.save``."""
        save_router(self._pool, self.key, snapshot or self.snapshot(), now=self._clock())


def _last_decision(engine: Engine, until: int | None = None) -> int:
    column = schema.decisions.c.sequence
    query = select(func.max(column)) if until is None else select(func.max(column)).where(column <= until)
    with engine.connect() as connection:
        return connection.execute(query).scalar() or 0
