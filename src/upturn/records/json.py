"""The type of JSON values inside records."""

from typing import TypeAlias

from typing_extensions import TypeAliasType

Scalar: TypeAlias = str | int | float | bool | None
# A named alias, because pydantic needs a name for a recursive type.
JsonValue = TypeAliasType("JsonValue", "Scalar | list[JsonValue] | dict[str, JsonValue]")
