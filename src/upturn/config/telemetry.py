"""The section of ``upturn.toml`` for traces."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from upturn.config.settings import Settings, Share, Url, report_unused, settings


@settings
class TelemetryConfig(Settings):
    """Traces of the gateway's calls (OpenTelemetry, docs/gateway-security.md). Needs the extra ``upturn[otel]``."""

    otlp_endpoint: Url = ""
    """URL that spans are sent to by OTLP/HTTP, such as ``http://localhost:4318/v1/traces``. Its headers come from
    the environment variable OTEL_EXPORTER_OTLP_HEADERS. Empty = no traces."""
    sample_share: Share = 1.0
    """Share of the traces that begin here to send. A call whose client sends a trace context follows the client."""
    service_name: Annotated[str, Field(min_length=1)] = "upturn"
    """Name of this service in traces."""

    def problems(self) -> Iterator[str | None]:
        """Yields settings without effect."""
        cure = "with otlp_endpoint=''; name an endpoint, or leave it out"
        is_off = not self.otlp_endpoint
        yield report_unused(is_off and self.sample_share != 1.0, f"sample_share={self.sample_share}", cure)
        yield report_unused(is_off and self.service_name != "upturn", f"service_name={self.service_name!r}", cure)
