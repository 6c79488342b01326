"""Model calls of clients, as the gateway serves them."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from upturn.records.json import JsonValue
from upturn.records.record import record

CallStatus = Literal["answered", "failed", "cancelled"]
HedgeAnswer = Literal["", "first", "second", "none"]
"""Which attempt answered a call that was sent twice, because the first one was slow; empty = it was sent once."""
"""``cancelled``: the client left before the answer's end."""


@record
class Call:
    """One model call of a client. The routing decision with the same id chose its agent."""

    id: str
    """Id of its decision, and of the answer."""
    tenant: str
    episode: str
    """Calls of one episode stay with one agent version. A call by itself is an episode."""
    route: str
    """Name of the route; empty = the client named an agent version."""
    dialect: str
    agent_version: str
    """The version that answered or failed last. After a fallback it differs from the decision's."""
    status: CallStatus
    key: str = ""
    """Id of the API key; empty = the call came without one."""
    finish: str = ""
    """Why the answer ended; empty = it did not."""
    input_tokens: int = 0
    """Tokens of the prompt, cached ones included; 0 = not reported."""
    cached_input_tokens: int = 0
    output_tokens: int = 0
    """Written tokens, reasoning included."""
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    """None = the model has no price, or the call failed before an answer began."""
    seconds: float = 0.0
    """From the call's arrival to the answer's end."""
    first_token_seconds: float | None = None
    """None = nothing was answered."""
    error: str = ""
    """Empty = answered."""
    extends: str | None = None
    """Id of the call whose messages and answer this call's messages begin with; None = it begins a conversation."""
    fork_cause: str = ""
    """Why a later call of an episode begins a new conversation; empty = it does not."""
    prefix: str = ""
    """Digest of the messages with the answer, by which the next call of the conversation is recognised; empty =
    there is no complete answer."""
    attempted: tuple[str, ...] = ()
    """Versions that failed before ``agent_version`` was tried, in order."""
    changes: tuple[str, ...] = ()
    """What was taken out of the request before it was sent, such as tools that the provider runs."""
    is_capture_complete: bool = False
    """True = ``CallContent.tokens`` has every token that the model read and wrote."""
    temperature: float | None = None
    """Sampling temperature of the captured tokens; None = it is unknown, or they are not captured."""
    sampling: Mapping[str, JsonValue] = field(default_factory=dict)
    """The options that changed the sampled distribution besides the temperature, such as ``top_p``; empty =
    none."""
    is_usage_estimated: bool = False
    """True = the server reported no tokens, or not all; those that it did not report are estimated by length."""
    cache_write_tokens: int = 0
    """Of ``input_tokens``: written to the provider's cache."""
    cache_write_1h_tokens: int = 0
    """Of ``cache_write_tokens``: kept for an hour."""
    hedge: HedgeAnswer = ""
    hedged_input_tokens: int = 0
    """Estimated tokens that the attempt read which was cancelled because the other answered, or the client left.
    They are in ``cost_usd`` only; what that attempt had written is unknown. 0 = there is none, or no price."""


@record
class CallContent:
    """What was said in a call. Unlike calls, contents are deleted after the retention time."""

    id: str
    """Id of the call."""
    tenant: str
    messages: str
    """JSON of a ``dialects.Conversation``: the messages after those that the call ``extends``."""
    tools: str = ""
    """JSON of a ``dialects.Toolbox``; empty = no tools, or the same as in the call that it extends."""
    answer: str = ""
    """JSON of a ``dialects.ModelAnswer``; empty = there is none."""
    tokens: str = ""
    """JSON of a ``TokenRow``: the tokens of prompt and answer; empty = they are unknown."""
