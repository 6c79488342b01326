"""Tools."""

from collections.abc import Mapping
from dataclasses import field

from upturn.records.json import JsonValue
from upturn.records.record import record


@record
class Tool:
    """One operation of an environment as it is described to a model, with JSON Schema."""

    target: str
    """``Action.target``; empty = the operation is the whole name, such as ``get_weather``."""
    operation: str
    """``Action.operation``"""
    description: str
    """One sentence."""
    properties: Mapping[str, JsonValue] = field(default_factory=dict)
    """The JSON Schema of each parameter, by name."""
    required: tuple[str, ...] = ()
    """Names of the required parameters."""
    text_parameter: str = ""
    """A message without a call is a call of this operation, with the message's text as this parameter. Empty = it
    is an error."""

    @property
    def name(self) -> str:
        """``target.operation``, the name that a model calls; the operation alone without a target."""
        return f"{self.target}.{self.operation}" if self.target else self.operation
