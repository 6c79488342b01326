"""The databases to measure: a file, and PostgreSQL where it is given or installed."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.postgres_server import OwnServer, running_server
from upturn.pool import Location


class Database(NamedTuple):
    """Where pools are made."""

    new_pool: Callable[[], Location]
    """Returns the place of a new, empty pool."""
    server: OwnServer | None = None
    """None = there is no server of our own."""

    def processor_seconds(self) -> float:
        """Returns the processor time of this process and of the server's since their start."""
        return time.process_time() + (0.0 if self.server is None else _of_processes(self.server))


@contextmanager
def backends() -> Iterator[dict[str, Database]]:
    """The available databases by name; PostgreSQL is a server of its own, or UPTURN_TEST_POSTGRES_URL."""
    with TemporaryDirectory(prefix="upturn-benchmark-") as folder, running_server() as server:
        numbers = iter(range(1_000))
        available = {"sqlite": Database(lambda: Path(folder) / f"pool-{next(numbers)}.db")}
        if server is not None:
            available["postgresql"] = Database(server.create_database, server.own)
        yield available


def _of_processes(server: OwnServer) -> float:
    """Returns the seconds of the server's processes, and of those that have ended."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # the name in parentheses may have spaces; after it come state, parent, …
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(folder.name) == server.process_id:
            ticks += sum(map(int, fields[11:15]))  # with its children that have ended
        elif int(fields[1]) == server.process_id:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")
