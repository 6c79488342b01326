"""Errands as an environment: resets, steps, snapshots, and no exception for any action."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.errands import (
    FAMILIES,
    OPERATIONS,
    ErrandsEnvironment,
    ErrandsVerifier,
    compose,
    make_task,
)
from benchmarks.errands.kit import ErrandsKit
from benchmarks.errands.workspace import DAYS, FOLDERS, state_hash
from upturn.environments import Environment, check_environment
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Action, Task, Trajectory, fields_json, from_fields

TASK = make_task("mail_to_sheet", 0)
WORKSPACE = compose(TASK).workspace

anything = st.text(st.characters(exclude_categories=[]), max_size=20)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, math.nan, math.inf, "", "\ud800", "x" * 600, "=1/0+)", "=" + "(" * 99])
    | st.floats()
    | st.sampled_from([1, -1]).map(lambda sign: sign * 10**5000)
    | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=2),
    max_leaves=6,
)
fitting = st.sampled_from(
    [
        *(*WORKSPACE.mails, *WORKSPACE.events, *WORKSPACE.sheets, *DAYS, *FOLDERS, *WORKSPACE.contacts),
        *("read", "8", "12", "B2", "A1:B3", "=SUM(B2:B4)", "x@y", "9", "hello"),
    ]
)


@st.composite
def random_actions(draw: st.DrawFn) -> Action:
    """Nearly valid actions of errands, and arbitrary ones."""
    if draw(st.booleans()):
        names = st.sampled_from(["id", "folder", "to", "text", "sheet", "cell", "value", "day", "start"]) | anything
        parameters: dict[str, Any] = draw(st.dictionaries(names, json_values | fitting, max_size=4))
        target = draw(st.sampled_from(["mail", "sheet", "user", ""]) | anything)
        return Action(target, draw(st.sampled_from(["move", "read", "answer", ""]) | anything), parameters)
    operation = OPERATIONS[draw(st.sampled_from(sorted(OPERATIONS)))]
    values: dict[str, Any] = {parameter.name: draw(fitting | json_values) for parameter in operation.parameters}
    return Action(operation.target, operation.name, values)


@given(st.lists(random_actions(), min_size=1, max_size=5))
@settings(max_examples=150)
def test_every_action_gets_an_observation(actions: list[Action]) -> None:
    environment = ErrandsEnvironment()
    _, info = environment.reset(TASK)
    before = info.state_hash
    for action in actions:
        step = environment.step(action)
        after = step.info.state_hash
        if step.observation.is_error:
            assert after == before
            safety = {"safety": 1.0} if step.observation.code == "forbidden" else {}
            assert step.info.cost_components == {"error": 1.0, **safety}
        else:
            assert step.info.cost_components == {}
        assert (step.reward, step.is_truncated) == (0.0, False)
        before = after
    trajectory = Trajectory(
        "t", TASK.id, "fuzz@1", (), step.observation, "finished", "rendered", final_state=environment.state()
    )
    assert from_fields(Trajectory, fields_json(trajectory)) == trajectory
    ErrandsVerifier().verify(TASK, trajectory)


def test_reset_returns_the_instruction_in_the_tasks_world() -> None:
    environment = ErrandsEnvironment()
    assert isinstance(environment, Environment)
    observation, info = environment.reset(TASK)
    assert (observation.text, observation.code) == (TASK.instruction, "ok")
    assert info.state_hash == state_hash(WORKSPACE)
    assert environment.state() == {"changes": {}, "before": {}, "message": None}


def test_finished_task_refuses_actions() -> None:
    environment = ErrandsEnvironment()
    environment.reset(TASK)
    assert environment.step(Action("user", "finish")).is_terminated
    second = environment.step(Action("user", "finish"))
    assert (second.observation.code, second.is_terminated) == ("is_over", True)
    assert second.info.cost_components == {"error": 1.0}
    assert environment.state() == {"changes": {}, "before": {}, "message": {"kind": "finish", "text": ""}}
    environment.reset(TASK)
    assert not environment.step(Action("user", "ask", {"text": "?"})).is_terminated


def test_snapshots_restore_any_state() -> None:
    environment = ErrandsEnvironment()
    environment.reset(TASK)
    mail = next(iter(WORKSPACE.mails))
    first = environment.snapshot()
    environment.step(Action("mail", "move", {"id": mail, "folder": "archive"}))
    moved, second = json.dumps(environment.state()), environment.snapshot()
    assert environment.state()["changes"] == {f"mail/{mail}/folder": "archive"}
    assert environment.state()["before"] == {f"mail/{mail}/folder": "inbox"}
    assert environment.step(Action("user", "finish")).is_terminated
    environment.restore(first)
    assert environment.state() == {"changes": {}, "before": {}, "message": None}
    environment.restore(second)
    assert json.dumps(environment.state()) == moved
    assert environment.step(Action("user", "finish")).is_terminated


def test_potential_is_the_share_of_correct_changes() -> None:
    task = make_task("call_off", 0)
    environment = ErrandsEnvironment()
    _, info = environment.reset(task)
    oracle = compose(task).draft.oracle
    potentials = [info.potential]
    for action in oracle:
        step = environment.step(action)
        potentials.append(step.info.potential)
    # Listing and reading change nothing; cancelling is one of two changes, informing people the other.
    assert potentials == [0.0, 0.0, 0.0, 0.5, 1.0, 1.0]
    environment.reset(task)
    mail = next(iter(compose(task).workspace.mails))
    for _ in range(2):
        wrong = environment.step(Action("mail", "move", {"id": mail, "folder": "archive"}))
    assert wrong.info.potential == 0.0
    for action in oracle[:3]:
        wrong = environment.step(action)
    assert wrong.info.potential == pytest.approx(1 / 3)  # one correct, one missing, one too many
    refused = environment.step(Action("mail", "nothing"))
    assert refused.info.potential == wrong.info.potential


@pytest.mark.parametrize("name", FAMILIES)
def test_oracle_ends_with_potential_one_where_changes_are_required(name: str) -> None:
    task = make_task(name, 1)
    environment = ErrandsEnvironment()
    potentials = [environment.reset(task)[1].potential]
    draft = compose(task).draft
    potentials += [environment.step(action).info.potential for action in draft.oracle]
    assert (potentials[0], potentials[-1]) == (0.0, float(bool(draft.changes)))
    assert all(potential is not None and 0 <= potential <= 1 for potential in potentials)


def test_step_without_a_task_is_an_error() -> None:
    with pytest.raises(WorldError, match="call reset"):
        ErrandsEnvironment().step(Action("user", "finish"))


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        (Task("x", "do", "mail_file", "shop", context={"template": 0}), WorldError, "is not an errands task"),
        (Task("x", "do", "mail_file", "errands"), WorldError, "is not an errands task"),
        (Task("x", "do", "mail_file", "errands", context={"template": 99}), WorldError, "names template 99"),
        (
            Task("x", "do", "fax", "errands", context={"template": 0}),
            UnknownNameError,
            "unknown errands family 'fax'",
        ),
    ],
)
def test_foreign_tasks_are_refused(task: Task, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ErrandsEnvironment().reset(task)


def test_errands_meets_the_contract() -> None:
    mail = Action("mail", "list", {"folder": "inbox"})
    ask = Action("user", "ask", {"text": "which?"})
    violation = Action("mail", "send", {"to": "a@b", "subject": "x", "body": "y"})
    check_environment(ErrandsKit(), 11, probes=[mail, ask, violation, Action("user", "finish"), Action("", "")])
