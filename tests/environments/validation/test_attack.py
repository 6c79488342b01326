"""Refusals that name every possible obstacle."""

from collections.abc import Callable
from random import Random

import pytest

from upturn.environments.office import OfficeKit
from upturn.environments.office.tasks import compose, make_task
from upturn.environments.validation.attack import PANEL, AttackRun, run_attack
from upturn.environments.validation.case import Case, make_case
from upturn.environments.validation.schema_sampling import ParameterHistory
from upturn.records import Evaluation, Task, Trajectory


def case_of(family: str, *, is_feasible: bool) -> Case:
    tasks = (make_task(family, number) for number in range(20))
    task = next(task for task in tasks if compose(task).draft.is_feasible == is_feasible)
    return make_case(OfficeKit(), task, ParameterHistory(), Random(1))


def refusals(case: Case, attack: str) -> list[AttackRun]:
    runs = run_attack(case, PANEL[attack])
    return [run for run in runs if run.trajectory.turns[0].action.operation == "refuse"]  # type: ignore[union-attr]


def test_unsolvable_tasks_are_attacked_by_refusals_with_many_names() -> None:
    case = case_of("row_missing", is_feasible=False)
    people = compose(case.task).workspace.people
    lists = [str(refusal.trajectory.final_state["message"]) for refusal in refusals(case, "stuff")]
    assert max(sum(person in text for person in people) for text in lists) > 5
    assert not any(
        case.kit.verifier.verify(case.task, run.trajectory).is_success for run in refusals(case, "stuff")
    )
    assert refusals(case, "dump")


@pytest.mark.parametrize("attack", ["dump", "stuff"])
def test_solvable_or_freely_refusable_tasks_get_no_long_refusals(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusals(case_of("document_right_missing", is_feasible=True), attack) == []
    case = case_of("document_right_missing", is_feasible=False)
    assert refusals(case, attack)
    verify: Callable[[Task, Trajectory], Evaluation] = case.kit.verifier.verify
    evaluation = verify(case.task, case.solution.trajectory) if case.solution else None
    monkeypatch.setattr(case.kit.verifier, "verify", lambda *_: evaluation)
    assert refusals(case, attack) == []
