"""The points of a pool are those of its records, whoever made them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select, text, update

from tests.pool.migration import downgrade
from upturn.errors import StoreConflictError
from upturn.pool import Location, Pool, ledger_problems, schema
from upturn.pool.database import backend_of
from upturn.pool.points import VERDICTS, Point
from upturn.records import Evaluation, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def rows(pool: Pool) -> list[tuple[object, ...]]:
    with pool.engine.connect() as connection:
        points = connection.execute(select(schema.points).order_by(schema.points.c.sequence)).all()
        strata = connection.execute(select(schema.strata).order_by(schema.strata.c.id)).all()
    return [tuple(row) for row in (*points, *strata)]


def fill(pool: Pool, make_point: MakePoint) -> None:
    for number in range(3):
        pool.append(*make_point(f"{number}", task="t", agent=f"nano@{number % 2}"))
    task, trajectory, _ = make_point("bare", family="files", tenant="other")
    pool.append(task, trajectory)
    second = Evaluation("second", "t", "trajectory-1", "own/1", "failure", (), {}, {}, 0.0)
    third = Evaluation("third", "t", "trajectory-1", "own/2", "missing", (), {}, {}, None)
    pool.append(second)
    pool.append(third, *make_point("last"))
    assert pool.append(second, third, *make_point("0", task="t", agent="nano@0")) == 0


def test_an_upgrade_makes_the_points_that_the_writer_makes(
    pool: Pool, location: Location, make_point: MakePoint
) -> None:
    fill(pool, make_point)
    before = rows(pool)
    assert len(before) == 7 + 3, "five trajectories, two of them evaluated later, and three strata"
    pool.close()
    engine = backend_of(location).writing_engine()
    downgrade(engine, "0009")
    engine.dispose()
    with Pool.open(location) as upgraded:
        assert rows(upgraded) == before
        assert list(ledger_problems(upgraded.engine)) == []


def change_point(connection: Connection, **changes: Any) -> None:
    """Changes the point of the first trajectory."""
    table = schema.points
    where = table.c.trajectory == 2
    packed = connection.execute(select(table.c.packed).where(where)).scalar_one()
    connection.execute(update(table).where(where).values(packed=Point.unpack(packed)._replace(**changes).pack()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (partial(change_point, score=0.9), "points 'trajectory-0' was changed"),
        (partial(change_point, verdict=VERDICTS.index("failure")), "points 'trajectory-0' was changed"),
        (partial(change_point, turn_count=3), "points 'trajectory-0' was changed"),
        (partial(change_point, seconds=0.1), "points 'trajectory-0' was changed"),
        ("DELETE FROM points WHERE trajectory = 2", "points 'trajectory-0' was changed"),
        ("UPDATE points SET trajectory = 999 WHERE trajectory = 2", "points 'trajectory-0' was changed"),
        (
            "INSERT INTO points SELECT 999, NULL, 999, packed FROM points LIMIT 1",
            "points has 6 current rows for 5 trajectories; rows were added or deleted",
        ),
    ],
)
def test_changed_points_are_named(
    pool: Pool, make_point: MakePoint, change: str | Callable[[Connection], None], message: str
) -> None:
    fill(pool, make_point)
    pool.write(
        lambda connection: connection.execute(text(change)) if isinstance(change, str) else change(connection)
    )
    assert any(str(problem).startswith(message) for problem in ledger_problems(pool.engine))


def test_a_refused_batch_leaves_no_points(pool: Pool, make_point: MakePoint) -> None:
    fill(pool, make_point)
    before = rows(pool)
    task, trajectory, _ = make_point("new", family="calendar")
    unknown = Evaluation("e", "t", "unknown", "own/1", "success", (), {}, {}, 1.0)
    with pytest.raises(StoreConflictError, match="is not stored"):
        pool.append(task, trajectory, unknown)
    assert rows(pool) == before
