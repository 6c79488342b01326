"""Which trajectories of a tenant an export has: those of a selection or of a snapshot."""

from collections.abc import Iterator
from typing import NamedTuple

from upturn.errors import ConfigError
from upturn.pool.exports.arrival import last_sequence
from upturn.pool.reader import Experience, PoolReader
from upturn.pool.selection import EVERYTHING, Selection
from upturn.pool.snapshot import experiences_in, taken_at, trajectories_in


class Choice(NamedTuple):
    """A selection, or a snapshot by its id. Raises ConfigError, when it is read, for both."""

    selection: Selection = EVERYTHING
    snapshot: str | None = None
    """None = the selection."""

    def check(self) -> None:
        """Raises ConfigError for a snapshot together with a selection."""
        if self.snapshot is not None and self.selection != EVERYTHING:
            raise ConfigError(
                [
                    f"snapshot {self.snapshot!r} fixes which trajectories are exported, but a selection is set "
                    f"too: {self.selection.criteria}; omit one of them"
                ]
            )

    def until(self, pool: PoolReader) -> int:
        """Returns the sequence number up to which records are exported: the snapshot's own, or the latest one."""
        return last_sequence(pool) if self.snapshot is None else taken_at(pool, self.snapshot)

    def trajectory_ids(self, pool: PoolReader, *, tenant: str) -> frozenset[str] | None:
        """Returns the ids of the chosen trajectories; None = all of the tenant.

        Raises UnknownNameError for a snapshot that is not stored or does not include the tenant.
        """
        self.check()
        if self.snapshot is not None:
            return frozenset(trajectories_in(pool, self.snapshot, tenant=tenant))
        if self.selection == EVERYTHING:
            return None
        return frozenset(row.trajectory_id for row in pool.selected(self.selection, tenant=tenant))

    def size(self, pool: PoolReader, *, tenant: str) -> int:
        """Returns the number of chosen trajectories; raises as ``trajectory_ids``."""
        ids = self.trajectory_ids(pool, tenant=tenant)
        return len(pool.selected(tenant=tenant)) if ids is None else len(ids)

    def experiences(self, pool: PoolReader, *, tenant: str, has_tokens: bool) -> Iterator[Experience]:
        """Yields the chosen data points; raises as ``trajectory_ids``."""
        self.check()
        if self.snapshot is not None:
            return experiences_in(pool, self.snapshot, tenant=tenant, has_tokens=has_tokens)
        return pool.experiences(self.selection, tenant=tenant, has_tokens=has_tokens)


EVERYTHING_CHOSEN = Choice()
