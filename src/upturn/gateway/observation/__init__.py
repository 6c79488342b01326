"""Metrics and traces of the gateway, and traces that clients send to it. Start with ``metrics``."""

from upturn.gateway.observation.metrics import CONTENT_TYPE, GatewayMetrics, ServedCall
from upturn.gateway.observation.telemetry import (
    CallSpan,
    GatewayTracer,
    Routed,
    Telemetry,
    UpstreamSpan,
    Used,
    open_telemetry,
)
from upturn.gateway.observation.trace_routes import TRACES_PATH, trace_routes

__all__ = [
    "CONTENT_TYPE",
    "TRACES_PATH",
    "CallSpan",
    "GatewayMetrics",
    "GatewayTracer",
    "Routed",
    "ServedCall",
    "Telemetry",
    "UpstreamSpan",
    "Used",
    "open_telemetry",
    "trace_routes",
]
