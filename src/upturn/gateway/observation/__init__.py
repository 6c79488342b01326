"""Metrics and traces of the gateway: Prometheus and OpenTelemetry. Start with ``metrics``."""

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

__all__ = [
    "CONTENT_TYPE",
    "CallSpan",
    "GatewayMetrics",
    "GatewayTracer",
    "Routed",
    "ServedCall",
    "Telemetry",
    "UpstreamSpan",
    "Used",
    "open_telemetry",
]
