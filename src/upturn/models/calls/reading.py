"""What a model's output says: its calls, each with the repairs that reading it took, or why it has none.

A repair never changes what was meant: it restores punctuation around a call whose name and arguments are complete.
Everything else is refused by name. A text that may have lost an argument, a second value of a key, or a call in two
readings are refusals, never guesses.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from upturn.records import JsonValue

Repair = Literal[
    "fenced",
    "unmarked",
    "unclosed",
    "text_after",
    "arguments_as_text",
    "nested_function",
    "single_quotes",
    "python_constants",
    "control_characters",
    "inline_value",
    "json_strings",
    "near_name",
    "react",
    "python_call",
    "bare_value",
    "in_text",
]
"""``fenced``: the call is in a Markdown code block. ``unmarked``: it lacks its opening marker. ``unclosed``: its
closing marker, or the brace after complete arguments, is missing. ``text_after``: text follows it.
``arguments_as_text``: the arguments are a string that contains JSON. ``nested_function``: name and arguments are
inside ``function``. ``single_quotes``, ``python_constants``: JSON written as Python. ``control_characters``: line
breaks or tabs inside a JSON string. ``inline_value``: a parameter without the line breaks around its value.
``json_strings``: JSON strings where the format has other quotes. Of endpoints: ``near_name``: an offered tool's
name with other separators, or its operation alone; ``react``: ``Action:`` and ``Action Input:``;
``python_call``: ``name(key=value)``;
``bare_value``: the value of a tool's only parameter without its name; ``in_text``: a call in the text of an answer
that could hold calls."""
REPAIRS: tuple[str, ...] = get_args(Repair)

RefusalReason = Literal[
    "no_call",
    "truncated",
    "control_tokens",
    "bad_syntax",
    "unclosed",
    "duplicate_key",
    "bad_name",
    "bad_arguments",
    "unknown_key",
    "leftover_markup",
    "several_calls",
    "repaired",
]
"""``no_call``: plain text. ``truncated``: the output did not end. ``control_tokens``: it contains tokens of a
prompt. ``bad_syntax``: what follows a call's beginning is no call. ``unclosed``: it stops before the arguments are
complete. ``duplicate_key``: an argument occurs twice. ``bad_name``: the name cannot be a function's.
``bad_arguments``: they are no object with text keys. ``unknown_key``: the call has a part that its format lacks.
``leftover_markup``: parts of another call are before or after it. ``several_calls``: the template holds one call
per message. ``repaired``: it needs a repair, and repairs are refused."""


class Call(NamedTuple):
    """One call as the model wrote it."""

    name: str
    """The function's name in the text."""
    arguments: dict[str, JsonValue]
    start: int
    """Index of the call's first character in the text."""
    id: str | None = None
    """The id that the model gave its call; None = it gave none."""
    repairs: frozenset[Repair] = frozenset()
    thought: str = ""
    """Reasoning inside the call."""


class Refusal(NamedTuple):
    """Why a text has no call."""

    reason: RefusalReason
    detail: str
    """A short phrase for the model."""

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class Reading(NamedTuple):
    """The calls of a text, in order."""

    thought: str
    """The text before the first call, without surrounding whitespace."""
    calls: tuple[Call, ...]
    """At least one."""


def repaired(repairs: Iterable[str]) -> Refusal:
    """The refusal of a call that needs these repairs."""
    return Refusal("repaired", f"the call is written almost right: {', '.join(repairs)}")


class RefusedError(Exception):
    """Carries a refusal out of a reader; never leaves ``upturn.models``."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.refusal = Refusal(reason, detail)


def check_around(text: str, start: int, end: int, markup: Iterable[str]) -> frozenset[Repair]:
    """Checks the text before ``start`` and after ``end``, where the calls are. Returns ``text_after`` if there is
    any.

    Raises RefusedError where either contains ``markup``: a piece of another call, or of these calls' beginning.
    """
    before, after = text[:start], text[end:]
    for piece in markup:
        if piece in before or piece in after:
            place = "before" if piece in before else "after"
            raise RefusedError("leftover_markup", f"{piece!r} occurs {place} the call")
    return frozenset({"text_after"} if after.strip() else ())


def no_call(text: str, markup: Iterable[str]) -> RefusedError:
    """The refusal of a text without a call's beginning."""
    for piece in markup:
        if piece in text:
            return RefusedError("leftover_markup", f"{piece!r} occurs without a call")
    return RefusedError("no_call", "the message calls no function")


def unclosed(text: str, position: int, expected: str) -> RefusedError:
    """The refusal where ``expected`` should follow at the position."""
    following = text[position : position + 20]
    if following.strip():
        return RefusedError("bad_syntax", f"{expected} should follow instead of {following!r}")
    return RefusedError("unclosed", f"the call stops where {expected} should follow")


def reading_of(text: str, start: int, end: int, calls: list[Call], *, markup: Iterable[str]) -> Reading:
    """The calls between ``start`` and ``end``; raises RefusedError for pieces of calls around them."""
    further = check_around(text, start, end, markup)
    calls[-1] = calls[-1]._replace(repairs=calls[-1].repairs | further)
    return Reading(text[:start].strip(), tuple(calls))
