from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from upturn.pool import Experience, missing_reward
from upturn.pool.quality import inspect
from upturn.records import Evaluation, GateResult, Task, TokenRow, Trajectory, WrittenSpan

MakePoint = Callable[..., tuple[Task, Trajectory, Evaluation]]


def failed_gates(experience: Experience) -> dict[str, str]:
    return {gate.name: gate.detail for gate in inspect(experience).gates if not gate.is_passed}


def test_clean_point_passes_every_gate_in_order(make_point: MakePoint) -> None:
    inspection = inspect(Experience(*make_point("a")))
    assert inspection.is_clean
    assert [gate.name for gate in inspection.gates] == ["complete", "evaluated", "tokens", "finite", "times"]


@pytest.mark.parametrize(
    ("changes", "gate", "detail"),
    [
        ({"outcome": "model_error", "error": "boom"}, "complete", "outcome model_error: boom"),
        ({"outcome": "environment_error"}, "complete", "outcome environment_error: no error recorded"),
        ({"rows": ()}, "tokens", "sampled, but no token rows"),
        ({"origin": "rendered"}, "tokens", "row 0: 3 log-probabilities, expected 0"),
    ],
)
def test_broken_trajectories_fail_their_gate(
    make_point: MakePoint, changes: dict[str, Any], gate: str, detail: str
) -> None:
    task, trajectory, evaluation = make_point("a")
    assert failed_gates(Experience(task, replace(trajectory, **changes), evaluation)) == {gate: detail}


@pytest.mark.parametrize("outcome", ["finished", "step_limit", "token_limit", "time_limit"])
def test_limits_end_a_trajectory_without_breaking_it(make_point: MakePoint, outcome: Any) -> None:
    task, trajectory, evaluation = make_point("a")
    assert failed_gates(Experience(task, replace(trajectory, outcome=outcome), evaluation)) == {}


def test_rendered_trajectories_need_no_rows_and_no_logprobs(make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    rendered = replace(trajectory, origin="rendered")
    for rows in ((), (replace(trajectory.rows[0], logprobs=()),)):
        assert failed_gates(Experience(task, replace(rendered, rows=rows), evaluation)) == {}


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        (TokenRow((1, 2, 3), (WrittenSpan(0, 0, 2), WrittenSpan(1, 1, 3)), (-1.0,) * 4), "span 1:3 overlaps"),
        (TokenRow((1, 2, 3), (WrittenSpan(0, 1, 4),), (-1.0,) * 3), "span 1:4 overlaps"),
        (TokenRow((1, 2, 3), (WrittenSpan(0, -1, 1),), (-1.0,) * 2), "span -1:1 overlaps"),
        (TokenRow((1, 2, 3), (WrittenSpan(0, 1, 1),), ()), "span 1:1 overlaps, is empty"),
        (TokenRow((1, 2, 3), (WrittenSpan(2, 0, 1),), (-1.0,)), "span names turn 2 of 2"),
        (TokenRow((1, 2, 3), (WrittenSpan(0, 0, 2),), (-1.0,)), "1 log-probabilities, expected 2"),
        (TokenRow((1, -2, 3), (WrittenSpan(0, 0, 1),), (-1.0,)), "a token id below zero"),
    ],
)
def test_rows_must_agree_with_their_spans(make_point: MakePoint, row: TokenRow, detail: str) -> None:
    task, trajectory, evaluation = make_point("a")
    good = trajectory.rows[0]
    problems = failed_gates(Experience(task, replace(trajectory, rows=(good, row)), evaluation))
    assert set(problems) == {"tokens"}
    assert problems["tokens"].startswith(f"row 1: {detail}")


@pytest.mark.parametrize("value", [nan, inf, -inf, 0.01])
def test_logprobs_must_be_finite_and_at_most_zero(make_point: MakePoint, value: float) -> None:
    task, trajectory, evaluation = make_point("a")
    row = replace(trajectory.rows[0], logprobs=(-0.5, value, -1.0))
    problems = failed_gates(Experience(task, replace(trajectory, rows=(row,)), evaluation))
    assert problems == {"finite": "a log-probability is not a finite number of at most 0"}


def test_rounding_above_zero_is_no_problem(make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    row = replace(trajectory.rows[0], logprobs=(5e-5, 0.0, -1.0))
    assert failed_gates(Experience(task, replace(trajectory, rows=(row,)), evaluation)) == {}


def test_missing_reward_names_the_cause(make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    assert missing_reward(Experience(task, trajectory, evaluation)) == ""
    assert missing_reward(Experience(task, trajectory, None)) == "no evaluation stored"
    broken = replace(trajectory, outcome="environment_error", error="OSError: disk full")
    assert missing_reward(Experience(task, broken, evaluation)) == "outcome environment_error: OSError: disk full"


def test_evaluation_must_exist_and_be_in_range(make_point: MakePoint) -> None:
    task, trajectory, evaluation = make_point("a")
    missing = replace(evaluation, verdict="missing", score=None)
    assert failed_gates(Experience(task, trajectory, None)) == {"evaluated": "no evaluation stored"}
    assert failed_gates(Experience(task, trajectory, missing)) == {"evaluated": "verdict missing"}
    crashed = replace(missing, gates=(GateResult("judged", False, "KeyError: 'mails'"),))
    assert failed_gates(Experience(task, trajectory, crashed)) == {
        "evaluated": "verdict missing; judged: KeyError: 'mails'"
    }
    unscored = replace(evaluation, rewards={"success": 1.0, "style": None}, score=None)
    assert failed_gates(Experience(task, trajectory, unscored)) == {
        "evaluated": "score missing: no value for style"
    }
    for score in (1.5, -0.1, nan):
        assert set(failed_gates(Experience(task, trajectory, replace(evaluation, score=score)))) == {"finite"}
    bad_turn = replace(trajectory.turns[0], reward=nan)
    broken = replace(trajectory, turns=(bad_turn, trajectory.turns[1]))
    assert failed_gates(Experience(task, broken, evaluation)) == {"finite": "a turn's reward is not finite"}
