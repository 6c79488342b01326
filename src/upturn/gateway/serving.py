"""Serving an open gateway: in this process alone, or with workers."""

import sys
from contextlib import suppress

import uvicorn
import uvloop
from starlette.types import ASGIApp

from upturn.config import GatewayConfig
from upturn.gateway.http_server import keep_pauses_short, server_config
from upturn.gateway.workers import listening_sockets, serve_with_workers


def serve(app: ASGIApp, settings: GatewayConfig, *, host: str, port: int, workers: int) -> None:
    """Serves until SIGINT or SIGTERM. ``workers``: 1 = this process alone.

    Raises ConfigError where workers are not possible, and ClusterError if they do not start.
    """
    keep_pauses_short()
    if workers > 1:
        with listening_sockets(host, port, workers) as listening:
            uvloop.run(serve_with_workers(app, listening, settings.max_body_bytes))
        return
    server = uvicorn.Server(server_config(app, host=host, port=port))
    with suppress(KeyboardInterrupt):  # which the server raises once it has stopped
        server.run()
    if not server.started:
        sys.exit(1)
