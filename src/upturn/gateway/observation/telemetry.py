"""Spans of calls by OpenTelemetry's GenAI conventions, and the trace context that continues through the gateway.

A call has a server span, whose parent is the client's span, and one client span for each try at an upstream, whose
context the upstream gets. Routing has no convention; its attributes are named ``upturn.*``. No content of messages
is recorded. When traces are off, the app has no ``GatewayTracer`` and pays nothing; headers then pass unchanged.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from upturn import __version__
from upturn.config import TelemetryConfig
from upturn.errors import ConfigError

SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai/0.1.0"
"""Names and meanings of the attributes ``gen_ai.*``."""

_LONGEST_NAME = 200
"""Characters of a model's name in spans; clients choose it."""

_CONTEXT_HEADERS = ("traceparent", "tracestate")
_PROVIDERS: Mapping[str, str] = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.mistral.ai": "mistral_ai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.x.ai": "x_ai",
    "api.cohere.com": "cohere",
    "api.perplexity.ai": "perplexity",
    "api.moonshot.ai": "moonshot_ai",
    "generativelanguage.googleapis.com": "gcp.gemini",
}
"""The convention's names of providers, by host."""

Operation = Literal["chat", "embeddings", "invoke_agent"]


class Routed(NamedTuple):
    """The decision about a call."""

    decision_id: str
    agent: str
    agent_version: str
    propensity: float
    policy: str
    policy_snapshot: str
    route: str = ""
    episode: str = ""
    """Empty = the call is by itself."""
    family: str = ""


class Used(NamedTuple):
    """What an answer used; None = not reported."""

    response_id: str = ""
    response_model: str = ""
    finish: str = ""
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    first_token_seconds: float | None = None
    cache_write_tokens: int | None = None
    hedge: str = ""
    """Which attempt answered a call that was sent twice; empty = it was sent once."""


class GatewayTracer:
    """Makes the spans of one server. Spans are passed on explicitly, so streams need no context variables."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("upturn.gateway", __version__, SCHEMA_URL)
        self._propagator = TraceContextTextMapPropagator()

    def call(self, headers: Mapping[str, str], *, operation: Operation, model: str, dialect: str) -> "CallSpan":
        """Starts the span of a client's call.

        ``headers``: by name in lower case; ``model``: as the client named it.
        """
        parent, model = self._propagator.extract(headers, Context()), model[:_LONGEST_NAME]
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "upturn",
            "gen_ai.request.model": model,
            "upturn.dialect": dialect,
        }
        span = self._tracer.start_span(f"{operation} {model}", parent, SpanKind.SERVER, attributes)
        return CallSpan(self, span, operation)

    def feedback(self, headers: Mapping[str, str], *, metric: str, value: float, response_id: str) -> None:
        """Records a feedback value as an event ``gen_ai.evaluation.result``.

        The call's span has ended, so the event belongs to a span of the feedback and names the answer. The comment
        is not recorded.
        """
        parent = self._propagator.extract(headers, Context())
        span = self._tracer.start_span("feedback", parent, SpanKind.SERVER)
        attributes: dict[str, AttributeValue] = {
            "gen_ai.evaluation.name": metric,
            "gen_ai.evaluation.score.value": value,
            "gen_ai.response.id": response_id,
        }
        span.add_event("gen_ai.evaluation.result", attributes)
        span.end()

    def start_upstream(self, parent: Span, operation: Operation, model: str, url: str) -> "UpstreamSpan":
        """Starts the span of one try; ``CallSpan.upstream`` calls it."""
        host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
        name, _, port = host.rpartition(":") if ":" in host and not host.endswith("]") else (host, "", "")
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": _PROVIDERS.get(name, "openai_compatible" if url else "upturn"),
            "gen_ai.request.model": model,
        }
        if name:
            attributes |= {"server.address": name, "server.port": int(port) if port.isdecimal() else 443}
        context = set_span_in_context(parent, Context())
        kind = SpanKind.CLIENT if url else SpanKind.INTERNAL
        span = self._tracer.start_span(f"{operation} {model}", context, kind, attributes)
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, set_span_in_context(span, Context()))
        return UpstreamSpan(span, carrier)


class CallSpan:
    """The span of a client's call. End it exactly once."""

    def __init__(self, tracer: GatewayTracer, span: Span, operation: Operation) -> None:
        self._tracer = tracer
        self._span = span
        self._operation: Operation = operation

    def routed(self, decision: Routed) -> None:
        """Adds the decision."""
        attributes: dict[str, AttributeValue] = {
            "gen_ai.agent.id": decision.agent_version,
            "gen_ai.agent.name": decision.agent,
            "gen_ai.agent.version": decision.agent_version.removeprefix(f"{decision.agent}@"),
            "upturn.decision.id": decision.decision_id,
            "upturn.decision.propensity": decision.propensity,
            "upturn.decision.policy": decision.policy,
            "upturn.decision.policy_snapshot": decision.policy_snapshot,
        }
        optional = {
            "gen_ai.conversation.id": decision.episode,
            "upturn.route": decision.route,
            "upturn.family": decision.family,
        }
        self._span.set_attributes(attributes | {name: value for name, value in optional.items() if value})

    def upstream(self, model: str, url: str) -> "UpstreamSpan":
        """Starts the span of one try at an upstream; ``url`` empty = a model or function of this process."""
        return self._tracer.start_upstream(self._span, self._operation, model, url)

    def end(self, used: Used, *, status: int, error: str = "") -> None:
        """Ends the span. ``error``: the code of what failed; empty = the call was answered."""
        _end(self._span, used, status, error)


