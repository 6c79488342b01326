"""The SQLite file: opening, settings, schema revision, errors, and the statements that every write runs.

WAL mode, so that readers never wait for the writer. ``synchronous=FULL``, so that a commit is on the disk before it
is acknowledged and survives a power cut as well as ``kill -9`` (``NORMAL`` survives only the latter; group commit
makes the flush cheap, see docs/pool.md). SQLAlchemy sends BEGIN itself, which savepoints need.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple
from urllib.parse import quote

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    ExceptionContext,
    Executable,
    RootTransaction,
    Table,
    bindparam,
    create_engine,
    event,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import QueuePool

from upturn.errors import StoreError
from upturn.pool.schema import HEAD, chains, metadata

POOL_ENDINGS = (".lock", "-wal", "-shm", "-journal", "-calls", "-calls-wal", "-calls-shm")
"""Endings of the files next to a pool that belong to it."""

_BUSY_TIMEOUT_SECONDS = 30.0
"""How long a reader waits during recovery or a checkpoint, and a writer for the transaction of another process."""

_OPERATOR_TIMEOUT_SECONDS = 30.0
"""How long an operator's write waits for the writer's transactions, which take milliseconds each."""
_OPERATOR_PAUSE_SECONDS = 0.0005

_ADVICE = {
    "SQLITE_FULL": "free some space on its disk and try again; acknowledged records are safe",
    "SQLITE_IOERR": "check that its disk works and has space, then try again; acknowledged records are safe",
    "SQLITE_CORRUPT": "restore a copy of it, or choose another path",
    "SQLITE_CANTOPEN": "make it and its folder readable and writable, or choose another path",
    "SQLITE_READONLY": "make it and its folder writable, or copy both to a writable folder",
}
"""By the prefix of SQLite's error name; for other errors: choose another path."""


def writing_engine(path: Path) -> Engine:
    """Returns an engine with the single writing connection, in WAL mode with every commit flushed."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        pool_size=1,
        max_overflow=0,
        connect_args={"timeout": _BUSY_TIMEOUT_SECONDS},
    )
    _configure(engine, path, ("journal_mode=WAL", "synchronous=FULL"), "BEGIN IMMEDIATE")
    return engine


@contextmanager
def operator_transaction(path: Path) -> Iterator[Connection]:
    """A transaction next to the process that has the pool open for writing; durable when the block ends.

    Only for tables that no other code writes: SQLite serialises the transactions, but the writer numbers its
    records in memory. Raises StoreError for a file that is no pool of this version.
    """
    check = reading_engine(path)
    try:
        check_head(check, path)
    finally:
        check.dispose()
    engine = create_engine(URL.create("sqlite", database=str(path)), pool_size=1, max_overflow=0)
    _configure(engine, path, ("busy_timeout=0", "synchronous=FULL"), "BEGIN IMMEDIATE")
    try:
        with engine.connect() as connection, _begin_between(connection):
            yield connection
    finally:
        engine.dispose()


def _begin_between(connection: Connection) -> RootTransaction:
    """Begins a transaction between two of the writer's, which leave less than a millisecond.

    SQLite's own waiting looks only every 100 ms in the end, and took up to 3 s beside a busy writer.
    """
    deadline = monotonic() + _OPERATOR_TIMEOUT_SECONDS
    while True:
        try:
            return connection.begin()
        except StoreError as exc:
            is_busy = getattr(exc.__cause__, "sqlite_errorname", "") == "SQLITE_BUSY"
            if not is_busy or monotonic() > deadline:
                raise
            sleep(_OPERATOR_PAUSE_SECONDS)


def reading_engine(path: Path) -> Engine:
    """Returns an engine with any number of read-only connections.

    In a read-only folder, a pool without a writer is opened as immutable, because SQLite cannot open it otherwise.
    Not covered: a process with more rights that starts to write it at the same time.
    """

    def connect() -> sqlite3.Connection:
        is_frozen = not os.access(path.absolute().parent, os.W_OK) and not Path(f"{path}-wal").exists()
        uri = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if is_frozen else ''}"
        return sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=_BUSY_TIMEOUT_SECONDS)

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, max_overflow=-1)
    _configure(engine, path, ("query_only=ON",), "BEGIN")
    return engine


def _configure(engine: Engine, path: Path, pragmas: tuple[str, ...], begin: str) -> None:
    def on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()

    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    def on_error(context: ExceptionContext) -> None:
        """Turns errors about the database file into StoreErrors with its name."""
        error = context.original_exception
        if not is_bug(error):
            raise unusable_pool(str(path), error) from error

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)
    event.listen(engine, "handle_error", on_error)


def is_bug(error: BaseException) -> bool:
    """Returns False for errors about the database file; the driver's other errors are bugs of ours."""
    return type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError)


def unusable_pool(path: str, error: BaseException) -> StoreError:
    """Returns the error for a file that the driver cannot use."""
    return StoreError(f"{path!r} cannot be used as a pool: {error}; {_advice(error)}")


def _advice(error: Any) -> str:  # Any: the name is set by SQLite alone
    name = getattr(error, "sqlite_errorname", "")
    return next((advice for start, advice in _ADVICE.items() if name.startswith(start)), "choose another path")


def driver_of(connection: Connection) -> Any:  # Any: SQLAlchemy's protocol has no ``execute``
    """Returns the driver's connection."""
    return connection.connection.dbapi_connection


