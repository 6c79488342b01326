"""Every change of a stored record by something else than the pool is noticed, and only that."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.pool.migration import downgrade
from upturn.errors import StoreConflictError
from upturn.pool import Pool, RolloutKey, ledger_problems
from upturn.pool.database import writing_engine
from upturn.pool.row import digest
from upturn.records import AgentVersion, Alternative, Decision, Evaluation, Feedback, Release, Run, Task, Trajectory

Point = tuple[Task, Trajectory, Evaluation]
MakePoint = Callable[..., Point]


def decision(name: str) -> Decision:
    alternatives = (Alternative("nano@1", 1.0, None),)
    return Decision(
        f"d-{name}", f"task-{name}", "mail", "default", "fixed", "hash", alternatives, "nano", "nano@1", 1.0, "only"
    )


def problems(path: Path) -> list[str]:
    with Pool.open(path, read_only=True) as pool:
        return list(ledger_problems(pool.engine))


@pytest.fixture
def path(tmp_path: Path, make_point: MakePoint) -> Path:
    """A closed pool with every kind of record, written in several transactions."""
    release = Release("r", "nano", "nano@1", "nano@2", (0.1, 0.5), "canary", 0)
    with Pool.open(tmp_path / "pool.db") as pool:
        for name in "abc":
            pool.append(*make_point(name, score=0.5), decision(name))
        pool.append(*make_point("e"), rollout=RolloutKey("run", 0))
        pool.append(
            Feedback("f", "trajectory", "trajectory-a", "thumbs", 1.0), AgentVersion("nano", "1", "rule_based")
        )
        pool.append(release, Run("run", "demo", "hash", 3, "0.1.0"))
        pool.append(replace(release, state="promoted"))
        with pytest.raises(StoreConflictError):
            pool.append(Task("new", "do", "mail", "office"), Task("task-a", "other", "mail", "office"))
        pool.append(*make_point("a", score=0.5))
    return tmp_path / "pool.db"


def change(path: Path, *statements: str) -> list[str]:
    with sqlite3.connect(path) as raw:
        for statement in statements:
            raw.execute(statement)
    raw.close()
    return problems(path)


def test_nothing_is_reported_for_what_the_pool_wrote(path: Path, make_point: MakePoint) -> None:
    """Refused, repeated and reopened writes included, and while it is open for writing."""
    assert problems(path) == []
    with Pool.open(path) as pool:
        pool.append(*make_point("f"))
        assert list(ledger_problems(pool.engine)) == []
    assert problems(path) == []


CHANGES = {
    "a changed reward": (
        "UPDATE trajectories SET turns = replace(turns, '\"reward\":0.5', '\"reward\":1.0') "
        "WHERE id = 'trajectory-a'",
        "trajectories 'trajectory-a' was changed after it was stored: its content does not match its digest",
    ),
    "a flipped verdict": (
        "UPDATE evaluations SET verdict = 'failure' WHERE id = 'evaluation-a'",
        "evaluations 'evaluation-a' was changed after it was stored: its column verdict is 'failure', its record "
        "says 'success'",
    ),
    "a flipped verdict in the record": (
        "UPDATE evaluations SET verdict = 'failure', fields = replace(fields, '\"success\"', '\"failure\"') "
        "WHERE id = 'evaluation-a'",
        "evaluations 'evaluation-a' was changed after it was stored: its content does not match its digest",
    ),
    "a changed score": (
        "UPDATE evaluations SET score = 0.75 WHERE id = 'evaluation-a'",
        "evaluations 'evaluation-a' was changed after it was stored: its column score is 0.75, its record says 0.5",
    ),
    "a propensity": (
        "UPDATE decisions SET propensity = 0.5 WHERE id = 'd-a'",
        "decisions 'd-a' was changed after it was stored: its column propensity is 0.5, its record says 1.0",
    ),
    "the last decision": (
        "DELETE FROM decisions WHERE id = 'd-c'",
        "decisions has 2 rows, 3 were written; rows were deleted",
    ),
    "all decisions": ("DELETE FROM decisions", "decisions has 0 rows, 3 were written; rows were deleted"),
    "a row of something else": (
        "INSERT INTO feedback SELECT 'f2', tenant, subject_kind, subject_id, metric, value, replace(fields, "
        '\'"id":"f"\', \'"id":"f"\'), digest, 999, recorded_at FROM feedback',
        "feedback has 2 rows, 1 were written; rows were added by something else",
    ),
    "the time of a record": (
        "UPDATE decisions SET recorded_at = recorded_at + 60 WHERE id = 'd-a'",
        "decisions has rows that were replaced, or whose digest, order or time was changed",
    ),
    "the seconds of a trajectory": (
        "UPDATE trajectories SET seconds = 0.001 WHERE id = 'trajectory-b'",
        "trajectories has rows that were replaced, or whose digest, order or time was changed",
    ),
    "a record moved to another tenant": (
        "UPDATE evaluations SET tenant = 'other' WHERE id = 'evaluation-b'",
        "evaluations 'evaluation-b' was changed after it was stored: its tenant is 'other', that of its "
        "trajectories 'default'",
    ),
    "a state of a release": (
        "UPDATE history SET fields = replace(fields, '\"canary\"', '\"held\"')",
        "history has rows that were replaced, or whose digest, order or time was changed",
    ),
    "a deleted release": ("DELETE FROM releases", "releases 'r' was deleted: the history has it"),
    "a deleted chain": ("DELETE FROM chains WHERE kind = 'tasks'", "tasks has 4 rows, 0 were written"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_named(path: Path, name: str) -> None:
    statement, expected = CHANGES[name]
    found = change(path, statement)
    assert any(problem.startswith(expected) for problem in found), found


def test_a_record_with_a_digest_computed_anew_breaks_the_chain(path: Path) -> None:
    with Pool.open(path, read_only=True) as pool, pool.engine.connect() as connection:
        fields = connection.execute(text("SELECT fields FROM feedback")).scalar_one()
    forged = fields.replace('"value":1.0', '"value":0.0')
    assert forged != fields
    statement = f"UPDATE feedback SET value = 0.0, fields = '{forged}', digest = '{digest(forged)}'"
    assert change(path, statement) == [
        "feedback has rows that were replaced, or whose digest, order or time was changed"
    ]


def test_a_release_set_back_to_an_earlier_state_is_named(path: Path) -> None:
    with Pool.open(path, read_only=True) as pool, pool.engine.connect() as connection:
        query = "SELECT fields FROM history WHERE kind = 'releases' ORDER BY sequence"
        earlier = connection.execute(text(query)).scalars().first()
    assert earlier is not None
    statement = f"UPDATE releases SET state = 'canary', fields = '{earlier}', digest = '{digest(earlier)}'"
    assert change(path, statement) == [
        "releases 'r' was changed after it was stored: it differs from its last state"
    ]


def test_an_older_pool_gets_its_chains_when_it_is_upgraded(path: Path) -> None:
    """The chains of the migration equal those of the writer, and later rows continue them."""
    engine = writing_engine(path)
    downgrade(engine, "0006")
    engine.dispose()
    with sqlite3.connect(path) as raw:
        before = raw.execute("SELECT * FROM chains ORDER BY kind").fetchall()
        later = ("calls", "call_contents", "submissions", "api_keys", "admin_acts", "router_states", "agent_limits")
        for table in ("chains", *later):
            raw.execute(f"DROP TABLE {table}")
        raw.execute("UPDATE alembic_version SET version_num = '0002'")
    raw.close()
    with Pool.open(path) as pool, pool.engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM chains ORDER BY kind")).all()
        assert [tuple(row) for row in rows] == before
        assert sorted(row[0] for row in rows) == [
            "agent_versions", "decisions", "evaluations", "feedback", "history", "tasks", "trajectories"
        ]  # fmt: skip
        pool.append(decision("z"))
    assert problems(path) == []


def test_the_chains_of_failed_writes_are_undone(tmp_path: Path, make_point: MakePoint) -> None:
    engine = writing_engine(tmp_path / "pool.db")
    engine.dispose()
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(Task("t", "do", "mail", "office"))
        with pytest.raises(StoreConflictError, match="is not stored"):
            pool.append(Task("u", "do", "mail", "office"), make_point("x")[1])
        pool.append(Task("v", "do", "mail", "office"))
        assert list(ledger_problems(pool.engine)) == []
