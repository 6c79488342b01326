"""The JSON shapes that records may carry inside them."""

from typing import TypeAlias

from typing_extensions import TypeAliasType

Scalar: TypeAlias = str | int | float | bool | None
# Recursive, and named so that pydantic can refer to it.
JsonValue = TypeAliasType("JsonValue", "Scalar | list[JsonValue] | dict[str, JsonValue]")
