"""What only a server can do to a pool: close connections, and let several processes write."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, event, text

from tests.postgres_server import PostgresServer
from upturn.errors import StoreError
from upturn.pool import Pool, PoolUrl, ledger_problems
from upturn.pool.database import backend_of, driver_of, operator_transaction, reading_engine, writing_engine
from upturn.records import Task


@pytest.fixture
def place(postgres_server: PostgresServer) -> PoolUrl:
    return postgres_server.clean_pool()


@pytest.fixture
def empty_place(postgres_server: PostgresServer) -> Iterator[PoolUrl]:
    """A database without tables."""
    made = postgres_server.create_database()
    yield made
    postgres_server.drop_database(made)


def task(name: str) -> Task:
    return Task(name, "do", "mail", "office")


def end_connection(connection: Connection) -> None:
    """Closes the connection as a server does that shuts down."""
    engine = reading_engine(backend_of_connection(connection))
    with engine.connect() as other:
        other.execute(
            text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": driver_of(connection).info.backend_pid}
        )
    engine.dispose()


def backend_of_connection(connection: Connection) -> PoolUrl:
    return PoolUrl(connection.engine.url)


def test_tables_are_made_once_by_writers_that_start_together(empty_place: PoolUrl) -> None:
    with pytest.raises(StoreError, match="no pool at 'postgresql://"):
        Pool.open(empty_place, read_only=True)

    def write(number: int) -> int:
        with Pool.open(empty_place) as pool:
            return pool.append(task(f"t{number}"), task("shared"))

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(write, range(4))) == [1, 1, 1, 2]
    with Pool.open(empty_place, read_only=True) as pool:
        assert {stored.id for stored in pool.tasks(tenant="default")} == {"t0", "t1", "t2", "t3", "shared"}
        assert list(ledger_problems(pool.engine)) == []


def test_database_of_something_else_is_refused_and_unchanged(empty_place: PoolUrl) -> None:
    engine = backend_of(empty_place).writing_engine()
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE mine (id TEXT)")
    with pytest.raises(StoreError, match="is a database, but not a pool; choose another database"):
        Pool.open(empty_place)
    with engine.connect() as connection:
        tables = connection.exec_driver_sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert tables.scalar() == 1
    engine.dispose()


def test_missing_database_is_named_with_what_to_do(place: PoolUrl) -> None:
    missing = PoolUrl(place.url.set(database="nowhere"))
    with pytest.raises(StoreError, match=r"nowhere.*does not exist; create the database first.*createdb"):
        Pool.open(missing)


def test_numbers_of_two_writers_are_one_order_and_their_chains_are_whole(place: PoolUrl) -> None:
    with Pool.open(place) as first, Pool.open(place) as second:
        for number in range(20):
            (first if number % 3 else second).append(task(f"t{number}"))
        with Pool.open(place, read_only=True) as reader:
            assert [stored.id for stored in reader.tasks(tenant="default")] == [f"t{n}" for n in range(20)]
            assert list(ledger_problems(reader.engine)) == []


def test_write_whose_connection_is_lost_in_the_middle_runs_again(place: PoolUrl) -> None:
    lost: list[int] = []

    def work(connection: Connection) -> str:
        connection.exec_driver_sql("INSERT INTO router_states VALUES ('test', 'x', 1, 1.0)")
        if not lost:
            lost.append(1)
            end_connection(connection)
        return "done"

    with Pool.open(place) as pool:
        assert pool.write(work) == "done"
        assert pool.append(task("later")) == 1
        with pool.engine.connect() as connection:
            query = "SELECT count(*) FROM router_states WHERE id = 'test'"
            assert connection.exec_driver_sql(query).scalar() == 1


@pytest.mark.parametrize("is_committed", [True, False])
def test_commit_whose_answer_is_lost_is_not_repeated(place: PoolUrl, is_committed: bool) -> None:
    """The server is asked whether it is there."""
    runs: list[int] = []

    def work(connection: Connection) -> int:
        runs.append(1)
        connection.exec_driver_sql("INSERT INTO router_states VALUES ('test', 'x', 1, 1.0)")
        return len(runs)

    def lose(connection: Connection) -> None:
        if is_committed:
            driver_of(connection).commit()
        end_connection(connection)

    with Pool.open(place) as pool:
        engine = pool._access().committer._engine
        event.listen(engine, "commit", lose, once=True)
        assert pool.write(work) == (1 if is_committed else 2)
        with pool.engine.connect() as connection:
            query = "SELECT count(*) FROM router_states WHERE id = 'test'"
            assert connection.exec_driver_sql(query).scalar() == 1


def test_transactions_that_the_server_does_not_know_are_not_committed(place: PoolUrl) -> None:
    backend, engine = backend_of(place), writing_engine(place)
    with engine.begin() as connection:
        committed = backend.transaction_id(connection)
    with engine.connect() as connection:
        undone = backend.transaction_id(connection)
        connection.rollback()
    after_a_crash = str(int(undone) + 1_000_000)  # of a transaction that left nothing on the disk
    with engine.begin() as connection:
        known = [backend.is_committed(connection, number) for number in (committed, undone, after_a_crash)]
    engine.dispose()
    assert known == [True, False, False]


def test_reader_gets_a_new_connection_after_a_restart(place: PoolUrl) -> None:
    with Pool.open(place) as pool:
        pool.append(task("t"))
        with pool.engine.connect() as connection:
            driver = driver_of(connection)
        engine = reading_engine(place)
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": driver.info.backend_pid})
        engine.dispose()
        assert [stored.id for stored in pool.tasks(tenant="default")] == ["t"]


def test_readers_cannot_write(place: PoolUrl) -> None:
    with (
        Pool.open(place, read_only=True) as pool,
        pool.engine.connect() as connection,
        pytest.raises(StoreError, match="read-only transaction"),
    ):
        connection.exec_driver_sql("DELETE FROM tasks")


def test_operator_waits_for_the_writer_and_the_other_way_round(place: PoolUrl) -> None:
    with Pool.open(place) as pool, ThreadPoolExecutor(1) as threads:
        with operator_transaction(place) as connection:
            waiting = threads.submit(pool.append, task("t"))
            connection.exec_driver_sql("SELECT 1")
            assert not waiting.done()
        assert waiting.result(timeout=30) == 1


def test_zero_character_is_kept_in_bodies_and_refused_in_columns(place: PoolUrl) -> None:
    with Pool.open(place) as pool:
        pool.append(Task("t", "a\x00b", "mail", "office"))
        assert next(pool.tasks(tenant="default")).instruction == "a\x00b"
        with pytest.raises(StoreError, match=r"the database rejected the write, nothing of it is stored: .*NUL"):
            pool.append(Task("u", "do", "ma\x00il", "office"))
        assert pool.append(task("v")) == 1
        assert list(ledger_problems(pool.engine)) == []


def test_bodies_can_be_asked_as_json_and_indexed(place: PoolUrl) -> None:
    with Pool.open(place) as pool:
        pool.append(Task("t", "do", "mail", "office", context={"b": 1, "a": [2]}))
        with pool.engine.connect() as connection:
            query = "SELECT fields::jsonb -> 'context' ->> 'b' FROM tasks"
            assert connection.exec_driver_sql(query).scalar() == "1"
        with operator_transaction(place) as connection:
            connection.exec_driver_sql("CREATE INDEX by_b ON tasks ((fields::jsonb -> 'context'))")
            connection.exec_driver_sql("DROP INDEX by_b")
