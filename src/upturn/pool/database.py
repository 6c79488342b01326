"""Opening the SQLite file: settings, schema revision, and what can be wrong with it.

Settings and their reasons: WAL, so that readers never wait for the writer; ``synchronous=FULL``, so that a
commit is on the disk before it is acknowledged and survives a power cut as well as ``kill -9`` (``NORMAL``
would survive the kill only; group commit makes the flush cheap, see docs/pool.md); savepoints need SQLAlchemy
to send BEGIN itself.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import QueuePool

from upturn.errors import StoreError
from upturn.pool.schema import HEAD, metadata

_BUSY_TIMEOUT_SECONDS = 10.0
"""How long a reader waits while the file is recovered or checkpointed."""


def writing_engine(path: Path) -> Engine:
    """The one connection that writes, in WAL mode with every commit flushed."""
    engine = create_engine(URL.create("sqlite", database=str(path)), pool_size=1, max_overflow=0)
    _configure(engine, ("journal_mode=WAL", "synchronous=FULL"), "BEGIN IMMEDIATE")
    return engine


def reading_engine(path: Path) -> Engine:
    """Connections that cannot write; as many as ask at the same time."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=_BUSY_TIMEOUT_SECONDS)

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, max_overflow=-1)
    _configure(engine, ("query_only=ON",), "BEGIN")
    return engine


def _configure(engine: Engine, pragmas: tuple[str, ...], begin: str) -> None:
    def on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()

    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)


def bring_to_head(engine: Engine, path: Path) -> None:
    """Create or upgrade the tables; raises StoreError for a file that is no pool, or a newer one."""
    with _naming(path), engine.begin() as connection:
        found = _revision(connection)
        if found == HEAD:
            return
        if found is None and inspect(connection).get_table_names():
            raise StoreError(f"{str(path)!r} is a database, but not a pool; choose another path")
        if found is None:
            _create(connection)
        else:
            _upgrade(connection, path, found)


def check_head(engine: Engine, path: Path) -> None:
    """Raises StoreError unless the file is a pool that this version can read as it is."""
    with _naming(path), engine.connect() as connection:
        found = _revision(connection)
    if found != HEAD:
        raise StoreError(
            f"{str(path)!r} has schema revision {found!r}, this version reads {HEAD!r}; "
            "open it once for writing to upgrade an older pool (a file without a revision is no pool)"
        )


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _create(connection: Connection) -> None:
    """All tables at once: what every revision in turn would make, without the 0.3 s that Alembic takes."""
    metadata.create_all(connection)
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


def _upgrade(connection: Connection, path: Path, found: str | None) -> None:
    # Imported here: 0.2 s that only the upgrade of a pool should cost.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as exc:
        raise StoreError(
            f"{str(path)!r} has schema revision {found!r}, this version knows up to {HEAD!r}; "
            "use the version of Upturn that wrote it"
        ) from exc


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turns the database's complaints about the file into StoreErrors that name it."""
    try:
        yield
    except DatabaseError as exc:
        raise StoreError(f"{str(path)!r} cannot be used as a pool: {exc.orig}; choose another path") from exc


def integrity_problems(engine: Engine) -> list[str]:
    """What the database's own integrity check finds; empty = nothing."""
    try:
        with engine.connect() as connection:
            found = [str(line) for line in connection.execute(text("PRAGMA integrity_check")).scalars()]
    except DatabaseError as exc:
        return [str(exc.orig)]
    return [] if found == ["ok"] else found
