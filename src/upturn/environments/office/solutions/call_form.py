"""Calls with parameters in other forms: people, lists, texts, numbers, times, chats and previews."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from upturn.environments.office.generation import Scenario
from upturn.environments.office.solutions.answer import person_forms
from upturn.environments.office.solutions.solution import Solution, list_of, with_calls, with_values
from upturn.environments.office.state import COMPANY
from upturn.models import read_call
from upturn.records import Action, JsonValue

_PEOPLE = ("to", "cc", "people", "on_behalf_of")
_LISTS = ("to", "cc", "people", "ids", "attachments")
_MESSAGES = {
    "outlook": ("subject", "body"),
    "teams": ("text", "title"),
    "calendar": ("title", "place", "message", "body"),
}
"""Texts for people, by app."""
_READING = frozenset({"search", "list", "read", "search_chat", "list_channels", "find_people", "free_busy"})
_ON_SHEETS = frozenset({"write_range", "insert_formula", "sort", "filter", "format", "run_macro"})
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


def _addresses(change: Callable[[str], str], scenario: Scenario) -> tuple[Action, ...]:
    def address(item: str) -> str:
        return change(f"{item}@{COMPANY}") if item in scenario.workspace.people else item

    def addresses(value: JsonValue) -> JsonValue:
        changed = [*map(address, list_of(value))]
        return [*changed] if isinstance(value, list) else ",".join(changed)

    return with_values(scenario, _PEOPLE, addresses)


def _lists(change: Callable[[list[str]], JsonValue], scenario: Scenario) -> tuple[Action, ...]:
    return with_values(scenario, _LISTS, lambda value: change(list_of(value)))


def _texts(change: Callable[[str], str], scenario: Scenario) -> tuple[Action, ...]:
    """The oracle with these changes of texts for people."""

    def changed(action: Action) -> Action:
        names = () if action.operation in _READING else _MESSAGES.get(action.target, ())
        texts = {name: change(str(action.parameters[name])) for name in names if name in action.parameters}
        return replace(action, parameters={**action.parameters, **texts})

    return with_calls(scenario, changed)


def _number_texts(form: str, scenario: Scenario) -> tuple[Action, ...]:
    return _texts(lambda text: form.format(n=int(text)) if text.isdigit() else text, scenario)


def _twelve_hours(text: str) -> str:
    match = _TIME.fullmatch(text)
    if match is None:
        return text
    hour = int(match[1])
    return f"{hour % 12 or 12}:{match[2]} {'am' if hour < 12 else 'pm'}"


def _time_texts(change: Callable[[str], str], scenario: Scenario) -> tuple[Action, ...]:
    return _texts(lambda text: change(text) if _TIME.fullmatch(text) else text, scenario)


def _person_texts(form: str, scenario: Scenario) -> tuple[Action, ...]:
    people = scenario.workspace.people
    return _texts(lambda text: form.format(**person_forms(text)) if text in people else text, scenario)


def _moments(form: str, scenario: Scenario) -> tuple[Action, ...]:
    return with_values(scenario, ("start", "end"), lambda value: form.format(*str(value).split(" ")))


def _with_chat(scenario: Scenario) -> tuple[Action, ...]:
    """Messages to a chat by its id."""
    owner = scenario.workspace.owner
    chats = {chat.members: chat.id for chat in scenario.workspace.chats.values()}

    def changed(action: Action) -> Action:
        members = tuple(sorted((str(action.parameters.get("to")), owner)))
        if action.name != "teams.send_message" or members not in chats:
            return action
        return replace(action, parameters={"chat": chats[members], "text": action.parameters["text"]})

    return with_calls(scenario, changed)


def _to_person(scenario: Scenario) -> tuple[Action, ...]:
    """Messages to a chat by its member."""
    office = scenario.workspace

    def changed(action: Action) -> Action:
        chat = office.chats.get(str(action.parameters.get("chat")))
        if action.name != "teams.send_message" or chat is None:
            return action
        others: list[JsonValue] = [member for member in chat.members if member != office.owner]
        return replace(action, parameters={"to": others, "text": action.parameters["text"]})

    return with_calls(scenario, changed)


def _to_all(scenario: Scenario) -> tuple[Action, ...]:
    """A reply to all of a mail that only the sender and the owner have."""
    office = scenario.workspace

    def changed(action: Action) -> Action:
        mail = office.mails.get(str(action.parameters.get("id")))
        is_alone = mail is not None and mail.to == (office.owner,) and not mail.cc
        if action.name != "outlook.reply" or not is_alone:
            return action
        return replace(action, parameters={**action.parameters, "to_all": True})

    return with_calls(scenario, changed)


def _cells(change: Callable[[str], JsonValue], scenario: Scenario) -> tuple[Action, ...]:
    def changed(rows: JsonValue) -> JsonValue:
        if not isinstance(rows, list):
            return rows
        return [[change(str(cell)) for cell in row] for row in rows if isinstance(row, list)]

    return with_calls(
        scenario,
        lambda action: (
            replace(action, parameters={**action.parameters, "rows": changed(action.parameters["rows"])})
            if action.name == "excel.write_range"
            else action
        ),
    )


def _previews(change: Callable[[Action], Action], scenario: Scenario) -> tuple[Action, ...]:
    return tuple(change(action) if action.name == "user.preview" else action for action in scenario.draft.oracle)


def _as_json(preview: Action) -> Action:
    shown = read_call(str(preview.parameters["call"]))
    if shown is None:
        return preview
    named = {"target_app": shown.target, "operation": shown.operation, "parameters": dict(shown.parameters)}
    return replace(preview, parameters={**preview.parameters, "call": json.dumps(named)})


def _politely(preview: Action) -> Action:
    return replace(preview, parameters={**preview.parameters, "statement": "Shall I go on with this? Please look."})


def _with_owner(scenario: Scenario) -> tuple[Action, ...]:
    """The owner is listed among the people of their own event."""

    def changed(action: Action) -> Action:
        if action.name not in ("calendar.create", "teams.create_meeting") or not action.parameters.get("people"):
            return action
        people: list[JsonValue] = [*list_of(action.parameters["people"]), scenario.workspace.owner]
        return replace(action, parameters={**action.parameters, "people": people})

    return with_calls(scenario, changed)


def _on_sheet(scenario: Scenario) -> tuple[Action, ...]:
    """The only sheet of a workbook is named."""

    def changed(action: Action) -> Action:
        is_written = action.target == "excel" and action.operation in _ON_SHEETS
        return replace(action, parameters={"sheet": "data", **action.parameters}) if is_written else action

    return with_calls(scenario, changed)


def _fixed_range(value: JsonValue) -> JsonValue:
    """The range of a chart with dollar signs."""
    return re.sub(r"([A-Z]+)([0-9]+)", r"$\1$\2", str(value))


SOLUTIONS: dict[str, Solution] = {
    "people as addresses": partial(_addresses, str),
    "people as addresses in capitals": partial(_addresses, str.upper),
    "lists as text": partial(_lists, ",".join),
    "lists as text with spaces": partial(_lists, " , ".join),
    "lists as lists": partial(_lists, lambda items: [*items]),
    "texts in capitals": partial(_texts, str.upper),
    "texts with a capital": partial(_texts, str.capitalize),
    "texts with spaces around": partial(_texts, "  {} ".format),
    "numbers in texts with a full stop": partial(_number_texts, "{n}."),
    "numbers in texts with a comma": partial(_number_texts, "{n:,}"),
    "numbers in texts with decimals": partial(_number_texts, "{n}.0"),
    "times in texts of twelve hours": partial(_time_texts, _twelve_hours),
    "times in texts with seconds": partial(_time_texts, "{}:00".format),
    "times in texts with a full stop": partial(_time_texts, "{}.".format),
    "people in texts by name": partial(_person_texts, "{first} {last}"),
    "people in texts by address": partial(_person_texts, "{id}@" + COMPANY),
    "times in calls with a T": partial(_moments, "{}T{}"),
    "times in calls with seconds": partial(_moments, "{} {}:00"),
    "times in calls as ISO 8601": partial(_moments, "{}T{}:00"),
    "chat by its id": _with_chat,
    "chat by its member": _to_person,
    "reply to all of one": _to_all,
    "owner among the people": _with_owner,
    "only sheet named": _on_sheet,
    "ranges in small letters": lambda scenario: with_values(scenario, ("at", "range"), lambda at: str(at).lower()),
    "ranges with dollar signs": lambda scenario: with_values(scenario, ("range",), _fixed_range),
    "folders with a capital": lambda scenario: with_values(
        scenario, ("folder",), lambda folder: str(folder).capitalize()
    ),
    "cells as JSON numbers": partial(_cells, lambda text: int(text) if text.isdigit() else text),
    "cells with decimals": partial(_cells, lambda text: f"{text}.0" if text.isdigit() else text),
    "previews as JSON": partial(_previews, _as_json),
    "previews in other words": partial(_previews, _politely),
}
