"""Where the gateway listens: its sockets, and serving an application on them until a signal ends it."""

import errno
import signal
import socket
import sys
from collections.abc import Callable, Sequence

import uvicorn
import uvloop
from starlette.types import ASGIApp

from upturn.errors import ConfigError
from upturn.gateway.workers import Supervisor, server_config


def bind(host: str, port: int) -> list[socket.socket]:
    """Returns one bound socket for each address of the host, which does not accept connections yet.

    Addresses that this machine does not have, such as that of IPv6 where it is off, are left out if it has others.
    ``port`` 0 = any free one, the same for all addresses. Raises ConfigError for an unusable host or port.
    """
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            chosen = port_of(sockets) if sockets else port
            try:
                sockets.append(_bound(family, kind, (address[0], chosen, *address[2:])))
            except OSError as exc:
                if exc.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                missing = exc
        if missing is not None and not sockets:
            raise missing
    except OSError as exc:
        for bound in sockets:
            bound.close()
        raise _unusable(host, port, exc) from exc
    return sockets


def bind_workers(host: str, port: int, count: int) -> list[list[socket.socket]]:
    """Returns the sockets of each of ``count`` workers; see ``bind``. The system spreads connections over them.

    Raises ConfigError also if this system cannot do that.
    """
    alone = bind(host, port)
    if count == 1:
        return [alone]
    # sharing is for our workers only: ``bind`` has refused an address that another gateway has
    addresses = [(one.family, one.type, one.getsockname()) for one in alone]
    for one in alone:
        one.close()
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ConfigError([f"gateway.workers is {count}, which this system does not support; set it to 1"])
    try:
        return [[_bound(*address, is_shared=True) for address in addresses] for _ in range(count)]
    except OSError as exc:
        raise _unusable(host, port, exc) from exc


def _unusable(host: str, port: int, error: OSError) -> ConfigError:
    problem = f"the gateway cannot listen at {host!r}, port {port}: {error.strerror or error}"
    return ConfigError([f"{problem}; choose others with --host and --port"])


def _bound(family: int, kind: int, address: tuple[int | str, ...], *, is_shared: bool = False) -> socket.socket:
    opened = socket.socket(family, kind)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(address)
    except OSError:
        opened.close()
        raise
    return opened


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
