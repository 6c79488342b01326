"""The episode that a call belongs to, and the earlier call that its conversation continues.

An episode is named by the client (in the URL, a header or the body), or recognised by its conversation: a call
whose messages begin with an earlier call's messages and its answer belongs to that call's episode. Any other call
is an episode of its own. Names of clients are scoped to tenant and API key: they relate calls, and open nothing.

Recognition needs the earlier calls in memory; ``find`` looks up older ones, e.g. after a restart.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from upturn.dialects import (
    Message,
    ModelRequest,
    Part,
    Reasoning,
    answered_digest,
    conversation_digests,
    tools_digest,
)
from upturn.models.upstreams import ForkCause

MAX_CONVERSATIONS = 20_000
"""Maximum number of answered conversations in memory (about 8 MB); the least recently used is dropped first."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who calls, as far as it separates conversations."""

    tenant: str
    key: str = ""
    """Id of the API key; empty = none."""

    def scope(self, name: str | None = None) -> str:
        """The scope of digests: equal conversations in a named episode and outside are different ones."""
        return f"{self.tenant}\0{self.key}" if name is None else f"{self.tenant}\0{self.key}\0{name}"

    def episode_id(self, name: str) -> str:
        """The id of the episode that the client calls ``name``."""
        return f"{self.key}/{name}" if self.key else name


class Known(NamedTuple):
    """An answered call, as the start of later ones."""

    call: str
    episode: str
    agent_version: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a call belongs."""

    episode: str
    is_named: bool
    """True = the client named the episode."""
    extends: Known | None
    """The call whose messages and answer this call's messages begin with."""
    shared: int
    """Number of messages that ``extends`` has with its answer."""
    fork_cause: str
    """Why a later call of an episode begins a new conversation, one of ``FORK_CURES``; empty = it is the first, or
    continues one."""
    tail: str
    """Digest of the call's messages."""
    stored_tail: str
    """Digest of the messages as they are stored."""
    head: str
    """Digest of the first message."""
    tools: str
    """Digest of the tools; empty = none."""
    has_same_tools: bool
    """Whether they are those of the call that it extends."""


class _Thread(NamedTuple):
    """The latest call of an episode."""

    head: str
    message_count: int
    tools: str
    agent: str
    """The client's name for the sub-agent; empty = the main one."""


class EpisodeTracker:
    """Places calls in episodes. Use it from one thread only."""

    def __init__(
        self,
        find: Callable[[str, Sequence[str]], tuple[str, Known] | None] = lambda _tenant, _digests: None,
        *,
        max_conversations: int = MAX_CONVERSATIONS,
    ) -> None:
        """``find(tenant, digests)``: the longest of these conversations, as they are stored, that a stored call has
        answered."""
        self._find = find
        self._max = max_conversations
        self._answered: OrderedDict[str, tuple[Known, str]] = OrderedDict()
        """By digest of the conversation with its answer: the call, and the digest of its tools."""
        self._threads: OrderedDict[str, _Thread] = OrderedDict()

    def place(
        self,
        request: ModelRequest,
        client: Client,
        call: str,
        *,
        name: str | None = None,
        agent: str = "",
        stored: ModelRequest | None = None,
    ) -> Placement:
        """Returns where the call with id ``call`` belongs; nothing is remembered yet.

        ``name``: the client's name for the episode; None = it names none. ``agent``: its name for a sub-agent.
        ``stored``: the request as it is stored; None = as it is.
        """
        digests = conversation_digests(request.messages, client.scope(name))
        stored_digests = digests
        if stored is not None and stored is not request:
            stored_digests = conversation_digests(stored.messages, client.scope(name))
        tools = tools_digest(request.tools)
        ends = [number for number, message in enumerate(request.messages) if message.role == "assistant"]
        extends, shared, known_tools = self._earlier(digests, stored_digests, ends, client.tenant)
        unnamed = call if extends is None else extends.episode
        episode = unnamed if name is None else client.episode_id(name)
        cause = (
            ""
            if extends is not None
            else self._cause(episode, _Thread(digests[0], len(request.messages), tools, agent))
        )
        return Placement(
            episode,
            is_named=name is not None,
            extends=extends,
            shared=shared,
            fork_cause=cause,
            head=digests[0],
            tail=digests[-1],
            stored_tail=stored_digests[-1],
            tools=tools,
            has_same_tools=extends is not None and known_tools == tools,
        )

    def remember(
        self,
        placement: Placement,
        known: Known,
        answer: Sequence[Part],
        *,
        message_count: int,
        agent: str = "",
        stored: Sequence[Part] | None = None,
    ) -> str:
        """Remembers an answered call; returns the digest of its conversation with the answer, as it is stored.

        ``stored``: the answer as it is stored; None = as it is."""
        digest = answered_digest(placement.tail, answer)
        self._answered[digest] = known, placement.tools
        self._answered.move_to_end(digest)
        self._threads[known.episode] = _Thread(placement.head, message_count, placement.tools, agent)
        self._threads.move_to_end(known.episode)
        for memory in (self._answered, self._threads):
            while len(memory) > self._max:
                memory.popitem(last=False)
        if stored is None and placement.stored_tail == placement.tail:
            return digest
        return answered_digest(placement.stored_tail, answer if stored is None else stored)

    def _earlier(
        self, digests: Sequence[str], stored: Sequence[str], ends: Sequence[int], tenant: str
    ) -> tuple[Known | None, int, str | None]:
        """Returns the call with the longest conversation that begins this one, its length, and its tools."""
        for number in reversed(ends):
            if digests[number] in self._answered:
                self._answered.move_to_end(digests[number])
                known, tools = self._answered[digests[number]]
                return known, number + 1, tools
        if not ends:
            return None, 0, None
        found = self._find(tenant, [stored[number] for number in ends])
        if found is None:
            return None, 0, None
        digest, known = found
        return known, stored.index(digest) + 1, None

    def _cause(self, episode: str, thread: _Thread) -> ForkCause | Literal[""]:
        """Returns why a call of a known episode continues none of its calls; empty = the episode is new."""
        earlier = self._threads.get(episode)
        if earlier is None:
            return ""
        if thread.agent != earlier.agent:
            return "new_conversation"
        if thread.head != earlier.head:
            return "new_conversation"
        if thread.tools != earlier.tools:
            return "tools"
        return "shortened_history" if thread.message_count < earlier.message_count else "edited_history"


def has_open_tool_loop(messages: Sequence[Message]) -> bool:
    """Returns True if the last message holds results of tool calls: the model waits for them in mid-thought."""
    return bool(messages) and messages[-1].role == "tool"


def has_signed_thought(messages: Sequence[Message]) -> bool:
    """Returns True if a message has a signed thought, which only the model that wrote it accepts."""
    return any(isinstance(part, Reasoning) and part.signature for message in messages for part in message.parts)
