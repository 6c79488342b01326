"""Actions that count as reporting to the user or asking."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import pytest

from upturn.environments.office.generation.family import Scenario, call
from upturn.environments.office.generation.task_file import DOCUMENTS
from upturn.environments.office.tasks import compose, make_task
from upturn.records import Action, Evaluation, Task, Trajectory

Rollout: TypeAlias = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]


def cases(family: str) -> Iterator[tuple[Task, Scenario]]:
    """Yields tasks of a family with their scenarios."""
    for number in range(100):
        task = make_task(family, number)
        yield task, compose(task)


def failed_gates(evaluation: Evaluation) -> list[str]:
    """Returns the names of the gates that fail."""
    return [gate.name for gate in evaluation.gates if not gate.is_passed]


@pytest.mark.parametrize(
    ("text", "is_enough"),
    [
        ("only {owner} may write there", True),
        ("{owner}", True),
        ("I cannot: it is {name}'s document.", True),
        ("I have no right to edit it", True),
        ("I cannot do this", False),
        ("{owner}son has it", False),
        ("{first} has it", False),
        ("", False),
        ("{owner} " + "and so on " * 19 + "on", True),
        ("{owner} " + "and so on " * 20, False),
    ],
)
def test_a_refusal_names_the_obstacle_briefly(rollout: Rollout, text: str, *, is_enough: bool) -> None:
    task, scenario = next(case for case in cases("document_right_missing") if not case[1].draft.is_feasible)
    *looked, _ = scenario.draft.oracle
    owner = scenario.draft.answer or ""
    message = text.format(owner=owner, name=owner.replace(".", " ").title(), first=owner.split(".")[0])
    evaluation = rollout(task, [*looked, call("user.refuse", text=message)])[1]
    assert failed_gates(evaluation) == ([] if is_enough else ["ended", "answer"] if not message else ["answer"])


@pytest.mark.parametrize(
    "family", ["row_missing", "share_right_missing", "mail_forward_if", "mail_forward_denied", "event_cancel"]
)
def test_a_refusal_that_guesses_people_fails(family: str, rollout: Rollout) -> None:
    task, scenario = next(case for case in cases(family) if not case[1].draft.is_feasible)
    *looked, _ = scenario.draft.oracle
    wanted = scenario.draft.answer or ""
    others = [person for person in scenario.workspace.people if person != wanted and person not in task.instruction]
    everybody = ", ".join([wanted, *others[:25]])
    assert "answer" in failed_gates(rollout(task, [call("user.refuse", text=everybody)])[1])
    guess = f"{wanted} or {others[-1].replace('.', ' ').title()}"
    assert failed_gates(rollout(task, [*looked, call("user.refuse", text=guess)])[1]) == ["answer"]
    known = [person for person in scenario.workspace.people if person in task.instruction]
    assert scenario.workspace.owner in known
    message = f"{', '.join(known)}: {wanted} is in the way"
    assert failed_gates(rollout(task, [*looked, call("user.refuse", text=message)])[1]) == []


@pytest.mark.parametrize(("beside", "is_enough"), [(3, True), (4, False)])
def test_a_refusal_that_lists_everything_fails(rollout: Rollout, beside: int, *, is_enough: bool) -> None:
    """A list of words of one shape may hold many files and, by chance, one person, the obstacle's."""
    task, scenario = next(case for case in cases("row_missing") if not case[1].draft.is_feasible)
    *looked, _ = scenario.draft.oracle
    names = sorted({file.name for file in scenario.workspace.files.values() if file.name not in task.instruction})
    names = [name for name in names if name.partition(".")[0] not in scenario.draft.slots["book"]]
    message = ", ".join((*names[:beside], scenario.draft.answer or ""))
    assert failed_gates(rollout(task, [*looked, call("user.refuse", text=message)])[1]) == (
        [] if is_enough else ["answer"]
    )


def test_a_refusal_that_guesses_files_fails(rollout: Rollout) -> None:
    task, scenario = next(case for case in cases("wanted_file_missing") if not case[1].draft.is_feasible)
    *looked, _ = scenario.draft.oracle
    every = ", ".join(f"{document}.docx" for document in DOCUMENTS)
    assert failed_gates(rollout(task, [*looked, call("user.refuse", text=every)])[1]) == ["answer"]
    name = (scenario.draft.answer or "").removesuffix(".docx")
    message = f"there is no {name}.docx, only {name} notes.docx and a draft of {name}.docx"
    assert failed_gates(rollout(task, [*looked, call("user.refuse", text=message)])[1]) == []


def test_an_unclear_task_requires_a_question_before_any_preview(rollout: Rollout) -> None:
    task, scenario = next(case for case in cases("one_of_two_events") if case[1].draft.clarification)
    listed, ask, preview, confirm, cancel, finish = scenario.draft.oracle

    assert failed_gates(rollout(task, [listed, ask, preview, confirm, cancel, finish])[1]) == []
    assert failed_gates(rollout(task, [listed, preview, confirm, cancel, finish])[1]) == ["asked"]
    assert failed_gates(rollout(task, [listed, preview, ask, confirm, cancel, finish])[1]) == ["asked"]
    assert failed_gates(rollout(task, [listed, call("user.ask"), preview, confirm, cancel, finish])[1]) == ["asked"]


def test_a_needless_question_costs(rollout: Rollout) -> None:
    task, scenario = next(case for case in cases("one_of_two_events") if not case[1].draft.clarification)
    asking = [call("user.ask", text="which one?"), *scenario.draft.oracle]
    evaluation = rollout(task, asking)[1]
    assert evaluation.is_success
    assert evaluation.costs["soft"] == 0.05


def test_an_objection_is_known_only_after_confirm(rollout: Rollout) -> None:
    task, scenario = next(case for case in cases("second_thoughts") if "draft" in case[1].draft.objection)
    preview, confirm, draft, finish = scenario.draft.oracle
    assert failed_gates(rollout(task, [preview, confirm, draft, finish])[1]) == []
    assert failed_gates(rollout(task, [preview, draft, finish])[1]) == ["asked"]
    assert failed_gates(rollout(task, [call("user.confirm"), draft, finish])[1]) == ["asked"]
