"""Where the gateway listens, and how it stops."""

import signal
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.forked import Forked, forked
from upturn.errors import ConfigError
from upturn.gateway.listener import base_url, bind, port_of

PROGRAM = """
from upturn.gateway.listener import bind, serve

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})

def run():
    try:
        serve(app, bind("127.0.0.1", 0), lambda: print("listening", flush=True))
    finally:
        print("closed in order", flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Forked]:
    with forked(PROGRAM) as running:
        yield running


def test_a_port_in_use_is_refused_before_anything_is_loaded() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"'127.0.0.1', port {port}: Address already in use; .* --port"):
            bind("127.0.0.1", port)


def test_an_unknown_host_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen at 'no-such-host\.invalid', port 8000: .*--host"):
        bind("no-such-host.invalid", 8000)


def test_any_free_port_is_the_same_for_all_addresses_of_a_name() -> None:
    sockets = bind("localhost", 0)
    try:
        assert {bound.getsockname()[1] for bound in sockets} == {port_of(sockets)}
        assert port_of(sockets) > 0
    finally:
        for bound in sockets:
            bound.close()


def test_an_address_that_the_machine_does_not_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_arguments: object, **_options: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    addresses = ["192.0.2.1", "127.0.0.1"]  # the first one is for documentation only (RFC 5737)
    [bound] = bind("localhost", 0)
    assert bound.getsockname()[0] == "127.0.0.1"
    bound.close()
    addresses = ["192.0.2.1"]
    with pytest.raises(ConfigError, match="Cannot assign requested address"):
        bind("localhost", 0)


def test_addresses_for_clients() -> None:
    assert base_url("127.0.0.1", 8000) == "http://127.0.0.1:8000/v1"
    assert base_url("::1", 8000) == "http://[::1]:8000/v1"


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_and_its_caller_in_order(server: Forked, stop: signal.Signals) -> None:
    server.start()
    assert server.line() == "listening\n"
    server.signal(stop)
    assert server.end() == (["closed in order\n"], 0)
