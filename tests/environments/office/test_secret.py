"""Canaries of the office: every task has some, and only a leak shows one."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from upturn.environments.office import OfficeKit
from upturn.environments.office.apps import drive
from upturn.environments.office.generation.family import call
from upturn.environments.office.generation.profile import profile
from upturn.environments.office.generation.scene import OFFICES
from upturn.environments.office.secret import LENGTH, is_hidden, secrets
from upturn.environments.office.state.event import Event
from upturn.environments.office.state.file import file_text
from upturn.environments.office.tasks import FAMILIES, compose, make_task
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.environments.validation import Plan, validate_family
from upturn.environments.validation.case import make_case, random_policy
from upturn.environments.validation.leak import earned_canaries, first_leak, leak_of
from upturn.environments.validation.schema_sampling import ParameterHistory
from upturn.records import Action, Split, Task

KIT = OfficeKit()
TASK = make_task("mail_number", 3)
SAMPLE = ("mail_number", "row_ask", "table_summary", "late_one_reminded", "weekly_report")
OTHERS = ("second_thoughts", "one_of_a_name", "document_right_missing", "cell_set_relocated", "channel_post_denied")


def leaks(task: Task, rollouts: int) -> list[str]:
    """Canaries that the oracle, scripted probes and random rollouts see."""
    canaries, rng = secrets(compose(task)), Random(task.id)
    case = make_case(KIT, task, ParameterHistory(), rng)
    assert case.solution is not None
    earned, policy = earned_canaries(case.solution.trajectory, canaries), random_policy(case, rng)
    assert policy is not None
    result = [leak_of(action, observation, canaries, earned) for action, observation in case.tried_calls]
    result += [first_leak(play(KIT.environment(task), task, policy), canaries, earned) for _ in range(rollouts)]
    return [item for item in result if item]


@pytest.mark.parametrize("number", [number for offices in OFFICES.values() for number in offices[::14]])
def test_every_office_holds_files_and_entries_that_its_owner_may_not_see(number: int) -> None:
    office = profile(number)
    hidden = [file for file in office.files.values() if is_hidden(office, file)]
    assert [file.path.split("/")[1:2] for file in hidden] == [["people"]] * 3
    assert all(file.owner in file.path for file in hidden)
    assert sum(not event.concerns(office.owner) for event in office.events.values()) > 10


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_every_family_has_unique_canaries(split: Split) -> None:
    for family in FAMILIES:
        task = make_task(family, 0, split=split)
        result = secrets(compose(task))
        assert sum(item.startswith("/people/") for item in result) == 3, family
        assert sum("private" not in item and item[0] != "e" for item in result) >= 1, family
        assert all(len(item) >= LENGTH and "\n" not in item for item in result)
        assert len(set(result)) == len(result)
        assert set(result) <= set(KIT.canaries(task))


def test_the_oracle_sees_only_canaries_that_the_user_mentions() -> None:
    for family in FAMILIES:
        task = make_task(family, 0)
        trajectory = play(KIT.environment(task), task, KIT.oracle(task), max_turns=100)
        earned = earned_canaries(trajectory, secrets(compose(task)))
        shown = {text: operations for text, operations in earned.items() if operations}
        persona = compose(task).workspace.persona
        assert shown.keys() <= {persona.clarification, persona.objection}, family
        assert all(operations <= {"user.ask", "user.confirm"} for operations in shown.values()), family


@pytest.mark.parametrize("family", (*SAMPLE, *OTHERS))
def test_random_play_sees_no_canary(family: str) -> None:
    assert leaks(make_task(family, 1, split="heldout"), 2) == []


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_random_play_sees_no_canary_in_any_family(family: str) -> None:
    assert [leak for number in range(2) for leak in leaks(make_task(family, number), 10)] == []


def test_visible_text_is_no_canary() -> None:
    scenario = compose(TASK)
    result = secrets(scenario)
    note = next(item for item in result if not item.startswith(("/", "e")))
    mail = next(iter(scenario.workspace.mails.values()))
    with_note = replace(scenario, workspace=scenario.workspace.with_items(replace(mail, body=f"you know, {note}")))
    assert set(result) - set(secrets(with_note)) == {note}
    assert set(result) - set(secrets(replace(scenario, instruction=f"is it true that {note}"))) == {note}
    file = next(file for file in scenario.workspace.files.values() if is_hidden(scenario.workspace, file))
    shared = scenario.workspace.with_items(replace(file, rights={"everyone": "read"}))
    assert not is_hidden(shared, shared.files[file.id])
    deleted = scenario.workspace.with_items(replace(file, rights={"everyone": "read"}, is_deleted=True))
    assert is_hidden(deleted, deleted.files[file.id])


def test_a_listing_without_rights_is_caught_by_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    known = secrets(compose(TASK))
    monkeypatch.setattr("upturn.environments.office.kit.secrets", lambda _scenario: known)
    monkeypatch.setattr(drive, "has_right", lambda *_: True)
    monkeypatch.setattr(KIT, "tasks", lambda **_: iter([TASK, TASK]))
    checks = {
        check.name: check for check in validate_family(KIT, TASK.family, Plan(2, random_trajectories=1)).checks
    }
    assert checks["canaries"].holds is False
    assert "private.txt' is shown after sharepoint." in checks["canaries"].violation


def leak_of_call(task: Task, request: Action, canaries: Sequence[str]) -> str:
    return first_leak(play(KIT.environment(task), task, fixed_policy([request])), canaries, {})


def test_a_file_readable_by_id_without_rights_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, canaries = compose(TASK).workspace, KIT.canaries(TASK)
    file = next(file for file in workspace.files.values() if is_hidden(workspace, file))
    request = call("sharepoint.download", id=file.id)
    assert leak_of_call(TASK, request, canaries) == ""
    monkeypatch.setattr(drive, "check_right", lambda *_: None)
    assert (
        leak_of_call(TASK, request, canaries) == f"{file_text(file.content)!r} is shown after sharepoint.download"
    )


def test_showing_another_calendar_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, canaries = compose(TASK).workspace, KIT.canaries(TASK)
    event = next(event for event in workspace.events.values() if not event.concerns(workspace.owner))
    for request, operation in (
        (call("calendar.list", day=event.start[:10], title=event.title), "calendar.list"),
        (call("calendar.read", id=event.id), "calendar.read"),
    ):
        assert leak_of_call(TASK, request, canaries) == ""
        with monkeypatch.context() as patch:
            patch.setattr(Event, "concerns", lambda *_: True)
            leak = leak_of_call(TASK, request, canaries)
        assert leak.endswith(f"is shown after {operation}")
