"""Statements that every write runs, compiled once for each database, and savepoints.

Compiling and running one through SQLAlchemy takes about twenty times as long as SQLite takes for the row of a model
call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Executable, Table, bindparam, select, text, update

from upturn.errors import StoreError
from upturn.pool.database.backend import Backend, backend_in, driver_of, unusable
from upturn.pool.database.driver import Driver
from upturn.pool.schema import admin_acts, audit_entries, audit_head, call_contents, leases


class _Compiled(NamedTuple):
    text: str
    names: tuple[str, ...]
    is_by_position: bool
    """False = the driver takes the parameters by name."""


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement that runs on the driver's connection."""

    build: Callable[[Driver], Executable]
    """Returns it for a driver, from the tables."""

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> Any:  # Any: the driver's cursor
        """Returns the cursor after running the statement for each of the rows; raises StoreError.

        One row may be read from a query; more rows are for changes only.
        """
        backend = backend_in(connection)
        text, names, is_by_position = _compiled(self, backend)
        values: list[Any]
        if is_by_position:
            values = [[row[name] for name in names] for row in rows]
        else:
            values = [{name: row[name] for name in names} for row in rows]
        with translated(backend):
            return backend.driver.execute(driver_of(connection), text, values)

    def compiled(self, backend: Backend) -> tuple[str, tuple[str, ...]]:
        """Returns its text, and the names of its parameters in their order."""
        return _compiled(self, backend)[:2]


class translated:  # noqa: N801  used as a function; a generator would take twice as long
    """Turns the driver's errors in a block into StoreErrors."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, Exception):
            return
        if self._backend.driver.is_refusal(error):
            raise rejected(error) from error
        if not self._backend.driver.is_bug(error):
            raise unusable(self._backend, error) from error


_KNOWN: dict[tuple[Statement, str], _Compiled] = {}


def _compiled(statement: Statement, backend: Backend) -> _Compiled:
    key = (statement, backend.driver.dialect.name)
    if (known := _KNOWN.get(key)) is None:
        clause: Any = statement.build(backend.driver)  # Any: Executable does not declare ``compile``
        compiled = clause.compile(dialect=backend.driver.dialect)
        by_position = compiled.positiontup
        names = tuple(compiled.bind_names.values()) if by_position is None else tuple(by_position)
        known = _KNOWN[key] = _Compiled(str(compiled), names, by_position is not None)
    return known


def rejected(reason: object) -> StoreError:
    """Returns the error for values that the database does not take."""
    return StoreError(f"the database rejected the write, nothing of it is stored: {reason}")


@cache
def insert_new(table: Table) -> Statement:
    """Inserts rows; one whose id is stored already changes nothing. The cursor's ``rowcount`` is of new rows."""
    return Statement(lambda driver: driver.insert(table))


@cache
def log_head() -> Statement:
    """Reads ``size`` and ``peaks`` of the audit log; no row = it is empty."""
    query = select(audit_head.c.size, audit_head.c.peaks).where(audit_head.c.id == bindparam("id"))
    return Statement(lambda _: query)


@cache
def move_log_head() -> Statement:
    """Sets ``size`` and ``peaks`` of the audit log."""
    new: dict[str, Any] = {"size": bindparam("size"), "peaks": bindparam("peaks")}
    change = update(audit_head).where(audit_head.c.id == bindparam("id")).values(new)
    return Statement(lambda _: change)


@cache
def lease_token() -> Statement:
    """Reads ``token`` and ``holder`` of the lease ``name``."""
    query = select(leases.c.token, leases.c.holder).where(leases.c.name == bindparam("name"))
    return Statement(lambda _: query)


@cache
def last_numbers() -> Statement:
    """Reads the last sequence numbers of contents of calls, and of all other records, also erased ones."""
    # as text, because SQLAlchemy makes a parameter of LIMIT
    logged = f"SELECT sequence FROM {audit_entries} WHERE kind <> '{admin_acts}' ORDER BY sequence DESC LIMIT 1"
    query = text(f"SELECT (SELECT max(sequence) FROM {call_contents}), ({logged})")
    return Statement(lambda _: query)


class Savepoint:
    """A part of a transaction that can be undone alone.

    Its statements bypass SQLAlchemy, with which they take ten times as long."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._driver = driver_of(connection)
        self._driver.execute("SAVEPOINT part")

    def keep(self) -> None:
        """Ends it."""
        self._driver.execute("RELEASE SAVEPOINT part")

    def undo(self) -> bool:
        """Undoes it; returns False if the database aborted the transaction, so that all of its writes are lost."""
        if not backend_in(self._connection).driver.can_undo(self._driver):
            return False
        self._driver.execute("ROLLBACK TO SAVEPOINT part")
        self._driver.execute("RELEASE SAVEPOINT part")
        return True
