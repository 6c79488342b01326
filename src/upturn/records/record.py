"""The ``record`` decorator: frozen slotted dataclasses that pydantic validates strictly when they are read."""

from dataclasses import dataclass, field
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict

ClassT = TypeVar("ClassT")

_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, ser_json_inf_nan="constants")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[ClassT]) -> type[ClassT]:
    """Turns the class into a frozen slotted dataclass; reading one rejects unknown fields, wrong types and NaN."""
    built = cast(Any, dataclass(frozen=True, slots=True)(cls))
    built.__pydantic_config__ = _CONFIG
    return cast(type[ClassT], built)
