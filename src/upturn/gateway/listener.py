"""Where the gateway listens: its sockets, and serving an application on them until a signal ends it."""

import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import uvicorn
import uvloop
from starlette.types import ASGIApp

from upturn.errors import ConfigError
from upturn.gateway.http_server import server_config
from upturn.gateway.workers import Supervisor


def bind(host: str, port: int) -> list[socket.socket]:
    """Returns one bound socket for each address of the host, which does not accept connections yet.

    ``port`` 0 = any free one, the same for all addresses. Raises ConfigError if an address cannot be used.
    """
    return _bound(host, port, is_shared=False)


def bind_workers(host: str, port: int, count: int) -> list[list[socket.socket]]:
    """Returns the sockets of each of ``count`` workers; see ``bind``. The system spreads connections over them.

    Raises ConfigError if an address cannot be used, or if this system cannot spread connections.
    """
    if count == 1:
        return [bind(host, port)]
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ConfigError([f"gateway.workers is {count}, which this system does not support; set it to 1"])
    alone = bind(host, port)  # sharing is for our workers: another gateway at the address is an error
    free = port_of(alone)
    for one in alone:
        one.close()
    return [_bound(host, free, is_shared=True) for _ in range(count)]


def _bound(host: str, port: int, *, is_shared: bool) -> list[socket.socket]:
    with ExitStack() as opened:
        sockets: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                bound = opened.enter_context(socket.socket(family, kind, protocol))
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if is_shared:
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                bound.bind((address[0], port_of(sockets) if sockets else port, *address[2:]))
                sockets.append(bound)
        except OSError as exc:
            problem = f"the gateway cannot listen at {host!r}, port {port}: {exc.strerror or exc}"
            raise ConfigError([f"{problem}; choose others with --host and --port"]) from exc
        opened.pop_all()
        return sockets


def port_of(sockets: Sequence[socket.socket]) -> int:
    """Returns the port of bound sockets."""
    return int(sockets[0].getsockname()[1])


def base_url(host: str, port: int) -> str:
    """Returns the address for clients."""
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def serve(app: ASGIApp, sockets: Sequence[socket.socket], on_start: Callable[[], None]) -> None:
    """Serves the application until SIGINT or SIGTERM, and returns when the calls in service have ended.

    ``on_start`` is called once connections are accepted. SIGTERM raises SystemExit(0), so that the callers' blocks
    end in order. For the main thread.
    """
    signal.signal(
        signal.SIGTERM, _exit
    )  # the server restores this handler, and raises the signal again, at its end
    server = _Server(server_config(app), on_start)
    try:
        server.run(list(sockets))
    except KeyboardInterrupt:
        return
    if not server.started:
        sys.exit(1)


def serve_with_workers(
    app: ASGIApp, sockets: Sequence[Sequence[socket.socket]], on_start: Callable[[], None], *, max_body_bytes: int
) -> None:
    """Serves the application as ``serve`` does, with a worker process for each of the shared sockets.

    ``max_body_bytes``: what workers read of a request. Raises ClusterError if a worker does not start.
    """
    uvloop.run(Supervisor(app, sockets, max_body_bytes).serve(on_start))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()


def _exit(_signal: int, _frame: object) -> None:
    raise SystemExit(0)
