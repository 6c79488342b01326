"""Tasks about people: other correct solutions succeed, and the wrong person fails."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from upturn.environments.office.apps.teams import presence
from upturn.environments.office.generation.family import FINISH, Scenario, call, with_agreement
from upturn.records import Action, Task

from ...conftest import cases, looks_of

FailedGates: TypeAlias = Callable[[Task, Iterable[Action]], list[str]]


def holders(scenario: Scenario, text: str) -> list[str]:
    """Returns the ids of the people with a role that the text names."""
    people = scenario.workspace.people.values()
    return [person.id for person in people if f"the {person.title} of {person.department}" in text]


def body_of(scenario: Scenario, *, is_named: bool) -> str:
    """Returns the text of the mail with the task's subject, from the named sender or from the other one."""
    slots = scenario.draft.slots
    (body,) = [
        mail.body
        for mail in scenario.workspace.mails.values()
        if f'"{mail.subject}"' == slots["subject"] and (mail.sender == slots["name"]) == is_named
    ]
    return body


def test_a_mail_on_behalf_is_for_the_person_of_the_named_role_only(failed_gates: FailedGates) -> None:
    for task, scenario in cases("mail_on_behalf"):
        slots, people = scenario.draft.slots, scenario.workspace.people.values()
        (principal,) = holders(scenario, f"the {slots['title']} of {slots['department']}")
        delegating = [person.id for person in people if scenario.workspace.owner in person.delegates]
        assert len(delegating) == 2
        subject, text = slots["subject"].strip('"'), slots["phrase"].strip('"')
        draft = call("outlook.draft", to=slots["name"], subject=subject, body=text)
        sent = call("outlook.send", draft="m1000", on_behalf_of=principal)
        assert failed_gates(task, [draft, *with_agreement(sent), FINISH]) == []
        for other in [None, *(person for person in delegating if person != principal)]:
            whose = {} if other is None else {"on_behalf_of": other}
            wrong = call("outlook.send", to=slots["name"], subject=subject, body=text, **whose)
            assert failed_gates(task, [*with_agreement(wrong), FINISH]) == ["goal"]


def test_of_three_people_one_is_available_and_only_that_one_may_be_written_to(failed_gates: FailedGates) -> None:
    places = set()
    for task, scenario in cases("available_messaged", 12):
        text = scenario.draft.slots["phrase"].strip('"')
        body = body_of(scenario, is_named=True)
        three = sorted((person for person in scenario.workspace.people if person in body), key=body.index)
        states = [presence(scenario.workspace, person) for person in three]
        assert (len(three), states.count("available")) == (3, 1)
        places.add(states.index("available"))
        for person, state in zip(three, states, strict=True):
            work = [*looks_of(scenario), *with_agreement(call("teams.send_message", to=person, text=text)), FINISH]
            assert failed_gates(task, work) == ([] if state == "available" else ["goal"])
    assert places == {0, 1, 2}


def test_the_successor_is_whoever_has_the_role_in_the_named_mail(failed_gates: FailedGates) -> None:
    for task, scenario in cases("successor_entered"):
        slots = scenario.draft.slots
        (document,) = [
            file.id for file in scenario.workspace.files.values() if file.name == f"{slots['document']}.docx"
        ]
        body = body_of(scenario, is_named=True)
        (old,) = [person for person in scenario.workspace.people if person in body]
        (expected,), (wrong,) = (holders(scenario, body_of(scenario, is_named=item)) for item in (True, False))
        text = slots["phrase"].strip('"')
        written = {
            who: [*with_agreement(call("teams.send_message", to=who, text=text))] for who in (expected, wrong)
        }
        entered = {who: call("word.find_replace", id=document, find=old, replace=who) for who in (expected, wrong)}
        assert failed_gates(task, [*looks_of(scenario), *written[expected], entered[expected], FINISH]) == []
        assert failed_gates(task, [*looks_of(scenario), *written[expected], entered[wrong], FINISH]) == ["goal"]
        assert failed_gates(task, [*looks_of(scenario), *written[wrong], entered[expected], FINISH]) == ["goal"]
