"""Tasks over several apps: perfect work knows only what it was told and has seen, and needs every look."""

import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeAlias

import pytest

from upturn.environments.office.apps.apps import operation_of
from upturn.environments.office.families import appointment as appointment_tasks
from upturn.environments.office.families import cross_app as cross_tasks
from upturn.environments.office.families import deck as deck_tasks
from upturn.environments.office.families import formatting as formatting_tasks
from upturn.environments.office.families import library as library_tasks
from upturn.environments.office.families import obstacle as obstacle_tasks
from upturn.environments.office.families import people as people_tasks
from upturn.environments.office.families import safety as safety_tasks
from upturn.environments.office.families import workflow as workflow_tasks
from upturn.environments.office.tasks import FAMILIES, compose, make_task
from upturn.models import write_call
from upturn.records import Action, Evaluation, Task, Trajectory

Attempt: TypeAlias = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]
MODULES = (
    *(cross_tasks, appointment_tasks, workflow_tasks, obstacle_tasks, safety_tasks),
    *(formatting_tasks, deck_tasks, library_tasks, people_tasks),
)
NAMES = [family.name for family in chain.from_iterable(module.FAMILIES for module in MODULES)]
KNOWN = re.compile(r"\b[a-z]+\.[a-z]+(?:@[a-z.]+)?\b|\b[mefc]?\d{3,}\b|\b\d\d:\d\d\b")
"""Ids of people and things, addresses, numbers of three digits and more, times."""
APPS = ("outlook", "calendar", "excel", "word", "powerpoint", "teams", "sharepoint", "user")


@pytest.mark.parametrize("family", NAMES)
def test_perfect_work_names_only_what_it_was_told_or_has_seen(attempt: Attempt, family: str) -> None:
    task = make_task(family, 1)
    draft = compose(task).draft
    trajectory, _ = attempt(task, draft.oracle)
    seen = set(KNOWN.findall(task.instruction))
    for turn in trajectory.turns:
        assert turn.action is not None
        seen |= set(KNOWN.findall(turn.observation.text))
        named = set(KNOWN.findall(write_call(turn.action))) - seen - _computed(family, turn.action)
        assert {each for each in named if each.split(".")[0] not in APPS} == set()


def _computed(family: str, action: Action) -> set[str]:
    """What follows from what was seen: the end of an event, and the sum of the weekly report."""
    written = write_call(action)
    is_sum = family == "weekly_report" and "this week" in written
    return set(KNOWN.findall(written if is_sum else str(action.parameters.get("end", ""))))


@pytest.mark.parametrize("family", [name for name in NAMES if FAMILIES[name].level >= 4])
def test_long_work_takes_as_many_steps_and_apps_as_its_level_says(family: str) -> None:
    shortest, most, fewest_apps = {4: (5, 15, 1), 5: (10, 30, 3)}[FAMILIES[family].level]
    for number in range(5):
        oracle = compose(make_task(family, number)).draft.oracle
        assert shortest <= len(oracle) <= most
        apps = {action.target for action in oracle} - {"user"}
        assert len(apps) >= fewest_apps
        assert apps <= {*FAMILIES[family].apps, "sharepoint"}


@pytest.mark.parametrize("family", [name for name in NAMES if FAMILIES[name].level >= 4])
def test_work_that_leaves_one_change_out_is_no_success(attempt: Attempt, family: str) -> None:
    task = make_task(family, 2)
    oracle = compose(task).draft.oracle
    changing = [
        action
        for action in oracle
        if action.target != "user" and not operation_of(action).is_reading and action.operation != "read"
    ]
    for left_out in changing:
        assert not attempt(task, [action for action in oracle if action is not left_out])[1].is_success
