"""Answers in other usual forms: numbers, rooms, codes and people."""

from functools import partial

from upturn.environments.office.generation import Scenario, call
from upturn.environments.office.solutions.solution import Solution, with_end
from upturn.environments.office.state import COMPANY
from upturn.records import Action

_NUMBERS = {
    "number with a full stop": "{n}.",
    "number in quotes": '"{n}"',
    "number in bold": "**{n}**",
    "number with a comma": "{n:,}",
    "number with decimals": "{n}.00",
    "number with spaces around": "  {n} ",
    "it is the number": "it is {n}",
    "the number is": "The number is {n}.",
    "the answer is": "the answer is {n}",
    "answer and a colon": "Answer: {n}",
    "that is the number": "That's {n}!",
    "number in curly quotes": "“{n}”",
}
_ROOMS = {"room and number": "room {n}", "the room is": "the room is {n}"}
_CODES = {"code and number": "code {n}", "the code is": "The code is {n}."}
_PEOPLE = {
    "full name": "{first} {last}",
    "full name with a full stop": "{first} {last}.",
    "address for an id": "{id}@" + COMPANY,
    "name and address": "{first} {last} <{id}@" + COMPANY + ">",
    "name and id": "{first} {last} ({id})",
    "family name first": "{last}, {first}",
    "id with an at sign": "@{id}",
    "id in quotes": '"{id}"',
    "id in code marks": "`{id}`",
    "it was the person": "It was {first} {last}.",
    "it is by the person": "it is by {id}",
}


def person_forms(id_: str) -> dict[str, str]:
    """The placeholders for a person."""
    first, _, last = id_.partition(".")
    return {"id": id_, "first": first.title(), "last": last.title()}


def _number(form: str, scenario: Scenario, *, wanted_in: str = "") -> tuple[Action, ...] | None:
    draft = scenario.draft
    if not draft.is_feasible or draft.answer is None or not draft.answer.isdigit():
        return None
    if wanted_in not in scenario.instruction:
        return None
    return with_end(scenario, call("user.answer", text=form.format(n=int(draft.answer))))


def _person(form: str, scenario: Scenario) -> tuple[Action, ...] | None:
    draft = scenario.draft
    if not draft.is_feasible or draft.answer is None or draft.answer not in scenario.workspace.people:
        return None
    return with_end(scenario, call("user.answer", text=form.format(**person_forms(draft.answer))))


def _as_number(scenario: Scenario) -> tuple[Action, ...] | None:
    """The answer as a JSON number."""
    answer = scenario.draft.answer
    if not scenario.draft.is_feasible or answer is None or not answer.isdigit():
        return None
    return with_end(scenario, call("user.answer", text=int(answer)))


SOLUTIONS: dict[str, Solution] = {
    **{name: partial(_number, form) for name, form in _NUMBERS.items()},
    **{name: partial(_number, form, wanted_in="room") for name, form in _ROOMS.items()},
    **{name: partial(_number, form, wanted_in="code") for name, form in _CODES.items()},
    **{name: partial(_person, form) for name, form in _PEOPLE.items()},
    "number as JSON": _as_number,
}
