"""What answers a model call: servers at URLs, local models, Python functions. For calls that clients send.

Here: sending, time limits, retries, limits of load, passing through and translating streams. Not here: the forms of
requests and answers (``dialects``), the choice of an upstream (``loop.online``), calls of agents in environments
(``models.endpoint``). Start with ``upstream``, then ``endpoint``.
"""

from upturn.models.upstreams.endpoint import EndpointUpstream
from upturn.models.upstreams.endpoint_client import EndpointClient
from upturn.models.upstreams.fork_cause import FORK_CURES, Fork, ForkCause
from upturn.models.upstreams.function import Answering, FunctionUpstream
from upturn.models.upstreams.local import EngineThread, Generator, LocalUpstream, script_for
from upturn.models.upstreams.memory import Memory
from upturn.models.upstreams.script import Prompt, Script
from upturn.models.upstreams.upstream import (
    Attempt,
    CallOutcome,
    Chunk,
    Drawn,
    Endpoint,
    Exchange,
    Forwarded,
    Hedge,
    Sender,
    Upstream,
    UpstreamCall,
    UpstreamError,
    Verdict,
)

__all__ = [
    "FORK_CURES",
    "Answering",
    "Attempt",
    "CallOutcome",
    "Chunk",
    "Drawn",
    "Endpoint",
    "EndpointClient",
    "EndpointUpstream",
    "EngineThread",
    "Exchange",
    "Fork",
    "ForkCause",
    "Forwarded",
    "FunctionUpstream",
    "Generator",
    "Hedge",
    "LocalUpstream",
    "Memory",
    "Prompt",
    "Script",
    "Sender",
    "Upstream",
    "UpstreamCall",
    "UpstreamError",
    "Verdict",
    "script_for",
]
