from collections.abc import Callable
from dataclasses import replace

import pytest

from upturn.errors import StoreError
from upturn.pool import Pool, PoolSink, RolloutKey, Selection
from upturn.pool.statistics import counts
from upturn.records import Evaluation, Task, Trajectory, TrajectorySink

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def test_rollouts_are_selected_by_run_and_iteration(pool: Pool, make_point: MakePoint) -> None:
    sink: TrajectorySink = PoolSink(pool)
    group = [make_point(f"a{number}", task="a") for number in range(3)]
    later = [make_point("b")]
    sink.append("run", 0, group)
    sink.append("run", 1, later)
    sink.append("other", 0, [make_point("c")])
    stored = list(pool.trajectories(Selection(run="run"), tenant="default"))
    assert stored == [trajectory for _, trajectory, _ in [*group, *later]]
    assert list(pool.trajectories(Selection(run="run", iteration=1), tenant="default")) == [later[0][1]]
    assert counts(pool, tenant="default").tasks == 3


def test_stored_rollout_key_is_not_changed(pool: Pool, make_point: MakePoint) -> None:
    sink = PoolSink(pool)
    first = make_point("a")
    sink.append("run", 0, [first])
    sink.append("run", 0, [(first[0], replace(first[1], seed=99), first[2]), make_point("b")])
    assert list(pool.trajectories(tenant="default")) == [first[1]]


def test_failed_append_stores_nothing_and_may_be_repeated(pool: Pool, make_point: MakePoint) -> None:
    sink = PoolSink(pool)
    good, bad = make_point("a"), make_point("b")
    with pytest.raises(StoreError):
        sink.append("run", 0, [good, (bad[0], bad[1], replace(bad[2], task_id="other"))])
    assert counts(pool, tenant="default") == (0, 0, 0, 0, 0)
    sink.append("run", 0, [good, bad])
    assert counts(pool, tenant="default").trajectories == 2


def test_rollouts_with_unpaired_evaluations_are_rejected(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    for evaluations in ([], [replace(evaluation, trajectory_id="x")]):
        with pytest.raises(StoreError, match="needs one evaluation per trajectory, in the same order"):
            pool.append(task, trajectory, *evaluations, rollout=RolloutKey("run", 0))
    PoolSink(pool).append("run", 0, [])
    assert counts(pool, tenant="default").tasks == 0
