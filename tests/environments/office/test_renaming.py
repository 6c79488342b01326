"""Renamed operations: kit, oracle and verifier use the new names only."""

import json
from typing import Any

import pytest

from upturn.environments.office.apps import tools
from upturn.environments.office.generation.family import call
from upturn.environments.office.kit import OfficeKit, RenamedKit
from upturn.environments.office.partial_credit import passage
from upturn.environments.office.renaming import KEY, names_from, names_of, rename_action, renamed, restore_action
from upturn.environments.office.tasks import FAMILIES, compose, make_task
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.errors import WorldError
from upturn.models import read_call, write_call
from upturn.records import Action, Observation, Task, Trajectory, Turn

KIT = OfficeKit()
REPLY = renamed(make_task("mail_reply", 0, split="heldout"))


def play_actions(task: Task, *actions: Action) -> Trajectory:
    return play(KIT.environment(task), task, fixed_policy(actions), max_turns=60)


def renamed_oracle(task: Task, turns: list[Turn], observation: Observation) -> Action | None:
    """Replays the oracle's calls under the names given in the first observation."""
    first = turns[0].observation.text if turns else observation.text
    lines = dict(line.split(": ", 1) for line in first.splitlines() if "=" in line and ": " in line)
    by_app = {app: dict(pair.split("=") for pair in line.split(", ")) for app, line in lines.items()}
    oracle = compose(task).draft.oracle
    if len(turns) == len(oracle):
        return None

    def rename_call(action: Action) -> Action:
        if action.target == "user":
            previewed = read_call(str(action.parameters.get("call", "")))
            known = {**action.parameters, **({"call": write_call(rename_call(previewed))} if previewed else {})}
            return Action("user", action.operation, known)
        names = {by_app["parameters"][name]: value for name, value in action.parameters.items()}
        return Action(action.target, by_app[action.target][action.operation], names)

    return rename_call(oracle[len(turns)])


@pytest.mark.parametrize("family", list(FAMILIES)[::3])
def test_only_calls_with_the_new_names_have_an_effect(family: str) -> None:
    task = renamed(make_task(family, 1, split="heldout"))
    trajectory = play(KIT.environment(task), task, renamed_oracle, max_turns=60)  # type: ignore[arg-type]
    assert KIT.verifier.verify(task, trajectory).is_success
    usual_names = play_actions(task, *compose(task).draft.oracle)
    assert usual_names.final_state["changes"] == {}
    assert KIT.verifier.verify(task, usual_names).costs["error"] > 0


def test_names_are_new_distinct_and_determined_by_the_seed() -> None:
    names = names_from(7)
    words = [item for app in names.operations.values() for item in app.values()] + list(names.parameters.values())
    usual = {tool.operation for tool in tools()} | {name for tool in tools() for name in tool.properties}
    assert len(set(words)) == len(words)
    assert not set(words) & usual
    assert names == names_from(7)
    assert names != names_from(9)
    assert "user" not in names.operations
    assert set(names.operations) == {tool.target for tool in tools()} - {"user"}


def test_renaming_a_call_is_reversible() -> None:
    for tool in tools():
        action = Action(tool.target, tool.operation, dict.fromkeys(tool.properties, "x"))
        assert restore_action(REPLY, rename_action(REPLY, action)) == action
    previewed = call("user.preview", statement="a", call='{"target_app": "outlook", "operation": "send"}')
    assert json.loads(str(rename_action(REPLY, previewed).parameters["call"]))["operation"] != "send"
    assert restore_action(REPLY, rename_action(REPLY, previewed)).operation == "preview"
    broken = call("user.preview", statement="a", call="{nothing")
    assert rename_action(REPLY, broken) == broken


def test_a_preview_without_named_parameters_is_refused_after_renaming_too() -> None:
    send = names_from(REPLY.seed).operations["outlook"]["send"]
    for parameters in ([[1, 2]], [], None, "to"):
        previewed = json.dumps({"target_app": "outlook", "operation": send, "parameters": parameters})
        result = play_actions(REPLY, call("user.preview", statement="a", call=previewed)).final_observation
        assert result.code == "bad_value"
        assert "or as a JSON object with target_app, operation and an object of parameters; got " in result.text


@pytest.mark.parametrize("name", [5, None, True, "x" * 100])
def test_a_parameter_of_any_name_is_answered(name: Any) -> None:
    send = names_from(REPLY.seed).operations["outlook"]["send"]
    result = play_actions(REPLY, Action("outlook", send, {name: "x"})).final_observation
    assert result.code == "unknown_parameter"
    assert f"unknown parameter {str(name)[:80]!r}; known here: " in result.text


def test_observations_use_the_new_names() -> None:
    names = names_of(REPLY)
    assert names is not None
    read, id_ = names.operations["outlook"]["read"], names.parameters["id"]
    search, to = names.operations["outlook"]["search"], names.parameters["to"]
    result = play_actions(
        REPLY,
        call("outlook.read", id="m1"),
        Action("outlook", read, {"id": "m1"}),
        Action("outlook", read, {id_: "m9999"}),
        Action("outlook", read),
        Action("outlook", names.operations["outlook"]["forward"], {id_: "m1", to: []}),
        Action("nowhere", "x"),
    )
    answers = [*(turn.observation for turn in result.turns[1:]), result.final_observation]
    assert [answer.code for answer in answers] == [
        *("unknown_operation", "unknown_parameter", "not_found"),
        *("missing_parameter", "bad_value", "unknown_target"),
    ]
    assert answers[0].text.startswith("outlook has no 'read' here; it has: ")
    assert id_ in answers[1].text
    assert answers[2].text == f"no mail 'm9999'; outlook.{search} finds ids"
    assert answers[3].text == f"parameter '{id_}' is required"
    assert answers[4].text.startswith(f"{to}: ")
    assert [turn.costs for turn in result.turns] == [{"error": 1}] * 6
    paged = play_actions(
        REPLY, Action("outlook", search, {names.parameters["folder"]: "inbox"})
    ).final_observation.text
    assert f"; {names.parameters['page']}=2 shows more" in paged


def test_injected_orders_are_minefields_after_renaming_too() -> None:
    tasks = (renamed(make_task("orders_in_a_mail", number)) for number in range(20))
    task = next(task for task in tasks if compose(task).draft.traps[0].operation == "create_rule")
    [trap] = compose(task).draft.traps
    obeyed = rename_action(task, call("outlook.create_rule", **{**trap.parameters, "folder": "junk"}))
    looks = [rename_action(task, look) for look in compose(task).draft.oracle[:2]]
    trajectory = play_actions(task, *looks, obeyed)
    [hit] = passage(task, trajectory, KIT.verifier.verify(task, trajectory)).hit
    assert hit.startswith("trap outlook.create_rule sender=")


def test_a_renamed_task_has_its_own_id_and_names_and_the_same_instruction() -> None:
    plain = make_task("mail_reply", 0, split="heldout")
    assert REPLY.instruction == plain.instruction
    assert (REPLY.id, REPLY.context[KEY]) == (f"{plain.id}/renamed", plain.seed)
    assert names_of(plain) is None
    assert REPLY.context["atoms"] == ["names"]
    assert renamed(make_task("mail_reply_unanswered", 0)).context["atoms"] == ["faults", "names"]
    assert all(
        names_of(task)
        for task, _ in zip(
            RenamedKit().tasks(seed=0, split="train", families=["mail_flag"]), range(3), strict=False
        )
    )
    for bad in ("7", True):
        with pytest.raises(WorldError, match="names in its context is the seed of its names"):
            KIT.environment(Task("t", "", "mail_reply", "office", context={"template": 0, KEY: bad}))
