"""What the main process and a worker tell each other.

One call: the worker sends ``Asked``; the main process decides and sends ``Open``; the worker answers ``Opened`` or
``Failed``. For a stream follows ``Pass``: the worker passes the answer to the client up to the part that ends it,
and sends ``Ended``. The main process stores the call, and sends its ASGI messages as ``Answer``; one of them names
the part that the worker held back. ``Closed`` ends the try, ``Finished`` the request.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from upturn.dialects import ModelRequest
from upturn.models.upstreams import CallOutcome, Endpoint, UpstreamError, Verdict


class Ready(NamedTuple):
    """From the worker: it serves."""


class Asked(NamedTuple):
    """From the worker: a client's request, complete."""

    request: int
    scope: Mapping[str, Any]
    """ASGI's, without what only the server uses."""
    body: bytes
    """Cut off behind the longest body that is allowed."""
    started: float
    """``perf_counter`` at its arrival, which is the same clock in all processes of a machine."""


class Departed(NamedTuple):
    """From the worker: the client of a request has left. ``Ended`` of its tries comes before."""

    request: int


class Open(NamedTuple):
    """To the worker: a try of a call at an endpoint."""

    request: int
    number: int
    """Of the try; unique for the worker."""
    endpoint_id: int
    endpoint: Endpoint | None
    """None = the worker knows the endpoint with this id."""
    body: bytes | None
    """The body to send, as ``UpstreamCall.body``; None = that of the client."""
    asked: ModelRequest
    dialect: str
    """The client's."""
    headers: Mapping[str, str]
    answer_id: str
    seconds: float
    """Time for the whole call."""
    has_to_keep: bool
    """Whether the main process needs the answer's bytes."""


class Ended(NamedTuple):
    """From the worker: what has come of a try."""

    number: int
    outcome: CallOutcome
    verdict: Verdict
    is_complete: bool
    """False = the client has left before the answer's end."""
    content: bytes
    """The whole answer if it is kept, at most one byte more than can be kept; otherwise empty."""


class Opened(NamedTuple):
    """From the worker: the first part of an answer has come."""

    number: int
    ended: Ended | None
    """Of an answer that is whole already; None = a stream."""
    verdict: Verdict


class Failed(NamedTuple):
    """From the worker: a try failed before the first part of an answer."""

    number: int
    error: UpstreamError


class Pass(NamedTuple):
    """To the worker: pass the stream of a try to the client."""

    request: int
    number: int


class Closed(NamedTuple):
    """To the worker: a try is over, or is no longer wanted."""

    number: int


class Answer(NamedTuple):
    """To the worker: an ASGI message for the client."""

    request: int
    message: Mapping[str, Any]


class Finished(NamedTuple):
    """To the worker: the request is answered."""

    request: int


class Stop(NamedTuple):
    """To the worker: take no more requests, and end when the open ones are answered."""


FromWorker = Ready | Asked | Departed | Opened | Failed | Ended
ToWorker = Open | Pass | Closed | Answer | Finished | Stop
