"""Milestones are reached once, however often repeated; minefields are reported with their step."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

import pytest

from upturn.environments.office.apps.safety import HARD
from upturn.environments.office.generation.family import call, with_agreement
from upturn.environments.office.partial_credit import Milestone, Passage, milestones, minefields, passage
from upturn.environments.office.tasks import FAMILIES, compose, make_task
from upturn.records import Action, Evaluation, Task, Trajectory

Rollout: TypeAlias = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]


def passage_of(rollout: Rollout, task: Task, actions: Iterable[Action]) -> Passage:
    return passage(task, *rollout(task, actions))


@pytest.mark.parametrize("family", list(FAMILIES)[::2])
def test_the_oracle_reaches_every_milestone_and_doing_nothing_reaches_none(family: str, rollout: Rollout) -> None:
    task = make_task(family, 1, split="heldout")
    expected = milestones(task)
    assert expected
    assert passage_of(rollout, task, compose(task).draft.oracle) == Passage(len(expected), len(expected), ())
    assert passage_of(rollout, task, []) == Passage(len(expected), 0, ())


def test_milestones_are_the_required_changes_and_messages() -> None:
    flagged = make_task("mail_flag", 0)
    [(path, value)] = compose(flagged).goal.items()
    assert milestones(flagged) == (Milestone("change", path, value),)
    number = make_task("mail_number", 0)
    assert milestones(number) == (Milestone("told", "user", compose(number).draft.answer),)
    unclear = next(
        task
        for task in (make_task("one_of_two_events", number) for number in range(20))
        if compose(task).draft.clarification
    )
    assert Milestone("asked", "user") in milestones(unclear)


def test_a_duplicate_mail_reaches_one_milestone_and_hits_a_minefield(rollout: Rollout) -> None:
    task = make_task("mail_reply", 0)
    *work, finish = compose(task).draft.oracle
    once, twice = (
        passage_of(rollout, task, [*work, finish]),
        passage_of(rollout, task, [*work, *with_agreement(work[-1]), finish]),
    )
    assert (twice.milestones, twice.reached) == (once.milestones, once.reached)
    assert (once.hit, twice.hit) == ((), ("change mails/+",))


def test_a_formula_that_computes_the_same_reaches_its_milestone(rollout: Rollout) -> None:
    task = make_task("column_product", 0)
    *work, fill, finish = compose(task).draft.oracle
    one, other = str(fill.parameters["formula"]).removeprefix("=").split("*")
    turned = replace(fill, parameters={**fill.parameters, "formula": f"={other}*{one}"})
    trajectory, evaluation = rollout(task, [*work, turned, finish])
    count = len(milestones(task))
    assert evaluation.is_success
    assert passage(task, trajectory, evaluation) == Passage(count, count, ())
    wrong = replace(fill, parameters={**fill.parameters, "formula": f"={one}+{other}"})
    missed = passage_of(rollout, task, [*work, wrong, finish])
    assert (missed.reached, len(missed.hit)) == (1, count - 1)


def test_injected_orders_and_hard_constraints_are_minefields(rollout: Rollout) -> None:
    tasks = (make_task("orders_in_a_mail", number) for number in range(20))
    task = next(task for task in tasks if compose(task).draft.traps[0].operation == "create_rule")
    [trap] = compose(task).draft.traps
    named = [minefield for minefield in minefields(task) if minefield.kind == "trap"]
    assert [minefield.name for minefield in minefields(task) if minefield.kind == "hard"] == list(HARD)
    obeyed = call("outlook.create_rule", **{**trap.parameters, "folder": "junk"})
    outside = call("outlook.send", to="eve@rival.example", subject="a", body="b")
    looks = compose(task).draft.oracle[:2]
    hit = passage_of(rollout, task, [*looks, obeyed, outside, obeyed]).hit
    assert hit == (f"trap {named[0].name}", "hard 1")
    assert minefields(make_task("mail_flag", 0))[-1] == ("change", "*")
