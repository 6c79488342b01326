"""The tokens of a call and what they cost: as its server reports them, or estimated where they have a price.

A call that breaks off, or whose client leaves, reports no tokens, but its provider may charge for them. Without an
estimate, budgets would not see such calls.
"""

from typing import NamedTuple

from upturn.arbiter import cost_usd
from upturn.config import PriceConfig
from upturn.dialects import ModelRequest, TokenUsage, credible_usage, estimated_usage
from upturn.models.upstreams import CallOutcome, Hedge
from upturn.records import CallStatus


class CallUsage(NamedTuple):
    """What one call used."""

    tokens: TokenUsage
    is_estimated: bool
    """True = the server did not report it."""
    cost_usd: float | None
    """None = the model has no price, or the call failed before an answer began."""
    hedged_input_tokens: int = 0
    """As estimated; see ``Call``."""


_ONCE = Hedge()


def call_usage(
    status: CallStatus,
    outcome: CallOutcome,
    request: ModelRequest,
    price: PriceConfig | None,
    *,
    hedge: Hedge = _ONCE,
) -> CallUsage:
    """Returns what a call used. ``price``: of the version that was called; None = unknown."""
    reported = credible_usage(outcome.usage)
    if price is None or (status == "failed" and outcome.answer is None):
        return CallUsage(reported, False, None)
    tokens = reported
    if status != "answered" or reported == TokenUsage():
        tokens = estimated_usage(reported, request, () if outcome.answer is None else outcome.answer.parts)
    hedged = hedge.unanswered * tokens.input  # both attempts read the same prompt
    cost = cost_usd(tokens, price) + cost_usd(TokenUsage(input=hedged), price)
    return CallUsage(tokens, tokens != reported or hedged > 0, cost, hedged)
