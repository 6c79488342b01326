"""What may be found, and what not."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.pool.conftest import Point
from upturn.config import RetentionRule
from upturn.errors import UnknownNameError
from upturn.pool import (
    Pool,
    PoolRecall,
    Question,
    SuccessIndex,
    last_point,
    plan_pruning,
    prune,
    recall_before,
    task_question,
)
from upturn.records import Run, Split, Task

Make = Callable[..., Point]


def add(
    pool: Pool,
    make: Make,
    name: str,
    instruction: str,
    *,
    split: Split = "train",
    episode: str | None = None,
    tokens: int = 3,
    **options: object,
) -> Task:
    task, trajectory, evaluation = make(name, **options)
    task = replace(task, instruction=instruction, split=split, episode=episode)
    usage = replace(trajectory.usage, written_tokens=tokens)
    pool.append(task, replace(trajectory, usage=usage), evaluation)
    return task


def names(
    pool: Pool, question: Question, *, k: int = 9, tenant: str = "default", families: tuple[str, ...] = ()
) -> list[str]:
    found = SuccessIndex(pool, tenant=tenant, families=families).search(question, k)
    return [item.trajectory_id.removeprefix("trajectory-") for item in found]


def test_the_most_similar_successes_come_first(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "sum", "sum the sales of march", family="files")
    add(pool, make_point, "move", "move the mail from ada to work")
    add(pool, make_point, "copy", "copy the mail from ada")
    add(pool, make_point, "failed", "move the mail from bob to work", verdict="failure", score=0.0)
    add(pool, make_point, "missing", "move the mail from eve to work", verdict="missing", score=None)
    question = Question("Move the mail from Ada to home")
    assert names(pool, question) == ["move", "copy", "sum"]
    assert names(pool, question, k=1) == ["move"]
    assert names(pool, question, families=("files",)) == ["sum"]
    assert names(pool, Question("xyzzy")) == []
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        names(pool, question, k=0)


def test_tenants_find_their_own_successes_only(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "a", "move the canary mail")
    other = add(pool, make_point, "b", "move the canary mail of acme", tenant="acme")
    assert names(pool, Question("canary mail"), tenant="acme") == ["b"]
    assert names(pool, Question("canary mail")) == ["a"]
    assert len(SuccessIndex(pool, tenant="nobody")) == 0
    with pytest.raises(UnknownNameError, match="tenant 'default' has no task 'task-b'"):
        task_question(pool, "task-b", tenant="default")
    assert [item.task.tenant for item in PoolRecall(pool).similar(replace(other, id="new"), 3)] == []
    assert [item.task.id for item in PoolRecall(pool).similar(replace(other, id="n", instruction="mail"), 3)] == [
        "task-b"
    ]


def test_nothing_of_the_task_itself_or_of_its_future_is_found(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "before", "move mail three")
    add(pool, make_point, "equal", "Move  MAIL four")
    add(pool, make_point, "held", "move mail five", split="heldout")
    add(pool, make_point, "episode", "move mail six", episode="e")
    add(pool, make_point, "late-verdict", "move mail seven", verdict="failure", score=0.0)
    task = add(pool, make_point, "self", "move mail four", episode="e")
    add(pool, make_point, "after", "move mail eight")
    _, late, evaluation = make_point("late-verdict")
    pool.append(replace(evaluation, id="again"))
    question = task_question(pool, task.id, tenant="default")
    assert names(pool, question) == ["before"]
    assert set(names(pool, Question(task.instruction))) == {"before", "equal", "episode", "late-verdict", "after"}
    recall = PoolRecall(pool)
    assert [item.task.id for item in recall.similar(task, 1)] == ["task-before"]
    assert {item.trajectory.id for item in recall.similar(task, 9)} == {
        "trajectory-before",
        f"{late.id}",
        "trajectory-after",
    }


def test_a_success_that_was_overturned_is_found_only_before_that(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "a", "move mail three")
    task = add(pool, make_point, "b", "move mail four")
    pool.append(replace(make_point("a")[2], id="again", verdict="failure", score=0.0))
    assert names(pool, Question("move mail")) == ["b"]
    assert names(pool, task_question(pool, task.id, tenant="default")) == ["a"]


def test_one_success_stands_for_an_instruction(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "low", "move mail", score=0.8)
    add(pool, make_point, "long", "move mail", tokens=9)
    add(pool, make_point, "short", "MOVE mail ", tokens=4)
    add(pool, make_point, "late", "move mail", tokens=4)
    assert names(pool, Question("move mail")) == ["short"]
    assert len(SuccessIndex(pool, tenant="default")) == 1


def test_an_index_outlives_what_was_erased(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "a", "move mail three")
    index = SuccessIndex(pool, tenant="default")
    found = index.search(Question("move mail three"), 1)[0]
    assert (found.similarity, found.score, found.task_id) == (1.0, 1.0, "task-a")
    prune(pool, plan_pruning(pool.engine, [RetentionRule(days=1)], 1e9).outdated, who="me", now=1e9)
    assert index.search(Question("move mail"), 1) == []
    assert names(pool, Question("move mail")) == []


def test_what_a_bound_recalls_never_changes(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "a", "move mail three")
    bound = last_point(pool.engine)
    fixed, fresh = PoolRecall(pool, bound=bound), PoolRecall(pool)
    task = replace(make_point("new")[0], instruction="move mail nine")
    assert [item.task.id for item in fresh.similar(task, 9)] == ["task-a"]
    add(pool, make_point, "b", "move mail four")
    pool.append(replace(make_point("a")[2], id="again", verdict="failure", score=0.0))
    assert [item.task.id for item in fresh.similar(task, 9)] == ["task-b"]
    for recall in (fixed, PoolRecall(pool, bound=bound)):
        assert [(item.task.id, item.similarity) for item in recall.similar(task, 9)] == [("task-a", 0.453986)]


def test_a_run_recalls_what_was_there_when_it_began(pool: Pool, make_point: Make) -> None:
    add(pool, make_point, "a", "move mail three")
    run = Run("run", "upturn loop run", "hash", 0, "1")
    pool.append(run)
    add(pool, make_point, "b", "move mail four")
    pool.append(replace(run, state="done"))
    task = replace(make_point("new")[0], instruction="move mail nine")
    assert [item.task.id for item in recall_before(pool, "run").similar(task, 9)] == ["task-a"]
    assert recall_before(pool, "unknown").similar(task, 9) == []
