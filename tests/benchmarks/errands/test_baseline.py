"""Players without a model: random actions."""

from random import Random

from benchmarks.errands import FAMILIES, OPERATIONS, compose, make_task
from benchmarks.errands.baseline import random_action
from benchmarks.errands.environment import apply
from benchmarks.errands.operation import OperationError
from benchmarks.errands.workspace import Workspace

REFUSED_BY_CHANCE = {
    "calendar.create": {"bad_value"},  # ends before it starts
    "calendar.move": {"bad_value"},  # ends after hours
    "mail.move": {"bad_value"},  # into sent
    "mail.search": {"missing_parameter"},  # neither sender nor subject
    "sheet.find": {"not_found"},
}


def test_random_actions_name_existing_items() -> None:
    rng = Random(1)
    workspaces: list[Workspace] = [compose(make_task(name, 0)).workspace for name in FAMILIES]
    tried, applied = set(), set()
    for index in range(1500):
        workspace = workspaces[index % len(workspaces)]
        action = random_action(rng, workspace)
        name = f"{action.target}.{action.operation}"
        tried.add(name)
        try:
            apply(workspace, action)
            applied.add(name)
        except OperationError as error:
            assert error.code in REFUSED_BY_CHANCE.get(name, set()), (action, str(error))
    assert tried == applied == set(OPERATIONS)
