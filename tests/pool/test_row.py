"""Rows have only readable values; others are rejected before anything is written."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from upturn.errors import RecordError
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.row import ready_row
from upturn.pool.statistics import counts
from upturn.records import (
    Action,
    AgentVersion,
    Evaluation,
    Feedback,
    Observation,
    Task,
    TokenRow,
    Trajectory,
    Turn,
    Usage,
)

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]
NOT_JSON: list[Any] = [
    math.nan,
    -math.inf,
    "\ud800",
    {"\ud800": 1},
    (1, 2),
    {1: 2},
    b"x",
    pytest.param(object(), id="an object"),
]
DEEP: Any = {}
for _ in range(230):
    DEEP = {"in": DEEP}
TASK = Task("t", "do", "mail", "office")


@pytest.mark.parametrize("value", NOT_JSON, ids=repr)
def test_unreadable_values_inside_json_fields_are_rejected(pool: Pool, make_point: MakePoint, value: Any) -> None:
    task, trajectory, _ = make_point("a")
    pool.append(task)
    action = Action("mail", "move", {"deep": [{"er": value}]})
    for bad in (
        replace(trajectory, turns=(replace(trajectory.turns[0], action=action),)),
        replace(trajectory, final_state={"deep": [{"er": value}]}),
    ):
        with pytest.raises(RecordError):
            pool.append(bad)
    with pytest.raises(RecordError):
        pool.append(replace(TASK, context={"deep": [{"er": value}]}))
    assert counts(pool, tenant=ALL_TENANTS) == (1, 0, 0, 0, 0)


@pytest.mark.parametrize("usage", [Usage(seconds=math.inf), Usage(seconds=math.nan), Usage(prompt_tokens=math.inf)])  # type: ignore[arg-type]
def test_unreadable_usage_is_rejected(make_point: MakePoint, usage: Usage) -> None:
    _, trajectory, _ = make_point("a")
    with pytest.raises(RecordError, match=r"usage|prompt_tokens"):
        ready_row(replace(trajectory, usage=usage))


@pytest.mark.parametrize(
    "record",
    [
        replace(TASK, instruction=None),  # type: ignore[arg-type]
        replace(TASK, context={"large": 10**5000}),
        Feedback("f", "episode", "t", "thumbs", None),  # type: ignore[arg-type]
        Evaluation("e", "t", "j", "own/1", "great", (), {}, {}, None),  # type: ignore[arg-type]
        Evaluation("e", "t", "j", "own/1", "success", (), {}, {"error": None}, None),  # type: ignore[dict-item]
        AgentVersion("a", "1", "robot"),  # type: ignore[arg-type]
    ],
)
def test_records_with_values_of_other_types_are_rejected(record: Any) -> None:
    with pytest.raises(RecordError, match="not a"):
        ready_row(record)


@pytest.mark.parametrize(
    "changes",
    [
        {"final_observation": Observation(None)},  # type: ignore[arg-type]
        {"turns": (Turn(Observation("hi"), "x", None, reward=None),)},  # type: ignore[arg-type]
        {"turns": (Turn(Observation("hi"), "x", Action("mail", "move", {"n": 10**5000})),)},
        {"rows": (TokenRow((1,), (), (None,)),)},  # type: ignore[arg-type]
        {"final_state": {"n": 10**5000}},
        {"final_state": DEEP},
        {"usage": Usage(written_tokens=None)},  # type: ignore[arg-type]
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_unreadable_trajectory_is_rejected(make_point: MakePoint, changes: dict[str, Any]) -> None:
    _, trajectory, _ = make_point("a")
    with pytest.raises(RecordError):
        ready_row(replace(trajectory, **changes))


def test_numpy_numbers_are_stored_as_numbers(pool: Pool, make_point: MakePoint) -> None:
    task, trajectory, _ = make_point("a")
    usage = Usage(np.int64(3), np.int64(2), np.float64(0.5))  # type: ignore[arg-type]
    pool.append(task)
    pool.append(replace(trajectory, usage=usage))
    assert [trajectory.usage for trajectory in pool.trajectories(tenant="default")] == [Usage(3, 2, 0.5)]


def test_number_too_large_for_its_column_is_rejected() -> None:
    with pytest.raises(RecordError, match="value of 'f' must be at most 2147483647, got one of 1001 bits"):
        ready_row(Feedback("f", "episode", "t", "thumbs", 2**1000))


def test_observation_that_is_not_text_is_rejected(make_point: MakePoint) -> None:
    _, trajectory, _ = make_point("a")
    with pytest.raises(
        RecordError, match=r"Trajectory 'trajectory-a' cannot be written as JSON: .*field_name='text'"
    ):
        ready_row(replace(trajectory, final_observation=Observation(5)))  # type: ignore[arg-type]
