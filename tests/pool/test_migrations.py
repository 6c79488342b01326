"""Every migration, down and up again with data in the tables, on both databases."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from tests.pool.migration import MIGRATIONS, downgrade, upgrade
from tests.postgres_server import PostgresServer
from upturn.pool import Location, Pool, ledger_problems
from upturn.pool.database import backend_of
from upturn.records import Alternative, Decision, Evaluation, Feedback, Release, Task, Trajectory

Point = tuple[Task, Trajectory, Evaluation]
MakePoint = Callable[..., Point]

REVISIONS = [script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()][1:]
"""All but the head, the latest first."""


@pytest.fixture(params=["sqlite", "postgres"])
def own_location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    """A place that is nobody else's, so that a migration may fail in it."""
    if request.param == "sqlite":
        yield tmp_path / "pool.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    place = server.create_database()
    yield place
    server.drop_database(place)


def test_data_survives_every_migration_down_and_up(own_location: Location, make_point: MakePoint) -> None:
    points = [make_point(str(number)) for number in range(3)]
    alternatives = (Alternative("nano@home@1", 1.0, None),)
    decision = Decision(
        "d", "task-0", "mail", "default", "uniform", "hash", alternatives, "nano@home", "nano@home@1", 1.0, "größer"
    )
    release = Release("r", "nano", "nano@1", "nano@2", (0.1, 0.5), "canary", 0)
    with Pool.open(own_location, clock=lambda: 1 / 3) as pool:
        pool.append(decision, release, *(record for point in points for record in point))
        pool.append(Feedback("f", "trajectory", "trajectory-0", "thumbs", 0.1 + 0.2))
        before = _contents(pool)
    engine = backend_of(own_location).schema_engine()
    for revision in REVISIONS:
        downgrade(engine, revision)
        with engine.connect() as connection:
            assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == revision
            assert connection.execute(text("SELECT count(*) FROM trajectories")).scalar() == 3
        upgrade(engine)
        with Pool.open(own_location, read_only=True) as pool:
            assert _contents(pool) == before, revision
            assert list(ledger_problems(pool.engine)) == [], revision
    downgrade(engine, "base")
    assert inspect(engine).get_table_names() == ["alembic_version"]
    engine.dispose()


def _contents(pool: Pool) -> list[Any]:
    reads = (pool.experiences, pool.decisions, pool.feedback)
    return [*(list(read(tenant="default")) for read in reads), pool.states(Release)]
