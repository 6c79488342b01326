"""Every change of a stored record by something else than the pool is noticed, and only that."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from upturn.errors import StoreConflictError
from upturn.pool import Pool, RolloutKey, ledger_problems
from upturn.pool.audit import Entry
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
        return [str(problem) for problem in ledger_problems(pool.engine)]


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
        "decisions 'd-c' was deleted: the audit log has it with sequence 10 (entry 9)",
    ),
    "all decisions": (
        "DELETE FROM decisions",
        "decisions 'd-b' was deleted: the audit log has it with sequence 6 (entry 5)",
    ),
    "a row of something else": (
        "INSERT INTO feedback SELECT 'f2', tenant, subject_kind, subject_id, metric, value, replace(fields, "
        '\'"id":"f"\', \'"id":"f"\'), digest, 999, recorded_at FROM feedback',
        "feedback 'f2' was added by something else: the audit log has no entry of it",
    ),
    "the time of a record": (
        "UPDATE decisions SET recorded_at = recorded_at + 60 WHERE id = 'd-a'",
        "decisions 'd-a' was changed after it was stored: its recorded_at is ",
    ),
    "the order of a record": (
        "UPDATE decisions SET sequence = 99 WHERE id = 'd-a'",
        "decisions 'd-a' was added by something else: the audit log has no entry of it",
    ),
    "the seconds of a trajectory": (
        "UPDATE trajectories SET seconds = 0.001 WHERE id = 'trajectory-b'",
        "trajectories 'trajectory-b' was changed after it was stored: its digest is ",
    ),
    "a record moved to another tenant": (
        "UPDATE evaluations SET tenant = 'other' WHERE id = 'evaluation-b'",
        "evaluations 'evaluation-b' was changed after it was stored: its tenant is 'other', the audit log has "
        "'default' (entry 7)",
    ),
    "a state of a release": (
        "UPDATE history SET fields = replace(fields, '\"canary\"', '\"held\"')",
        "releases 'r' was changed after it was stored: its digest is ",
    ),
    "a deleted state": (
        "DELETE FROM history WHERE kind = 'runs'",
        "runs 'run' was deleted: the audit log has it with sequence 19 (entry 18)",
    ),
    "a deleted release": ("DELETE FROM releases", "releases 'r' was deleted: the history has it"),
    "a deleted entry": ("DELETE FROM audit_entries WHERE position = 5", "audit_entries '5' was deleted"),
    "the first entries": ("DELETE FROM audit_entries WHERE position < 3", "audit_entries '0 to 2' was deleted"),
    "the last entry": (
        "DELETE FROM audit_entries WHERE position = 19",
        "audit_entries '19' was deleted from the end of the log",
    ),
    "a changed entry": (
        "UPDATE audit_entries SET digest = 'x' WHERE record_id = 'd-b'",
        "audit_entries '5' of decisions 'd-b' (sequence 6) was changed or moved: it does not have its "
        "hash (entry 5)",
    ),
    "an entry with its hash": (
        "UPDATE audit_entries SET (kind, record_id, tenant, digest, sequence, recorded_at, hash) = "
        "(SELECT kind, record_id, tenant, digest, sequence, recorded_at, hash FROM audit_entries "
        "WHERE position = 4) WHERE position = 5",
        "audit_entries '5' of tasks 'task-b' (sequence 5) was changed or moved",
    ),
    "a deleted head": ("DELETE FROM audit_head", "audit_entries '0 to 19' was added by something else"),
    "a tombstone of nobody": (
        "INSERT INTO erasures VALUES ('decisions', 'd-b', 1, '')",
        "erasures of the operator's act 1 were changed, added or deleted",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_named(path: Path, name: str) -> None:
    statement, expected = CHANGES[name]
    found = change(path, statement)
    assert any(problem.startswith(expected) for problem in found), found


def test_a_record_with_a_digest_computed_anew_differs_from_its_entry(path: Path) -> None:
    with Pool.open(path, read_only=True) as pool, pool.engine.connect() as connection:
        fields = connection.execute(text("SELECT fields FROM feedback")).scalar_one()
    forged = fields.replace('"value":1.0', '"value":0.0')
    assert forged != fields
    statement = f"UPDATE feedback SET value = 0.0, fields = '{forged}', digest = '{digest(forged)}'"
    assert change(path, statement) == [
        f"feedback 'f' was changed after it was stored: its digest is {digest(forged)!r}, the audit log has "
        f"{digest(fields)!r} (entry 15)"
    ]


def test_an_entry_with_a_hash_computed_anew_differs_from_the_tree(path: Path) -> None:
    """It is found, and not named: the record agrees with it, and the log has no hash of 256 entries yet."""
    with Pool.open(path, read_only=True) as pool, pool.engine.connect() as connection:
        row = connection.execute(text("SELECT * FROM audit_entries WHERE record_id = 'd-b'")).one()
    forged = Entry(*row[:7])._replace(recorded_at=1.0)
    assert change(
        path,
        "UPDATE decisions SET recorded_at = 1.0 WHERE id = 'd-b'",
        f"UPDATE audit_entries SET recorded_at = 1.0, hash = x'{forged.hash().hex()}' WHERE record_id = 'd-b'",
    ) == ["audit_entries '0 to 19' have changed since they were stored, or the log's head has"]


def test_a_release_set_back_to_an_earlier_state_is_named(path: Path) -> None:
    with Pool.open(path, read_only=True) as pool, pool.engine.connect() as connection:
        query = "SELECT fields FROM history WHERE kind = 'releases' ORDER BY sequence"
        earlier = connection.execute(text(query)).scalars().first()
    assert earlier is not None
    statement = f"UPDATE releases SET state = 'canary', fields = '{earlier}', digest = '{digest(earlier)}'"
    assert change(path, statement) == [
        "releases 'r' was changed after it was stored: it differs from its last state"
    ]


def test_the_entries_of_failed_writes_are_undone(tmp_path: Path, make_point: MakePoint) -> None:
    engine = writing_engine(tmp_path / "pool.db")
    engine.dispose()
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(Task("t", "do", "mail", "office"))
        with pytest.raises(StoreConflictError, match="is not stored"):
            pool.append(Task("u", "do", "mail", "office"), make_point("x")[1])
        pool.append(Task("v", "do", "mail", "office"))
        assert list(ledger_problems(pool.engine)) == []
