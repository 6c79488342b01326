"""The contract of an operation: typed parameters, effect, and refusals.

The parameters of an operation are a pydantic model, which also defines its tool schema. Agents that write plain
text write all values as text, so numbers, moments and lists are parsed from text too. Order of checks: target and
operation exist; parameters are known, complete and of the right type; then the operation runs and may still refuse.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from upturn.environments.office.state import (
    OperationError,
    Workspace,
    format_moment,
    moment_form,
    parse_moment,
    person_of,
)
from upturn.records import Action, JsonValue, Tool

MAX_BATCH = 100
"""Limit on the items of an action; exceeding it is a hard violation."""


class Parameters(BaseModel):
    """Parameters of an operation. A subclass's docstring describes the operation to agents."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, str_max_length=10_000)


class Effect(NamedTuple):
    """The effect of an operation."""

    workspace: Workspace
    text: str
    """The observation."""
    costs: Mapping[str, float] = {}
    """Soft-constraint costs by name."""
    is_final: bool = False
    """True ends the task."""


class Impact(NamedTuple):
    """Why an action needs the user's agreement."""

    kind: str
    """``send``, ``delete`` or ``share``"""
    preview: str
    """The text for the user: all content that would be sent, deleted or shared."""
    outside: tuple[str, ...] = ()
    """External recipients."""
    costs: Mapping[str, float] = {}
    """Soft-constraint costs of the preview, by name."""


ParametersT = TypeVar("ParametersT", bound=Parameters)
ItemT = TypeVar("ItemT")


def no_impact(_workspace: Workspace, _asked: Parameters) -> Impact | None:
    """The impact of operations that never need the user's agreement."""
    return None


@dataclass(frozen=True, slots=True)
class Operation(Generic[ParametersT]):
    """An operation of one app."""

    target: str
    name: str
    parameters: type[ParametersT]
    run: Callable[[Workspace, ParametersT], Effect]
    impact: Callable[[Workspace, ParametersT], Impact | None] = no_impact
    """Why the user must agree; None = they need not. Raises OperationError for an action that would be refused."""
    seconds: float = 1.0
    """Simulated duration."""
    is_reading: bool = False
    """True if it changes nothing that a verifier reads."""

    @property
    def full_name(self) -> str:
        """``outlook.send``"""
        return f"{self.target}.{self.name}"


@dataclass(frozen=True, slots=True)
class App:
    """The operations of one target."""

    target: str
    operations: dict[str, Operation[Any]] = field(default_factory=dict)

    def operation(
        self,
        parameters: type[ParametersT],
        *,
        impact: Callable[[Workspace, ParametersT], Impact | None] = no_impact,
        seconds: float = 1.0,
        is_reading: bool = False,
    ) -> Callable[[Callable[[Workspace, ParametersT], Effect]], Callable[[Workspace, ParametersT], Effect]]:
        """Registers the decorated function as the operation called like its parameters' class: ``SetText`` is
        ``set_text``."""
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", parameters.__name__).lower()

        def declare(run: Callable[[Workspace, ParametersT], Effect]) -> Callable[[Workspace, ParametersT], Effect]:
            operation = Operation(self.target, name, parameters, run, impact, seconds, is_reading=is_reading)
            self.operations[name] = operation
            return run

        return declare


def parse_parameters(operation: Operation[ParametersT], action: Action) -> ParametersT:
    """The action's typed parameters; raises OperationError with the first problem."""
    try:
        return operation.parameters.model_validate(dict(action.parameters))
    except ValidationError as exc:
        raise _refusal(operation, exc) from None


