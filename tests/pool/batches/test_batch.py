"""Batches meet their criteria, are balanced, and can be drawn again whatever was stored since."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from upturn.errors import StoreError, UnknownNameError
from upturn.pool import (
    Batch,
    BatchCriteria,
    Pool,
    Priorities,
    experiences_in,
    freeze_batch,
    get_batch,
    ledger_problems,
    redraw,
    take_snapshot,
)
from upturn.records import Action, Evaluation, EvaluationVerdict, Task, Trajectory

Point = tuple[Task, Trajectory, Evaluation]
MakePoint = Callable[..., Point]


def ids(batch: Batch) -> list[str]:
    return [point.trajectory_id for point in batch.points]


def later(trajectory: Trajectory, verdict: EvaluationVerdict, score: float | None) -> Evaluation:
    return Evaluation(
        f"later-{trajectory.id}-{verdict}", trajectory.task_id, trajectory.id, "own/2", verdict, (), {}, {}, score
    )


def batch(pool: Pool, criteria: BatchCriteria, *, seed: int = 0, bound: int | None = None) -> Batch:
    return get_batch(pool, criteria, tenant="default", seed=seed, bound=bound)


@pytest.fixture
def filled(pool: Pool, make_point: MakePoint) -> Pool:
    """60 points: 40 of family mail, 15 of files, 5 of calendar; 4 of each task; two agents; every third failed."""
    for number in range(60):
        family = "mail" if number < 40 else "files" if number < 55 else "calendar"
        failed = number % 3 == 0
        task, trajectory, evaluation = make_point(
            f"{number:02d}",
            task=f"task-{family}-{number // 4}",
            family=family,
            agent=f"nano@{1 + number % 2}",
            verdict="failure" if failed else "success",
            score=0.25 if failed else 1.0,
        )
        task = replace(task, level=1 + number // 32)
        pool.append(task, trajectory, evaluation)
    return pool


CRITERIA: Sequence[tuple[BatchCriteria, int]] = [
    (BatchCriteria(100), 60),
    (BatchCriteria(100, families=("files", "calendar")), 20),
    (BatchCriteria(100, families=("unknown",)), 0),
    (BatchCriteria(100, agent_versions=("nano@1",)), 30),
    (BatchCriteria(100, agents=("nano",)), 60),
    (BatchCriteria(100, agents=("other",)), 0),
    (BatchCriteria(100, levels=(2,)), 28),
    (BatchCriteria(100, verdicts=("success",)), 40),
    (BatchCriteria(100, min_score=0.5), 40),
    (BatchCriteria(100, max_score=0.5), 20),
    (BatchCriteria(100, splits=("heldout",)), 0),
    (BatchCriteria(100, origins=("rendered",)), 0),
    (BatchCriteria(100, outcomes=("finished",)), 60),
    (BatchCriteria(100, environments=("office",)), 60),
    (BatchCriteria(100, since=1000.0), 60),
    (BatchCriteria(100, since=1000.5), 0),
    (BatchCriteria(100, before=1000.0), 0),
    (BatchCriteria(100, is_clean=True), 60),
    (BatchCriteria(100, max_per_task=1), 16),
]


@pytest.mark.parametrize(
    ("criteria", "count"), CRITERIA, ids=lambda value: str(value) if isinstance(value, int) else ""
)
def test_a_batch_has_the_points_that_meet_its_criteria(filled: Pool, criteria: BatchCriteria, count: int) -> None:
    drawn = batch(filled, criteria)
    assert len(drawn.points) == len(set(ids(drawn))) == count


def test_a_batch_is_balanced_over_its_axes(filled: Pool) -> None:
    """Calendar has only 5 points; what it lacks is shared by the two others."""
    drawn = batch(filled, BatchCriteria(21, balance=("family",)))
    assert Counter(point.family for point in drawn.points) == {"mail": 8, "files": 8, "calendar": 5}
    by_agent = batch(filled, BatchCriteria(20, balance=("agent_version", "level")))
    assert set(Counter((point.agent_version, point.level) for point in by_agent.points).values()) == {5}


def test_what_a_limit_takes_is_shared_among_the_others(filled: Pool) -> None:
    """One point of each task: 10 tasks of mail, 4 of files, 2 of calendar."""
    drawn = batch(filled, BatchCriteria(12, balance=("family",), max_per_task=1))
    assert Counter(point.family for point in drawn.points) == {"mail": 6, "files": 4, "calendar": 2}
    assert len({point.task_id for point in drawn.points}) == 12


def test_a_seed_decides_the_points_and_nothing_else_does(filled: Pool) -> None:
    criteria = BatchCriteria(
        20, balance=("family",), priorities=Priorities(success=1.0, efficiency=1.0, novelty=1.0)
    )
    drawn = batch(filled, criteria, seed=5)
    assert batch(filled, criteria, seed=5) == drawn
    others = [batch(filled, criteria, seed=seed) for seed in range(6, 10)]
    assert len({tuple(ids(other)) for other in (drawn, *others)}) == 5


def test_a_batch_is_the_same_for_the_same_bound(filled: Pool, make_point: MakePoint) -> None:
    """Also when points came since, and when its points have got other evaluations."""
    criteria = BatchCriteria(25, verdicts=("success",))
    before = batch(filled, criteria)
    snapshot = freeze_batch(filled, before)
    evaluations = {point.trajectory_id: point.evaluation_id for point in before.points}
    for trajectory in list(filled.trajectories(tenant="default")):
        filled.append(later(trajectory, "failure", 0.0))
    filled.append(*make_point("new"))
    assert [point.trajectory_id for point in batch(filled, criteria).points] == ["trajectory-new"]
    assert redraw(filled, snapshot.id) == before
    assert batch(filled, criteria, bound=before.draw.bound) == before
    frozen = list(experiences_in(filled, snapshot.id, tenant="default"))
    assert {point.trajectory.id: point.evaluation.id for point in frozen if point.evaluation} == evaluations
    assert freeze_batch(filled, redraw(filled, snapshot.id)) == snapshot
    assert list(ledger_problems(filled.engine)) == []


def test_later_evaluations_replace_earlier_ones(filled: Pool) -> None:
    (trajectory,) = (item for item in filled.trajectories(tenant="default") if item.id == "trajectory-00")
    filled.append(later(trajectory, "success", 0.5))
    filled.append(later(trajectory, "missing", None))
    (point,) = (point for point in batch(filled, BatchCriteria(60)).points if point.trajectory_id == trajectory.id)
    assert (point.verdict, point.score, point.evaluation_id) == ("missing", None, "later-trajectory-00-missing")


def test_a_point_without_an_evaluation_is_missing(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    pool.append(task, trajectory)
    (point,) = batch(pool, BatchCriteria(5, verdicts=("missing",))).points
    assert point.evaluation_id is None
    pool.append(evaluation)
    assert batch(pool, BatchCriteria(5, verdicts=("missing",))).points == ()
    assert len(batch(pool, BatchCriteria(5)).points) == 1


def test_held_out_tasks_keep_all_of_their_points(filled: Pool) -> None:
    drawn = batch(filled, BatchCriteria(60, heldout_share=0.3), seed=1)
    sides: dict[str, set[bool]] = {}
    for point in drawn.points:
        sides.setdefault(point.task_id, set()).add(point.is_held_out)
    assert all(len(side) == 1 for side in sides.values())
    assert 1 <= sum(True in side for side in sides.values()) < 16
    part = batch(filled, BatchCriteria(20, heldout_share=0.3), seed=1)
    assert all(sides[point.task_id] == {point.is_held_out} for point in part.points), "for any size"


def test_points_that_fail_a_gate_are_replaced(filled: Pool, make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("broken", family="calendar")
    filled.append(task, replace(trajectory, rows=()), evaluation)
    dirty = batch(filled, BatchCriteria(6, families=("calendar",)))
    assert "trajectory-broken" in ids(dirty)
    clean = batch(filled, BatchCriteria(6, families=("calendar",), is_clean=True))
    assert len(clean.points) == 5
    assert "trajectory-broken" not in ids(clean)


def test_tenants_have_batches_of_their_own(filled: Pool, make_point: MakePoint) -> None:
    filled.append(*make_point("theirs", tenant="other"))
    assert [point.trajectory_id for point in get_batch(filled, BatchCriteria(99), tenant="other").points] == [
        "trajectory-theirs"
    ]
    assert len(batch(filled, BatchCriteria(99)).points) == 60
    assert get_batch(filled, BatchCriteria(99), tenant="nobody").points == ()


def test_a_snapshot_that_is_no_batch_or_lost_points_is_refused(filled: Pool) -> None:
    with pytest.raises(UnknownNameError, match="no snapshot 'x' is stored"):
        redraw(filled, "x")
    whole = take_snapshot(filled, tenants=("default",))
    with pytest.raises(StoreError, match="was not drawn as a batch"):
        redraw(filled, whole.id)
    snapshot = freeze_batch(filled, batch(filled, BatchCriteria(60)))
    filled.write(lambda connection: connection.execute(text("DELETE FROM points WHERE trajectory < 100")))
    with pytest.raises(StoreError, match=r"cannot be drawn again: \d+ of its 60 points"):
        redraw(filled, snapshot.id)
    assert any(problem.kind == "points" for problem in ledger_problems(filled.engine))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 0}, "size must be at least 1, got 0"),
        ({"max_per_task": 0}, "max_per_task must be at least 1, got 0"),
        ({"heldout_share": 1.0}, "heldout_share must be at least 0 and below 1"),
        ({"balance": ("family", "family")}, "balance must name each axis once"),
    ],
)
def test_impossible_criteria_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(BatchCriteria(5), **change)


def test_several_strategies_stay(pool: Pool, make_point: MakePoint) -> None:
    for number in range(8):
        task, trajectory, evaluation = make_point(f"{number}")
        search = replace(trajectory.turns[0], action=Action("mail", "search", {"text": f"{number}"}))
        turns = trajectory.turns if number < 5 else (search, *(search,) * number, *trajectory.turns)
        pool.append(task, replace(trajectory, turns=turns, rows=()), evaluation)
    criteria = BatchCriteria(9, max_per_strategy=2)
    drawn = ids(batch(pool, criteria))
    assert [sum(int(name[-1]) >= 5 for name in drawn), len(drawn)] == [2, 4]
    assert ids(batch(pool, criteria)) == drawn
    assert len({tuple(ids(batch(pool, criteria, seed=seed))) for seed in range(8)}) > 1
    assert len(ids(batch(pool, replace(criteria, size=3)))) == 3
    assert len(ids(batch(pool, replace(criteria, max_per_strategy=4)))) == 7
    with pytest.raises(ValueError, match="max_per_strategy must be at least 1, got 0"):
        replace(criteria, max_per_strategy=0)
