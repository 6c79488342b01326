"""A backup restores to the same records with the same audit log, or is refused."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from upturn.errors import StoreError
from upturn.pool import Location, Pool
from upturn.pool.audit import read_head
from upturn.pool.transfer import copy_pool, drill, restore_pool
from upturn.records import Evaluation, Task, Trajectory

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def change(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as raw:
        assert raw.execute(statement).rowcount
    raw.close()


def test_a_restored_pool_has_the_records_and_goes_on(
    location: Location, tmp_path: Path, make_point: MakePoint
) -> None:
    with Pool.open(location) as pool:
        pool.append(*make_point("a"))
        copy_pool(location, tmp_path / "backup.db")
        pool.append(*make_point("lost"))
    tree = restore_pool(tmp_path / "backup.db", tmp_path / "restored.db")
    assert tree.size == 3
    with Pool.open(tmp_path / "restored.db") as restored:
        assert [one.id for one in restored.trajectories(tenant="default")] == ["trajectory-a"]
        with restored.engine.connect() as connection:
            assert read_head(connection).head() == tree
        assert restored.append(*make_point("b")) == 3


def test_a_drill_compares_rows_and_root_while_the_pool_is_written(
    location: Location, tmp_path: Path, make_point: MakePoint
) -> None:
    with Pool.open(location) as pool:
        for name in "abc":
            pool.append(*make_point(name))
        done = drill(location, tmp_path)
        with pool.engine.connect() as connection:
            assert done.tree == read_head(connection).head()
    assert done.problems == ()
    assert {name: count for name, count in done.rows.items() if count} == {
        "tasks": 3, "trajectories": 3, "evaluations": 3, "points": 3, "strata": 1,
        "audit_entries": 9, "audit_head": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE evaluations SET verdict = 'failure'", "its column verdict is 'failure'"),
        ("DELETE FROM trajectories", "trajectories 'trajectory-a' was deleted"),
        ("DELETE FROM audit_entries WHERE position = 2", "audit_entries '2' was deleted"),
    ],
)
def test_a_changed_backup_is_refused(tmp_path: Path, make_point: MakePoint, statement: str, expected: str) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(*make_point("a"))
    copy_pool(tmp_path / "pool.db", tmp_path / "backup.db")
    change(tmp_path / "backup.db", statement)
    with pytest.raises(StoreError, match="is not what was written, nothing is restored") as refused:
        restore_pool(tmp_path / "backup.db", tmp_path / "restored.db")
    assert expected in str(refused.value)
    assert not (tmp_path / "restored.db").exists()


def test_a_drill_of_a_changed_pool_fails(tmp_path: Path, make_point: MakePoint) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(*make_point("a"))
    change(tmp_path / "pool.db", "DELETE FROM evaluations")
    with pytest.raises(StoreError, match="evaluations 'evaluation-a' was deleted"):
        drill(tmp_path / "pool.db", tmp_path)


def test_a_pool_is_never_overwritten_and_a_missing_backup_named(tmp_path: Path, make_point: MakePoint) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.append(*make_point("a"))
    copy_pool(tmp_path / "pool.db", tmp_path / "backup.db")
    with pytest.raises(StoreError, match="exists; name a new file for the copy"):
        restore_pool(tmp_path / "backup.db", tmp_path / "pool.db")
    with pytest.raises(StoreError, match=r"no backup at '.*none.db'; `upturn pool copy --out FILE` makes one"):
        restore_pool(tmp_path / "none.db", tmp_path / "new.db")
