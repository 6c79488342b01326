"""Spans by the SDK's in-memory exporter (extra ``otel``), and what holds without it."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from threading import Thread
from typing import Any

import pytest
from opentelemetry.trace import NoOpTracerProvider

from upturn.config import TelemetryConfig
from upturn.errors import ConfigError
from upturn.gateway.observation.telemetry import SCHEMA_URL, GatewayTracer, Routed, Used, open_telemetry

HAS_SDK = find_spec("opentelemetry.sdk") is not None
needs_sdk = pytest.mark.skipif(not HAS_SDK, reason="the extra otel is not installed")

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
INCOMING = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "shop=1", "authorization": "Bearer up-1"}
ROUTED = Routed("d1", "small", "small@3", 0.25, "thompson", "s9", "default", "e1", "mail")
USED = Used("d1", "gpt-x", "stop", 100, 60, 20, 0.5, 0.25, 15, "second")


class Recorder:
    """A tracer, and the spans that it ended."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = GatewayTracer(provider)

    def spans(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def recorder() -> Recorder:
    pytest.importorskip("opentelemetry.sdk.trace")
    return Recorder()


def test_a_call_has_the_names_of_the_convention(recorder: Recorder) -> None:
    call = recorder.tracer.call(INCOMING, operation="chat", model="default", dialect="responses")
    call.routed(ROUTED)
    call.end(USED, status=200)
    (span,) = recorder.spans()
    assert (span.name, span.kind.name) == ("chat default", "SERVER")
    assert span.instrumentation_scope.schema_url == SCHEMA_URL == "https://opentelemetry.io/schemas/gen-ai/0.1.0"
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "upturn",
        "gen_ai.request.model": "default",
        "gen_ai.agent.id": "small@3",
        "gen_ai.agent.name": "small",
        "gen_ai.agent.version": "3",
        "gen_ai.conversation.id": "e1",
        "gen_ai.response.id": "d1",
        "gen_ai.response.model": "gpt-x",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 15,
        "gen_ai.usage.output_tokens": 20,
        "http.response.status_code": 200,
        "upturn.dialect": "responses",
        "upturn.route": "default",
        "upturn.family": "mail",
        "upturn.decision.id": "d1",
        "upturn.decision.propensity": 0.25,
        "upturn.decision.policy": "thompson",
        "upturn.decision.policy_snapshot": "s9",
        "upturn.cost_usd": 0.5,
        "upturn.hedge": "second",
    }


def test_the_clients_trace_continues_through_the_gateway(recorder: Recorder) -> None:
    call = recorder.tracer.call(INCOMING, operation="chat", model="default", dialect="chat")
    failed = call.upstream("gpt-x", "https://api.openai.com/v1")
    sent_first = failed.headers(INCOMING)
    failed.end(Used(), status=500, error="upstream_error")
    second = call.upstream("claude-x", "http://user:pw@localhost:8123/v1")
    sent = second.headers({"Traceparent": "00-old", "user-agent": "x"})
    second.end(USED, status=200)
    call.end(USED, status=200)
    first_span, second_span, call_span = recorder.spans()
    assert {f"{span.context.trace_id:032x}" for span in recorder.spans()} == {TRACE}
    assert f"{call_span.parent.span_id:016x}" == PARENT
    assert first_span.parent.span_id == second_span.parent.span_id == call_span.context.span_id
    assert sent == {
        "user-agent": "x",
        "traceparent": f"00-{TRACE}-{second_span.context.span_id:016x}-01",
        "tracestate": "shop=1",
    }
    assert sent_first["traceparent"] == f"00-{TRACE}-{first_span.context.span_id:016x}-01"
    assert first_span.kind.name == second_span.kind.name == "CLIENT"
    shown = [
        [span.attributes[name] for name in ("gen_ai.provider.name", "server.address", "server.port")]
        for span in (first_span, second_span)
    ]
    assert shown == [["openai", "api.openai.com", 443], ["openai_compatible", "localhost", 8123]]
    assert first_span.attributes["error.type"] == "upstream_error"
    assert [span.status.status_code.name for span in recorder.spans()] == ["ERROR", "UNSET", "UNSET"]


