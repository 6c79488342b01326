"""A call of a client as it arrives, and as it is decided."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upturn.dialects import Dialect, ModelRequest
from upturn.loop.online.episode import Client, Placement
from upturn.loop.online.routes import Target
from upturn.models.upstreams import Sender
from upturn.records import Decision, Task

if TYPE_CHECKING:
    from upturn.loop.online.service import LiveCall


@dataclass(frozen=True, slots=True)
class Arrival:
    """One call of a client."""

    dialect: Dialect
    body: bytes
    request: ModelRequest
    client: Client
    headers: Mapping[str, str]
    """Headers to forward, in lower case; no keys."""
    episode: str | None = None
    """The client's name of the episode; None = it names none."""
    sub_agent: str = ""
    """The client's name of a sub-agent; empty = the main agent."""
    family: str = ""
    """The client's family of the task; empty = it names none."""
    tags: tuple[str, ...] = ()
    """Of the task that its episode becomes."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Headers that rules for families look at, in lower case; they are not forwarded."""
    changes: tuple[str, ...] = ()
    """What was taken out of the request."""
    started: float = 0.0
    """``perf_counter`` at its arrival."""
    trace: "Callable[[LiveCall], Mapping[str, str]]" = lambda _: {}
    """Called before each try at an upstream; returns headers for it, such as a trace context."""
    sender: Sender | None = None
    """See ``UpstreamCall``."""
    stored: ModelRequest | None = None
    """The request as it is stored; None = as it is sent."""

    @property
    def words(self) -> ModelRequest:
        """The request as it is stored, which is also what the router reads of it."""
        return self.request if self.stored is None else self.stored


@dataclass(frozen=True, slots=True)
class Decided:
    """A call with its place and its decision."""

    arrival: Arrival
    target: Target
    placement: Placement
    task: Task
    decision: Decision
