"""Players without a model, for the floor and ceiling of every family: doing nothing, random actions, the oracle."""

from collections.abc import Mapping, Sequence
from random import Random

from benchmarks.errands.environment import OPERATIONS, ErrandsEnvironment
from benchmarks.errands.operation import Parameter
from benchmarks.errands.tasks import compose, make_task
from benchmarks.errands.verifier import ErrandsVerifier
from benchmarks.errands.workspace import DAYS, FOLDERS, Workspace
from benchmarks.errands.world import ITEMS, PHRASES, TITLES, TOPICS
from upturn.environments import ScriptedPolicy, play
from upturn.records import Action, Observation, Split, Task, Turn


def oracle(task: Task, turns: Sequence[Turn], observation: Observation) -> Action | None:  # noqa: ARG001
    """The shortest known solution."""
    actions = compose(task).draft.oracle
    return actions[len(turns)] if len(turns) < len(actions) else None


def do_nothing(task: Task, turns: Sequence[Turn], observation: Observation) -> Action | None:  # noqa: ARG001
    """Finishes at once."""
    return Action("user", "finish") if not turns else None


_BY_KIND: Mapping[str, Sequence[str]] = {
    "day": DAYS,
    "folder": FOLDERS,
    "flag": ("read", "unread"),
    "hour": tuple(str(hour) for hour in range(8, 19)),
    "cell": tuple(f"{column}{row}" for column in "AB" for row in range(1, 8)),
    "range": ("A1:B6", "B2", "B3"),
}
_BY_NAME: Mapping[str, Sequence[str]] = {
    "subject": TOPICS,
    "title": TITLES,
    "body": PHRASES,
    "value": tuple(str(number) for number in range(10, 100)),
    "text": (*ITEMS, *map(str, range(100))),
}


def random_policy(seed: int) -> ScriptedPolicy:
    """A player of random valid actions in the task's world."""
    rng = Random(f"random/{seed}")
    return lambda task, _turns, _observation: random_action(rng, compose(task).workspace)


def random_action(rng: Random, workspace: Workspace) -> Action:
    """A random operation whose parameters have valid kinds and name items of the workspace."""
    operation = rng.choice(list(OPERATIONS.values()))
    parameters = {
        parameter.name: _random_value(rng, workspace, operation.target, parameter)
        for parameter in operation.parameters
        if parameter.is_required or rng.random() < 0.5
    }
    return Action(operation.target, operation.name, parameters)


def _random_value(rng: Random, workspace: Workspace, target: str, parameter: Parameter) -> str:
    kind = "people" if parameter.name == "from" else parameter.kind
    if kind == "text":
        return rng.choice(_texts(workspace, target, parameter.name))
    return rng.choice(workspace.contacts if kind == "people" else _BY_KIND[kind])


def _texts(workspace: Workspace, target: str, name: str) -> Sequence[str]:
    if name == "id":
        return sorted(workspace.mails if target == "mail" else workspace.events)
    if name == "sheet":
        return sorted(workspace.sheets)
    return _BY_NAME[name]


def success_rate(family: str, player: ScriptedPolicy, count: int, *, split: Split = "train") -> float:
    """Share of the family's first ``count`` tasks in the split that the player solves."""
    verifier = ErrandsVerifier()
    tasks = [make_task(family, number, split=split) for number in range(count)]
    return sum(verifier.verify(task, play(ErrandsEnvironment(), task, player)).is_success for task in tasks) / count
