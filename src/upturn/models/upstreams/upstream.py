"""The contract of an upstream: something that answers one model call.

Order of events: ``open`` sends the call and waits for the first part of the answer, so that a failure before it can
go to another upstream; ``chunks`` returns the answer in the client's dialect; before the chunk that ends it,
``outcome`` is complete, so that the caller can store it first.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple, Protocol

from upturn.config import UpstreamConfig
from upturn.dialects import Dialect, Message, ModelAnswer, ModelRequest, Reasoning, RequestError, TokenUsage
from upturn.errors import ModelError
from upturn.records import HedgeAnswer, JsonValue, TokenRow

BreakerState = Literal["closed", "open", "half_open"]
Verdict = Literal["failed", "begun", "answered", "none"]
"""What a call says about a server. ``begun``: its first part came. ``none``: nothing, e.g. the client left."""
ErrorKind = Literal["connect", "timeout", "status", "protocol", "overload", "unsendable"]
"""``protocol``: the answer is not one of the dialect, breaks off or is too large. ``overload``: refused here.
``unsendable``: the upstream's dialect cannot say what the request asks for; nothing was sent."""


class UpstreamError(ModelError):
    """A call failed before the first part of an answer."""

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind,
        status: int | None = None,
        retry_after_seconds: int | None = None,
        shown: str = "",
        refusal: RequestError | None = None,
    ) -> None:
        """``message``: for the operator. ``status``: the upstream's HTTP status; None = there was no answer.
        ``shown``: the message for clients, without addresses and keys; empty = the same. ``refusal``: the error
        of a request that is at fault; None = it is made from message and status."""
        super().__init__(message)
        self.message = message
        self.shown = shown or message
        self.kind = kind
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self._refusal = refusal

    def __reduce__(self) -> tuple[Callable[..., "UpstreamError"], tuple[object, ...]]:
        """The error can be sent to another process."""
        make = partial(
            UpstreamError,
            kind=self.kind,
            status=self.status,
            retry_after_seconds=self.retry_after_seconds,
            shown=self.shown,
            refusal=self._refusal,
        )
        return make, (str(self),)

    @property
    def is_fault_of_request(self) -> bool:
        """True if the request itself is refused, so that another try would fail too."""
        return self.status in (400, 404, 405, 413, 414, 415, 422)

    def as_request_error(self) -> RequestError:
        """The error for the client."""
        if self._refusal is not None:
            return self._refusal
        if self.is_fault_of_request:
            assert self.status is not None
            status = self.status if self.status == 413 else 400
            return RequestError(self.shown, status=status, code="upstream_refused")
        if self.status == 429 or self.kind == "overload":
            wait = self.retry_after_seconds if self.retry_after_seconds is not None else 1
            status = 429 if self.status == 429 else 503
            message = f"{self.shown}; try again in {wait} s"
            return RequestError(message, status=status, code="overloaded", retry_after_seconds=wait)
        if self.kind == "timeout":
            message = f"{self.shown}; try again, or ask for a shorter answer"
            return RequestError(message, status=504, code="upstream_timeout")
        message = f"{self.shown}; try again, or name another model"
        return RequestError(message, status=502, code="upstream_error")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model at one URL."""

    url: str
    """Base URL, such as ``https://api.openai.com/v1``."""
    model: str
    """Its name there."""
    settings: UpstreamConfig = field(default_factory=UpstreamConfig)
    api_key: str = field(default="", repr=False)


@dataclass(slots=True)
class Hedge:
    """What became of the second attempt at a call. The upstream writes it, and the caller records it."""

    answered_by: HedgeAnswer = ""
    unanswered: int = 0
    """Attempts beside the one that counts that were ended while they worked. Their server may charge for the prompt
    that they read; what they had written is unknown."""


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    """One call of a client, for one upstream."""

    body: bytes
    """As the client sent it; empty = ``request`` was changed and has to be written anew."""
    request: ModelRequest
    dialect: Dialect
    """The client's."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """To forward unchanged, in lower case; no keys."""
    answer_id: str = ""
    """The id of the answer for the client."""
    sender: "Sender | None" = None
    """Sends it to endpoints; None = this process does."""
    hedge: Hedge = field(default_factory=Hedge, compare=False)
    """Of this call, for the caller to read."""

    def without_reasoning(self) -> "UpstreamCall":
        """The call without the thoughts of earlier answers, which another model refuses."""
        messages = tuple(
            Message(message.role, parts)
            for message in self.request.messages
            if (parts := tuple(part for part in message.parts if not isinstance(part, Reasoning)))
            or not message.parts
        )
        return replace(self, body=b"", request=replace(self.request, messages=messages))


class Chunk(NamedTuple):
    """A part of an answer."""

    content: bytes
    is_end: bool
    """True = this part ends the answer, and ``outcome`` is complete."""
    held: int | None = None
    """The number by which a ``Sender`` knows this part, which it has itself; None = ``content`` is the part.
    Otherwise ``content`` is the whole answer if it was to be kept, else empty."""


class Drawn(NamedTuple):
    """How the tokens of an answer were drawn."""

    temperature: float
    sampling: Mapping[str, JsonValue] = {}
    """The options that changed the distribution besides the temperature, such as ``top_p``; empty = none."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What came of a call."""

    answer: ModelAnswer | None = None
    """What was answered, also before a failure; None = nothing."""
    failure: str = ""
    """Empty = the answer is complete."""
    usage: TokenUsage | None = None
    """None = not reported."""
    first_token_seconds: float | None = None
    """From sending to the first part; None = there was none."""
    tokens: TokenRow | None = None
    """The tokens of prompt and answer; None = they are unknown or incomplete. Its only span has turn 0."""
    tokens_problem: str = ""
    """Why tokens that were asked for are unknown; empty = they are known, or were not asked for."""
    drawn: "Drawn | None" = None
    """How the tokens were drawn; None = this is unknown, or the tokens are."""


class Forwarded(NamedTuple):
    """The answer to a request that is no model call."""

    content: bytes
    input_tokens: int
    """0 = not reported."""


class Exchange(Protocol):
    """An answer on its way. Single use."""

    def chunks(self) -> AsyncIterator[Chunk]:
        """The answer. A stream that fails ends with an error event in the client's dialect."""

    @property
    def outcome(self) -> CallOutcome:
        """What has come so far; complete from the chunk with ``is_end`` on."""


class Attempt(Exchange, Protocol):
    """The answer of one try at an endpoint."""

    @property
    def verdict(self) -> Verdict:
        """What the call says about the server so far."""


class Sender(Protocol):
    """Sends calls to endpoints, each once."""

    def open(
        self, endpoint: Endpoint, call: UpstreamCall, deadline: float, /
    ) -> AbstractAsyncContextManager[Attempt]:
        """Sends the call. ``deadline``: of the whole call, by ``perf_counter``.

        Raises UpstreamError if it fails before the first part of the answer. Leaving the block, or cancelling it,
        ends the call.
        """


class Upstream(Protocol):
    """Something that answers model calls."""

    def open(self, call: UpstreamCall, /) -> AbstractAsyncContextManager[Exchange]:
        """Sends the call. Raises UpstreamError if it fails before the first part of the answer.

        Leaving the block, or cancelling it, ends the call.
        """

    @property
    def breaker_state(self) -> BreakerState | None:
        """State of its circuit breaker; None = it has none."""

    async def embed(self, body: bytes, /) -> Forwarded:
        """The answer to a request for embeddings, in OpenAI's form on both sides. Raises UpstreamError."""

    async def close(self) -> None:
        """Ends all connections."""
