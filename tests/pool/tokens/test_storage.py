"""Token rows in a pool: shared prompts, tenants, damage, upgrades and downgrades."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, text

from tests.pool.migration import downgrade
from upturn.errors import StoreError
from upturn.pool import ALL_TENANTS, Location, Pool, ledger_problems
from upturn.pool.database import backend_of
from upturn.records import Evaluation, Task, TokenRow, Trajectory, WrittenSpan

Point = tuple[Task, Trajectory, Evaluation]
MakePoint = Callable[..., Point]

PROMPT = tuple(7 * number % 4093 for number in range(600))


def point(make_point: MakePoint, name: str, *, task: str = "t", tenant: str = "default") -> Point:
    """A point whose trajectory has two rows, the second of which repeats the beginning of the first."""
    made, trajectory, evaluation = make_point(name, task=task, tenant=tenant)
    ids = (*PROMPT, len(name), 5, 6)
    first = TokenRow(ids, (WrittenSpan(0, 600, 602),), (-0.1, -0.25))
    second = TokenRow((*ids[:601], 9), (WrittenSpan(1, 601, 602),), (-1e-9,), "history was cut", (-0.5,))
    return made, replace(trajectory, rows=(first, second)), evaluation


def blobs(pool: Pool) -> list[tuple[str, bytes]]:
    with pool.engine.connect() as connection:
        rows = connection.execute(text("SELECT tenant, digest FROM token_blobs ORDER BY tenant, digest"))
        return [(row[0], row[1]) for row in rows]


def test_trajectories_of_a_task_share_the_blobs_of_its_prompt(pool: Pool, make_point: MakePoint) -> None:
    points = [point(make_point, name) for name in ("a", "bb", "ccc")]
    for one in points:
        pool.append(*one)
    assert pool.append(*points[0]) == 0, "written again, it is the same"
    assert len(blobs(pool)) == 3
    assert [trajectory.rows for trajectory in pool.trajectories(tenant="default")] == [
        one[1].rows for one in points
    ]
    assert list(ledger_problems(pool.engine)) == []


def test_tenants_share_no_blobs(pool: Pool, make_point: MakePoint) -> None:
    ours, theirs = point(make_point, "a"), point(make_point, "b", task="u", tenant="other")
    pool.append(*ours)
    pool.append(*theirs)
    assert [tenant for tenant, _ in blobs(pool)] == ["default"] * 3 + ["other"] * 3
    assert [trajectory.rows for trajectory in pool.trajectories(tenant=ALL_TENANTS)] == [
        ours[1].rows,
        theirs[1].rows,
    ]


def test_a_refused_batch_leaves_no_blobs(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, _ = point(make_point, "a")
    pool.append(task)
    with pytest.raises(StoreError, match="is not stored"):
        pool.append(trajectory, Evaluation("e", "t", "unknown", "own/1", "success", (), {}, {}, 1.0))
    assert blobs(pool) == []


def test_reads_without_tokens_touch_no_blobs(pool: Pool, make_point: MakePoint) -> None:
    pool.append(*point(make_point, "a"))
    statements: list[str] = []
    event.listen(pool.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    (trajectory,) = pool.trajectories(tenant="default", has_tokens=False)
    assert trajectory.rows == ()
    assert statements
    assert not any("token_blobs" in statement or "trajectories.tokens" in statement for statement in statements)
    list(pool.trajectories(tenant="default"))
    assert any("token_blobs" in statement for statement in statements)


CHANGES = {
    "UPDATE token_blobs SET data = CAST(substr(data, 1, 9) || X'00' || substr(data, 11) AS BLOB) WHERE rowid = 2": [
        "trajectories 'trajectory-a' was changed after it was stored: its token rows cannot be unpacked",
        "token_blobs '{digest}' of tenant 'default' was changed after it was stored",
    ],
    "DELETE FROM token_blobs WHERE rowid = 2": [
        "trajectories 'trajectory-a' was changed after it was stored: the token blob {digest} is not stored"
    ],
    "UPDATE trajectories SET tokens = X'01'": [
        "trajectories 'trajectory-a' was changed after it was stored: its token rows are cut off after 1 bytes"
    ],
    "UPDATE trajectories SET tokens = NULL": [
        "trajectories 'trajectory-a' was changed after it was stored: its content does not match its digest"
    ],
}


@pytest.mark.parametrize("statement", CHANGES)
def test_changed_tokens_are_named(tmp_path: Path, make_point: MakePoint, statement: str) -> None:
    path = tmp_path / "pool.db"
    with Pool.open(path) as pool:
        pool.append(*point(make_point, "a"))
    with sqlite3.connect(path) as raw:
        digest = raw.execute("SELECT lower(hex(digest)) FROM token_blobs WHERE rowid = 2").fetchone()[0]
        raw.execute(statement)
    raw.close()
    with Pool.open(path, read_only=True) as damaged:
        reported = list(ledger_problems(damaged.engine))
        assert len(reported) == len(CHANGES[statement])
        for problem, expected in zip(reported, CHANGES[statement], strict=True):
            assert str(problem).startswith(expected.format(digest=digest))
        if "NULL" not in statement:
            with pytest.raises(StoreError, match="the stored record 'trajectory-a' is damaged"):
                list(damaged.trajectories(tenant="default"))
        assert len(list(damaged.trajectories(tenant="default", has_tokens=False))) == 1


def test_upgrade_and_downgrade_keep_every_row(location: Location, make_point: MakePoint) -> None:
    """With rows as JSON in between; more rows than are converted at once."""
    points = [point(make_point, f"{number:03d}") for number in range(120)]
    points += [point(make_point, "z", task="u", tenant="other"), make_point("rendered", task="t")]
    points[-1] = (points[-1][0], replace(points[-1][1], rows=()), points[-1][2])
    with Pool.open(location) as pool:
        for one in points:
            pool.append(*one)
        before, stored = list(pool.trajectories(tenant=ALL_TENANTS)), blobs(pool)
    engine = backend_of(location).schema_engine()
    downgrade(engine, "0006")
    with engine.connect() as connection:
        texts = connection.execute(text("SELECT rows FROM trajectories ORDER BY sequence")).scalars().all()
    engine.dispose()
    assert texts[-1] == "[]"
    assert texts[0].startswith('[{"token_ids":[0,7,14,')
    with Pool.open(location) as pool:
        assert list(pool.trajectories(tenant=ALL_TENANTS)) == before
        assert list(ledger_problems(pool.engine)) == []
        assert pool.append(*points[5]) == 0, "it equals the stored one"
        assert blobs(pool) == stored
