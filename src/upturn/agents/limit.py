"""Which limit ends a trajectory."""

from upturn.config import Limits
from upturn.records import Outcome


def limit_reached(limits: Limits, *, turns: int, tokens: int, seconds: float) -> Outcome | None:
    """The outcome of the first limit that leaves no room for another turn, in this order; None = go on."""
    if turns >= limits.max_turns:
        return "step_limit"
    if limits.max_tokens is not None and tokens >= limits.max_tokens:
        return "token_limit"
    if limits.max_seconds is not None and seconds >= limits.max_seconds:
        return "time_limit"
    return None
