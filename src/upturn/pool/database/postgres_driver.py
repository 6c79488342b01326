"""The driver of PostgreSQL: psycopg."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Float, Integer, LargeBinary, Table, Text, any_, bindparam
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from upturn.errors import StoreError

try:
    import psycopg
except ImportError as exc:  # pragma: no cover  the tests have it
    raise StoreError("a pool on PostgreSQL needs psycopg; pip install 'upturn[postgres]'") from exc

_ADVICE = {
    "08": "check that the server runs and can be reached, then try again; acknowledged records are safe",
    "28": "check the user, and the password in PGPASSWORD or ~/.pgpass",
    "3D": "create the database first, for example with `createdb`",
    "42501": "give its user the rights to create and change tables in the schema",
    "53": "give the server space, memory or connections and try again; acknowledged records are safe",
    "55P03": "another writer keeps the pool locked; wait until it ends, or stop it",
    "57": "try again when the server is ready; acknowledged records are safe",
    "58": "check the server's disk, then try again; acknowledged records are safe",
    "25006": "connect to the primary server, not to a standby",
    "XX": "restore a backup of it, or choose another database",
}
"""By the start of the SQLSTATE."""
_NO_STATE = "check that the server runs and can be reached, then try again; acknowledged records are safe"
"""Advice for errors without a state, which are those of the connection."""


class PostgresDriver:
    """psycopg 3, with parameters by name."""

    dialect = PGDialect_psycopg()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped

    def insert(self, table: Table) -> Any:
        """Returns an INSERT that ignores rows whose primary key is stored."""
        return postgresql.insert(table).on_conflict_do_nothing(index_elements=list(table.primary_key))

    def execute(self, driver: Any, statement: str, rows: Sequence[Any]) -> Any:
        """Returns the cursor after running the statement for all rows, which are sent without waiting for each."""
        cursor = driver.cursor()
        if len(rows) == 1:
            cursor.execute(statement, rows[0])
        else:
            cursor.executemany(statement, rows)
        return cursor

    def has_id(self, table: Table) -> Any:
        """Returns the condition for a list of ids."""
        return table.c.id == any_(bindparam("ids", type_=postgresql.ARRAY(table.c.id.type)))

    def rows_by_id(self, driver: Any, query: str, ids: Sequence[Any]) -> Sequence[Any]:
        """Returns the rows with these ids, with one statement."""
        rows: list[Any] = driver.execute(query, {"ids": list(ids)}).fetchall()
        return rows

    can_copy = True

    def copy_rows(self, driver: Any, table: Table, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Sends the rows in one stream: an INSERT for each takes four times as long here and in the server."""
        names, types = _columns(table)
        statement = f"COPY {table.name} ({', '.join(map(_quoted, names))}) FROM STDIN (FORMAT BINARY)"
        try:
            with driver.cursor() as cursor, cursor.copy(statement) as copy:
                copy.set_types(types)
                for row in rows:
                    copy.write_row([row[name] for name in names])
        except psycopg.errors.UniqueViolation:
            return False
        return True

    def can_undo(self, driver: Any) -> bool:
        """Returns False if the connection is lost, and with it the transaction."""
        return not self.is_lost(driver) and driver.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def is_lost(self, driver: Any) -> bool:
        """Returns whether the connection is closed, or could not be made."""
        return driver is None or bool(driver.closed)

    def is_refusal(self, error: BaseException) -> bool:
        """Returns True for a broken constraint, and for values that a column cannot hold."""
        return isinstance(error, psycopg.IntegrityError | psycopg.DataError)

    def is_bug(self, error: BaseException) -> bool:
        """Returns False for errors about the server or the database; the driver's other errors are bugs of ours."""
        if not isinstance(error, psycopg.Error):
            return True
        state = error.sqlstate
        return not isinstance(error, psycopg.OperationalError) if state is None else _advice_of(state) is None

    def advice(self, error: BaseException) -> str:
        """Returns what to do about an error of the database."""
        state = error.sqlstate if isinstance(error, psycopg.Error) else None
        if state is None and "does not exist" in str(error):  # the server's answer to a connection has no state
            return _ADVICE["3D"]
        if state is None and "authentication failed" in str(error):
            return _ADVICE["28"]
        return (None if state is None else _advice_of(state)) or _NO_STATE


_TYPES = {Text: "text", BigInteger: "int8", Integer: "int4", Float: "float8", LargeBinary: "bytea"}
"""The server's names of the types of our columns."""


def _quoted(name: str) -> str:
    return f'"{name}"'


@cache
def _columns(table: Table) -> tuple[list[str], list[str]]:
    """Returns the names and the server's types of the columns."""
    return list(table.c.keys()), [_TYPES[type(column.type)] for column in table.c]


def _advice_of(state: str) -> str | None:
    return next((advice for start, advice in _ADVICE.items() if state.startswith(start)), None)
