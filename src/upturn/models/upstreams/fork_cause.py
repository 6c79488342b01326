"""Why a call does not go on with the tokens of an earlier one, and what its program can do about it.

Order of checks: the same conversation with other tools; the same conversation answered once more; a message that
was changed, or is missing; another system prompt; another conversation.
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Literal, NamedTuple, Protocol

from upturn.dialects import (
    Message,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    conversation_digests,
    message_digest,
    tools_digest,
)

ForkCause = Literal[
    "system_prompt",
    "tools",
    "edited_history",
    "shortened_history",
    "new_conversation",
    "template",
    "answered_again",
]
FORK_CURES: Mapping[ForkCause, str] = {
    "system_prompt": (
        "the system prompt differs from that of the calls before: put what changes in it, such as the time, into "
        "the latest message of the user"
    ),
    "tools": "the tools differ from those of the calls before: offer the same tools in all calls of a conversation",
    "edited_history": (
        "an earlier message was changed: send messages again as they were sent and answered, and only append"
    ),
    "shortened_history": (
        "earlier messages were left out, as by compaction or a sliding window: keep them, or leave out many at "
        "once and seldom"
    ),
    "new_conversation": (
        "another conversation of the same attempt, such as a sub-agent, a side call or a summary: nothing to do, "
        "its row is trained, too"
    ),
    "template": (
        "the model's chat template writes earlier turns differently once later ones follow, for example without "
        "their thoughts: take a template that only appends, or let the model answer without thoughts"
    ),
    "answered_again": (
        "the same conversation was answered once more, as for a retry, several samples or parallel calls: nothing "
        "to do, unless all but one of the answers are thrown away"
    ),
}
"""By cause: what happened, and what to do about it."""
_SHOWN = 60
"""Characters of each text in a detail."""
_BEFORE = 20
"""Of these, before the difference."""


class Fork(NamedTuple):
    """A call that begins a new row."""

    cause: ForkCause
    detail: str = ""
    """The difference; empty = there is nothing to show."""


class Answered(Protocol):
    """An answered conversation."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Its messages, the answer last."""

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """Offered in it."""

    @property
    def tools_digest(self) -> str:
        """``tools_digest`` of the tools."""

    @property
    def digests(self) -> Sequence[str]:
        """``conversation_digests`` of the messages."""

    @property
    def first_digest(self) -> str:
        """``message_digest`` of the first message after the system prompt."""

    @property
    def answer_digest(self) -> str:
        """``message_digest`` of the answer."""


def fork_of(
    earlier: Sequence[Answered], messages: Sequence[Message], tools: Sequence[ToolDefinition]
) -> Fork | None:
    """Why messages that continue none of the earlier conversations do not; None = there is no earlier one.

    ``earlier``: in the order of their answers.
    """
    if not earlier:
        return None
    digests, offered = conversation_digests(messages, ""), tools_digest(tools)
    ranks = [
        (_shared(known.digests, digests), known.tools_digest == offered, len(known.digests), number)
        for number, known in enumerate(earlier)
    ]
    nearest = earlier[max(ranks)[-1]]
    shared = _shared(nearest.digests, digests)
    if shared > _opening(messages):
        return _later_fork(nearest, messages, tools, shared)
    start = first_message(messages)
    begun = [known for known in earlier if known.first_digest == message_digest(start)]
    if begun:
        return Fork("system_prompt", difference(_system(begun[-1].messages), _system(messages)))
    answers = {known.answer_digest for known in earlier if _said(known.messages[-1]).strip()}
    if any(message.role == "assistant" and message_digest(message) in answers for message in messages):
        before = nearest.messages[min(shared, len(nearest.messages) - 1)]
        return Fork("edited_history", difference(_said(before), _said(messages[shared])))
    return Fork("new_conversation", f"it begins with {_said(start)[:_SHOWN]!r}")


def first_message(messages: Sequence[Message]) -> Message:
    """The first message after the system prompt; the last one where all are system prompts."""
    return messages[min(_opening(messages), len(messages) - 1)]


def difference(before: str, now: str) -> str:
    """The texts around the first difference, as a part of a sentence; empty = there is none."""
    if before == now:
        return ""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))
    start = max(0, same - _BEFORE)
    old, new = (text[start : start + _SHOWN] for text in (before, now))
    return f"{old!r} before, {new!r} now, at character {same:,}"


def _later_fork(
    nearest: Answered, messages: Sequence[Message], tools: Sequence[ToolDefinition], shared: int
) -> Fork:
    """The cause where system prompt and first message are the same."""
    if nearest.tools_digest != tools_digest(tools):
        return Fork("tools", _tools_difference(nearest.tools, tools))
    if shared == len(messages):
        return Fork("answered_again")
    before, now = nearest.messages[min(shared, len(nearest.messages) - 1)], messages[shared]
    kept = {message_digest(message) for message in nearest.messages[shared + 1 :]}
    if before.role != now.role or len(messages) < len(nearest.messages) or message_digest(now) in kept:
        return Fork("shortened_history", f"without {before.role}: {_said(before)[:_SHOWN]!r}")
    return Fork("edited_history", difference(_said(before), _said(now)))


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """Number of messages that two conversations begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _opening(messages: Sequence[Message]) -> int:
    """Index of the first message that is not a system prompt; the number of messages where all are."""
    return sum(1 for _ in takewhile(lambda message: message.role == "system", messages))


def _system(messages: Sequence[Message]) -> str:
    return "\n\n".join(map(_said, messages[: _opening(messages)]))


def _said(message: Message) -> str:
    """What a message says, calls and results included."""
    lines: list[str] = []
    for part in message.parts:
        match part:
            case Text():
                lines.append(part.text)
            case ToolCall():
                lines.append(f"{part.name}({part.arguments})")
            case ToolResult():
                lines += [member.text for member in part.parts if isinstance(member, Text)]
            case _:
                pass
    return "\n".join(lines)


def _tools_difference(before: Sequence[ToolDefinition], now: Sequence[ToolDefinition]) -> str:
    old, new = ({tool.name: tools_digest((tool,)) for tool in tools} for tools in (before, now))
    changes = {
        "more": sorted(new.keys() - old.keys()),
        "fewer": sorted(old.keys() - new.keys()),
        "changed": sorted(name for name in old.keys() & new.keys() if old[name] != new[name]),
    }
    return "; ".join(f"{what}: {', '.join(names)}"[:_SHOWN] for what, names in changes.items() if names)
