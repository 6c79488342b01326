"""Training on records of other tenants: anonymised, and of tenants that have opted in (``access.policy``).

A tenant's own records are read as they are. Of the others, words are anonymised and token rows are left out, since
they hold the words. Ids and the names of agents and families stay. Revoking the consent holds for every later read.
"""

from collections.abc import Iterator

from upturn.pool.access import check_sharing
from upturn.pool.ingestion import keep_borders
from upturn.pool.privacy import anonymise, mask
from upturn.pool.reader import Experience, PoolReader
from upturn.pool.snapshot import experiences_in, find_snapshot


def learnable_in(pool: PoolReader, snapshot_id: str, *, tenant: str) -> Iterator[Experience]:
    """Yields all data points of a snapshot for training by ``tenant``, those of other tenants anonymised.

    Raises SharingError for tenants that do not opt in any more, and as ``experiences_in``."""
    others = [name for name in find_snapshot(pool, snapshot_id).tenants if name != tenant]
    check_sharing(pool.engine, others)
    yield from experiences_in(pool, snapshot_id, tenant=tenant)
    for name in others:
        for experience in experiences_in(pool, snapshot_id, tenant=name, has_tokens=False):
            yield _anonymous(experience)


def _anonymous(experience: Experience) -> Experience:
    task, trajectory, evaluation = experience
    clean = keep_borders(trajectory, anonymise(trajectory, mask), mask)
    return Experience(anonymise(task, mask), clean, None if evaluation is None else anonymise(evaluation, mask))
