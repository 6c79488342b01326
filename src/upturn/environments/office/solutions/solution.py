"""A solution: the oracle's actions with one thing changed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from upturn.environments.office.generation import Scenario, call
from upturn.models import read_call, write_call
from upturn.records import Action, JsonValue

Solution: TypeAlias = Callable[[Scenario], Sequence[Action] | None]
"""The actions; None = it does not fit the task."""


def with_end(scenario: Scenario, *end: Action) -> tuple[Action, ...]:
    """The oracle's work with another end."""
    return (*scenario.draft.oracle[:-1], *end)


def with_calls(scenario: Scenario, change: Callable[[Action], Action]) -> tuple[Action, ...]:
    """The oracle with every call of an app changed, also in previews."""
    return tuple(changed_call(action, change) for action in scenario.draft.oracle)


def changed_call(action: Action, change: Callable[[Action], Action]) -> Action:
    """The action, or the call that it previews, changed; other actions for the user stay."""
    if action.target != "user":
        return change(action)
    shown = read_call(str(action.parameters["call"])) if action.operation == "preview" else None
    if shown is None:
        return action
    return replace(action, parameters={**action.parameters, "call": write_call(change(shown))})


def with_values(
    scenario: Scenario, names: Iterable[str], change: Callable[[JsonValue], JsonValue]
) -> tuple[Action, ...]:
    """The oracle with the values of these parameters changed, wherever an app is called."""

    def changed(action: Action) -> Action:
        values = {name: change(action.parameters[name]) for name in names if name in action.parameters}
        return replace(action, parameters={**action.parameters, **values})

    return with_calls(scenario, changed)


def list_of(value: JsonValue) -> list[str]:
    """The items of a list, or of a text with commas."""
    return [str(item) for item in value] if isinstance(value, list) else str(value).split(",")


def asking(text: str) -> Action:
    """A message to the user."""
    return call("user.ask", text=text)
