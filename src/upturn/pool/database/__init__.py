"""The database of a pool: a file of SQLite, or a schema of PostgreSQL.

It has engines, compiled statements, savepoints, the revision of the tables, and errors with advice. Not here: the
tables (``schema``) and their revisions (``migrations``). Start with ``backend``, then ``sqlite`` and ``postgres``.
"""

from upturn.pool.database.backend import (
    Backend,
    backend_in,
    backend_of,
    driver_of,
    pool_exists,
    reading_engine,
    writing_engine,
)
from upturn.pool.database.location import Location, PoolUrl, location_of, names_pool
from upturn.pool.database.operator import (
    integrity_problems,
    operator_transaction,
    other_writers,
    stored_bytes,
    writers_excluded,
)
from upturn.pool.database.revision import begin_move, bring_to_head, check_head, end_move, is_at_head
from upturn.pool.database.rows import insert_rows, rows_by_id
from upturn.pool.database.server import server_settings
from upturn.pool.database.sqlite import POOL_ENDINGS
from upturn.pool.database.sqlite_driver import sqlite_error
from upturn.pool.database.statement import (
    Savepoint,
    Statement,
    insert_new,
    last_numbers,
    lease_token,
    log_head,
    move_log_head,
    rejected,
)

__all__ = [
    "POOL_ENDINGS",
    "Backend",
    "Location",
    "PoolUrl",
    "Savepoint",
    "Statement",
    "backend_in",
    "backend_of",
    "begin_move",
    "bring_to_head",
    "check_head",
    "driver_of",
    "end_move",
    "insert_new",
    "insert_rows",
    "integrity_problems",
    "is_at_head",
    "last_numbers",
    "lease_token",
    "location_of",
    "log_head",
    "move_log_head",
    "names_pool",
    "operator_transaction",
    "other_writers",
    "pool_exists",
    "reading_engine",
    "rejected",
    "rows_by_id",
    "server_settings",
    "sqlite_error",
    "stored_bytes",
    "writers_excluded",
    "writing_engine",
]
