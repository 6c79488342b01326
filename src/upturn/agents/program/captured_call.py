"""Records of a program's model calls, as they are stored in the turns of its trajectory."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from upturn.dialects import Message, TokenUsage, ToolDefinition
from upturn.environments import MAX_ACTION_LENGTH
from upturn.records import Trajectory, Turn, fields_json, from_fields, record


@record
class CapturedCall:
    """One call of the program."""

    messages: tuple[Message, ...]
    """What it sent after the first ``repeated`` messages."""
    answer: Message | None
    """What it got, also before a failure; None = nothing."""
    usage: TokenUsage
    failure: str = ""
    """Empty = the answer is complete."""
    repeated: int = 0
    """How many messages at its beginning are those of the call before, and its answer."""
    is_cut: bool = False
    """True = the turn's calls are too long to record, so messages, tools and answer are left out."""
    tools: tuple[ToolDefinition, ...] | None = None
    """That it offered; None = those of the call before, at first none."""
    model: str = ""
    """That it asked for."""
    is_own: bool = False
    """True = the program's own model answered it, so its answer is a turn."""
    is_trained: bool = False
    """True = the rollout's own model answered it, and its tokens are in the trajectory's rows."""


@record
class CapturedCalls:
    """The calls of one turn, in the order in which they ended."""

    calls: tuple[CapturedCall, ...]


_NOTHING = CapturedCall((), None, TokenUsage())


def stored_calls(calls: Sequence[CapturedCall], before: CapturedCall = _NOTHING) -> str:
    """``Turn.message`` of a turn with these calls, which have all their messages; empty = it has none.

    ``before``: the call before them, in full. Contents are left out where they would be too long.
    """
    stored = list[CapturedCall]()
    for call in calls:
        known = (*before.messages, *((before.answer,) if before.answer is not None else ()))
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(known, call.messages, strict=False)))
        tools = None if (call.tools or ()) == (before.tools or ()) else call.tools
        stored.append(replace(call, messages=call.messages[same:], repeated=same, tools=tools))
        before = call
    text = fields_json(CapturedCalls(tuple(stored))) if stored else ""
    if len(text) <= MAX_ACTION_LENGTH:
        return text
    cut = (replace(call, messages=(), answer=None, tools=None, is_cut=True) for call in calls)
    return fields_json(CapturedCalls(tuple(cut)))


def joined_calls(first: str, second: str) -> str:
    """The ``Turn.message`` with the calls of both, one of which may be empty."""
    calls = [call for text in (first, second) if text for call in from_fields(CapturedCalls, text).calls]
    return fields_json(CapturedCalls(tuple(calls))) if calls else ""


def captured_calls(trajectory: Trajectory) -> list[list[CapturedCall]]:
    """The calls of each turn with all their messages and tools.

    A call that repeats what was left out is cut as well.
    """
    before, turns = _NOTHING, list[list[CapturedCall]]()
    for turn in trajectory.turns:
        turns.append([])
        for call in _stored(turn):
            known = (*before.messages, *((before.answer,) if before.answer is not None else ()))
            is_cut = call.is_cut or call.repeated > len(known)
            messages = () if is_cut else (*known[: call.repeated], *call.messages)
            tools = (before.tools or ()) if call.tools is None else call.tools
            before = replace(call, messages=messages, repeated=0, tools=tools, is_cut=is_cut)
            turns[-1].append(before)
    return turns


def _stored(turn: Turn) -> tuple[CapturedCall, ...]:
    return from_fields(CapturedCalls, turn.message).calls if turn.message else ()
