"""The oracle of a task with faults: the oracle without faults, plus the calls that recover from each fault.

It uses only what an agent can observe: it waits as long as an error states, retries calls that were not done,
checks before it repeats a call that may have been done, completes partial writes, asks for permissions and searches
for moved files.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from upturn.environments.office.apps import (
    APPS,
    Operation,
    Parameters,
    canonical_action,
    no_impact,
    operation_of,
    parse_parameters,
)
from upturn.environments.office.faults import LIST_PARAMETERS, FaultPlan, FaultState, Outcome, apply_with_faults
from upturn.environments.office.generation.family import OracleResult, call, refusal, with_agreement
from upturn.environments.office.state import OperationError, Persona, Wish, Workspace
from upturn.errors import WorldError
from upturn.records import Action, JsonValue

MOST_CALLS = 100
"""Limit on the oracle's calls; a plan that needs more is too hard."""


def _list_folder(name: str) -> Callable[[Action], Action]:
    return lambda _action: call("outlook.search", folder=name)


def _list_day(action: Action) -> Action:
    return call("calendar.list", day=str(action.parameters["start"])[:10])


def _read_item(name: str) -> Callable[[Action], Action]:
    return lambda action: call(name, id=action.parameters["id"])


def _find_message(action: Action) -> Action:
    return call("teams.search_chat", query=action.parameters["text"])


LOOKUPS: Mapping[str, Callable[[Action], Action]] = {
    "outlook.send": _list_folder("sent"),
    "outlook.reply": _list_folder("sent"),
    "outlook.forward": _list_folder("sent"),
    "outlook.draft": _list_folder("drafts"),
    "calendar.create": _list_day,
    "teams.create_meeting": _list_day,
    "calendar.move": _read_item("calendar.read"),
    "teams.send_message": _find_message,
    "teams.post_to_channel": _find_message,
    "excel.write_range": _read_item("excel.read_range"),
    "word.insert_text": _read_item("word.read_paragraphs"),
    "word.insert_table": _read_item("word.read_paragraphs"),
    "powerpoint.add_slide": _read_item("powerpoint.read_slides"),
    "sharepoint.set_permissions": _read_item("sharepoint.show_permissions"),
}
"""By operation: the call that shows whether it was done."""


@cache
def _agreeable() -> Persona:
    """A user who agrees to every action."""
    return Persona(tuple(Wish(app.target, name) for app in APPS.values() for name in app.operations))


def oracle_under_faults(
    workspace: Workspace, plan: FaultPlan, work: Iterable[Action]
) -> tuple[tuple[Action, ...], OracleResult]:
    """The oracle under the fault plan, built from the oracle without faults, and its result; ends with a refusal
    when a permission is denied.

    Raises WorldError when an action is refused for another reason than a fault, or after ``MOST_CALLS`` calls.
    """
    workspace, state = workspace.evolve(persona=_agreeable()), FaultState(plan)
    waiting, done, wishes = deque(work), [], []
    while waiting:
        action = waiting.popleft()
        done.append(action)
        if len(done) > MOST_CALLS:
            raise WorldError(f"the oracle takes more than {MOST_CALLS} calls under {plan!r}")
        if (wish := _wish(workspace, action)) is not None:
            wishes.append(wish)
        try:
            outcome = apply_with_faults(workspace, state, action)
        except OperationError as exc:
            raise WorldError(f"the oracle is refused: {action!r}: {exc}") from exc
        workspace, state = outcome.workspace, outcome.state
        for kind in outcome.faults:
            waiting = deque(_next_calls(kind, outcome, action, waiting))
    return tuple(done), OracleResult(state.with_moved_files(workspace), tuple(wishes))


def _wish(workspace: Workspace, action: Action) -> Wish | None:
    """The wish of a user who wants this action; None = the action needs no agreement."""
    operation = operation_of(action)
    if operation.impact is no_impact:
        return None
    parameters = parse_parameters(operation, action)
    try:
        impact = operation.impact(workspace, parameters)
    except OperationError:
        return None  # it names a moved file; the next call has the new id
    return None if impact is None else wish_for(operation, parameters)


def wish_for(operation: Operation[Any], parameters: Parameters) -> Wish:
    """The wish of a user who wants exactly this action; for a deletion, also any part of it."""
    exact = canonical_action(operation, parameters)
    ids = exact.parameters.get("ids")
    if operation.name != "delete" or not isinstance(ids, list):
        return Wish(exact.target, exact.operation, exact.parameters, is_whole=True)
    rest = {name: value for name, value in exact.parameters.items() if name != "ids"}
    return Wish(exact.target, exact.operation, rest, {"ids": tuple(map(str, ids))}, is_whole=True)


def _next_calls(kind: str, outcome: Outcome, action: Action, rest: Iterable[Action]) -> Iterable[Action]:
    """The remaining calls after a fault of this kind has hit the action."""
    state, name = outcome.state, action.name
    faults = state.plan.faults
    match kind:
        case "rate_limited":
            until = state.blocked[action.target] - outcome.workspace.elapsed
            return (call("user.wait", seconds=until), action, *rest)
        case "stale_read":
            fault = next(candidate for candidate in faults if candidate.kind == "stale_read")
            left = state.written[action.target].at + fault.seconds - outcome.workspace.elapsed
            return (*((call("user.wait", seconds=left),) if left > 0 else ()), action, *rest)
        case "timeout" | "lost_answer":
            look = (LOOKUPS[name](action),) if name in LOOKUPS else ()
            return (*look, *(() if kind == "lost_answer" else (action,)), *rest)
        case "partial_write":
            return (*_calls_left(action, name), *rest)
        case "no_permission":
            fault = next(candidate for candidate in faults if candidate.kind == kind and candidate.call == name)
            ask = call("user.ask", text=f"i have no permission for {name}: could {fault.person} give it?")
            return (ask, refusal(f"{fault.person} denies it")) if fault.is_lasting else (ask, action, *rest)
        case "moved":
            fault = next(
                candidate
                for candidate in faults
                if candidate.file and _renamed(action, candidate.file, "") != action
            )
            search = call("sharepoint.search", query=fault.to_path.rsplit("/", 1)[-1])
            return (search, *(_renamed(candidate, fault.file, fault.to_id) for candidate in (action, *rest)))
    return (action, *rest)


def _calls_left(action: Action, name: str) -> Iterable[Action]:
    """The calls that complete a partial write: all of it for rows, which may be written twice; else the last
    item."""
    parameter = LIST_PARAMETERS[name]
    several = action.parameters[parameter]
    if parameter == "rows" or not isinstance(several, list):
        return (action,)
    left = Action(action.target, action.operation, {**action.parameters, parameter: several[-1:]})
    is_free = name in ("outlook.move", "outlook.flag", "outlook.mark", "calendar.invite", "teams.add_members")
    return (left,) if is_free else tuple(with_agreement(left))


def _renamed(action: Action, old: str, new: str) -> Action:
    """The action with the file's new id, also inside previewed calls."""
    return replace(action, parameters={key: _replaced(value, old, new) for key, value in action.parameters.items()})


def _replaced(value: JsonValue, old: str, new: str) -> JsonValue:
    if isinstance(value, list):
        return [_replaced(part, old, new) for part in value]
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, value) if isinstance(value, str) else value
