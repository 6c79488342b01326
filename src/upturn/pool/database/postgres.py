"""PostgreSQL: a pool is the tables of one schema of a database, with any number of writing processes.

A writing transaction takes an advisory lock first, so that numbers of records and the audit log continue after
those of all processes; group commit makes the waiting cheap. ``synchronous_commit=on``: a commit is on the disk
before it is acknowledged. A writer that stops in the middle of a transaction is disconnected by the server, so that
it does not keep the others waiting.

Texts compare by their bytes (collation "C"), as in SQLite, whatever the database's own collation is.
"""

from typing import Any

from sqlalchemy import Connection, Engine, event, inspect, text
from sqlalchemy.dialects.postgresql.base import PGTypeCompiler

from upturn.errors import StoreError
from upturn.pool.database.backend import make_engine
from upturn.pool.database.location import PoolUrl
from upturn.pool.database.postgres_driver import PostgresDriver

_CONNECT_TIMEOUT_SECONDS = 10
_IDLE_TIMEOUT_SECONDS = 30
"""How long a writing process may pause in a transaction, which takes milliseconds, before it is disconnected."""
_LOCK_TIMEOUT_SECONDS = 45
"""How long a writer waits for the others; longer than one that has stopped is waited for."""
_LOCK = 0x75707475
"""First half of the advisory lock's number; the second half is of the schema."""
_PRESENCE = 0x75707476
"""The same for the lock that every writing session holds, shared, as long as it lives (``writing_sessions``)."""


class PostgresBackend:
    """A database with a pool's tables."""

    driver = PostgresDriver()

    def __init__(self, location: PoolUrl) -> None:
        self._location = location

    @property
    def location(self) -> PoolUrl:
        """The URL."""
        return self._location

    def exists(self) -> bool:
        """Whether the schema has a pool's tables; raises StoreError if the server cannot say."""
        engine = self.reading_engine()
        try:
            return inspect(engine).has_table("alembic_version")
        finally:
            engine.dispose()

    def writing_engine(self) -> Engine:
        """Returns an engine with one connection, whose transactions exclude other writers."""
        settings = {
            "synchronous_commit": "on",
            "idle_in_transaction_session_timeout": f"{_IDLE_TIMEOUT_SECONDS}s",
            "lock_timeout": f"{_LOCK_TIMEOUT_SECONDS}s",
        }
        engine = self._engine("READ COMMITTED", settings, pool_size=1, max_overflow=0)
        event.listen(engine, "begin", _exclude_writers)
        event.listen(engine, "connect", _show_presence)
        return engine

    def schema_engine(self) -> Engine:
        """Returns a writing engine that creates columns of text with the collation "C"."""
        engine = self.writing_engine()
        engine.dialect.type_compiler_instance = _ByteOrder(engine.dialect)
        return engine

    def operator_engine(self) -> Engine:
        """Returns a writing engine: the server lets writers in by the order of their arrival."""
        return self.writing_engine()

    def reading_engine(self) -> Engine:
        """Returns an engine with any number of read-only connections; each transaction sees one state."""
        settings = {"default_transaction_read_only": "on"}
        return self._engine("REPEATABLE READ", settings, pool_pre_ping=True, max_overflow=-1)

    def _engine(self, isolation: str, settings: dict[str, str], **options: Any) -> Engine:
        engine = make_engine(
            self,
            self._location.url,
            isolation_level=isolation,
            connect_args={"connect_timeout": _CONNECT_TIMEOUT_SECONDS, "application_name": "upturn"},
            **options,
        )

        def on_connect(driver: Any, _record: object) -> None:
            is_autocommit, driver.autocommit = driver.autocommit, True
            for name, value in settings.items():
                driver.execute(f"SET {name} = '{value}'")
            driver.autocommit = is_autocommit

        event.listen(engine, "connect", on_connect)
        return engine

    def data_version(self, connection: Connection) -> None:  # noqa: ARG002
        """Returns None: the last number is read in each transaction, with one statement."""
        return

    def transaction_id(self, connection: Connection) -> str:
        """Returns the server's number of the transaction."""
        return str(connection.exec_driver_sql("SELECT pg_current_xact_id()::text").scalar_one())

    def is_committed(self, connection: Connection, transaction_id: str) -> bool:
        """Returns whether the transaction was committed; in a transaction, so that it has ended (the lock)."""
        # the number of a transaction that a crash has undone may be one that the server has not given out again
        status = "CASE WHEN CAST(:number AS xid8) < pg_snapshot_xmax(pg_current_snapshot())"
        query = text(f"SELECT {status} THEN pg_xact_status(CAST(:number AS xid8)) END")
        return connection.execute(query, {"number": transaction_id}).scalar() == "committed"

    def checkpoint(self, engine: Engine) -> None:
        """Does nothing: the server does it."""

    def integrity_problems(self, engine: Engine) -> list[str]:
        """Returns the pages whose checksum is wrong, where the cluster has checksums, by reading all tables.

        The check of the records is ``ledger_problems``; of indexes, the server's own ``pg_amcheck``.
        """
        query = text(
            "SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace"
            " AND c.relkind = 'r' ORDER BY c.relname"
        )
        problems = []
        with engine.connect() as connection:
            names = list(connection.execute(query).scalars())
        for name in names:
            try:
                with engine.connect() as connection:
                    connection.exec_driver_sql(f'SELECT count(*) FROM "{name}"').scalar()
            except StoreError as exc:
                problems.append(str(exc))
        return problems


def writing_sessions(connection: Connection) -> list[str]:
    """Returns the other sessions that may write the pool, in words."""
    query = text(
        "SELECT activity.pid, activity.client_addr, activity.backend_start FROM pg_locks AS held"
        " JOIN pg_stat_activity AS activity ON activity.pid = held.pid"
        " WHERE held.locktype = 'advisory' AND held.granted AND held.pid <> pg_backend_pid()"
        " AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND held.classid = CAST(:presence AS oid)"
        " AND held.objid = CAST(CAST(hashtext(current_schema()) AS bigint) & 4294967295 AS oid)"
        " ORDER BY activity.pid"
    )
    return [
        f"server process {row.pid} of {row.client_addr or 'this machine'}, since {row.backend_start:%H:%M:%S}"
        for row in connection.execute(query, {"presence": _PRESENCE})
    ]


class _ByteOrder(PGTypeCompiler):
    """Compiles columns of text with the collation "C"."""

    def visit_TEXT(self, type_: Any, **options: Any) -> str:  # noqa: N802  SQLAlchemy's name
        """Returns the type of a column."""
        return f'{super().visit_TEXT(type_, **options)} COLLATE "C"'


def _show_presence(driver: Any, _record: object) -> None:
    """Shows the other sessions that this one may write, until it ends."""
    is_autocommit, driver.autocommit = driver.autocommit, True
    driver.execute(f"SELECT pg_advisory_lock_shared({_PRESENCE}, hashtext(current_schema()))")
    driver.autocommit = is_autocommit


def _exclude_writers(connection: Connection) -> None:
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK}, hashtext(current_schema()))")
