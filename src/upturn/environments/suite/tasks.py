"""Tasks of the suite: families by name, tasks by (family, template, seed), scenarios rebuilt from a task alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random

from upturn.environments.suite import (
    appointment_tasks,
    cross_tasks,
    excel_tasks,
    obstacle_tasks,
    outlook_tasks,
    safety_tasks,
    workflow_tasks,
)
from upturn.environments.suite.family import CLOSERS, OPENERS, Draft, Family, Scenario
from upturn.environments.suite.scene import Scene
from upturn.environments.workspace import OperationError, Persona, Wish, Workspace, apply, changes
from upturn.environments.workspace.apps import canonical, operation_of
from upturn.environments.workspace.operation import checked
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Action, Split, Task

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for module in (
        *(outlook_tasks, excel_tasks, cross_tasks, appointment_tasks),
        *(workflow_tasks, obstacle_tasks, safety_tasks),
    )
    for family in module.FAMILIES
}
_STREAMS: dict[Split, int] = {"train": 0, "heldout": 1}
"""Even seeds are for training, odd ones held out: no world is ever in both."""


def family_named(name: str) -> Family:
    """The family, or UnknownNameError listing the known ones."""
    if name not in FAMILIES:
        raise UnknownNameError(f"unknown suite family {name!r}; known: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def make_task(family_name: str, number: int, *, split: Split = "train", tenant: str = "default") -> Task:
    """The ``number``-th task of a family in a split; the same arguments give the same task, for ever."""
    family = family_named(family_name)
    template = Random(f"suite/template/{family_name}/{split}/{number}").randrange(len(_templates(family, split)))
    task = Task(
        id=f"suite/{family_name}/{split}/{template}/{number}",
        instruction="",
        family=family_name,
        environment="suite",
        level=family.level,
        seed=2 * number + _STREAMS[split],
        split=split,
        tenant=tenant,
        context={"template": template},
    )
    return replace(task, instruction=compose(task).instruction)


def task_stream(families: Sequence[str], *, seed: int, split: Split = "train") -> Iterator[Task]:
    """Tasks without end, families shuffled in rounds; streams of different seeds share no world."""
    round_number = 0
    while True:
        order = list(families)
        Random(f"suite/stream/{seed}/{round_number}").shuffle(order)
        for family in order:
            yield make_task(family, seed * 1_000_003 + round_number, split=split)
        round_number += 1


def compose(task: Task) -> Scenario:
    """The task's world, instruction, oracle and goal; raises WorldError for foreign tasks."""
    template = task.context.get("template")
    if task.environment != "suite" or not isinstance(template, int):
        raise WorldError(
            f"task {task.id!r} is not of the suite: environment {task.environment!r}, context {task.context!r}"
        )
    family = family_named(task.family)
    count = len(_templates(family, task.split))
    if not 0 <= template < count:
        raise WorldError(f"task {task.id!r} names template {template}; {family.name} has {count}")
    return _compose(family.name, task.split, template, task.seed)


def _templates(family: Family, split: Split) -> tuple[str, ...]:
    return family.templates if split == "train" else family.heldout


@lru_cache(maxsize=4096)
def _compose(family_name: str, split: Split, template: int, seed: int) -> Scenario:
    """Cached, because a task's scenario is needed when it is made, reset and judged."""
    family = FAMILIES[family_name]
    rng = Random(f"suite/1/{family_name}/{seed}")
    scene = Scene(rng)
    draft = family.draw(scene)
    workspace = replace(
        scene.workspace,
        seed=seed,
        persona=Persona(
            _wishes(scene.workspace, draft) if draft.wishes is None else draft.wishes,
            draft.clarification,
            draft.cleared,
            draft.traps,
            draft.objection,
        ),
    )
    words = _templates(family, split)[template].format(**draft.slots)
    return Scenario(
        workspace,
        rng.choice(OPENERS) + words + rng.choice(CLOSERS),
        draft,
        changes(workspace, _done(workspace, draft)),
    )


def _wishes(workspace: Workspace, draft: Draft) -> tuple[Wish, ...]:
    """Exactly what the oracle does and needs agreement for; whether that is so may depend on what it did before."""
    found = []
    for action in _acting(draft):
        if action.target == "user":
            continue
        operation = operation_of(action)
        given = checked(operation, action)
        if operation.impact(workspace, given) is not None:
            exact = canonical(operation, given)
            found.append(Wish(exact.target, exact.operation, exact.parameters))
            workspace = operation.run(workspace, given).workspace
        else:
            workspace = apply(workspace, action).workspace
    return tuple(found)


def _acting(draft: Draft) -> list[Action]:
    """The oracle without what only looks: that takes long and changes nothing."""
    return [action for action in draft.oracle if not operation_of(action).is_reading]


def _done(workspace: Workspace, draft: Draft) -> Workspace:
    """After perfect work; raises WorldError where that is refused, which is a mistake of the family."""
    for action in _acting(draft):
        try:
            workspace = apply(workspace, action).workspace
        except OperationError as exc:
            raise WorldError(f"perfect work is refused: {action!r}: {exc}") from exc
    return workspace
