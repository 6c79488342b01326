"""A tool: one operation of an environment as it is described to a model."""

from collections.abc import Mapping
from dataclasses import field

from upturn.records.json import JsonValue
from upturn.records.record import record


@record
class Tool:
    """One operation that an agent can call, described with JSON Schema."""

    target: str
    """``Action.target``"""
    operation: str
    """``Action.operation``"""
    description: str
    """One sentence."""
    properties: Mapping[str, JsonValue] = field(default_factory=dict)
    """The JSON Schema of each parameter, by name."""
    required: tuple[str, ...] = ()
    """Names of the parameters that must be given."""

    @property
    def name(self) -> str:
        """``target.operation``: what a model calls."""
        return f"{self.target}.{self.operation}"
