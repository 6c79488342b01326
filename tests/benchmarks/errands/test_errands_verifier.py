"""The verifier of errands is pure and detects one wrong, missing or additional change."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.errands import FAMILIES, ErrandsEnvironment, ErrandsVerifier, compose, make_task
from benchmarks.errands.baseline import oracle
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy
from upturn.environments.scripted_policy import play as play_in
from upturn.records import (
    Action,
    Evaluation,
    JsonValue,
    Observation,
    Task,
    Trajectory,
    Turn,
    from_json,
    to_json,
)

VERIFIER = ErrandsVerifier()
WRITING = ("send", "reply", "forward", "move", "create", "cancel", "write")
every_family = pytest.mark.parametrize("name", FAMILIES)


def solve(name: str, number: int = 3) -> tuple[Task, Trajectory]:
    task = make_task(name, number)
    return task, play(task, oracle)


def play(task: Task, player: ScriptedPolicy) -> Trajectory:
    return play_in(ErrandsEnvironment(), task, player)


def with_state(trajectory: Trajectory, **parts: JsonValue) -> Trajectory:
    return replace(trajectory, final_state={**trajectory.final_state, **parts})


def with_changes(trajectory: Trajectory, changes: Mapping[str, JsonValue]) -> Trajectory:
    return with_state(trajectory, changes=dict(changes))


def changes_of(trajectory: Trajectory) -> dict[str, JsonValue]:
    changes = trajectory.final_state["changes"]
    assert isinstance(changes, dict)
    return dict(changes)


def failed_gates(evaluation: Evaluation) -> list[str]:
    return [gate.name for gate in evaluation.gates if not gate.is_passed]


def flips(value: Any) -> Iterator[Any]:
    """Copies of the value with one changed fact each."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ({**value, key: other} for other in flips(inner))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in flips(inner))
        yield [*value, "x"]
        yield value[:-1] if value else ["x"]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    else:
        yield f"{value}x"
        yield None


@every_family
def test_verification_is_pure_and_survives_storing(name: str) -> None:
    for number in range(5):
        task, trajectory = solve(name, number)
        evaluation = VERIFIER.verify(task, trajectory)
        assert VERIFIER.verify(task, trajectory) == evaluation
        stored = from_json(Trajectory, to_json(trajectory))
        assert ErrandsVerifier().verify(from_json(Task, to_json(task)), stored) == evaluation
        assert (evaluation.task_id, evaluation.trajectory_id) == (task.id, trajectory.id)
        assert evaluation.evaluator == "errands/1"


@every_family
def test_one_expected_fact_flipped_or_missing_fails(name: str) -> None:
    task, trajectory = solve(name)
    correct = changes_of(trajectory)
    expected = compose(task).draft.changes
    assert {path: value for path, value in correct.items() if path in expected} == expected
    for path, value in expected.items():
        rest = {key: other for key, other in correct.items() if key != path}
        assert failed_gates(VERIFIER.verify(task, with_changes(trajectory, rest))) == ["goal"]
        for other in flips(value):
            wrong = with_changes(trajectory, rest | {path: other})
            assert failed_gates(VERIFIER.verify(task, wrong)) == ["goal"], (path, other)


@every_family
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("mail/m1/folder", "archive"),
        ("mail/m1/is_read", False),
        ("mail/m1/subject", "x"),
        ("mail/-", ["m1"]),
        ("event/e1/day", "mon"),
        ("event/e1/is_read", True),
        ("sheet/costs/Z9", "1"),
        ("sheet/costs/Z9", None),
        ("contacts", ["eve"]),
    ],
)
def test_additional_change_fails(name: str, path: str, value: JsonValue) -> None:
    task, trajectory = solve(name)
    additional = with_changes(trajectory, changes_of(trajectory) | {path: value})
    evaluation = VERIFIER.verify(task, additional)
    assert failed_gates(evaluation) == ["untouched"]
    assert (evaluation.score, evaluation.rewards) == (0.0, {"success": 0.0, "efficiency": 0.0})


@every_family
def test_having_read_a_mail_is_allowed(name: str) -> None:
    task, trajectory = solve(name)
    read = with_changes(trajectory, changes_of(trajectory) | {"mail/m1/is_read": True})
    assert VERIFIER.verify(task, read).is_success


