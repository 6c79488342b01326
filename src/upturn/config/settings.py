"""The base of all settings: frozen dataclasses that validate themselves.

A class with ``@settings`` is both a section of ``upturn.toml`` and an argument of the code, so that a setting has
one name, one default and one validation. Ranges are in the annotations; ``problems`` checks combinations of fields.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache, wraps
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import pydantic
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import ErrorDetails

from upturn.errors import ConfigError


def matches(pattern: str, allowed: str) -> AfterValidator:
    """Returns the validator of text that matches the whole pattern; ``allowed`` describes it in errors."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise ValueError(f"must be {allowed}")
        return text

    return AfterValidator(check)


Name = Annotated[
    str,
    pydantic.Field(max_length=64),
    matches(r"[a-z0-9][a-z0-9_.-]*", "lower-case letters, digits, '_', '.' and '-', with a letter or digit first"),
]
ImportPath = Annotated[str, matches(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*)?", "an import path, module:name")]
FilePath = Annotated[str, matches(r"[^\x00]*", "a path without a zero byte")]  # no operating system allows one
Url = Annotated[str, matches(r"(https?://.+)?", "an address that starts with http:// or https://")]
"""Empty = none."""
Count = Annotated[int, pydantic.Field(ge=1)]
WholeNumber = Annotated[int, pydantic.Field(ge=0)]
Share = Annotated[float, pydantic.Field(ge=0, le=1)]
Positive = Annotated[float, pydantic.Field(gt=0)]
NotNegative = Annotated[float, pydantic.Field(ge=0)]
Probability = Annotated[float, pydantic.Field(gt=0, lt=1)]
Rate = Annotated[float, pydantic.Field(ge=0, lt=1)]

Raw: TypeAlias = Mapping[str, Any]
"""Settings as parsed from TOML or JSON, before validation."""

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Keyed(Protocol):
    """Settings that may name an API key."""

    @property
    def api_key_env(self) -> str:
        """Name of an environment variable; empty = none."""

    @property
    def api_key_file(self) -> str:
        """Path of a file; empty = none."""


class Settings:
    """Base of all settings."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __post_init__(self) -> None:
        """Raises ConfigError with all problems at once."""
        refuse(*self.problems())

    def problems(self) -> Iterator[str | None]:
        """Yields contradictions between fields; None = no problem."""
        yield from ()

    def local_models(self) -> Iterator[tuple[str, str]]:
        """Yields (setting, model) for each setting that names a model to run on this machine."""
        yield from ()

    def keyed(self) -> Iterator[tuple[str, Keyed]]:
        """Yields (name, settings) for all settings inside that may name an API key."""
        yield from ()

    @classmethod
    def prepare(cls, raw: Raw, _whole: Raw, /) -> Raw:
        """Returns the section's values, completed by another choice such as a preset or the environment.

        It is called before validation, so values may have any type. ``_whole`` has all sections.
        """
        return raw


AnySettings = TypeVar("AnySettings", bound=Settings)
_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def settings(cls: type[_Class]) -> type[_Class]:
    """Makes the class a frozen dataclass that rejects unknown names, wrong types and NaN with a ConfigError."""
    built = pydantic_dataclass(cls, frozen=True, config=_STRICT)
    initialise = built.__init__

    @wraps(initialise)
    def checked_init(self: Any, *values: Any, **named: Any) -> None:
        try:
            initialise(self, *values, **named)
        except ValidationError as exc:
            names = [member.name for member in fields(self)]
            invalid, problems = set[str](), list[str]()
            for error in exc.errors(include_url=False):
                if error["loc"] and isinstance(error["loc"][0], int):  # a positional argument
                    error["loc"] = (names[error["loc"][0]], *error["loc"][1:])
                invalid |= {str(part) for part in error["loc"][:1]}
                problems += error_problems(error)
            if invalid:
                valid = {name: value for name, value in named.items() if name not in invalid}
                with suppress(TypeError):  # an invalid setting without a default
                    problems += _contradictions(initialise, self, values, valid)
            raise ConfigError(problems) from exc

    setattr(built, "__init__", checked_init)  # noqa: B010  type checkers reject an assignment
    return cast(type[_Class], built)


def _contradictions(
    initialise: Callable[..., None], self: object, values: Any, named: Mapping[str, Any]
) -> list[str]:
    """Returns the contradictions between the valid settings."""
    try:
        initialise(self, *values, **named)
    except ValidationError as exc:
        causes = [error.get("ctx", {}).get("error") for error in exc.errors(include_url=False) if not error["loc"]]
        return [problem for cause in causes if isinstance(cause, ConfigError) for problem in cause.problems]
    return []


def refuse(*problems: str | None) -> None:
    """Raises ConfigError with all problems that are not None, if there are any."""
    actual = [problem for problem in problems if problem is not None]
    if actual:
        raise ConfigError(actual)


def report_unused(is_unused: bool, setting: str, because: str) -> str | None:
    """Returns the problem of a setting without effect, or None; ``because`` names the other setting and the
    cure."""
    return f"{setting} would do nothing {because}" if is_unused else None


def validate_settings(kind: type[AnySettings], raw: Raw) -> AnySettings:
    """Returns the settings from values that ``add_defaults`` completed; raises ValidationError."""
    # Through JSON, where strict validation accepts a list for a tuple. TOML dates become text, which is rejected.
    return cast(AnySettings, _adapter(cast(Any, kind)).validate_json(json.dumps(raw, default=str)))


def parse_settings(kind: type[AnySettings], raw: Raw) -> AnySettings:
    """Returns the settings from raw values, with defaults; raises ConfigError with every problem."""
    try:
        return validate_settings(kind, add_defaults(kind, raw))
    except ValidationError as exc:
        refuse(*(problem for error in exc.errors(include_url=False) for problem in error_problems(error)))
        raise


def dump_settings(value: object) -> dict[str, Any]:
    """Returns every field as JSON data, including defaults; ``parse_settings`` reads it back."""
    return cast(dict[str, Any], _adapter(cast(Any, type(value))).dump_python(value, mode="json"))


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter[Any](kind)  # type: ignore[arg-type]  # any type is hashable


def add_defaults(
    kind: type[Settings],
    raw: Raw,
    shared: Mapping[type[Settings], Raw] | None = None,
    defaults: Raw | None = None,
) -> dict[str, Any]:
    """Returns the raw values completed by the defaults of nested settings, which belong to the field, not the
    class.

    ``false`` becomes None, and ``true`` the defaults of a nested section, for which TOML has no values. ``shared``
    maps a class to values that override a nested section's defaults. ``defaults`` are those of this section; None =
    those of its class.
    """
    shared, defaults, hints = shared or {}, defaults or {}, _hints(cast(Any, kind))
    completed = {**defaults, **raw}
    for member in fields(kind):
        name, value = member.name, raw.get(member.name, {})
        inner, is_optional = _nested(hints[name])
        if is_optional and value is False and bool not in get_args(hints[name]):
            completed[name] = None
        if inner is None or not (value is True or isinstance(value, Mapping)):
            continue
        default = default_value(member)
        base = defaults[name] if name in defaults else dump_settings(default) if is_dataclass(default) else None
        if name not in raw and (base is None or not (shared or name in defaults)):
            continue
        base = merge_settings(inner, base or {}, shared.get(inner, {}))
        completed[name] = add_defaults(inner, {} if value is True else value, shared, base)
    return completed


def merge_settings(kind: type[Settings], base: Raw, overrides: Raw) -> dict[str, Any]:
    """Returns ``base`` updated by ``overrides``; nested settings are merged too."""
    merged, nested = dict(base), nested_settings(kind)
    for name, value in overrides.items():
        earlier, inner = merged.get(name), nested.get(name)
        if inner is not None and isinstance(value, Mapping) and isinstance(earlier, Mapping):
            value = merge_settings(inner, earlier, value)  # noqa: PLW2901
        merged[name] = value
    return merged


def default_value(member: Field[Any]) -> Any:
    """Returns the field's default; ``MISSING`` = it has none."""
    return member.default_factory() if member.default_factory is not MISSING else member.default


def nested_settings(kind: type[Settings]) -> Mapping[str, type[Settings]]:
    """Returns the class of each field that holds settings, also of optional ones."""
    nested = {name: _nested(hint)[0] for name, hint in _hints(cast(Any, kind)).items()}
    return {name: inner for name, inner in nested.items() if inner is not None}


@cache
def _hints(kind: Hashable) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _nested(hint: Any) -> tuple[type[Settings] | None, bool]:
    """Returns the class of nested settings (None = no settings), and whether the field may be None."""
    kinds = [hint] if get_origin(hint) is not None and not get_args(hint) else [hint, *get_args(hint)]
    inner = next((part for part in kinds if isinstance(part, type) and issubclass(part, Settings)), None)
    return (None if get_origin(hint) is tuple else inner), NoneType in get_args(hint)


def error_problems(error: ErrorDetails, section: str = "") -> list[str]:
    """Returns a validation error as problems: the setting, the error and the value."""
    name = setting_name((section, *error["loc"]) if section else error["loc"])
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return [f"{name}: {problem}" if name else problem for problem in cause.problems]
    if error["type"] == "json_invalid":
        return [f"{name}: cannot be read: {error['msg']}"]
    message = error["msg"].removeprefix("Value error, ")
    return [f"{name}: {message[0].lower()}{message[1:]}, got {error['input']!r:.200}"]


def setting_name(parts: tuple[str | int, ...]) -> str:
    """Returns the full name of a setting from its parts, e.g. ``agents[0].name``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def changed_settings(value: AnySettings, prefix: str) -> Iterator[tuple[str, str]]:
    """Yields (name, ``prefix.name = value``) of every setting that is not at its default, also of nested ones."""
    defaults = {member.name: default_value(member) for member in fields(value)}
    yield from _differences(value, defaults, prefix)


def _differences(value: object, defaults: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, default in defaults.items():
        chosen = getattr(value, name)
        if chosen == default:
            continue
        if is_dataclass(chosen) and type(chosen) is type(default):
            inner = {member.name: getattr(default, member.name) for member in fields(chosen)}
            for inner_name, text in _differences(chosen, inner, f"{prefix}.{name}"):
                yield f"{name}.{inner_name}", text
        else:
            yield name, f"{prefix}.{name} = {'set' if is_dataclass(chosen) else repr(chosen)}"
