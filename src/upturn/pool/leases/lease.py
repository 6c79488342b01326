"""Leases: which of several processes does what only one may do, such as advancing releases.

A lease has a token, which grows with every new holder. A write under a lease compares the token in its own
transaction, so a process that was replaced, for example because it was paused, changes nothing any more, although
it does not know yet. Times are those of the database, so that the clocks of the processes do not matter.

A file has one writing process, so there every lease is taken at once, from a process that is gone.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic, sleep

from sqlalchemy import Connection, func, insert, select, update

from upturn.errors import LeaseLostError, StoreBusyError, StoreError
from upturn.pool.database import lease_token
from upturn.pool.schema import leases
from upturn.pool.store import Pool

LEASE_SECONDS = 15.0
"""How long a lease of a process that is gone keeps the others waiting."""
_RENEWALS = 3
"""Renewals in this time, so that one may fail."""
_PAUSE_SECONDS = 0.2


class Lease:
    """The right to do something alone. Safe to share between threads.

    While it is held, a thread renews it. ``release`` it, or end the process.
    """

    def __init__(self, pool: Pool, name: str, *, seconds: float = LEASE_SECONDS) -> None:
        """Takes nothing yet."""
        self.name = name
        self.pool = pool.under(self)
        """The pool for writes that only the holder may make; others raise LeaseLostError."""
        self._own = pool
        self._seconds = seconds
        self._token = 0
        """0 = it is not held."""
        self._gate = Lock()
        self._ended = Event()
        self._renewal: Thread | None = None
        """None = it is not held, or nobody else could take it."""

    def take(self) -> bool:
        """Returns whether this process holds it now. Does not wait."""
        with self._gate:
            if self._token:
                return True
            self._token = self._own.write(self._take)
            if self._token and not self._own.has_one_writer:
                self._ended = Event()
                self._renewal = Thread(target=self._renew, args=(self._ended,), name="upturn-lease", daemon=True)
                self._renewal.start()
            return bool(self._token)

    def _renew(self, ended: Event) -> None:
        while not ended.wait(self._seconds / _RENEWALS):
            with suppress(StoreError), self._gate:  # the next write reports it
                if ended.is_set():
                    return
                self._token = self._own.write(self._take)
                if not self._token:
                    return

    def _take(self, connection: Connection) -> int:
        now = _now(connection)
        row = connection.execute(select(leases).where(leases.c.name == self.name)).first()
        values = {"holder": _this_process(), "expires_at": now + self._seconds}
        if row is None:
            connection.execute(insert(leases), {"name": self.name, "token": 1, **values})
            return 1
        is_mine = row.token == self._token
        if not is_mine and row.expires_at > now and not self._own.has_one_writer:
            return 0
        token = int(row.token) + (not is_mine)
        connection.execute(update(leases).where(leases.c.name == self.name), {"token": token, **values})
        return token

    def wait(self) -> None:
        """Takes it, from a process that is gone as soon as its time is over.

        Raises StoreBusyError, which names the holder, if that one is alive.
        """
        end = monotonic() + self._seconds + 2 * _PAUSE_SECONDS
        while not self.take():
            if monotonic() > end:
                raise StoreBusyError(
                    f"{self.name} is being done by {self._holder()}; wait until it ends, stop it, or use another "
                    "pool"
                )
            sleep(_PAUSE_SECONDS)

    def _holder(self) -> str:
        query = select(leases.c.holder).where(leases.c.name == self.name)
        with self._own.engine.connect() as connection:
            return connection.execute(query).scalar() or "nobody"

    def check(self, connection: Connection) -> None:
        """Raises LeaseLostError, in the transaction of a write, unless this process holds it."""
        row = lease_token().run(connection, [{"name": self.name}]).fetchone()
        if not self._token or row is None or row[0] != self._token:
            holder = "nobody" if row is None else row[1]
            raise LeaseLostError(
                f"this process no longer has the lease of {self.name!r}, which {holder} has now; nothing is stored"
            )

    def release(self) -> None:
        """Lets another process take it at once; no-op if it is not held."""
        with self._gate:
            token, self._token, renewal = self._token, 0, self._renewal
            self._ended.set()
            self._renewal = None
            if not token:
                return
            with suppress(StoreError):  # its time passes
                self._own.write(partial(self._end, token=token))
        if renewal is not None:
            renewal.join()

    def _end(self, connection: Connection, token: int) -> None:
        mine = (leases.c.name == self.name, leases.c.token == token)
        connection.execute(update(leases).where(*mine), {"expires_at": 0.0})


@contextmanager
def holding(pool: Pool, name: str, *, seconds: float = LEASE_SECONDS) -> Iterator[Pool]:
    """The pool for writes of the only process that does what the name says, until the block ends.

    Raises StoreBusyError if another process does it.
    """
    lease = Lease(pool, name, seconds=seconds)
    lease.wait()
    try:
        yield lease.pool
    finally:
        lease.release()


def _now(connection: Connection) -> float:
    """Returns the database's time: UTC, seconds since 1970."""
    stamp: datetime = connection.execute(select(func.now())).scalar_one()
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()


def _this_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"