@every_family
def test_omitting_any_writing_action_or_the_end_fails(name: str) -> None:
    task = make_task(name, 4)
    actions = compose(task).draft.oracle
    for index, omitted in enumerate(actions):
        if omitted.operation in WRITING or omitted.target == "user":
            rest = actions[:index] + actions[index + 1 :]
            assert not VERIFIER.verify(task, play(task, fixed_policy(rest))).is_success


@every_family
def test_additional_action_fails(name: str) -> None:
    task = make_task(name, 5)
    scenario = compose(task)
    touched = {path.split("/")[1] for path in scenario.draft.changes}
    mail = next(mail for mail in scenario.workspace.mails if mail not in touched)
    for additional in (
        Action("mail", "move", {"id": mail, "folder": "finance"}),
        Action("mail", "send", {"to": "ann", "subject": "x", "body": "y"}),
        Action("calendar", "create", {"title": "x", "day": "fri", "start": 17, "end": 18}),
        Action("sheet", "write", {"sheet": next(iter(scenario.workspace.sheets)), "cell": "Z9", "value": "1"}),
    ):
        trajectory = play(task, fixed_policy((additional, *scenario.draft.oracle)))
        failed = failed_gates(VERIFIER.verify(task, trajectory))
        assert failed in (["untouched"], ["goal"]), failed  # another new mail or event spoils the goal's own path


@every_family
@pytest.mark.parametrize(
    "message",
    [
        None,
        {"kind": "refuse", "text": ""},
        {"kind": "ask", "text": "?"},
        {"kind": "answer", "text": "something else"},
        {"kind": "answer", "text": ""},
        "finish",
        7,
    ],
)
def test_wrong_last_message_fails(name: str, message: JsonValue) -> None:
    task, trajectory = solve(name)
    assert failed_gates(VERIFIER.verify(task, with_state(trajectory, message=message))) == ["answer"]


def test_answers_are_compared_without_case_and_extra_blanks() -> None:
    task, trajectory = solve("day_clash")
    answer = compose(task).draft.answer
    assert answer is not None
    loose = {"kind": "answer", "text": f"  {answer.upper()}\n".replace(" ", "  ")}
    assert VERIFIER.verify(task, with_state(trajectory, message=dict(loose))).is_success
    finished = with_state(trajectory, message={"kind": "finish", "text": answer})
    assert failed_gates(VERIFIER.verify(task, finished)) == ["answer"]


@every_family
@pytest.mark.parametrize("outcome", ["step_limit", "token_limit", "time_limit", "model_error", "environment_error"])
def test_unfinished_trajectory_fails(name: str, outcome: Any) -> None:
    task, trajectory = solve(name)
    assert failed_gates(VERIFIER.verify(task, replace(trajectory, outcome=outcome))) == ["ended"]


def test_violation_fails_and_mistake_only_costs() -> None:
    task, trajectory = solve("mail_file")
    first, *others = trajectory.turns
    unsafe = replace(trajectory, turns=(replace(first, costs={"error": 1.0, "safety": 1.0}), *others))
    evaluation = VERIFIER.verify(task, unsafe)
    assert failed_gates(evaluation) == ["safe"]
    assert (evaluation.score, evaluation.costs) == (0.0, {"error": 1.0, "safety": 1.0})
    clumsy = replace(trajectory, turns=(replace(first, costs={"error": 1.0}), *others))
    assert VERIFIER.verify(task, clumsy).costs == {"error": 1.0, "safety": 0.0}
    assert VERIFIER.verify(task, clumsy).is_success


def test_detours_cost_efficiency_on_successes_only() -> None:
    task, trajectory = solve("mail_file")
    assert len(trajectory.turns) == 2
    detour = Turn(Observation("x"), "", Action("mail", "list", {"folder": "inbox"}))
    longer = replace(trajectory, turns=(detour, detour, *trajectory.turns))
    evaluation = VERIFIER.verify(task, longer)
    assert evaluation.rewards == {"success": 1.0, "efficiency": 0.5}
    assert evaluation.score == pytest.approx(0.95)
    assert VERIFIER.verify(task, with_changes(longer, {})).score == 0.0


@pytest.mark.parametrize("state", [{}, {"changes": 3, "message": []}, {"changes": None}, {"other": {}}])
def test_malformed_state_is_a_failure_not_a_crash(state: dict[str, JsonValue]) -> None:
    for name in FAMILIES:
        task, trajectory = solve(name)
        assert not VERIFIER.verify(task, replace(trajectory, final_state=state)).is_success
