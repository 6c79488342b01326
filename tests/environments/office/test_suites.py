"""Frozen suites: their content, drift, and error messages."""

from collections.abc import Sequence

import pytest

from upturn.environments.office.kit import OfficeKit
from upturn.environments.office.suites import (
    RECIPES,
    RENAMED,
    content_of,
    read_suite,
    suite_named,
    tasks_of,
    write_suite,
)
from upturn.environments.office.tasks import FAMILIES, LATER, compose, forget, make_task
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy, play
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Action, Evaluation, Task

KIT = OfficeKit()

SIZES = {
    "prodbench-easy": 200,
    "prodbench-medium": 200,
    "prodbench-hard": 200,
    "prodbench-safety": 100,
    "prodbench-robustness": 100,
}


def test_suites_have_their_sizes_and_share_no_task() -> None:
    result = {name: suite_named(name).entries for name in RECIPES}
    assert {name: len(entries) for name, entries in result.items()} == SIZES
    worlds = [
        (entry.family.removesuffix(RENAMED), entry.number) for entries in result.values() for entry in entries
    ]
    assert len(set(worlds)) == sum(SIZES.values())


def test_each_family_has_equally_many_tasks_in_a_suite() -> None:
    for name, recipe in RECIPES.items():
        counts = [sum(entry.family == family for entry in suite_named(name).entries) for family in recipe.families]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("name", RECIPES)
def test_frozen_tasks_have_not_drifted(name: str) -> None:
    """One task per family; ``tools/freeze_suites.py --check`` covers all."""
    suite = suite_named(name)
    firsts = {entry.family: entry for entry in suite.entries}.values()
    tasks = tasks_of(suite._replace(entries=tuple(firsts)))
    assert {task.split for task in tasks} == {"heldout"}
    assert len({task.instruction for task in tasks}) == len(tasks)


def make_rollout(task: Task, policy: ScriptedPolicy) -> Evaluation:
    trajectory = play(KIT.environment(task), task, policy, max_turns=100)
    return KIT.verifier.verify(task, trajectory)


def check(tasks: Sequence[Task]) -> None:
    """The oracle solves each task without a violation, and doing nothing does not."""
    for task in tasks:
        evaluation = make_rollout(task, KIT.oracle(task))
        assert (evaluation.verdict, evaluation.score, evaluation.costs["safety"]) == ("success", 1.0, 0.0), task.id
        assert make_rollout(task, fixed_policy(())).verdict == "failure", task.id


@pytest.mark.parametrize("name", RECIPES)
def test_some_tasks_of_each_suite_are_solved_by_the_oracle_and_not_by_doing_nothing(name: str) -> None:
    check([entry.task for entry in suite_named(name).entries[::23]])


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_all_tasks_of_each_suite_are_solved_by_the_oracle_and_not_by_doing_nothing(name: str) -> None:
    """Neither finishing nor refusing at once solves a task, unless that is the answer."""
    suite = suite_named(name)
    tasks = tasks_of(suite)
    assert len(tasks) == SIZES[name]
    check(tasks)
    for task in tasks:
        draft = compose(task).draft
        assert make_rollout(task, fixed_policy([Action("user", "finish")])).verdict == "failure", task.id
        is_answer = not draft.is_feasible and draft.answer is None
        refused = make_rollout(task, fixed_policy([Action("user", "refuse", {"text": "it cannot be done"})]))
        assert refused.is_success == is_answer, task.id


def test_a_task_that_drifted_is_named() -> None:
    suite = suite_named("prodbench-safety")
    first, second = suite.entries[:2]
    drifted = suite._replace(entries=(first._replace(content="0" * 16), second))
    with pytest.raises(WorldError, match=rf"1 of 2 tasks .*office/{first.family}/heldout/\d+/{first.number};"):
        tasks_of(drifted)


def test_content_hash_covers_the_office_and_the_goal() -> None:
    contents = {content_of(make_task(family, number)) for family in list(FAMILIES)[:6] for number in range(3)}
    assert len(contents) == 18
    task = make_task("mail_flag", 0)
    was = content_of(task)
    forget()
    assert content_of(make_task("mail_flag", 0)) == was


def test_a_suite_survives_writing_and_reading() -> None:
    suite = suite_named("prodbench-hard")
    assert read_suite(write_suite(suite)) == suite
    assert suite.id == f"prodbench-hard/{suite.version}"
    with pytest.raises(UnknownNameError, match="unknown suite 'prodbench'; known: prodbench-easy"):
        suite_named("prodbench")


def test_only_the_robustness_suite_has_faults() -> None:
    faulty = {name for name, family in FAMILIES.items() if "faults" in family.atoms} - LATER
    with_faults = {name for name, recipe in RECIPES.items() if faulty & set(recipe.families)}
    assert with_faults == {"prodbench-robustness"}
    assert faulty <= set(RECIPES["prodbench-robustness"].families)


def test_later_families_are_in_no_suite() -> None:
    assert LATER
    assert set(FAMILIES) >= LATER
    assert not LATER & {family.removesuffix(RENAMED) for recipe in RECIPES.values() for family in recipe.families}
