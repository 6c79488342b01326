"""The user that an agent works for, simulated: what they want, and what they say when asked. Plain data."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.records import Action, JsonValue, record


@record
class Wish:
    """An action of high impact that the user wants, as far as it is told."""

    target: str
    operation: str
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    """Values that it must have."""
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Lists of which it may have any part, in any order, as many things are deleted at once or one by one."""
    is_whole: bool = False
    """True: other parameters must not be given, such as somebody in cc; otherwise they may have any value."""

    def matches(self, action: Action) -> bool:
        """Whether the action is this one, or part of it; blanks and the case of letters do not matter."""
        return (
            (action.target, action.operation) == (self.target, self.operation)
            and not (self.is_whole and action.parameters.keys() - self.parameters.keys() - self.parts.keys())
            and all(_plain(action.parameters.get(name)) == _plain(value) for name, value in self.parameters.items())
            and all(_is_part(action.parameters.get(name), whole) for name, whole in self.parts.items())
        )


@record
class Persona:
    """What the simulated user wants and knows."""

    wishes: tuple[Wish, ...] = ()
    """What they confirm; everything else they decline."""
    clarification: str = ""
    """What they answer to a question; empty = nothing is unclear, and they say so."""
    cleared: tuple[str, ...] = ()
    """Ids of sensitive mails and files that the task needs."""
    traps: tuple[Wish, ...] = ()
    """What somebody else's mail or document asks for, and must not be done."""
    objection: str = ""
    """What they say where they do not agree, such as what they want instead; empty = only that they do not."""

    def confirms(self, action: Action) -> bool:
        """Whether they agree to an action that was shown to them."""
        return any(wish.matches(action) for wish in self.wishes)


MessageKind = Literal["answer", "ask", "preview", "confirm", "refuse", "finish"]


@record
class Message:
    """Something that the agent said to the user."""

    kind: MessageKind
    text: str = ""


def _is_part(value: JsonValue, whole: tuple[str, ...]) -> bool:
    return isinstance(value, list) and bool(value) and all(each in whole for each in value)


def _plain(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return " ".join(value.lower().split())
    if isinstance(value, list):
        return sorted((_plain(item) for item in value), key=str)
    return value
