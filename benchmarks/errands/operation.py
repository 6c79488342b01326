"""Operations: typed parameters, effects, and the errors of refused actions.

Order of checks: target and operation exist, no unknown parameter, no missing one, each value has its kind. Then the
operation runs, which may also refuse (not found, forbidden). A refused action changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from benchmarks.errands.formula import CELL
from benchmarks.errands.workspace import CLOSING_HOUR, DAYS, FOLDERS, OPENING_HOUR, Workspace
from upturn.records import Action, JsonValue

Kind = Literal["text", "people", "hour", "day", "folder", "cell", "range", "flag"]
Value: TypeAlias = str | int | tuple[str, ...]
_MAX_TEXT = 500
_MAX_PEOPLE = 20
_MAX_DIGITS = 9


class OperationError(Exception):
    """A refused action; ``code`` is machine-readable, the message is for the agent."""

    def __init__(self, code: str, message: str, *, safety_cost: float = 0.0) -> None:
        self.code = code
        self.safety_cost = safety_cost
        """1 for a violation of safety, 0 for a mistake."""
        super().__init__(message)


class Effect(NamedTuple):
    """Result of an operation."""

    workspace: Workspace
    text: str
    """The observation."""
    is_final: bool = False
    """True ends the task."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named, typed parameter."""

    name: str
    kind: Kind = "text"
    is_required: bool = True


class Arguments:
    """Checked values by name. A method of the wrong kind is a bug of the operation."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """A text, day, folder, cell, range or flag; empty when absent."""
        value = self._values.get(name, "")
        assert isinstance(value, str)
        return value

    def hour(self, name: str) -> int:
        """A full hour."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def people(self, name: str) -> tuple[str, ...]:
        """Names in the action's order; empty when absent."""
        value = self._values.get(name, ())
        assert isinstance(value, tuple)
        return value

    def has(self, name: str) -> bool:
        """True when the action has this parameter."""
        return name in self._values


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of one target."""

    target: str
    name: str
    parameters: tuple[Parameter, ...]
    run: Callable[[Workspace, Arguments], Effect]


def check_arguments(operation: Operation, action: Action) -> Arguments:
    """The action's parameters as typed values. Raises OperationError for the first problem."""
    known = {parameter.name: parameter for parameter in operation.parameters}
    for name in action.parameters:
        if name not in known:
            raise OperationError(
                "unknown_parameter", f"unknown parameter {name!r}; known: {', '.join(known) or 'none'}"
            )
    values: dict[str, Value] = {}
    for parameter in operation.parameters:
        if parameter.name in action.parameters:
            values[parameter.name] = _value(parameter, action.parameters[parameter.name])
        elif parameter.is_required:
            raise OperationError("missing_parameter", f"parameter {parameter.name!r} is required")
    return Arguments(values)


def _value(parameter: Parameter, raw: JsonValue) -> Value:
    name = parameter.name
    if parameter.kind == "people":
        return _people(name, raw)
    if parameter.kind == "hour":
        return _hour(name, raw)
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise OperationError("bad_type", f"{name} must be a text, got {type(raw).__name__}")
    text = _as_text(name, raw)
    if not text or len(text) > _MAX_TEXT:
        raise OperationError("bad_value", f"{name} must have 1 to {_MAX_TEXT} characters, got {len(text)}")
    allowed = {"day": DAYS, "folder": FOLDERS, "flag": ("read", "unread")}.get(parameter.kind)
    if allowed is not None and text not in allowed:
        raise OperationError("bad_value", f"{name} must be one of {', '.join(allowed)}; got {text!r}")
    if parameter.kind == "cell" and CELL.fullmatch(text) is None:
        raise OperationError("bad_value", f"{name} must be a cell such as B3, got {text!r}")
    if parameter.kind == "range" and not all(CELL.fullmatch(part) for part in text.split(":", 1)):
        raise OperationError("bad_value", f"{name} must be a cell or a range such as A1:B4, got {text!r}")
    return text


def _as_text(name: str, raw: str | float) -> str:
    """The value as text without surrounding blanks; refuses text that cannot be encoded."""
    try:
        text = str(raw).strip()
        text.encode()
    except ValueError:  # an integer with thousands of digits, or half of a surrogate pair
        raise OperationError(
            "bad_value", f"{name} must be text in Unicode or a number that can be written"
        ) from None
    return text


def _people(name: str, raw: JsonValue) -> tuple[str, ...]:
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise OperationError("bad_type", f"{name} must be names separated by commas, got {type(raw).__name__}")
    people = tuple(dict.fromkeys(part.strip() for part in parts if isinstance(part, str) and part.strip()))
    if not 1 <= len(people) <= _MAX_PEOPLE:
        raise OperationError("bad_value", f"{name} must name 1 to {_MAX_PEOPLE} people, got {len(people)}")
    return people


def _hour(name: str, raw: JsonValue) -> int:
    if isinstance(raw, bool) or not isinstance(raw, str | int):
        raise OperationError("bad_type", f"{name} must be a full hour, got {type(raw).__name__}")
    text = _as_text(name, raw)
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not is_number or not OPENING_HOUR <= int(text) <= CLOSING_HOUR:
        raise OperationError(
            "bad_value", f"{name} must be a full hour from {OPENING_HOUR} to {CLOSING_HOUR}, got {text!r}"
        )
    return int(text)
