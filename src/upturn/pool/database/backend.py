"""What the pool needs of a database, and which one a location names."""

from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry

from upturn.errors import StoreError
from upturn.pool.database.driver import Driver, unusable_pool
from upturn.pool.database.location import Location, location_of

_OPTION = "upturn_backend"
_GENERATION = "upturn_generation"
"""Of a connection: how often its engine had been disposed of when it was handed out."""


class Backend(Protocol):
    """One database of a pool. Engines raise StoreError with its name and advice if it cannot be used."""

    @property
    def driver(self) -> Driver:
        """Its driver."""
        ...

    @property
    def location(self) -> Location:
        """Where it is; its text has no password."""
        ...

    def exists(self) -> bool:
        """Whether there is anything to open, which is checked when it is opened."""
        ...

    def writing_engine(self) -> Engine:
        """Returns an engine with one connection. A transaction excludes all other writers from its begin on, and
        its commit is on the disk when it returns."""
        ...

    def schema_engine(self) -> Engine:
        """Returns an engine like ``writing_engine``, for statements that create or change tables."""
        ...

    def operator_engine(self) -> Engine:
        """Returns an engine like ``writing_engine``, whose transactions come between those of a busy writer."""
        ...

    def reading_engine(self) -> Engine:
        """Returns an engine with any number of read-only connections; a transaction sees one state of all."""
        ...

    def data_version(self, connection: Connection) -> object:
        """Returns a value that changes when another connection has changed the database; None = not known."""
        ...

    def transaction_id(self, connection: Connection) -> str:
        """Returns a name of the transaction; empty = its outcome cannot be asked later."""
        ...

    def is_committed(self, connection: Connection, transaction_id: str) -> bool:
        """Returns whether a transaction whose connection was lost in its commit was committed."""
        ...

    def checkpoint(self, engine: Engine) -> None:
        """Prepares the database for the time without writers."""
        ...

    def integrity_problems(self, engine: Engine) -> list[str]:
        """Returns the damage that the database's own check reports."""
        ...


def backend_of(location: Location) -> Backend:
    """Returns the backend of a location; raises StoreError if its driver is not installed."""
    if isinstance(location, Path):
        from upturn.pool.database.sqlite import SqliteBackend

        return SqliteBackend(location)
    from upturn.pool.database.postgres import PostgresBackend

    return PostgresBackend(location)


def pool_exists(location: str | Location) -> bool:
    """Whether there is anything at the place that could be a pool."""
    return backend_of(location_of(location)).exists()


def writing_engine(location: str | Location) -> Engine:
    """Returns the backend's writing engine."""
    return backend_of(location_of(location)).writing_engine()


def reading_engine(location: str | Location) -> Engine:
    """Returns the backend's reading engine."""
    return backend_of(location_of(location)).reading_engine()


def backend_in(bind: Engine | Connection) -> Backend:
    """Returns the backend that an engine or a connection belongs to."""
    backend: Backend = bind.get_execution_options()[_OPTION]
    return backend


def make_engine(backend: Backend, url: Any, **options: Any) -> Engine:  # Any: as of ``create_engine``
    """Returns an engine that knows its backend and turns errors about the database into StoreErrors."""
    engine = create_engine(url, execution_options={_OPTION: backend}, **options)

    def on_error(context: ExceptionContext) -> None:
        error = context.original_exception
        if not backend.driver.is_bug(error) and not context.is_pre_ping:  # a ping that fails makes a new connection
            raise unusable(backend, error) from error

    event.listen(engine, "handle_error", on_error)
    _close_what_comes_back_late(engine)
    return engine


def _close_what_comes_back_late(engine: Engine) -> None:
    """``dispose`` closes idle connections only: one that a thread gives back afterwards would stay open."""
    current = [0]

    def on_dispose(_engine: Engine) -> None:
        current[0] += 1

    def on_checkout(_driver: Any, record: ConnectionPoolEntry, _proxy: object) -> None:
        record.info[_GENERATION] = current[0]

    def on_checkin(driver: Any, record: ConnectionPoolEntry) -> None:
        if driver is not None and record.info.get(_GENERATION) != current[0]:
            driver.close()

    event.listen(engine, "engine_disposed", on_dispose)
    event.listen(engine, "checkout", on_checkout)
    event.listen(engine, "checkin", on_checkin)


def unusable(backend: Backend, error: BaseException) -> StoreError:
    """Returns the error for a database that the driver cannot use."""
    return unusable_pool(str(backend.location), error, backend.driver.advice(error))


def driver_of(connection: Connection) -> Any:  # Any: SQLAlchemy's protocol has no ``execute``
    """Returns the driver's connection."""
    return connection.connection.dbapi_connection
