"""The sockets that clients connect to: each worker has its own, and the system spreads connections over them.

The main process keeps them open: connections wait while a worker is replaced.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from upturn.config import refuse


class _Address(NamedTuple):
    family: int
    address: tuple[str, int]


@contextmanager
def listening_sockets(host: str, port: int, count: int) -> Iterator[Sequence[Sequence[socket.socket]]]:
    """Binds ``count`` times to the host's addresses. ``port``: 0 = any free one.

    Raises ConfigError if an address cannot be used, or if this system cannot spread connections.
    """
    is_possible = hasattr(socket, "SO_REUSEPORT") and hasattr(socket, "AF_UNIX")
    refuse(None if is_possible else f"gateway.workers is {count}, which this system does not support; set it to 1")
    with ExitStack() as stack:
        try:
            addresses = _free_addresses(host, port)
            sockets = [
                [stack.enter_context(_bound(one, is_shared=True)) for one in addresses] for _ in range(count)
            ]
        except OSError as exc:
            problem = (
                f"cannot listen at {host}, port {port}: {exc.strerror or exc}; choose another --host or --port"
            )
            refuse(problem)
        yield sockets


def _free_addresses(host: str, port: int) -> Sequence[_Address]:
    """Returns the host's addresses, all with the same port; raises OSError if one is in use.

    Shared sockets alone would not tell: two gateways could have the same address, and clients reach either.
    """
    free: list[_Address] = []
    for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        wanted = _Address(family, (str(address[0]), free[0].address[1] if free else port))
        with _bound(wanted, is_shared=False) as alone:
            free.append(_Address(family, (wanted.address[0], alone.getsockname()[1])))
    return free


def _bound(wanted: _Address, *, is_shared: bool) -> socket.socket:
    bound = socket.socket(wanted.family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if wanted.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(wanted.address)
    except BaseException:
        bound.close()
        raise
    return bound