def test_secrets_and_contents_are_in_no_span(recorder: Recorder) -> None:
    call = recorder.tracer.call(INCOMING, operation="chat", model="default", dialect="chat")
    upstream = call.upstream("m", "http://user:hunter2@localhost:8123/v1?key=hunter2")
    upstream.headers(INCOMING)
    upstream.end(USED)
    call.end(USED, status=200)
    text = json.dumps([json.loads(span.to_json()) for span in recorder.spans()])
    assert "hunter2" not in text
    assert "up-1" not in text


@pytest.mark.parametrize(
    "traceparent", ["", "00-x", f"00-{'0' * 32}-{PARENT}-01", "0" * 600, f"ff-{TRACE}-{PARENT}-01"]
)
def test_an_unusable_context_begins_a_trace(recorder: Recorder, traceparent: str) -> None:
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    call = recorder.tracer.call({"traceparent": traceparent}, operation="chat", model="m" * 5_000, dialect="chat")
    call.end(Used(), status=400, error="invalid_request")
    (span,) = recorder.spans()
    assert span.parent is None
    assert len(span.name) < 300


def test_feedback_is_an_evaluation_result(recorder: Recorder) -> None:
    recorder.tracer.feedback(INCOMING, metric="thumbs", value=1.0, response_id="d1")
    (span,) = recorder.spans()
    assert f"{span.context.trace_id:032x}" == TRACE
    (event,) = span.events
    assert event.name == "gen_ai.evaluation.result"
    assert dict(event.attributes) == {
        "gen_ai.evaluation.name": "thumbs",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.response.id": "d1",
    }


def test_without_an_sdk_the_context_still_continues() -> None:
    tracer = GatewayTracer(NoOpTracerProvider())
    call = tracer.call(INCOMING, operation="chat", model="default", dialect="chat")
    call.routed(ROUTED)
    upstream = call.upstream("m", "http://localhost:1/v1")
    assert upstream.headers({}) == {name: INCOMING[name] for name in ("traceparent", "tracestate")}
    upstream.end(USED)
    call.end(USED, status=200)


def test_traces_are_off_by_default_and_import_nothing() -> None:
    assert open_telemetry(TelemetryConfig()) is None
    program = (
        "import sys; from upturn.gateway.observation.telemetry import open_telemetry;"
        "from upturn.config import TelemetryConfig;"
        "open_telemetry(TelemetryConfig()); assert 'opentelemetry.sdk' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.skipif(HAS_SDK, reason="the extra otel is installed")
def test_a_missing_extra_is_named() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'upturn\[otel\]'"):
        open_telemetry(TelemetryConfig(otlp_endpoint="http://localhost:4318/v1/traces"))


@pytest.mark.parametrize("change", [{"sample_share": 0.5}, {"service_name": "door"}])
def test_settings_without_an_endpoint_would_do_nothing(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="would do nothing with otlp_endpoint=''"):
        TelemetryConfig(**change)


@pytest.fixture
def collector() -> Iterator[tuple[str, Callable[[], list[bytes]]]]:
    """The URL of an OTLP/HTTP collector, and the bodies that it got."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base's name
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", lambda: bodies
    server.shutdown()
    thread.join()
    server.server_close()


@needs_sdk
def test_spans_are_sent_by_otlp(collector: tuple[str, Callable[[], list[bytes]]]) -> None:
    url, bodies = collector
    telemetry = open_telemetry(TelemetryConfig(otlp_endpoint=url, service_name="door"))
    assert telemetry is not None
    telemetry.tracer.call(INCOMING, operation="chat", model="default", dialect="chat").end(USED, status=200)
    unsampled = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    telemetry.tracer.call(unsampled, operation="chat", model="quiet", dialect="chat").end(USED, status=200)
    telemetry.close()
    import gzip

    sent = b"".join(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body for body in bodies())
    assert b"chat default" in sent
    assert b"door" in sent
    assert SCHEMA_URL.encode() in sent
    assert b"chat quiet" not in sent, "the client said that it is not sampled"
