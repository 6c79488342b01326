"""What is stored of a call: its records, and what of them is made while the upstream works."""

from time import perf_counter
from typing import NamedTuple

from upturn.config import PriceConfig
from upturn.dialects import Conversation, ModelAnswer, ModelRequest, Toolbox
from upturn.loop.online.arrival import Decided
from upturn.loop.online.call_usage import call_usage
from upturn.loop.online.episode import Placement
from upturn.models.upstreams import CallOutcome, Hedge
from upturn.pool import ReadyRow, ready_row
from upturn.records import Call, CallContent, CallStatus, Decision, TokenRow, fields_json


class CallRows(NamedTuple):
    """The decision's row, and the contents of the request as JSON."""

    decision: ReadyRow
    messages: str
    """Those that the call it extends does not have."""
    tools: str
    """Empty = there are none, or those of the call it extends."""


class Tried(NamedTuple):
    """The upstreams that a call went to."""

    version: str
    """That answered or failed last."""
    attempted: tuple[str, ...]
    """Versions that failed before."""
    changes: tuple[str, ...]
    """What was taken out of the request."""
    hedge: Hedge
    price: PriceConfig | None
    """None = unknown."""
    prefix: str
    """See ``Call.prefix``."""


def call_rows(decision: Decision, request: ModelRequest, placement: Placement) -> CallRows:
    """``request``: as it is stored. Raises RecordError for what cannot be, such as NaN in a tool's schema."""
    tools = "" if placement.has_same_tools or not request.tools else fields_json(Toolbox(request.tools))
    return CallRows(ready_row(decision), fields_json(Conversation(request.messages[placement.shared :])), tools)


def call_record(decided: Decided, status: CallStatus, outcome: CallOutcome, tried: Tried) -> Call:
    """Returns the record of a call that has ended."""
    placement, arrival, answer = decided.placement, decided.arrival, outcome.answer
    used = call_usage(status, outcome, arrival.request, tried.price, hedge=tried.hedge)
    return Call(
        id=decided.decision.id,
        tenant=arrival.client.tenant,
        episode=placement.episode,
        route=decided.target.route,
        dialect=arrival.dialect.name,
        agent_version=tried.version,
        status=status,
        key=arrival.client.key,
        finish=answer.finish if status == "answered" and answer is not None else "",
        input_tokens=used.tokens.input,
        cached_input_tokens=used.tokens.cached_input,
        cache_write_tokens=used.tokens.cache_write,
        cache_write_1h_tokens=used.tokens.cache_write_1h,
        output_tokens=used.tokens.output,
        reasoning_tokens=used.tokens.reasoning,
        is_usage_estimated=used.is_estimated,
        hedge=tried.hedge.answered_by,
        hedged_input_tokens=used.hedged_input_tokens,
        cost_usd=used.cost_usd,
        seconds=perf_counter() - arrival.started,
        first_token_seconds=outcome.first_token_seconds,
        error=outcome.failure or "",
        extends=placement.extends.call if placement.extends is not None else None,
        fork_cause=placement.fork_cause,
        prefix=tried.prefix,
        attempted=tried.attempted,
        changes=tried.changes,
        is_capture_complete=outcome.tokens is not None,
        temperature=None if outcome.drawn is None else outcome.drawn.temperature,
        sampling={} if outcome.drawn is None else outcome.drawn.sampling,
    )


def call_content(call: Call, rows: CallRows, answer: ModelAnswer | None, tokens: TokenRow | None) -> CallContent:
    """Returns what was said in the call; ``answer``: as it is stored; ``tokens``: None = none are kept."""
    return CallContent(
        id=call.id,
        tenant=call.tenant,
        messages=rows.messages,
        tools=rows.tools,
        answer=fields_json(answer) if answer is not None else "",
        tokens=fields_json(tokens) if tokens is not None else "",
    )
