"""The tokens of a call and what they cost: as its server reports them, or estimated where they have a price.

A call that breaks off, or whose client leaves, reports no tokens, but its provider may charge for them. Without an
estimate, budgets would not see such calls.
"""

from dataclasses import replace
from typing import NamedTuple

from upturn.arbiter import cost_usd
from upturn.config import PriceConfig
from upturn.dialects import ModelAnswer, ModelRequest, Reasoning, Text, TokenUsage, ToolCall
from upturn.loop.online.call_task import BYTES_A_TOKEN, estimated_tokens
from upturn.models.upstreams import CallOutcome, Hedge
from upturn.records import CallStatus

MOST_TOKENS = 10**12
"""Largest number of tokens that a server is believed to have used in one call."""


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
    reported = outcome.usage if outcome.usage is not None and _is_credible(outcome.usage) else TokenUsage()
    if price is None or (status == "failed" and outcome.answer is None):
        return CallUsage(reported, False, None)
    tokens = reported
    if status != "answered" or reported == TokenUsage():
        written = 0 if outcome.answer is None else _written_tokens(outcome.answer)
        tokens = replace(
            reported,
            input=reported.input or estimated_tokens(request),
            output=max(reported.output, written),
        )
    hedged = hedge.unanswered * tokens.input  # both attempts read the same prompt
    cost = cost_usd(tokens, price) + cost_usd(TokenUsage(input=hedged), price)
    return CallUsage(tokens, tokens != reported or hedged > 0, cost, hedged)


def _is_credible(usage: TokenUsage) -> bool:
    """False for negative and absurd numbers, and for more cached than read tokens."""
    return (
        min(usage.cached_input, usage.output, usage.cache_write_1h) >= 0
        and usage.cache_write_1h <= usage.cache_write
        and usage.cached_input + usage.cache_write <= usage.input
        and max(usage.input, usage.output) <= MOST_TOKENS
    )


def _written_tokens(answer: ModelAnswer) -> int:
    """Returns about how many tokens the texts, thoughts and calls of an answer have."""
    size = 0
    for part in answer.parts:
        match part:
            case Text() | Reasoning():
                size += len(part.text.encode(errors="replace"))
            case ToolCall():
                size += len(f"{part.name}{part.arguments}".encode(errors="replace"))
            case _:
                pass
    return -(-size // BYTES_A_TOKEN)
