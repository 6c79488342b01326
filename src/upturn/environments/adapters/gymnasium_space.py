"""Gymnasium spaces of texts and of calls."""

import string
from collections.abc import Mapping
from typing import Any

import gymnasium

from upturn.environments.action import recordable_action
from upturn.environments.validation import number_within
from upturn.models import write_call
from upturn.records import Action, JsonValue, Tool

ANSWER = Tool("user", "answer", "Answers.", {"text": {"type": "string"}}, ("text",))
"""Sampled for kits that describe no tools."""
_MAX_RANGE = 2**53
"""Largest range of sampled integers that Gymnasium's generator supports."""
ALIASES = {"target_app": "target", "reasoning": "thought"}
"""Alternative names of an action's parts."""


class TextSpace(gymnasium.Space[str]):
    """Every text."""

    def __init__(self) -> None:
        super().__init__(dtype=str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:  # noqa: ARG002  signature of Space
        """One to eight letters."""
        letters = self.np_random.integers(26, size=self.np_random.integers(1, 9))
        return "".join(string.ascii_lowercase[letter] for letter in letters)

    def contains(self, x: Any) -> bool:  # Any: any argument of ``step``
        """Whether the value is a text."""
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class CallSpace(TextSpace):
    """Every text, and every action as a mapping; samples are calls of the tools, with values of the right kind."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        super().__init__()
        self.tools = tools or (ANSWER,)

    def sample(self, mask: Any = None, probability: Any = None) -> str:  # noqa: ARG002
        """A line that calls one of the tools; each optional parameter is included with probability 1/2."""
        tool = self.tools[self.np_random.integers(len(self.tools))]
        parameters = {
            name: self._value(schema)
            for name, schema in tool.properties.items()
            if name in tool.required or self.np_random.integers(2)
        }
        return write_call(Action(tool.target, tool.operation, parameters))

    def contains(self, x: Any) -> bool:
        """Whether the value is a text, or a mapping that is an action."""
        return super().contains(x) or action_from_mapping(x) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallSpace) and other.tools == self.tools

    def __hash__(self) -> int:
        return hash(tuple(tool.name for tool in self.tools))

    def _value(self, schema: JsonValue) -> JsonValue:
        fields = schema if isinstance(schema, dict) else {}
        match fields:
            case {"enum": [*values]}:
                value: JsonValue = values[self.np_random.integers(len(values))]
                return value
            case {"type": "integer"}:
                return round(number_within(fields, self._draw))
            case {"type": "number"}:
                return number_within(fields, self._draw)
            case {"type": "boolean"}:
                return bool(self.np_random.integers(2))
        return TextSpace.sample(self)

    def _draw(self, first: int, last: int) -> int:
        return first + int(self.np_random.integers(min(last - first, _MAX_RANGE), endpoint=True))


def action_from_mapping(value: Any) -> Action | None:  # Any: as above
    """The action in a mapping, ``{"target": …, "operation": …, "parameters": {…}, "thought": …}``; None for
    others. ``target_app`` and ``reasoning`` are aliases of the first and the last key."""
    if not isinstance(value, Mapping):
        return None
    parts = {ALIASES.get(str(key), str(key)): part for key, part in value.items()}
    try:
        return recordable_action(Action(**parts)) if len(parts) == len(value) else None
    except TypeError:  # other fields
        return None
