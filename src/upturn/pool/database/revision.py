"""The revision of a pool's tables: check, creation and upgrade."""

from contextlib import closing
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, Engine, create_mock_engine, inspect, text
from sqlalchemy.schema import ExecutableDDLElement

from upturn.errors import StoreError
from upturn.pool.database.backend import Backend, backend_in
from upturn.pool.database.location import Location
from upturn.pool.schema import HEAD, metadata

UNFINISHED = "unfinished move"
"""Revision of a place that a pool is being moved to."""

_MIGRATIONS = Path(__file__).parent.parent / "migrations"


def is_at_head(engine: Engine) -> bool:
    """Returns whether the database has the tables of this version."""
    with engine.connect() as connection:
        return _revision(connection) == HEAD


def bring_to_head(backend: Backend) -> None:
    """Creates or upgrades the tables; raises StoreError for a database that is no pool or is newer."""
    engine = backend.schema_engine()
    try:
        with engine.begin() as connection:
            revision = _revision(connection)
            if revision == HEAD:
                return
            if revision == UNFINISHED:
                raise _unfinished(backend.location)
            if revision is None and inspect(connection).get_table_names():
                raise _not_a_pool(backend.location)
            if revision is None:
                _create(connection)
            else:
                _upgrade(connection, revision)
    finally:
        engine.dispose()


def check_head(engine: Engine) -> None:
    """Raises StoreError unless the database is a pool of the revision that this version reads."""
    location = backend_in(engine).location
    with engine.connect() as connection:
        revision = _revision(connection)
    if revision is None:
        raise _not_a_pool(location)
    if revision == UNFINISHED:
        raise _unfinished(location)
    if revision > HEAD:
        raise _newer(location, revision)
    if revision != HEAD:
        raise StoreError(
            f"{str(location)!r} has the older schema revision {revision!r}, this version reads {HEAD!r}; "
            "open it once for writing to upgrade it, e.g. with `upturn ingest`"
        )


def begin_move(backend: Backend, source: str) -> None:
    """Makes the tables of the target of a move, and marks it as unfinished; continues an unfinished move.

    Raises StoreError for a place that holds anything else.
    """
    engine = backend.schema_engine()
    try:
        with engine.begin() as connection:
            if _revision(connection) == UNFINISHED:
                other = connection.execute(text("SELECT source, revision FROM pool_move")).one()
                if tuple(other) != (source, HEAD):
                    raise StoreError(
                        f"{str(backend.location)!r} has an unfinished move of {other[0]!r} with revision "
                        f"{other[1]!r}; finish that one, or empty the target"
                    )
                return
            if inspect(connection).get_table_names():
                raise StoreError(f"{str(backend.location)!r} is not empty; name a new file or an empty database")
            _create(connection, UNFINISHED)
            connection.execute(text("CREATE TABLE pool_move (source TEXT NOT NULL, revision TEXT NOT NULL)"))
            connection.execute(
                text("INSERT INTO pool_move VALUES (:source, :head)"), {"source": source, "head": HEAD}
            )
    finally:
        engine.dispose()


def end_move(connection: Connection) -> None:
    """Makes the target of a move a pool."""
    connection.execute(text("DROP TABLE pool_move"))
    connection.execute(text("UPDATE alembic_version SET version_num = :head"), {"head": HEAD})


def _not_a_pool(location: Location) -> StoreError:
    kind, other = ("database", "path") if isinstance(location, Path) else ("database", "database")
    return StoreError(f"{str(location)!r} is a {kind}, but not a pool; choose another {other}")


def _unfinished(location: Location) -> StoreError:
    return StoreError(
        f"a pool is being moved to {str(location)!r}, and not all of it is there; finish it with the same "
        "`upturn pool move`"
    )


def _newer(location: Location, revision: str) -> StoreError:
    return StoreError(
        f"{str(location)!r} has schema revision {revision!r}, this version reads up to {HEAD!r}; "
        "use the version of Upturn that wrote it"
    )


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


@cache
def _statements(driver: str) -> tuple[str, ...]:
    """Returns the statements that create all tables; compiling takes three times as long as running them."""
    statements: list[str] = []

    def keep(statement: ExecutableDDLElement, *_: object) -> None:
        statements.append(str(statement.compile(dialect=engine.dialect)))

    engine = create_mock_engine(f"{driver}://", keep)
    metadata.create_all(engine, checkfirst=False)
    return tuple(statements)


def _create(connection: Connection, revision: str = HEAD) -> None:
    """Creates all tables at once, the result of all revisions, without the 0.3 s that Alembic takes."""
    with closing(connection.connection.cursor()) as cursor:  # sixty statements, and tests make thousands of pools
        for statement in _statements(connection.engine.url.drivername):
            cursor.execute(statement)
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": revision})


def _upgrade(connection: Connection, revision: str) -> None:
    # Imported here, because it takes 0.2 s and only an upgrade needs it.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as exc:
        raise _newer(backend_in(connection).location, revision) from exc
