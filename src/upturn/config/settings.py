"""What a group of settings is: a frozen dataclass that checks itself, however it is made.

A class with ``@settings`` is a section of ``upturn.toml`` and what the code below takes, so that a setting has one
name, one default and one validation. Ranges stand in the annotations, what spans several fields in ``problems``.
"""

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache, wraps
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import pydantic
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import ErrorDetails

from upturn.errors import ConfigError

Name = Annotated[str, pydantic.Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=64)]
ImportPath = Annotated[str, pydantic.Field(pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$")]
FilePath = Annotated[
    str, pydantic.Field(pattern=r"^[^\x00]*$")
]  # no system has files with a zero byte in their name
Count = Annotated[int, pydantic.Field(ge=1)]
WholeNumber = Annotated[int, pydantic.Field(ge=0)]
Share = Annotated[float, pydantic.Field(ge=0, le=1)]
Positive = Annotated[float, pydantic.Field(gt=0)]
NotNegative = Annotated[float, pydantic.Field(ge=0)]
Probability = Annotated[float, pydantic.Field(gt=0, lt=1)]
Rate = Annotated[float, pydantic.Field(ge=0, lt=1)]

Raw: TypeAlias = Mapping[str, Any]
"""Settings as TOML or JSON gives them, not checked yet."""

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Settings:
    """Base of all settings."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __post_init__(self) -> None:
        """Raises ConfigError with all problems at once."""
        refuse(*self.problems())

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together; None = nothing."""
        yield from ()

    def local_models(self) -> Iterator[tuple[str, str]]:
        """The settings that name models which run on this machine, and those models."""
        yield from ()

    @classmethod
    def prepare(cls, raw: Raw, _whole: Raw, /) -> Raw:
        """The section's values with what another choice (a preset, the environment) sets under them.

        Called before validation, with values that may be of any type. ``_whole``: all sections.
        """
        return raw


AnySettings = TypeVar("AnySettings", bound=Settings)
_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def settings(cls: type[_Class]) -> type[_Class]:
    """Makes the class a frozen dataclass that refuses unknown names, wrong types and NaN with a ConfigError."""
    made = pydantic_dataclass(cls, frozen=True, config=_STRICT)
    initialise = made.__init__

    @wraps(initialise)
    def checked(self: Any, *values: Any, **named: Any) -> None:
        try:
            initialise(self, *values, **named)
        except ValidationError as exc:
            errors = exc.errors(include_url=False)
            names = [each.name for each in fields(self)]
            bad, problems = set[str](), list[str]()
            for error in errors:
                if error["loc"] and isinstance(error["loc"][0], int):  # a positional argument
                    error["loc"] = (names[error["loc"][0]], *error["loc"][1:])
                bad |= {str(part) for part in error["loc"][:1]}
                problems += described_error(error)
            if bad:
                rest = {name: named[name] for name in named if name not in bad}
                with suppress(TypeError):  # where one of them has no default
                    problems += _further(initialise, self, values, rest)
            raise ConfigError(problems) from exc

    setattr(made, "__init__", checked)  # noqa: B010  a type checker takes no assignment to it
    return cast(type[_Class], made)


def _further(initialise: Callable[..., None], self: object, values: Any, named: Mapping[str, Any]) -> list[str]:
    """What several settings do together, of those that are there without the bad ones."""
    try:
        initialise(self, *values, **named)
    except ValidationError as exc:
        causes = [error.get("ctx", {}).get("error") for error in exc.errors(include_url=False) if not error["loc"]]
        return [problem for cause in causes if isinstance(cause, ConfigError) for problem in cause.problems]
    return []


def refuse(*problems: str | None) -> None:
    """Raises ConfigError with all problems, if there are any."""
    real = [problem for problem in problems if problem is not None]
    if real:
        raise ConfigError(real)


def report_unused(is_unused: bool, setting: str, because: str) -> str | None:
    """Returns the problem of a setting without effect, or None; ``because`` names the other setting and the
    cure."""
    return f"{setting} would do nothing {because}" if is_unused else None


def validated(kind: type[AnySettings], raw: Raw) -> AnySettings:
    """The settings that the raw values, completed by ``with_defaults``, say. Raises ValidationError."""
    # Through JSON: strict there still reads a list as a tuple. Dates, which TOML has, become text and are refused.
    return cast(AnySettings, adapter(kind).validate_json(json.dumps(raw, default=str)))


def made_from(kind: type[AnySettings], raw: Raw) -> AnySettings:
    """The settings that raw values say, defaults filled in; raises ConfigError with every problem."""
    try:
        return validated(kind, with_defaults(kind, raw))
    except ValidationError as exc:
        refuse(*(problem for error in exc.errors(include_url=False) for problem in described_error(error)))
        raise


def dumped(value: object) -> dict[str, Any]:
    """Every field as JSON has it, defaults included; ``made_from`` reads it back."""
    return cast(dict[str, Any], adapter(type(value)).dump_python(value, mode="json"))


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Validates and writes values of a type."""
    return _adapter(kind)


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter[Any](kind)  # type: ignore[arg-type]  # any type is one


def with_defaults(
    kind: type[Settings], said: Raw, shared: Mapping[type[Settings], Raw] | None = None, under: Raw | None = None
) -> dict[str, Any]:
    """What is said, with the defaults of nested settings under it, which belong to the field, not the class.

    ``false`` stands for None and ``true`` for a nested section's defaults, which TOML has no words for. ``shared``:
    by class, values that go between a nested section's defaults and what is said of it. ``under``: the section's
    own defaults; None = those of its class.
    """
    shared, under, hints = shared or {}, under or {}, _hints(cast(Any, kind))
    completed = {**under, **said}
    for each in fields(kind):
        name, value = each.name, said.get(each.name, {})
        inner, is_optional = _nested(hints[name])
        if is_optional and value is False and bool not in get_args(hints[name]):
            completed[name] = None
        if inner is None or not (value is True or isinstance(value, Mapping)):
            continue
        default = default_of(each)
        below = under[name] if name in under else dumped(default) if is_dataclass(default) else None
        if name not in said and (below is None or not (shared or name in under)):
            continue
        below = overlaid(inner, below or {}, shared.get(inner, {}))
        completed[name] = with_defaults(inner, {} if value is True else value, shared, below)
    return completed


def overlaid(kind: type[Settings], under: Raw, over: Raw) -> dict[str, Any]:
    """Both, where nested settings are merged and any other value of ``over`` goes first."""
    merged, nested = dict(under), nested_settings(kind)
    for name, value in over.items():
        below, inner = merged.get(name), nested.get(name)
        if inner is not None and isinstance(value, Mapping) and isinstance(below, Mapping):
            value = overlaid(inner, below, value)  # noqa: PLW2901
        merged[name] = value
    return merged


def default_of(each: Field[Any]) -> Any:
    """The field's default; ``MISSING`` = it must be set."""
    return each.default_factory() if each.default_factory is not MISSING else each.default


def nested_settings(kind: type[Settings]) -> Mapping[str, type[Settings]]:
    """The settings that fields hold, optional ones too, by field."""
    nested = {name: _nested(hint)[0] for name, hint in _hints(cast(Any, kind)).items()}
    return {name: inner for name, inner in nested.items() if inner is not None}


@cache
def _hints(kind: Hashable) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _nested(hint: Any) -> tuple[type[Settings] | None, bool]:
    """The class of nested settings (None: there are none), and whether None is allowed."""
    kinds = [hint] if get_origin(hint) is not None and not get_args(hint) else [hint, *get_args(hint)]
    inner = next((each for each in kinds if isinstance(each, type) and issubclass(each, Settings)), None)
    return (None if get_origin(hint) is tuple else inner), NoneType in get_args(hint)


def described_error(error: ErrorDetails, prefix: str = "") -> list[str]:
    """A validation error as problems: where, what, and what was given. ``prefix``: the section's name."""
    where = place_name((prefix, *error["loc"]) if prefix else error["loc"])
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return [f"{where}: {problem}" if where else problem for problem in cause.problems]
    if error["type"] == "json_invalid":
        return [f"{where}: cannot be read: {error['msg']}"]
    message = error["msg"].removeprefix("Value error, ")
    return [f"{where}: {message[0].lower()}{message[1:]}, got {error['input']!r:.200}"]


def place_name(place: tuple[str | int, ...]) -> str:
    """``agents[0].name`` for its parts."""
    name = ""
    for part in place:
        name += f"[{part}]" if isinstance(part, int) else f".{part}"
    return name.removeprefix(".")


def changed(value: AnySettings, prefix: str) -> Iterator[tuple[str, str]]:
    """Name and ``full.name = value`` of every setting that differs from its default, in nested settings too."""
    defaults = {each.name: default_of(each) for each in fields(value)}
    yield from _differences(value, defaults, prefix)


def _differences(value: object, defaults: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, default in defaults.items():
        chosen = getattr(value, name)
        if chosen == default:
            continue
        if is_dataclass(chosen) and type(chosen) is type(default):
            inner = {each.name: getattr(default, each.name) for each in fields(chosen)}
            yield from (
                (f"{name}.{below}", shown) for below, shown in _differences(chosen, inner, f"{prefix}.{name}")
            )
        else:
            shown = "set" if is_dataclass(chosen) else repr(chosen)
            yield name, f"{prefix}.{name} = {shown}"