class UpstreamSpan:
    """The span of one try at an upstream. End it exactly once."""

    def __init__(self, span: Span, headers: Mapping[str, str]) -> None:
        self._span = span
        self._headers = headers

    def headers(self, forwarded: Mapping[str, str]) -> dict[str, str]:
        """Returns the headers for the upstream, with this span as the context in place of the client's."""
        kept = {name: value for name, value in forwarded.items() if name.lower() not in _CONTEXT_HEADERS}
        return {**kept, **self._headers}

    def end(self, used: Used, *, status: int | None = None, error: str = "") -> None:
        """Ends the span. ``status``: of HTTP; None = there was no answer, or no HTTP."""
        _end(self._span, used, status, error)


def _end(span: Span, used: Used, status: int | None, error: str) -> None:
    attributes: dict[str, AttributeValue | None] = {
        "gen_ai.response.id": used.response_id or None,
        "gen_ai.response.model": used.response_model or None,
        "gen_ai.response.finish_reasons": (used.finish,) if used.finish else None,
        "gen_ai.usage.input_tokens": used.input_tokens,
        "gen_ai.usage.cache_read.input_tokens": used.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": used.cache_write_tokens,
        "gen_ai.usage.output_tokens": used.output_tokens,
        "gen_ai.response.time_to_first_chunk": used.first_token_seconds,
        "upturn.cost_usd": used.cost_usd,
        "upturn.hedge": used.hedge or None,
        "http.response.status_code": status,
        "error.type": error or None,
    }
    span.set_attributes({name: value for name, value in attributes.items() if value is not None})
    if error:
        span.set_status(Status(StatusCode.ERROR))
    span.end()


class Telemetry(NamedTuple):
    """A tracer with its exporter."""

    tracer: GatewayTracer
    close: Callable[[], None]
    """Sends the spans that wait, and ends; takes up to 30 s if the endpoint does not answer."""


def open_telemetry(config: TelemetryConfig) -> Telemetry | None:
    """Returns a tracer that sends spans in the background; None = traces are off.

    Raises ConfigError without the extra ``otel``.
    """
    if not config.otlp_endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
    except ImportError as exc:
        raise ConfigError(
            [f"telemetry.otlp_endpoint = {config.otlp_endpoint!r} needs OpenTelemetry; pip install 'upturn[otel]'"]
        ) from exc
    resource = Resource.create({"service.name": config.service_name, "service.version": __version__})
    provider = SdkTracerProvider(ParentBasedTraceIdRatio(config.sample_share), resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(config.otlp_endpoint)))
    return Telemetry(GatewayTracer(provider), provider.shutdown)
