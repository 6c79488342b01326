"""The answered conversations that a script remembers, and the one among them that a request goes on with.

Clients send the whole conversation with each call, and serialise it anew; so conversations are compared by what was
said (``dialects.prefix``). A request goes on with the longest remembered conversation, answer included, that its
messages begin with, if it offers the same tools. From there on the messages are those that were first sent and
answered, whatever the client made of them.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from upturn.dialects import (
    Message,
    ModelRequest,
    Part,
    ToolCall,
    ToolDefinition,
    ToolResult,
    answered_digest,
    conversation_digests,
    join_messages,
    message_digest,
    tools_digest,
)
from upturn.models.template_profile import call_id
from upturn.models.upstreams.fork_cause import Fork, first_message, fork_of

_ANSWERS = 128
"""Answers that are remembered."""
_ASKED = 32
"""Conversations without an answer that are remembered."""
_FORKS = 64
"""Forks that are kept for a report."""


@dataclass(slots=True, kw_only=True)
class Asked:
    """A conversation that waits for its answer."""

    messages: tuple[Message, ...]
    """As they were first sent; answers as the model gave them. Calls have the ids that the model reads."""
    tools: tuple[ToolDefinition, ...]
    """In the order in which the conversation first offered them."""
    tools_digest: str
    digests: tuple[str, ...]
    """``conversation_digests`` of the messages."""
    first_digest: str
    """``message_digest`` of the first message after the system prompt."""
    answer_digest: str = ""
    """``message_digest`` of the answer; empty = there is none."""


@dataclass(slots=True, kw_only=True)
class Answered(Asked):
    """A conversation with its answer as the last message."""

    base: "Answered | None"
    """The one that it goes on with; None = none."""
    added: tuple[int, ...]
    """Its tokens after those of ``base``."""
    count: int
    """Number of all its tokens."""
    text: str
    """The rendered prompt; empty = it was not rendered as text."""
    is_asked_again: bool = False
    """Whether another one goes on with it, answered or not."""
    is_continued: bool = False
    """Whether another answered one goes on with it."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All tokens of prompt and answer."""
        parts, base = [self.added], self.base
        while base is not None:
            parts.append(base.added)
            base = base.base
        return tuple(chain.from_iterable(reversed(parts)))


class Start(NamedTuple):
    """A request as it goes on."""

    asked: Asked
    """The messages of ``known``, then the request's further ones."""
    known: Answered | None = None
    """What it goes on with; None = nothing."""
    fork: Fork | None = None
    """Why not; None = it goes on with ``known``, or is the first. Of calls at the same time, only one goes on."""


class Memory:
    """The latest answered conversations of one client, or of one attempt."""

    def __init__(self) -> None:
        self._answered: OrderedDict[tuple[str, str], Answered] = OrderedDict()
        """By digest of the tools, and of the conversation."""
        self._asked: deque[Asked] = deque(maxlen=_ASKED)
        """Those that wait, and those that failed."""
        self.forks: deque[Fork] = deque(maxlen=_FORKS)
        """Why answered calls did not go on with an earlier one; the latest."""

    def start(self, request: ModelRequest) -> Start:
        """Returns how the request goes on."""
        messages = tuple(join_messages(request.messages))
        digests, tools = conversation_digests(messages, ""), tools_digest(request.tools)
        known, shared = self._longest(messages, digests, tools)
        asked = Asked(
            messages=_linked(messages, () if known is None else known.messages),
            tools=request.tools if known is None else known.tools,
            tools_digest=tools,
            digests=tuple(digests) if known is None else (*known.digests, *digests[shared:]),
            first_digest=message_digest(first_message(messages)) if known is None else known.first_digest,
        )
        fork: Fork | None = None
        if known is None or (known.is_asked_again and _has_answer(messages[shared:])):
            fork = fork_of((*self._answered.values(), *self._asked), messages, request.tools)
        elif known.is_asked_again:
            fork = Fork("answered_again")
        if known is not None:
            known.is_asked_again = True
        self._asked.append(asked)
        return Start(asked, known, fork)

    def add(self, start: Start, answer: Sequence[Part], token_ids: tuple[int, ...], *, text: str = "") -> None:
        """Remembers an answer. ``token_ids``: of prompt and answer; they begin with those of ``start.known``."""
        base, asked, message = start.known, start.asked, Message("assistant", tuple(answer))
        answered = Answered(
            messages=(*asked.messages, message),
            tools=asked.tools,
            tools_digest=asked.tools_digest,
            digests=(*asked.digests, answered_digest(asked.digests[-1], answer)),
            first_digest=asked.first_digest,
            answer_digest=message_digest(message),
            base=base,
            added=token_ids if base is None else token_ids[base.count :],
            count=len(token_ids),
            text=text,
        )
        self._asked = deque((other for other in self._asked if other is not asked), maxlen=_ASKED)
        goes_on = base is not None and not base.is_continued
        if start.fork is not None and self._answered and not goes_on:
            self.forks.append(start.fork)
        if base is not None:
            base.is_continued = True
        key = answered.tools_digest, answered.digests[-1]
        self._answered[key] = answered
        self._answered.move_to_end(key)
        if len(self._answered) > _ANSWERS:
            self._answered.popitem(last=False)

    def _longest(
        self, messages: Sequence[Message], digests: Sequence[str], tools: str
    ) -> tuple[Answered | None, int]:
        """Returns the longest conversation that the messages begin with, and its length."""
        for number in range(len(messages), 0, -1):
            key = tools, digests[number - 1]
            if messages[number - 1].role == "assistant" and key in self._answered:
                self._answered.move_to_end(key)
                return self._answered[key], number
        return None, 0


def _has_answer(messages: Sequence[Message]) -> bool:
    return any(message.role == "assistant" for message in messages)


def _linked(messages: Sequence[Message], known: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, those of ``known`` in place of the first ones, with the ids of calls by position."""
    linked = list(known)
    ids: list[tuple[str, str]] = []
    """The client's id of each call of the latest answer, and the one in its place."""
    if known:
        ids = [
            (theirs.id, ours.id)
            for theirs, ours in zip(_calls(messages[len(known) - 1]), _calls(known[-1]), strict=True)
        ]
    for message in messages[len(known) :]:
        if message.role == "assistant":
            ids = [(call.id, call_id(index)) for index, call in enumerate(_calls(message))]
            names = iter(ids)
            parts = tuple(
                replace(part, id=next(names)[1]) if isinstance(part, ToolCall) else part for part in message.parts
            )
            linked.append(replace(message, parts=parts))
        elif message.role == "tool":
            linked.append(replace(message, parts=tuple(_relinked(message, ids))))
        else:
            linked.append(message)
    return tuple(linked)


def _relinked(message: Message, ids: Sequence[tuple[str, str]]) -> Iterator[Part]:
    """The results with the ids of the calls that they name, or else of the next calls without a result."""
    free = list(ids)
    for part in message.parts:
        if isinstance(part, ToolResult) and free:
            index = next((index for index, (theirs, _) in enumerate(free) if theirs == part.call_id), 0)
            yield replace(part, call_id=free.pop(index)[1])
        else:
            yield part


def _calls(message: Message) -> list[ToolCall]:
    return [part for part in message.parts if isinstance(part, ToolCall)]
