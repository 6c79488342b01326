"""Metrics and spans of model calls, from their parts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter

from upturn.dialects import RequestError
from upturn.gateway.observation import (
    CallSpan,
    GatewayMetrics,
    GatewayTracer,
    Routed,
    ServedCall,
    UpstreamSpan,
    Used,
)
from upturn.loop.online import Arrival, LiveCall

_CLIENT_LEFT = 499
"""The status of a call whose client left, as nginx counts it."""


class Observer:
    """Counts calls, and makes their spans where traces are on."""

    def __init__(self, metrics: GatewayMetrics, tracer: GatewayTracer | None) -> None:
        """``tracer``: None = traces are off."""
        self.metrics = metrics
        self._tracer = tracer

    def refused(self, error: RequestError) -> None:
        """Counts a request that was answered with an error."""
        self.metrics.refuse(error.code)

    @contextmanager
    def call(self, arrival: Arrival, headers: Mapping[str, str]) -> Iterator["ObservedCall"]:
        """Counts the call of the block, also one that fails."""
        span = None
        if self._tracer is not None:
            span = self._tracer.call(
                headers, operation="chat", model=arrival.request.model, dialect=arrival.dialect.name
            )
        observed = ObservedCall(arrival, span)
        try:
            yield observed
        except RequestError as exc:
            observed.end(self.metrics, exc.status, exc.code)
            raise
        except BaseException as exc:
            observed.end(self.metrics, _CLIENT_LEFT, type(exc).__name__)
            raise
        else:
            observed.end(self.metrics, 200, "")

    def feedback(self, headers: Mapping[str, str], *, metric: str, value: float, response_id: str) -> None:
        """Makes the span of a feedback value where traces are on."""
        if self._tracer is not None:
            self._tracer.feedback(headers, metric=metric, value=value, response_id=response_id)


class ObservedCall:
    """One call on its way."""

    def __init__(self, arrival: Arrival, span: CallSpan | None) -> None:
        self.arrival = arrival if span is None else replace(arrival, trace=self._trace)
        self._span = span
        self._tries: list[UpstreamSpan] = []
        self._call: LiveCall | None = None

    def started(self, call: LiveCall) -> None:
        """The call has an answer on its way."""
        self._call = call

    def _trace(self, call: LiveCall) -> Mapping[str, str]:
        """Starts the span of a try, and ends that of the one before, which failed."""
        assert self._span is not None, "traces are on"
        for earlier in self._tries[-1:]:
            earlier.end(Used(), error="upstream_error")
        self._call = call
        self._tries.append(self._span.upstream(call.agent_version, ""))
        return self._tries[-1].headers({})

    def end(self, metrics: GatewayMetrics, status: int, error: str) -> None:
        """Counts the call and ends its spans."""
        call, seconds = self._call, perf_counter() - self.arrival.started
        if call is None:
            if self._span is not None:
                self._span.end(Used(), status=status, error=error)
            return
        record = call.record
        if record is not None and record.status == "failed" and not error:
            status, error = 502, "upstream_error"
        metrics.observe(
            ServedCall(
                call.decided.target.route,
                call.decided.decision.agent,
                self.arrival.dialect.name,
                status,
                seconds,
                max(0.0, seconds - call.upstream_seconds),
                None if record is None else record.first_token_seconds,
                0 if record is None else record.input_tokens,
                0 if record is None else record.cached_input_tokens,
                0 if record is None else record.output_tokens,
                (record.cost_usd or 0.0) if record is not None else 0.0,
                0 if record is None else record.cache_write_tokens,
                "" if record is None else record.hedge,
            )
        )
        if self._span is not None:
            self._end_spans(self._span, call, status, error)

    def _end_spans(self, span: CallSpan, call: LiveCall, status: int, error: str) -> None:
        record, decision = call.record, call.decided.decision
        used = Used(decision.id)
        if record is not None:
            used = Used(
                record.id,
                record.agent_version,
                record.finish,
                record.input_tokens,
                record.cached_input_tokens,
                record.output_tokens,
                record.cost_usd,
                record.first_token_seconds,
                record.cache_write_tokens,
                record.hedge,
            )
        for attempt in self._tries[-1:]:
            attempt.end(used, error=error)
        span.routed(
            Routed(
                decision.id,
                decision.agent,
                call.agent_version,
                decision.propensity,
                decision.policy,
                decision.policy_snapshot,
                call.decided.target.route,
                call.decided.placement.episode,
                decision.family,
            )
        )
        span.end(used, status=status, error=error)
