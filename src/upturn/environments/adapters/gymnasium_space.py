"""The spaces of texts and of calls, for Gymnasium."""

import string
from collections.abc import Mapping
from typing import Any

import gymnasium

from upturn.environments.action import recordable_action
from upturn.environments.validation import number_within
from upturn.models import write_call
from upturn.records import Action, JsonValue, Tool

ANSWER = Tool("user", "answer", "Answers.", {"text": {"type": "string"}}, ("text",))
"""What is sampled for kits that describe no tools."""
_WIDEST = 2**53
"""Whole numbers that are drawn from: more than Gymnasium's generator takes are not."""


ALIASES = {"target_app": "target", "reasoning": "thought"}
"""Other names that an action's parts may have."""


class TextSpace(gymnasium.Space[str]):
    """Every text."""

    def __init__(self) -> None:
        super().__init__(dtype=str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:  # noqa: ARG002  as all spaces have it
        """One to eight letters."""
        letters = self.np_random.integers(26, size=self.np_random.integers(1, 9))
        return "".join(string.ascii_lowercase[letter] for letter in letters)

    def contains(self, x: Any) -> bool:  # Any: whatever somebody calls ``step`` with
        """Whether it is a text."""
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class CallSpace(TextSpace):
    """Every text, and every structured call; samples are calls of the tools, with values of the right kind."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        super().__init__()
        self.tools = tools or (ANSWER,)

    def sample(self, mask: Any = None, probability: Any = None) -> str:  # noqa: ARG002
        """A line that calls one of the tools; optional parameters are given in half of the cases."""
        tool = self.tools[self.np_random.integers(len(self.tools))]
        return write_call(
            Action(
                tool.target,
                tool.operation,
                {
                    name: self._value(schema)
                    for name, schema in tool.properties.items()
                    if name in tool.required or self.np_random.integers(2)
                },
            )
        )

    def contains(self, x: Any) -> bool:
        """Whether it is a text, or a mapping that says an action."""
        return super().contains(x) or structured(x) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallSpace) and other.tools == self.tools

    def __hash__(self) -> int:
        return hash(tuple(tool.name for tool in self.tools))

    def _value(self, schema: JsonValue) -> JsonValue:
        read = schema if isinstance(schema, dict) else {}
        match read:
            case {"enum": [*values]}:
                value: JsonValue = values[self.np_random.integers(len(values))]
                return value
            case {"type": "integer"}:
                return round(number_within(read, self._drawn))
            case {"type": "number"}:
                return number_within(read, self._drawn)
            case {"type": "boolean"}:
                return bool(self.np_random.integers(2))
        return TextSpace.sample(self)

    def _drawn(self, first: int, last: int) -> int:
        return first + int(self.np_random.integers(min(last - first, _WIDEST), endpoint=True))


def structured(given: Any) -> Action | None:  # Any: as above
    """The action that a mapping says, ``{"target": …, "operation": …, "parameters": {…}, "thought": …}``, or with
    ``target_app`` and ``reasoning`` for its first and last part; None = it says none."""
    if not isinstance(given, Mapping):
        return None
    named = {ALIASES.get(str(key), str(key)): value for key, value in given.items()}
    try:
        return recordable_action(Action(**named)) if len(named) == len(given) else None
    except TypeError:  # other fields
        return None