class Savepoint:
    """A part of a transaction that can be undone alone.

    Its statements bypass SQLAlchemy, with which they take ten times as long."""

    def __init__(self, connection: Connection) -> None:
        self._driver = driver_of(connection)
        self._driver.execute("SAVEPOINT part")

    def keep(self) -> None:
        """Ends it."""
        self._driver.execute("RELEASE part")

    def undo(self) -> bool:
        """Undoes it; returns False if SQLite aborted the transaction, so that all of its writes are lost."""
        if not self._driver.in_transaction:
            return False
        self._driver.execute("ROLLBACK TO part")
        self._driver.execute("RELEASE part")
        return True


def data_version(connection: Connection) -> tuple[int, int]:
    """Returns a value that changes when another connection has changed the database."""
    driver = driver_of(connection)
    return id(driver), int(driver.execute("PRAGMA data_version").fetchone()[0])


def checkpoint(engine: Engine) -> None:
    """Moves the records in the ``-wal`` file into the database, so that a copy of the one file has all of them.

    Waits for nobody: what another process reads at this moment is moved by a later checkpoint.
    """
    with suppress(StoreError, sqlite3.DatabaseError), engine.connect() as connection:
        for pragma in ("busy_timeout=0", "wal_checkpoint(TRUNCATE)"):
            driver_of(connection).execute(f"PRAGMA {pragma}").close()


def is_at_head(engine: Engine) -> bool:
    """Returns whether the database has the tables of this version."""
    with engine.connect() as connection:
        return _revision(connection) == HEAD


def bring_to_head(engine: Engine, path: Path) -> None:
    """Creates or upgrades the tables; raises StoreError for a file that is no pool or is newer."""
    with engine.begin() as connection:
        revision = _revision(connection)
        if revision == HEAD:
            return
        if revision is None and inspect(connection).get_table_names():
            raise _not_a_pool(path)
        if revision is None:
            _create(connection)
        else:
            _upgrade(connection, path, revision)


def check_head(engine: Engine, path: Path) -> None:
    """Raises StoreError unless the file is a pool of the revision that this version reads."""
    with engine.connect() as connection:
        revision = _revision(connection)
    if revision is None:
        raise _not_a_pool(path)
    if revision > HEAD:
        raise _newer(path, revision)
    if revision != HEAD:
        raise StoreError(
            f"{str(path)!r} has the older schema revision {revision!r}, this version reads {HEAD!r}; "
            "open it once for writing to upgrade it, e.g. with `upturn ingest`"
        )


def _not_a_pool(path: Path) -> StoreError:
    return StoreError(f"{str(path)!r} is a database, but not a pool; choose another path")


def _newer(path: Path, revision: str) -> StoreError:
    return StoreError(
        f"{str(path)!r} has schema revision {revision!r}, this version reads up to {HEAD!r}; "
        "use the version of Upturn that wrote it"
    )


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _create(connection: Connection) -> None:
    """Creates all tables at once, the result of all revisions, without the 0.3 s that Alembic takes."""
    metadata.create_all(connection)
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


def _upgrade(connection: Connection, path: Path, revision: str) -> None:
    # Imported here, because it takes 0.2 s and only an upgrade needs it.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as exc:
        raise _newer(path, revision) from exc


def integrity_problems(engine: Engine) -> list[str]:
    """Returns the problems that SQLite's integrity check reports."""
    try:
        with engine.connect() as connection:
            problems = [str(line) for line in connection.execute(text("PRAGMA integrity_check")).scalars()]
    except StoreError as exc:
        return [str(exc)]
    return [] if problems == ["ok"] else problems


class Statement(NamedTuple):
    """A statement that is compiled once and runs on the driver's connection: its text, its parameters by position.

    Compiling and running one through SQLAlchemy takes about twenty times as long as SQLite takes for the row of a
    model call. Statements are built from the tables, for SQLite: another database gets its
    dialect in ``compiled``.
    """

    text: str
    names: tuple[str, ...]

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> Any:  # Any: the driver's cursor
        """Returns the cursor after running the statement for each of the rows; raises StoreError.

        One row may be read from a query; more rows are for changes only.
        """
        driver = driver_of(connection)
        values = [[row[name] for name in self.names] for row in rows]
        try:
            return driver.execute(self.text, values[0]) if len(rows) == 1 else driver.executemany(self.text, values)
        except sqlite3.IntegrityError as exc:
            raise StoreError(f"the database rejected the write, nothing of it is stored: {exc}") from exc
        except sqlite3.DatabaseError as exc:
            if is_bug(exc):
                raise
            raise unusable_pool(connection.engine.url.database or "", exc) from exc


@cache
def insert_new(table: Table) -> Statement:
    """Inserts rows; one whose id is stored already changes nothing. The cursor's ``rowcount`` is of new rows."""
    return compiled(sqlite.insert(table).on_conflict_do_nothing(index_elements=list(table.primary_key)))


@cache
def columns_by_id(table: Table, columns: tuple[str, ...]) -> Statement:
    """Reads these columns of the row with the given ``id``."""
    return compiled(select(*(table.c[name] for name in columns)).where(table.c.id == bindparam("id")))


@cache
def chain_head() -> Statement:
    """Reads ``row_count`` and ``head`` of the chain ``kind``."""
    columns = (chains.c.row_count, chains.c.head)
    return compiled(select(*columns).where(chains.c.kind == bindparam("kind")))


@cache
def move_chain() -> Statement:
    """Sets ``row_count`` and ``head`` of the chain ``kind``."""
    new: dict[str, Any] = {"row_count": bindparam("row_count"), "head": bindparam("head")}
    return compiled(update(chains).where(chains.c.kind == bindparam("kind")).values(new))


def compiled(clause: Executable) -> Statement:
    """Returns the statement of a clause."""
    compiled: Any = clause.compile(dialect=sqlite.dialect())  # type: ignore[attr-defined]
    return Statement(str(compiled), tuple(compiled.positiontup))
