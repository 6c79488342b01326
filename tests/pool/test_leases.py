"""Leases: one holder, tokens that grow, and no write of a process that was replaced."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import Connection, text, update

from tests.postgres_server import PostgresServer
from upturn.errors import LeaseLostError, StoreBusyError
from upturn.pool import Location, Pool, PoolUrl
from upturn.pool.leases import Lease, holding
from upturn.pool.schema import leases
from upturn.records import Release, Task

RELEASE = Release("r", "nano", "nano@1", "nano@2", (0.1, 0.5), "canary", 0)


@pytest.fixture
def place(postgres_server: PostgresServer) -> PoolUrl:
    return postgres_server.clean_pool()


@pytest.fixture
def pools(place: PoolUrl) -> Iterator[tuple[Pool, Pool]]:
    """Two processes' pools."""
    with ExitStack() as stack:
        yield stack.enter_context(Pool.open(place)), stack.enter_context(Pool.open(place))


def expire(pool: Pool) -> None:
    pool.write(lambda connection: connection.execute(update(leases).values(expires_at=1.0)))


def tokens(pool: Pool) -> list[tuple[str, int]]:
    with pool.engine.connect() as connection:
        rows = connection.execute(text("SELECT name, token FROM leases ORDER BY name"))
        return [(row[0], row[1]) for row in rows]


def test_one_process_holds_it_until_it_releases_it(pools: tuple[Pool, Pool]) -> None:
    first, second = (Lease(pool, "releases") for pool in pools)
    assert first.take()
    assert first.take()
    assert not second.take()
    assert Lease(pools[1], "tasks").take()
    first.release()
    assert second.take()
    assert not first.take()
    assert tokens(pools[0]) == [("releases", 2), ("tasks", 1)]
    second.release()


def test_a_replaced_holder_is_refused_by_name_and_changes_nothing(pools: tuple[Pool, Pool]) -> None:
    """Like a process that was paused for longer than its lease."""
    first, second = (Lease(pool, "releases") for pool in pools)
    assert first.take()
    first.pool.append(RELEASE)
    expire(pools[0])
    assert second.take()
    for write in (
        lambda: first.pool.append(Task("t", "do", "mail", "office")),
        lambda: first.pool.change(Release, lambda _: RELEASE),
        lambda: first.pool.write(lambda connection: connection.execute(text("DELETE FROM releases"))),
    ):
        with pytest.raises(
            LeaseLostError, match=r"no longer has the lease of 'releases', which process \d+ on .* has"
        ):
            write()
    assert list(pools[0].tasks(tenant="default")) == []
    assert pools[0].states(Release) == [RELEASE]
    assert pools[0].append(Task("t", "do", "mail", "office")) == 1, "other writes go on"
    second.release()
    first.release()


def test_the_lease_is_compared_in_the_transaction_of_the_write(pools: tuple[Pool, Pool]) -> None:
    first, second = (Lease(pool, "releases") for pool in pools)
    assert first.take()

    def lose_it_first(connection: Connection) -> None:
        connection.execute(update(leases).values(token=leases.c.token + 1))

    waiting = [first._own.write, first.pool.write]
    waiting[0](lose_it_first)
    with pytest.raises(LeaseLostError):
        waiting[1](lambda _: None)
    first.release()
    second.release()


def test_a_living_process_keeps_it_and_others_are_told_who(pools: tuple[Pool, Pool]) -> None:
    with holding(pools[0], "run x") as pool:
        with (
            pytest.raises(StoreBusyError, match=r"run x is being done by process \d+ on .*; wait until it ends"),
            holding(pools[1], "run x", seconds=0.3),
        ):
            raise AssertionError
        pool.append(RELEASE)
    with holding(pools[1], "run x") as pool:
        assert pool.states(Release) == [RELEASE]


def test_that_of_a_process_that_is_gone_is_taken_after_its_time(pools: tuple[Pool, Pool]) -> None:
    gone = Lease(pools[0], "run x", seconds=0.3)
    assert gone.take()
    gone._ended.set()  # like kill -9
    with holding(pools[1], "run x") as pool:
        assert tokens(pool) == [("run x", 2)]


def test_in_a_file_the_next_writer_takes_it_at_once(location: Location) -> None:
    if isinstance(location, PoolUrl):
        pytest.skip("several processes write")
    with Pool.open(location) as pool:
        old = Lease(pool, "run x")
        assert old.take()
    with Pool.open(location) as pool, holding(pool, "run x") as held:
        held.append(RELEASE)
        assert tokens(pool) == [("run x", 2)]
