"""Properties of every family: its name, templates, levels and answers."""

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import chain
from pkgutil import walk_packages
from string import Formatter
from typing import TypeAlias

import pytest

from upturn.environments.office import families as rooms
from upturn.environments.office.apps.apps import APPS, operation_of
from upturn.environments.office.generation.family import Family
from upturn.environments.office.generation.phrasing import read_phrasings
from upturn.environments.office.tasks import FAMILIES, compose, make_task
from upturn.records import Action, Evaluation, Task, Trajectory

Rollout: TypeAlias = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]

WORD = re.compile(r"[\w.]*\w")
STEPS = {1: (1, 2), 2: (3, 5), 3: (5, 10), 4: (5, 15), 5: (10, 30)}
"""Range of the longest oracle's length by level, without finishing."""
FEWEST_APPS = {1: 1, 2: 1, 3: 1, 4: 2, 5: 3}
BY_OTHER_REASONS = {
    "sensitive_sorted": "what is not to be opened",
    "orders_in_a_text": "what is not to be obeyed",
    "awaited_mail_missing": "what is not to be done",
    "rows_to_document": "three apps",
    "more_than_a_hundred": "thirteen steps, since no more are done at once",
    "mail_send_number_weathered": "apps that fail by chance",
}
"""Families whose level is higher than their steps or apps suggest."""


def test_every_family_has_ten_templates_four_held_out_ones_and_all_name_the_same_things() -> None:
    for family in FAMILIES.values():
        assert len(family.templates) >= 10, family.name
        assert len(family.heldout) >= 4, family.name
        words = (*family.templates, *family.heldout)
        assert len(set(words)) == len(words), family.name
        named = [{slot for _, slot, _, _ in Formatter().parse(word) if slot} for word in words]
        assert all(item == named[0] for item in named), (family.name, [set(item) ^ named[0] for item in named])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_oracle_has_the_length_of_its_level_and_uses_the_familys_apps(family: str) -> None:
    kind = FAMILIES[family]
    low, high = STEPS[kind.level]
    oracles = [compose(make_task(family, number)).draft.oracle for number in range(8)]
    steps = max(map(len, oracles)) - 1
    assert steps <= high
    is_enough = steps >= low and len(kind.apps) >= FEWEST_APPS[kind.level]
    assert is_enough == (family not in BY_OTHER_REASONS)
    assert set(kind.apps) <= {action.target for oracle in oracles for action in oracle} - {"user"}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_expected_answer_is_not_in_the_instruction_and_varies(family: str) -> None:
    answers = set()
    for number in range(12):
        task = make_task(family, number)
        draft = compose(task).draft
        if draft.answer is not None:
            assert draft.answer not in task.instruction
            answers.add(draft.answer)
        assert draft.answer is not None or compose(task).goal or not draft.is_feasible
    assert len(answers) != 1


@pytest.mark.parametrize("family", FAMILIES)
def test_the_oracle_fails_without_any_one_of_its_changes(family: str, rollout: Rollout) -> None:
    """With app faults, an action may be repeated; it is left out everywhere."""
    task = make_task(family, 0)
    oracle = compose(task).draft.oracle
    for action in oracle:
        if not operation_of(action).is_reading and action.target != "user" and action.operation != "read":
            rest = [other for other in oracle if other != action]
            assert not rollout(task, rest)[1].is_success, action


def test_every_operation_of_an_app_is_needed_by_some_family() -> None:
    """Shortest solutions use every operation except reading pages of the site, which no family needs."""
    oracles = (compose(make_task(family, number)).draft.oracle for family in FAMILIES for number in range(3))
    needed = {f"{action.target}.{action.operation}" for oracle in oracles for action in oracle}
    known = {f"{app.target}.{name}" for app in APPS.values() for name in app.operations if app.target != "user"}
    assert known - needed == {"sharepoint.read_page"}


def test_families_and_tables_of_phrasings_match() -> None:
    names = [package.name for package in walk_packages(rooms.__path__, f"{rooms.__name__}.") if not package.ispkg]
    families: list[Family] = list(chain.from_iterable(import_module(name).FAMILIES for name in names))
    assert sorted(family.name for family in families) == sorted(FAMILIES)
    tables = {(family.module, name) for family in families for name in read_phrasings(family.module)}
    assert tables == {(family.module, family.worded_as or family.name) for family in families}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_expected_answer_is_no_part_of_the_request(family: str) -> None:
    for number in range(5):
        task = make_task(family, number)
        draft = compose(task).draft
        request, message = (
            " ".join(WORD.findall(text.lower())) for text in (task.instruction, draft.answer or "?")
        )
        assert not message or f" {message} " not in f" {request} "
