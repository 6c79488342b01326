"""SQLite: a pool is one file with one writing process.

WAL mode, so that readers never wait for the writer. ``synchronous=FULL``, so that a commit is on the disk before it
is acknowledged and survives a power cut as well as ``kill -9`` (``NORMAL`` survives only the latter; group commit
makes the flush cheap, see docs/pool.md). SQLAlchemy sends BEGIN itself, which savepoints need.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, event, text
from sqlalchemy.pool import QueuePool

from upturn.errors import StoreError
from upturn.pool.database.backend import driver_of, make_engine
from upturn.pool.database.sqlite_driver import SqliteDriver

POOL_ENDINGS = (".lock", "-wal", "-shm", "-journal", "-calls", "-calls-wal", "-calls-shm")
"""Endings of the files next to a pool that belong to it."""

_BUSY_TIMEOUT_SECONDS = 30.0
"""How long a reader waits during recovery or a checkpoint, and a writer for the transaction of another process."""

_CHECKPOINT = "wal_autocheckpoint=8000"
"""Pages in the log, 32 MB, before they are moved to the file. A page that changes often is moved once."""

_OPERATOR_TIMEOUT_SECONDS = 30.0
"""How long an operator's write waits for the writer's transactions, which take milliseconds each."""
_OPERATOR_PAUSE_SECONDS = 0.0005


class SqliteBackend:
    """A pool's file."""

    driver = SqliteDriver()

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def location(self) -> Path:
        """The file."""
        return self._path

    def exists(self) -> bool:
        """Whether the file exists."""
        return self._path.exists()

    def writing_engine(self) -> Engine:
        """Returns an engine with the single writing connection, in WAL mode with every commit flushed."""
        pragmas = ("journal_mode=WAL", "synchronous=FULL", _CHECKPOINT)
        return self._configured(self._engine(timeout=_BUSY_TIMEOUT_SECONDS), pragmas, "BEGIN IMMEDIATE")

    def schema_engine(self) -> Engine:
        """Returns a writing engine."""
        return self.writing_engine()

    def operator_engine(self) -> Engine:
        """Returns a writing engine whose transactions begin between two of the writer's.

        The writer leaves less than a millisecond between them. SQLite's own waiting looks only every 100 ms in the
        end, and took up to 3 s beside a busy writer.
        """

        def begin(connection: Connection) -> None:
            deadline = monotonic() + _OPERATOR_TIMEOUT_SECONDS
            while True:
                try:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                except StoreError as exc:
                    is_busy = getattr(exc.__cause__, "sqlite_errorname", "") == "SQLITE_BUSY"
                    if not is_busy or monotonic() > deadline:
                        raise
                    sleep(_OPERATOR_PAUSE_SECONDS)
                else:
                    return

        engine = self._configured(self._engine(), ("busy_timeout=0", "synchronous=FULL"), "")
        event.listen(engine, "begin", begin)
        return engine

    def _engine(self, **connect_args: float) -> Engine:
        url = URL.create("sqlite", database=str(self._path))
        return make_engine(self, url, pool_size=1, max_overflow=0, connect_args=connect_args)

    def reading_engine(self) -> Engine:
        """Returns an engine with any number of read-only connections.

        In a read-only folder, a pool without a writer is opened as immutable, because SQLite cannot open it
        otherwise. Not covered: a process with more rights that starts to write it at the same time.
        """
        path = self._path

        def connect() -> sqlite3.Connection:
            is_frozen = not os.access(path.absolute().parent, os.W_OK) and not Path(f"{path}-wal").exists()
            uri = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if is_frozen else ''}"
            return sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=_BUSY_TIMEOUT_SECONDS)

        engine = make_engine(self, "sqlite://", creator=connect, poolclass=QueuePool, max_overflow=-1)
        return self._configured(engine, ("query_only=ON",), "BEGIN")

    def _configured(self, engine: Engine, pragmas: tuple[str, ...], begin: str) -> Engine:
        """``begin``: the statement at the start of each transaction; empty = the caller's own."""

        def on_connect(connection: sqlite3.Connection, _record: object) -> None:
            connection.isolation_level = None
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}").close()

        def on_begin(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        event.listen(engine, "connect", on_connect)
        if begin:
            event.listen(engine, "begin", on_begin)
        return engine

    def data_version(self, connection: Connection) -> tuple[int, int]:
        """Returns a value that changes when another connection has changed the file."""
        driver = driver_of(connection)
        return id(driver), int(driver.execute("PRAGMA data_version").fetchone()[0])

    def transaction_id(self, connection: Connection) -> str:  # noqa: ARG002
        """Returns an empty text: a commit in this process fails or not."""
        return ""

    def is_committed(self, connection: Connection, transaction_id: str) -> bool:  # noqa: ARG002
        """Returns False: an error of a commit means that nothing is stored."""
        return False

    def checkpoint(self, engine: Engine) -> None:
        """Moves the records in the ``-wal`` file into the database, so that a copy of the one file has all of them.

        Waits for nobody: what another process reads at this moment is moved by a later checkpoint.
        """
        with suppress(StoreError, sqlite3.DatabaseError), engine.connect() as connection:
            for pragma in ("busy_timeout=0", "wal_checkpoint(TRUNCATE)"):
                driver_of(connection).execute(f"PRAGMA {pragma}").close()

    def integrity_problems(self, engine: Engine) -> list[str]:
        """Returns the problems that SQLite's integrity check reports."""
        with engine.connect() as connection:
            problems = [str(line) for line in connection.execute(text("PRAGMA integrity_check")).scalars()]
        return [] if problems == ["ok"] else problems
