"""Tasks of the office: families by name, tasks by (family, template, seed), scenarios rebuilt from a task alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random

from upturn.environments.office.apps import operation_of, parse_parameters
from upturn.environments.office.families.calendar import CHANGES, SCHEDULING
from upturn.environments.office.families.cross_app import MEETINGS, PEOPLE, TRANSFERS, WORKFLOWS
from upturn.environments.office.families.files import DECKS, FORMATTING, LIBRARY, WORKBOOKS
from upturn.environments.office.families.mail import READING, SORTING, WRITING
from upturn.environments.office.families.robustness import COMPOUND, FAULTS, INJECTED_ORDERS, OBSTACLES, SAFETY
from upturn.environments.office.families.teams import CHANNELS, CHATS
from upturn.environments.office.faults import FaultState
from upturn.environments.office.generation import (
    DRAWN,
    Draft,
    Family,
    OracleResult,
    Scenario,
    Scene,
    profile,
    wish_for,
)
from upturn.environments.office.instruction import briefing, polite_request
from upturn.environments.office.state import OperationError, Persona, Workspace, changes
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Split, Task

_ONE_APP = (*READING, *SORTING, *WRITING, *SCHEDULING, *CHANGES, *CHATS, *CHANNELS, *WORKBOOKS)
_FIRST = (*_ONE_APP, *TRANSFERS, *MEETINGS, *WORKFLOWS, *OBSTACLES, *SAFETY, *FAULTS)
_LATER = (*INJECTED_ORDERS, *FORMATTING, *DECKS, *LIBRARY, *PEOPLE, *COMPOUND)
FAMILIES: Mapping[str, Family] = {family.name: family for family in (*_FIRST, *_LATER)}
"""By name. Streams of tasks and suites are drawn in this order."""
LATER = frozenset(family.name for family in _LATER)
"""Families newer than the shipped model and the frozen suites, which contain none of them. The next model and the
next version of the suites will include them."""
_STREAMS: dict[Split, int] = {"train": 0, "heldout": 1}
"""Even seeds are for training, odd seeds for held-out tasks, and each split has base offices of its own
(``OFFICES``), so no world is in both."""


def family_named(name: str) -> Family:
    """The family, or UnknownNameError listing the known ones."""
    if name not in FAMILIES:
        raise UnknownNameError(f"unknown office family {name!r}; known: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def make_task(family_name: str, number: int, *, split: Split = "train", tenant: str = "default") -> Task:
    """The ``number``-th task of a family in a split; the same arguments always give the same task."""
    family = family_named(family_name)
    template = Random(f"{DRAWN}/template/{family_name}/{split}/{number}").randrange(len(family.phrasings(split)))
    task = Task(
        id=f"office/{family_name}/{split}/{template}/{number}",
        instruction="",
        family=family_name,
        environment="office",
        level=family.level,
        seed=2 * number + _STREAMS[split],
        split=split,
        tenant=tenant,
        context={"template": template, **({"atoms": list(family.atoms)} if family.atoms else {})},
    )
    return replace(task, instruction=compose(task).instruction)


def task_stream(families: Sequence[str], *, seed: int, split: Split = "train") -> Iterator[Task]:
    """Endless tasks, families shuffled in rounds; streams of different seeds share no world."""
    if not families or split not in _STREAMS:
        raise UnknownNameError(
            f"tasks are of one family or more and a split of {', '.join(_STREAMS)}; got {families!r}, {split!r}"
        )
    round_number = 0
    while True:
        order = list(families)
        Random(f"{DRAWN}/stream/{seed}/{round_number}").shuffle(order)
        for family in order:
            yield make_task(family, seed * 1_000_003 + round_number, split=split)
        round_number += 1


def compose(task: Task) -> Scenario:
    """The task's world, instruction, oracle and goal; raises WorldError for tasks of another environment."""
    template = task.context.get("template")
    if task.environment != "office" or not isinstance(template, int):
        raise WorldError(
            f"task {task.id!r} is not of the office: environment {task.environment!r}, context {task.context!r}"
        )
    family = family_named(task.family)
    count = len(family.phrasings(task.split))
    if not 0 <= template < count:
        raise WorldError(f"task {task.id!r} names template {template}; {family.name} has {count}")
    return _compose(family.name, task.split, template, task.seed)


def forget() -> None:
    """Clears the caches of profiles and tasks."""
    _compose.cache_clear()
    profile.cache_clear()


@lru_cache(maxsize=4096)
def _compose(family_name: str, split: Split, template: int, seed: int) -> Scenario:
    """Cached, because a task's scenario is needed when it is created, reset and verified."""
    family = FAMILIES[family_name]
    rng = Random(f"{DRAWN}/1/{family_name}/{seed}")
    scene = Scene(rng, seed, split=split)
    draft = family.draw(scene)
    workspace = scene.workspace
    done, wishes = _oracle_result(workspace, draft)
    persona = Persona(
        wishes if draft.wishes is None else draft.wishes,
        draft.clarification,
        draft.cleared,
        draft.traps,
        draft.objection,
    )
    workspace = workspace.evolve(persona=persona)
    baseline = FaultState(draft.faults).with_moved_files(workspace) if draft.faults else workspace
    request = family.phrasings(split)[template].format(**draft.slots)
    instruction = f"{briefing(workspace)}\n{polite_request(rng, request)}"
    return Scenario(workspace, instruction, draft, changes(baseline, done), baseline)


def _oracle_result(workspace: Workspace, draft: Draft) -> OracleResult:
    """The workspace after the oracle, and the actions that need agreement, with those of ``also``.

    Actions that only read or address the user are skipped: they change nothing. Raises WorldError when an action is
    refused, which is a bug of the family.
    """
    if draft.oracle_result is not None:
        return draft.oracle_result
    wishes = [
        wish_for(operation_of(action), parse_parameters(operation_of(action), action)) for action in draft.also
    ]
    for action in draft.oracle:
        operation = operation_of(action)
        if operation.is_reading or action.target == "user":
            continue
        try:
            parameters = parse_parameters(operation, action)
            if operation.impact(workspace, parameters) is not None:
                wishes.append(wish_for(operation, parameters))
            workspace = operation.run(workspace, parameters).workspace
        except OperationError as exc:
            raise WorldError(f"the oracle is refused: {action!r}: {exc}") from exc
    return OracleResult(workspace, tuple(wishes))
