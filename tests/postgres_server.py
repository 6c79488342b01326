"""PostgreSQL for the tests: a server of their own in a temporary folder, with a clean pool for each test."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

from sqlalchemy import Connection, create_engine, make_url, text

from tests.server_guard import ServerGuard
from upturn.pool.database import PoolUrl, backend_of, bring_to_head, location_of
from upturn.pool.schema import metadata

_FOLDERS = (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *map(Path, os.get_exec_path()))
_OPTIONS = "-c listen_addresses= -c shared_buffers=16MB -c max_connections=50 -c max_wal_size=64MB"


def postgres_programs() -> Path | None:
    """Returns the folder with initdb and pg_ctl; None = PostgreSQL is not installed."""
    return next((folder for folder in _FOLDERS if (folder / "initdb").exists()), None)


class PostgresServer:
    """A running server; ``url`` is that of its database ``postgres``."""

    def __init__(self, url: str, own: "OwnServer | None" = None) -> None:
        self.url = make_url(url)
        self.own = own
        """To restart it; None = it is not ours."""

    def create_database(self) -> PoolUrl:
        """Creates an empty database and returns its place."""
        name = f"upturn_{uuid4().hex[:12]}"
        self._administer(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        return self._place(name)

    def drop_database(self, place: PoolUrl) -> None:
        """Drops a database, also with connections to it."""
        self._administer(f"DROP DATABASE {place.url.database} WITH (FORCE)")

    @cached_property
    def _shared(self) -> PoolUrl:
        place = self.create_database()
        bring_to_head(backend_of(place))
        return place

    def clean_pool(self) -> PoolUrl:
        """Returns the place of an empty pool. It is the same one every time, without the rows of earlier tests.

        Connections that a test has left open are ended: a server has fifty.
        """
        engine = create_engine(self._shared.url)
        with engine.begin() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            connection.exec_driver_sql("SET lock_timeout = '20s'")
            _delete_rows(connection)
        engine.dispose()
        return self._shared

    def close(self) -> None:
        """Drops the shared pool."""
        if "_shared" in self.__dict__:
            self.drop_database(self._shared)

    def _place(self, name: str) -> PoolUrl:
        place = location_of(self.url.set(database=name).render_as_string(hide_password=False))
        assert isinstance(place, PoolUrl)
        return place

    def _administer(self, statement: str) -> None:
        engine = create_engine(self.url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()


def _delete_rows(connection: Connection) -> None:
    """A hundred times as fast as TRUNCATE, which makes new files."""
    names = list(metadata.tables)
    filled = ", ".join(f"EXISTS (SELECT FROM {name})" for name in names)
    for name, is_filled in zip(names, connection.execute(text(f"SELECT {filled}")).one(), strict=True):
        if is_filled:
            connection.exec_driver_sql(f"DELETE FROM {name}")


class OwnServer:
    """A server in a temporary folder, reached over a socket there. It flushes every commit, as servers do.

    It ends with this process.
    """

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(mkdtemp(prefix="upturn-postgres-"))
        self._guard = ServerGuard(self.folder)
        self._user = _ordinary_user()
        if self._user:
            shutil.chown(self.folder, self._user)
        self._run(
            "initdb", "-D", self._data, "-U", "upturn", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        self.start()

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    @property
    def url(self) -> str:
        """Of the database ``postgres``."""
        return f"postgresql://upturn@/postgres?host={self.folder}"

    @property
    def process_id(self) -> int:
        """Of its first process, while it runs."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def start(self) -> None:
        """Starts it, and waits until it takes connections."""
        options = f"-k {self.folder} {_OPTIONS}"
        self._run("pg_ctl", "-D", self._data, "-l", str(self.folder / "log"), "-o", options, "-w", "start")

    def stop(self, how: str = "fast") -> None:
        """``fast`` ends all transactions; ``immediate`` is like a crash."""
        self._run("pg_ctl", "-D", self._data, "-m", how, "-w", "stop")

    def close(self) -> None:
        """Stops it and removes its folder."""
        self._guard.end()

    def _run(self, program: str, *arguments: str) -> None:
        change = ["setpriv", f"--reuid={self._user}", "--clear-groups"] if self._user else []
        command = [*change, str(self._programs / program), *arguments]
        done = subprocess.run(
            command,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            timeout=120,
        )
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{log.read_text() if log.exists() else ''}")


def _ordinary_user() -> str:
    """Returns the user to run the server as, which must not be root; empty = the current one."""
    if os.geteuid() != 0:
        return ""
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextmanager
def running_server() -> Iterator[PostgresServer | None]:
    """A server for the tests: that of UPTURN_TEST_POSTGRES_URL, else one of their own; None = there is none."""
    if url := os.environ.get("UPTURN_TEST_POSTGRES_URL"):
        server = PostgresServer(url)
        yield server
        server.close()
        return
    programs = postgres_programs()
    if programs is None:
        yield None
        return
    own = OwnServer(programs)
    try:
        yield PostgresServer(own.url, own)
    finally:
        own.close()
