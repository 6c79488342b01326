"""Players without a model: what random actions are, and how an attempt of theirs is recorded."""

from random import Random

from upturn.environments.office import FAMILIES, OPERATIONS, compose, make_task
from upturn.environments.office.baseline import MAX_TURNS, nothing, oracle, play, random_action
from upturn.environments.office.environment import apply
from upturn.environments.office.operation import OperationError
from upturn.environments.office.workspace import Workspace
from upturn.records import Action

REFUSED_BY_CHANCE = {
    "calendar.create": {"bad_value"},  # ends before it starts
    "calendar.move": {"bad_value"},  # ends after hours
    "mail.move": {"bad_value"},  # into sent
    "mail.search": {"missing_parameter"},  # neither sender nor subject
    "sheet.find": {"not_found"},
}


def test_random_actions_name_things_that_exist() -> None:
    rng = Random(1)
    workspaces: list[Workspace] = [compose(make_task(name, 0)).workspace for name in FAMILIES]
    seen, done = set(), set()
    for index in range(1500):
        workspace = workspaces[index % len(workspaces)]
        action = random_action(rng, workspace)
        name = f"{action.target}.{action.operation}"
        seen.add(name)
        try:
            apply(workspace, action)
            done.add(name)
        except OperationError as error:
            assert error.code in REFUSED_BY_CHANCE.get(name, set()), (action, str(error))
    assert seen == done == set(OPERATIONS)


def test_an_attempt_is_recorded_turn_by_turn() -> None:
    task = make_task("mail_file", 0)
    trajectory = play(task, oracle)
    assert [turn.action for turn in trajectory.turns] == list(compose(task).draft.oracle)
    assert trajectory.turns[0].observation.text == task.instruction
    assert [trajectory.turns[1].observation.text, trajectory.final_observation.text] == ["moved", "done"]
    assert (trajectory.outcome, trajectory.origin, trajectory.task_id) == ("finished", "rendered", task.id)


def test_an_attempt_without_end_is_cut_off() -> None:
    task = make_task("mail_file", 0)
    endless = play(task, lambda _, __: Action("mail", "list", {"folder": "inbox"}))
    assert (len(endless.turns), endless.outcome) == (MAX_TURNS, "step_limit")
    stopped = play(task, lambda _, __: None)
    assert (len(stopped.turns), stopped.outcome, stopped.final_observation.text) == (
        0,
        "step_limit",
        task.instruction,
    )
    assert play(task, nothing).outcome == "finished"
