"""Restoring a pool from a backup, which is a copy (``copying``), and the drill that shows that it works."""

from pathlib import Path
from time import monotonic
from typing import NamedTuple

from sqlalchemy import Engine, func, select

from upturn.errors import StoreError
from upturn.pool.audit import Frontier, TreeHead, audit_problems, tree_of
from upturn.pool.database import Location, integrity_problems, location_of, reading_engine
from upturn.pool.schema import LEDGER, admin_acts, api_keys, history, metadata
from upturn.pool.store import Pool
from upturn.pool.transfer.copying import copy_pool
from upturn.pool.transfer.moving import move_pool

_GROWING = frozenset(table.name for table in (*LEDGER, history, api_keys, admin_acts))
"""Tables that only grow, except by erasures; others are compared only if the pool did not change them meanwhile."""


class Drill(NamedTuple):
    """What a drill restored, and how it differs from the pool."""

    tree: TreeHead
    """Of the restored pool."""
    rows: dict[str, int]
    """Restored rows by table."""
    seconds: float
    """For backup, restoring and its checks."""
    problems: tuple[str, ...]
    """Empty = the backup restores to what the pool had when the backup began."""


def restore_pool(backup: Path, target: Location) -> TreeHead:
    """Checks a backup and copies it to a new place; returns size and root of its audit log.

    Raises StoreError for a backup that is no pool, is damaged or was changed, and for a target that exists.
    """
    if not backup.is_file():
        raise StoreError(f"no backup at {str(backup)!r}; `upturn pool copy --out FILE` makes one")
    tree, problems = _checked(backup)
    if problems:
        raise StoreError(
            f"the backup {str(backup)!r} is not what was written, nothing is restored: {problems[0]} "
            f"({len(problems)} problems); use an earlier backup"
        )
    if isinstance(target, Path):
        copy_pool(backup, target)
    else:
        move_pool(backup, target)
    return tree


def drill(location: str | Location, folder: Path) -> Drill:
    """Backs the pool up into the folder, restores the backup there, and compares rows and the audit log's root.

    The pool may be written meanwhile. The folder gets two files, which the caller deletes.
    """
    location, started = location_of(location), monotonic()
    backup, restored = folder / "backup.db", folder / "restored.db"
    engine = reading_engine(location)
    try:
        before = _rows(engine)
        copy_pool(location, backup)
        after = _rows(engine)
        restore_pool(backup, restored)
        tree, problems = _checked(restored)
        with engine.connect() as connection:
            here = tree_of(connection, tree.size)
    finally:
        engine.dispose()
    copied = reading_engine(restored)
    try:
        rows = _rows(copied)
    finally:
        copied.dispose()
    if here != tree:
        problems.append("the audit log of the restored pool has another root than the pool's")
    for table, count in rows.items():
        low, high = sorted((before[table], after[table]))
        is_compared = table in _GROWING or low == high
        if is_compared and not low <= count <= high:
            problems.append(f"{table} has {count} rows, the pool {before[table]} to {after[table]}")
    return Drill(tree, rows, monotonic() - started, tuple(problems))


def _checked(path: Path) -> tuple[TreeHead, list[str]]:
    """Returns the tree of a pool's log, computed anew, and what is wrong with the pool."""
    tree = Frontier()
    with Pool.open(path, read_only=True) as pool:
        problems = integrity_problems(pool.engine)
        if not problems:
            with pool.engine.connect() as connection:
                problems = [str(problem) for problem in audit_problems(connection, tree)]
    return tree.head(), problems


def _rows(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        return {
            table.name: int(connection.execute(select(func.count()).select_from(table)).scalar_one())
            for table in metadata.sorted_tables
        }
