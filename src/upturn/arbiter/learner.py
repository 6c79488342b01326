"""Learning as a fold over the pool: outcomes teach a policy in the order in which they were stored, each once.

What a policy has learned up to a sequence number is a function of the pool. Restarts, other processes and deleted
snapshots therefore lead to the same state, bit for bit. A snapshot only saves the time to read everything again.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from time import time

from upturn.arbiter.consumption import Consumption
from upturn.arbiter.policy import RoutingOutcome, StoredPolicy
from upturn.config import MetricConfig, taught_metrics
from upturn.pool import Pool, Scope
from upturn.pool.access import current_freeze
from upturn.pool.serving import RouterSnapshot, last_sequence, load_router, outcomes_after, save_router

FOLD = 3
"""Incremented when the same records teach something else; older snapshots are then not used."""


class Learner:
    """Teaches one policy what a pool has. For one thread; there may be others, in this process or another.

    ``policy`` must be untrained. ``start`` comes first, or ``restore``.
    """

    def __init__(
        self,
        pool: Pool,
        policy: StoredPolicy,
        *,
        tenant: Scope,
        metrics: Sequence[MetricConfig] = (),
        clock: Callable[[], float] = time,
        may_freeze: bool = True,
    ) -> None:
        """``tenant``: whose outcomes are learned; ALL_TENANTS for a router that they share. ``metrics``: the
        configured ones of feedback; () = the default ones. ``may_freeze``: False = it learns although an operator
        has frozen the router, because nothing is routed by it."""
        self.policy = policy
        self.sequence = 0
        """Number of the last record that was read; 0 = none."""
        self.learned = 0
        """Outcomes with a reward that this object has taught the policy."""
        self.pool = pool
        self.consumption: Consumption | None = None
        """Follows what is learned, so that forecasts depend on the same records; None = nothing is forecast."""
        self._tenant = tenant
        self._metrics = taught_metrics(metrics)
        self._clock = clock
        self._may_freeze = may_freeze
        # The snapshot of an untrained policy is a hash of its name and settings.
        meaning = [(m.name, m.low, m.high, m.direction, m.weight) for m in self._metrics]
        text = repr((FOLD, policy.name, policy.snapshot(), str(tenant), meaning))
        self.key = f"{policy.name}-{sha256(text.encode()).hexdigest()[:16]}"
        """Of the snapshot in the pool. Other settings have another key, and learn from the beginning."""

    def count_consumption(self) -> Consumption:
        """Returns the tokens and seconds of calls and tasks, counted from now on; call it before ``start``."""
        self.consumption = Consumption(self.pool, tenant=self._tenant)
        return self.consumption

    def start(self) -> None:
        """Learns everything that is stored, from the snapshot on if there is one."""
        snapshot = load_router(self.pool.engine, self.key)
        if snapshot is not None:
            self.restore(snapshot)
        self.catch_up()

    @property
    def lag(self) -> int:
        """Number of records that were stored since the last ``catch_up``; also of those that teach nothing."""
        return max(0, last_sequence(self.pool.engine) - self.sequence)

    def catch_up(self, until: int | None = None) -> int:
        """Learns what was stored since the last call; returns the number of outcomes with a reward.

        ``until``: number of the last record to read; None = all that are stored now. While an operator has frozen
        the router, nothing that was stored since is learned.
        """
        end = last_sequence(self.pool.engine) if until is None else until
        # Read after the end: a freeze that comes later has a number that is not below it.
        if self._may_freeze and (frozen := current_freeze(self.pool.engine)) is not None:
            end = min(end, frozen.sequence)
        learned = 0
        for outcome in outcomes_after(
            self.pool.engine, self.sequence, end, metrics=self._metrics, tenant=self._tenant
        ):
            self.policy.learn(outcome.decision, RoutingOutcome(outcome.decision.id, outcome.reward))
            learned += outcome.reward is not None
        self.sequence = max(self.sequence, end)
        self.learned += learned
        self._follow()
        return learned

    def outcomes_since(self, sequence: int) -> int:
        """Returns the number of outcomes with a reward that were stored after the record with that number."""
        end = last_sequence(self.pool.engine)
        stored = outcomes_after(self.pool.engine, sequence, end, metrics=self._metrics, tenant=self._tenant)
        return sum(outcome.reward is not None for outcome in stored)

    def snapshot(self) -> RouterSnapshot:
        """Returns the policy's state and the number of the last record in it."""
        return RouterSnapshot(self.policy.state(), self.sequence)

    def restore(self, snapshot: RouterSnapshot) -> None:
        """Continues from a snapshot of the same policy."""
        self.policy.restore(snapshot.state)
        self.sequence = snapshot.sequence
        self._follow()

    def _follow(self) -> None:
        if self.consumption is not None:
            self.consumption.follow(self.sequence)

    def save(self, snapshot: RouterSnapshot | None = None) -> None:
        """Stores a snapshot, by default that of now, in the pool, unless that has a later one.

        Another thread than that of the learner may store one that was taken before. The pool must be open for
        writing.
        """
        save_router(self.pool, self.key, snapshot or self.snapshot(), now=self._clock())