def _refusal(operation: Operation[Any], exc: ValidationError) -> OperationError:
    first = exc.errors(include_url=False, include_context=True)[0]
    where = ".".join(str(part) for part in first["loc"] if isinstance(part, str)) or operation.full_name
    match first["type"]:
        case "extra_forbidden":
            known = ", ".join(operation.parameters.model_fields) or "none"
            return OperationError("unknown_parameter", f"unknown parameter {where!r}; known: {known}")
        case "missing":
            return OperationError("missing_parameter", f"parameter {where!r} is required")
        case "too_short" | "string_too_short":
            return OperationError("bad_value", f"{where}: it must not be empty")
        case "string_pattern_mismatch":
            field_info = operation.parameters.model_fields.get(where)
            meant = field_info.description if field_info is not None else None
            expected = f"it must be {meant}" if meant else first["msg"]
            return OperationError("bad_value", f"{where}: {expected}, got {_short(first['input'])}")
        case kind:
            code = "bad_type" if kind.endswith("_type") or kind == "is_instance_of" else "bad_value"
            return OperationError(code, f"{where}: {first['msg']}, got {_short(first['input'])}")


def _short(value: object) -> str:
    """The value as error messages show it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or deeply nested lists
        return "a number that cannot be written"
    return text if len(text) <= 60 else f"{text[:60]}…"


def tool_of(operation: Operation[Any]) -> Tool:
    """The operation's tool description."""
    schema = operation.parameters.model_json_schema()
    definitions = schema.get("$defs", {})
    return Tool(
        operation.target,
        operation.name,
        " ".join((operation.parameters.__doc__ or "").split()),
        {name: _plain_schema(part, definitions) for name, part in schema.get("properties", {}).items()},
        tuple(schema.get("required", ())),
    )


def _plain_schema(schema: Any, definitions: Mapping[str, Any]) -> JsonValue:
    """The schema without titles and with references resolved."""
    if isinstance(schema, list):
        return [_plain_schema(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        plain: JsonValue = schema
        return plain
    if "$ref" in schema:
        return _plain_schema(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions)
    return {
        key: _plain_schema(part, definitions)
        for key, part in schema.items()
        if key != "title" or not isinstance(part, str)
    }


def _split_list(value: object) -> object:
    """A tuple of texts for comma-separated text and lists; other values unchanged."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


def _number_to_text(value: object) -> object:
    """A number as text; other values unchanged."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Text = Annotated[str, BeforeValidator(_number_to_text), Field(min_length=1)]
Id = Annotated[str, BeforeValidator(_number_to_text), Field(min_length=1, max_length=80)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_split_list), Field(min_length=1)]
"""A list, or one comma-separated text."""
People = Annotated[
    Texts,
    Field(description="ids of people or groups, or addresses, separated by commas"),
    AfterValidator(lambda people: tuple(map(person_of, people))),
]
"""Addresses of the company become ids, so that calls about the same people are equal."""
Someone = Annotated[str, AfterValidator(person_of)]
"""One of ``People``; empty = anybody."""
Moment = Annotated[
    str,
    AfterValidator(lambda text: format_moment(parse_moment(moment_form(text)))),
    Field(description="such as 2026-03-02 09:30"),
]
PageNumber = Annotated[int, Field(ge=1, le=1_000, description="of the results, from 1")]


class ResultPage(NamedTuple, Generic[ItemT]):
    """One page of results."""

    items: Sequence[ItemT]
    note: str
    """The total and how to see more; empty if the page contains all results."""


def paginate(items: Sequence[ItemT], *, page: int, shown: int) -> ResultPage[ItemT]:
    """The page of this number, from 1, of ``shown`` items; raises OperationError if there is no such page."""
    first = (page - 1) * shown
    chosen = items[first : first + shown]
    if not chosen:
        raise OperationError("bad_value", f"there are {-(-len(items) // shown)} pages of results, got page {page}")
    if len(items) <= shown:
        return ResultPage(chosen, "")
    last = first + len(chosen)
    more = "" if last == len(items) else f"; page={page + 1} shows more"
    return ResultPage(chosen, f"{first + 1}-{last} of {len(items)}{more}")


def format_page(lines: list[str], *, page: int = 1, shown: int = 10, empty: str = "nothing") -> str:
    """The text of one page of results, with the total if there are more."""
    if not lines:
        return empty
    shown_page = paginate(lines, page=page, shown=shown)
    return "\n".join((*shown_page.items, shown_page.note) if shown_page.note else shown_page.items)
