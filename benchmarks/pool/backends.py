"""The databases to measure: a file, and PostgreSQL where it is given or installed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.postgres_server import running_server
from upturn.pool import Location

NewPool = Callable[[], Location]
"""Returns the place of a new, empty pool."""


@contextmanager
def backends() -> Iterator[dict[str, NewPool]]:
    """The available databases by name; PostgreSQL is a server of its own, or UPTURN_TEST_POSTGRES_URL."""
    with TemporaryDirectory(prefix="upturn-benchmark-") as folder, running_server() as server:
        numbers = iter(range(1_000))
        available: dict[str, NewPool] = {"sqlite": lambda: Path(folder) / f"pool-{next(numbers)}.db"}
        if server is not None:
            available["postgresql"] = server.create_database
        yield available
