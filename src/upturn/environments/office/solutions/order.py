"""Calls in another order or number: reversed lists, items one by one, more looks, questions after a proposal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from operator import not_

from upturn.environments.office.generation import Scenario, call, with_agreement
from upturn.environments.office.solutions.solution import Solution, asking, changed_call, list_of
from upturn.models import read_call
from upturn.records import Action, JsonValue

_SINGLE = {
    "outlook.move": "ids",
    "outlook.flag": "ids",
    "outlook.mark": "ids",
    "calendar.invite": "people",
    "teams.add_members": "people",
}
"""Operations without consent, with the parameter that lists their items."""
_LISTS = ("to", "cc", "people", "ids", "attachments")


def _reversed(scenario: Scenario) -> tuple[Action, ...]:
    """Every list in reverse order; a partial write then leaves out another item, which is done next."""
    is_partial = any(fault.kind == "partial_write" for fault in scenario.draft.faults.faults)
    whole: dict[tuple[str, str], list[str]] = {}

    def changed(action: Action) -> Action:
        lists: dict[str, JsonValue] = {}
        for name in _LISTS:
            if name in action.parameters:
                items = list_of(action.parameters[name])
                before = whole.get((action.name, name), items)
                if len(items) > 1:
                    whole[action.name, name] = items
                lists[name] = [*(before[:1] if is_partial and items == before[-1:] else items[::-1])]
        return replace(action, parameters={**action.parameters, **lists})

    return tuple(changed_call(action, changed) for action in scenario.draft.oracle)


def _one_by_one(scenario: Scenario) -> tuple[Action, ...] | None:
    if scenario.draft.faults:
        return None
    return tuple(single for action in scenario.draft.oracle for single in _singles(action))


def _singles(action: Action) -> Iterator[Action]:
    name = _SINGLE.get(action.name)
    items = list_of(action.parameters[name]) if name is not None else []
    if name is None or len(items) > 20:
        yield action
    else:
        yield from (replace(action, parameters={**action.parameters, name: [item]}) for item in items)


def _deleted_one_by_one(scenario: Scenario) -> tuple[Action, ...] | None:
    """Every deletion with a consent of its own."""
    if scenario.draft.faults:
        return None
    done: list[Action] = []
    for action in scenario.draft.oracle:
        if action.operation != "delete" or not isinstance(action.parameters.get("ids"), list | str):
            done.append(action)
            continue
        del done[-2:]  # its preview and the user's decision
        for item in list_of(action.parameters["ids"]):
            done += with_agreement(replace(action, parameters={**action.parameters, "ids": [item]}))
    return tuple(done)


def _consent_first(scenario: Scenario) -> tuple[Action, ...] | None:
    """All consents before the first of the actions."""
    oracle = scenario.draft.oracle
    first = next((at for at, action in enumerate(oracle) if action.operation == "preview"), None)
    if first is None or scenario.draft.faults or scenario.draft.objection:
        return None
    is_consent = [action.name in ("user.preview", "user.confirm") for action in oracle[first:-1]]
    consents = list(compress(oracle[first:-1], is_consent))
    rest = list(compress(oracle[first:-1], map(not_, is_consent)))
    return (*oracle[:first], *consents, *rest, oracle[-1])


def _shown_twice(scenario: Scenario) -> tuple[Action, ...]:
    return tuple(
        action
        for action in scenario.draft.oracle
        for _ in range(2 if action.name == "user.preview" and not scenario.draft.faults else 1)
    )


def _after(first: Sequence[Action], scenario: Scenario) -> tuple[Action, ...] | None:
    """The oracle after these harmless calls; more calls of an app could meet other faults."""
    return None if scenario.draft.faults else (*first, *scenario.draft.oracle)


def _mail_read_first(scenario: Scenario) -> tuple[Action, ...] | None:
    """The owner's first ordinary mail is opened, which marks it as read."""
    mails = scenario.workspace.mails.values()
    mail = next((mail for mail in mails if mail.folder == "inbox" and mail.label == "general"), None)
    named = repr(scenario.draft.oracle)
    if mail is None or mail.id in named or mail.id in repr(scenario.goal):
        return None
    return _after((call("outlook.read", id=mail.id),), scenario)


def _declined_then_asked(scenario: Scenario) -> tuple[Action, ...] | None:
    """One of the two that may be meant is proposed and declined; only then the user is asked."""
    draft, office = scenario.draft, scenario.workspace
    index = next((at for at, action in enumerate(draft.oracle) if action.name == "user.ask"), None)
    shown = next((action for action in draft.oracle if action.name == "user.preview"), None)
    meant = read_call(str(shown.parameters["call"])) if shown is not None else None
    if index is None or meant is None or not draft.clarification:
        return None
    id_ = str(meant.parameters["id"])
    if meant.target == "calendar":
        event = office.events[id_]
        alike = (
            other.id
            for other in office.events.values()
            if other.title == event.title and other.start[:10] == event.start[:10] and other.concerns(office.owner)
        )
    else:
        mail = office.mails[id_]
        first = mail.sender.split(".")[0]
        alike = (
            other.id
            for other in office.mails.values()
            if other.subject == mail.subject and other.sender.startswith(f"{first}.")
        )
    other_id = next((other for other in alike if other != id_), None)
    if other_id is None:
        return None
    wrong = replace(meant, parameters={**meant.parameters, "id": other_id})
    return (*draft.oracle[:index], *tuple(with_agreement(wrong))[:-1], *draft.oracle[index:])


def _asked_as(text: str, scenario: Scenario) -> tuple[Action, ...] | None:
    if not scenario.draft.clarification:
        return None
    oracle = scenario.draft.oracle
    return tuple(asking(text) if action.name == "user.ask" else action for action in oracle)


_LOOKS = {
    "inbox looked through first": call("outlook.search", folder="inbox"),
    "sent mails looked at first": call("outlook.search", folder="sent"),
    "people looked up first": call("outlook.find_people", department="sales"),
    "calendar looked at first": call("calendar.list", day="2026-03-04"),
    "channels listed first": call("teams.list_channels"),
    "library searched first": call("sharepoint.search", query="plan"),
    "waited first": call("user.wait", seconds=5),
    "wrong id read first": call("outlook.read", id="m0"),
    "wrong event read first": call("calendar.read", id="e0"),
}
SOLUTIONS: dict[str, Solution] = {
    "lists in reverse": _reversed,
    "items one by one": _one_by_one,
    "deletions one by one": _deleted_one_by_one,
    "all consents first": _consent_first,
    "everything shown twice": _shown_twice,
    **{name: partial(_after, (look,)) for name, look in _LOOKS.items()},
    "another mail read first": _mail_read_first,
    "proposed, declined, then asked": _declined_then_asked,
    "asked in other words": partial(_asked_as, "I see more than one that fits. Which one should I take?"),
}
