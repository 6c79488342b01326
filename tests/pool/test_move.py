"""Moving a pool: everything arrives and is compared, an interrupted move continues, other targets are refused."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from tests.postgres_server import PostgresServer
from upturn.cli import app
from upturn.errors import StoreBusyError, StoreError
from upturn.pool import ALL_TENANTS, Location, Pool, PoolSink, ledger_problems, take_snapshot
from upturn.pool.access import KeyStore, freeze, make_key
from upturn.pool.calls import submit_task
from upturn.pool.database import backend_of
from upturn.pool.serving import RouterSnapshot, load_router, save_router
from upturn.pool.transfer import move_pool, moving
from upturn.records import ApiKey, Evaluation, Feedback, Release, Task, Trajectory

Point = tuple[Task, Trajectory, Evaluation]
MakePoint = Callable[..., Point]


@pytest.fixture(params=["to postgres", "to sqlite", "file to file"])
def places(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> Iterator[tuple[Location, Location]]:
    """Source and target of a move."""
    if request.param == "file to file":
        yield tmp_path / "source.db", tmp_path / "target.db"
    elif request.param == "to sqlite":
        yield postgres_server.clean_pool(), tmp_path / "target.db"
    else:
        made = postgres_server.create_database()
        yield tmp_path / "source.db", made
        postgres_server.drop_database(made)


def fill(place: Location, make_point: MakePoint) -> None:
    """A pool with rows in almost every table."""
    points = [make_point(f"{number:02d}", tenant=("ada", "bob")[number % 2]) for number in range(30)]
    with Pool.open(place, clock=lambda: 1 / 3) as pool:
        PoolSink(pool).append("run", 1, points[:10])
        for point in points[10:]:
            pool.append(*point)
        pool.append(Feedback("ü", "trajectory", points[0][1].id, "thumbs", 0.1 + 0.2, "ada", "\x00"))
        release = Release("r", "nano", "nano@1", "nano@2", (0.1, 0.5), "canary", 0)
        pool.append(release)
        submit_task(pool, Task("queued", "do", "mail", "office"), "key")
        take_snapshot(pool, tenants=["ada"])
        save_router(pool, "policy", RouterSnapshot("{}", 7), now=2.5)
    made = make_key()
    with KeyStore(place) as keys:
        keys.add(ApiKey(made.id, made.digest, "ada", "", ("client",), created_at=1.0), who="ana")
    freeze(place, who="ana", why="", when=3.0)


def contents(place: Location) -> list[object]:
    with Pool.open(place, read_only=True) as pool, KeyStore(place) as keys:
        assert list(ledger_problems(pool.engine)) == []
        return [
            list(pool.experiences(tenant=ALL_TENANTS)),
            list(pool.feedback(tenant=ALL_TENANTS)),
            pool.states(Release),
            pool.snapshots(),
            keys.keys(tenant=ALL_TENANTS),
            load_router(pool.engine, "policy"),
        ]


def test_everything_arrives_and_the_numbers_continue(
    places: tuple[Location, Location], make_point: MakePoint
) -> None:
    source, target = places
    fill(source, make_point)
    advanced: list[int] = []
    tables = {table.name: table.rows for table in move_pool(source, target, advanced.append)}
    assert tables["trajectories"] == 30
    assert tables["rollouts"] == 10
    assert sum(advanced) == sum(tables.values())
    assert contents(target) == contents(source)
    with Pool.open(target) as pool:
        pool.append(*make_point("later"))
        assert [task.id for task in pool.tasks(tenant=ALL_TENANTS)][-1] == "task-later"
        assert list(ledger_problems(pool.engine)) == []
    with pytest.raises(StoreError, match="is not empty; name a new file or an empty database"):
        move_pool(source, target)


def test_an_interrupted_move_is_no_pool_and_continues(
    places: tuple[Location, Location], make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = places
    fill(source, make_point)
    monkeypatch.setattr(moving, "ROWS_AT_ONCE", 7)
    steps = 0
    for stop in (1, 6, 12):
        seen: list[int] = []

        def advance(rows: int, seen: list[int] = seen, stop: int = stop) -> None:
            seen.append(rows)
            if len(seen) > stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            move_pool(source, target, advance)
        steps += 1
        for read_only in (True, False):
            with pytest.raises(
                StoreError, match="not all of it is there; finish it with the same `upturn pool move`"
            ):
                Pool.open(target, read_only=read_only)
    assert steps == 3
    with Pool.open(source) as pool:
        pool.append(*make_point("between"))
    move_pool(source, target)
    assert contents(target) == contents(source)


def test_an_unfinished_move_of_another_pool_is_refused(tmp_path: Path, make_point: MakePoint) -> None:
    for name in ("a.db", "b.db"):
        fill(tmp_path / name, make_point)

    def stop(_rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move_pool(tmp_path / "a.db", tmp_path / "target.db", stop)
    with pytest.raises(
        StoreError, match=r"has an unfinished move of '.*a\.db'.*finish that one, or empty the target"
    ):
        move_pool(tmp_path / "b.db", tmp_path / "target.db")


def test_rows_that_differ_are_named_and_the_target_stays_unfinished(
    tmp_path: Path, make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "a.db", make_point)
    target = tmp_path / "target.db"
    compare = moving._compared

    def damage(source: Any, engine: Any, table: Any) -> Any:
        with engine.begin() as connection:
            connection.execute(text("UPDATE feedback SET value = value + 1"))
        return compare(source, engine, table)

    monkeypatch.setattr(moving, "_compared", damage)
    with pytest.raises(StoreError, match="table feedback has 1 rows with digest"):
        move_pool(tmp_path / "a.db", target)
    with pytest.raises(StoreError, match="not all of it is there"):
        Pool.open(target)


def test_a_pool_that_is_being_written_is_not_moved(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "a.db"), pytest.raises(StoreBusyError, match="is being written by process"):
        move_pool(tmp_path / "a.db", tmp_path / "b.db")
    with pytest.raises(StoreError, match="cannot be moved onto itself"):
        move_pool(tmp_path / "a.db", tmp_path / "a.db")
    with pytest.raises(StoreError, match="no pool at"):
        move_pool(tmp_path / "none.db", tmp_path / "b.db")
    assert not (tmp_path / "none.db").exists()


def test_records_that_were_changed_are_found_at_the_end(tmp_path: Path, make_point: MakePoint) -> None:
    fill(tmp_path / "a.db", make_point)
    engine = backend_of(tmp_path / "a.db").writing_engine()
    with engine.begin() as connection:
        connection.execute(text("UPDATE evaluations SET verdict = 'failure' WHERE id = 'evaluation-03'"))
    engine.dispose()
    with pytest.raises(
        StoreError, match=r"records that were changed after they were stored: evaluations 'evaluation-03'"
    ):
        move_pool(tmp_path / "a.db", tmp_path / "b.db")


def test_command_moves_to_postgres_and_back(
    tmp_path: Path, postgres_server: PostgresServer, make_point: MakePoint
) -> None:
    fill(tmp_path / "a.db", make_point)
    place = postgres_server.create_database()
    url = place.url.render_as_string(hide_password=False)
    out: list[dict[str, Any]] = []
    for source, target in ((str(tmp_path / "a.db"), url), (url, str(tmp_path / "b.db"))):
        result = CliRunner().invoke(app, ["pool", "move", "--pool", source, "--to", target, "--json"])
        assert result.exit_code == 0, result.output
        out.append(json.loads(result.stdout))
        assert "with equal digests and chains" in result.stderr
    assert out[0]["tables"] == out[1]["tables"]
    assert contents(tmp_path / "b.db") == contents(tmp_path / "a.db")
    postgres_server.drop_database(place)


SCRIPT = """
import sys, os, signal
from upturn.pool.transfer import move_pool, moving
moving.ROWS_AT_ONCE = 5
rows = 0
def advance(number):
    global rows
    rows += number
    if rows > 40:
        os.kill(os.getpid(), signal.SIGKILL)
move_pool(sys.argv[1], sys.argv[2], advance)
"""


def test_a_killed_move_continues(tmp_path: Path, make_point: MakePoint) -> None:
    fill(tmp_path / "a.db", make_point)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "a.db"), str(tmp_path / "b.db")]
    assert subprocess.run(command, env=dict(os.environ), timeout=60, check=False).returncode == -signal.SIGKILL
    move_pool(tmp_path / "a.db", tmp_path / "b.db")
    assert contents(tmp_path / "b.db") == contents(tmp_path / "a.db")
