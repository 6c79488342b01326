"""What the pool needs of a database's driver."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Dialect, Table

from upturn.errors import StoreError


class Driver(Protocol):
    """How statements run on the driver's own connection, and what its errors mean."""

    @property
    def dialect(self) -> Dialect:
        """For the statements that are compiled once."""
        ...

    def insert(self, table: Table) -> Any:  # Any: each dialect has its own class
        """Returns an INSERT that ignores rows whose primary key is stored."""
        ...

    def execute(self, driver: Any, statement: str, rows: Sequence[Any]) -> Any:  # Any: the driver's types
        """Returns the driver's cursor after running a compiled statement for all rows."""
        ...

    def has_id(self, table: Table) -> Any:  # Any: of SQLAlchemy
        """Returns the condition on ``id`` of the query that ``rows_by_id`` runs."""
        ...

    def rows_by_id(self, driver: Any, query: str, ids: Sequence[Any]) -> Sequence[Any]:
        """Returns the rows of a compiled query with the condition ``has_id`` for all ids."""
        ...

    @property
    def can_copy(self) -> bool:
        """Whether ``copy_rows`` is faster than to insert each row."""
        ...

    def copy_rows(self, driver: Any, table: Table, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Inserts rows that are new, with values for all columns; returns False if the key of one is stored."""
        ...

    def can_undo(self, driver: Any) -> bool:
        """Returns whether the driver's connection still has the transaction that a savepoint belongs to."""
        ...

    def is_lost(self, driver: Any) -> bool:
        """Returns whether the driver's connection is broken, so that another one may work; None = none was made."""
        ...

    def is_refusal(self, error: BaseException) -> bool:
        """Returns True for an error about the values of a statement, such as a primary key that is stored."""
        ...

    def is_bug(self, error: BaseException) -> bool:
        """Returns False for the driver's errors about the database; its other errors are bugs of ours."""
        ...

    def advice(self, error: BaseException) -> str:
        """Returns what to do about an error of the database."""
        ...


def unusable_pool(name: str, error: BaseException, advice: str) -> StoreError:
    """Returns the error for a database of this name that cannot be used."""
    return StoreError(f"{name!r} cannot be used as a pool: {' '.join(str(error).split())}; {advice}")
