"""Refusals: with the obstacle's name in other forms, and with the plain reason."""

from functools import partial

from upturn.environments.office.generation import Scenario, refusal
from upturn.environments.office.solutions.answer import person_forms
from upturn.environments.office.solutions.solution import Solution, with_end
from upturn.environments.office.state import COMPANY, Reason
from upturn.records import Action

_NAMED = {
    "refusal with a full name": "I am sorry, I cannot do this: it is up to {first} {last}.",
    "refusal with an address": "this is up to {id}@" + COMPANY,
    "refusal with name and id": "not done; {first} {last} ({id})",
}
_PLAIN: dict[Reason, tuple[str, ...]] = {
    "missing": (
        "there is no such thing",
        "I looked for it, but it does not exist.",
        "nothing was found, so I changed nothing",
        "I couldn't find it",
        "it isn't in there any more",
    ),
    "right": (
        "you have no right to do that",
        "I lack the permission, since the document belongs to somebody else.",
        "you aren't allowed to change this document",
    ),
    "denied": (
        "the permission was denied",
        "I asked, but they declined to give the permission.",
        "it could not be done without the permission, which was not granted",
    ),
    "objection": (
        "not sent, as you said",
        "You asked me to leave it, so nothing was sent.",
        "you do not want this mail now",
    ),
}


def _named(form: str, scenario: Scenario) -> tuple[Action, ...] | None:
    draft = scenario.draft
    if draft.is_feasible or draft.answer is None or draft.answer not in scenario.workspace.people:
        return None
    return with_end(scenario, refusal(form.format(**person_forms(draft.answer))))


def _plain(reason: Reason, text: str, scenario: Scenario) -> tuple[Action, ...] | None:
    obstacle = scenario.draft.obstacle
    if obstacle is None or obstacle.reason != reason:
        return None
    return with_end(scenario, refusal(text))


SOLUTIONS: dict[str, Solution] = {
    **{name: partial(_named, form) for name, form in _NAMED.items()},
    **{
        f"plain refusal, {reason} {number}": partial(_plain, reason, text)
        for reason, texts in _PLAIN.items()
        for number, text in enumerate(texts, start=1)
    },
}
