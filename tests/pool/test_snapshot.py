from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pool.conftest import share
from upturn.errors import StoreError, UnknownNameError
from upturn.pool import Experience, Pool, Selection
from upturn.pool.snapshot import experiences_in, find_snapshot, take_snapshot, take_snapshot_of
from upturn.records import Evaluation, Task, Trajectory

Point = tuple[Task, Trajectory, Evaluation]
MakePoint = Callable[..., Point]

SUCCESSES = Selection(verdicts=("success",))


def add(pool: Pool, *points: Point) -> None:
    pool.append(*(record for point in points for record in point))


def test_equal_selections_have_equal_ids_in_any_order_of_arrival(tmp_path: Path, make_point: MakePoint) -> None:
    points = [make_point(name) for name in "abc"]
    snapshots = []
    for order in (points, points[::-1]):
        with Pool.open(tmp_path / f"{order[0][0].id}.db") as pool:
            add(pool, *order)
            snapshots.append(take_snapshot(pool, tenants=["default"], selection=SUCCESSES))
            assert take_snapshot(pool, tenants=["default", "default"], selection=SUCCESSES) == snapshots[-1]
            assert pool.snapshots() == [snapshots[-1]]
    assert snapshots[0] == snapshots[1]
    assert snapshots[0].trajectory_ids == ("trajectory-a", "trajectory-b", "trajectory-c")


def test_snapshot_of_listed_trajectories_stores_their_criteria(pool: Pool, make_point: MakePoint) -> None:
    add(pool, make_point("a"), make_point("b"), make_point("c"))
    names = ["trajectory-c", "trajectory-a", "trajectory-a"]
    snapshot = take_snapshot_of(pool, names, tenant="default", criteria='{"pairs": ["c > a"]}')
    assert (snapshot.trajectory_ids, snapshot.tenants) == (("trajectory-a", "trajectory-c"), ("default",))
    assert take_snapshot_of(pool, names[:2], tenant="default", criteria=snapshot.criteria) == snapshot
    assert take_snapshot_of(pool, names, tenant="default", criteria='{"pairs": ["a > c"]}').id != snapshot.id
    stored = [experience.trajectory.id for experience in experiences_in(pool, snapshot.id, tenant="default")]
    assert stored == ["trajectory-a", "trajectory-c"]
    with pytest.raises(StoreError, match="no trajectory 'unknown' is stored for 'default'"):
        take_snapshot_of(pool, ["unknown"], tenant="default", criteria="{}")


def test_other_evidence_criteria_or_tenants_have_another_id(pool: Pool, make_point: MakePoint) -> None:
    add(pool, make_point("a"), make_point("b", tenant="bob"))
    share(pool, "bob", "default")
    ids = {take_snapshot(pool, tenants=["default"]).id, take_snapshot(pool, tenants=["bob", "default"]).id}
    ids.add(take_snapshot(pool, tenants=["default"], selection=SUCCESSES).id)
    add(pool, make_point("c"))
    ids.add(take_snapshot(pool, tenants=["default"]).id)
    point = make_point("a")
    pool.append(replace(point[2], id="later", score=0.75))
    ids.add(take_snapshot(pool, tenants=["default"]).id)
    assert len(ids) == 5


def test_snapshot_is_read_unchanged(pool: Pool, make_point: MakePoint) -> None:
    first, second = make_point("a"), make_point("b")
    add(pool, second, first)
    snapshot = take_snapshot(pool, tenants=["default"])
    add(pool, make_point("c"))
    pool.append(replace(first[2], id="later", verdict="failure", score=0.0))
    assert list(experiences_in(pool, snapshot.id, tenant="default")) == [Experience(*first), Experience(*second)]
    assert find_snapshot(pool, snapshot.id) == snapshot


def test_tenants_read_only_their_own_part(pool: Pool, make_point: MakePoint) -> None:
    own, other = make_point("a", tenant="ada"), make_point("b", tenant="bob")
    add(pool, own, other)
    share(pool, "ada", "bob")
    snapshot = take_snapshot(pool, tenants=["bob", "ada"])
    assert snapshot.tenants == ("ada", "bob")
    assert list(experiences_in(pool, snapshot.id, tenant="ada")) == [Experience(*own)]
    with pytest.raises(UnknownNameError, match="its tenants: ada, bob"):
        list(experiences_in(pool, snapshot.id, tenant="eve"))


def test_unknown_snapshots_and_missing_tenants_are_errors(pool: Pool) -> None:
    with pytest.raises(UnknownNameError, match="stored: none"):
        find_snapshot(pool, "x")
    with pytest.raises(ValueError, match="needs at least one tenant"):
        take_snapshot(pool, tenants=[])
