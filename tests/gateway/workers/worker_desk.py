"""A gateway in front of a server that a test writes, with workers in the same event loop."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import httpx2
from starlette.types import ASGIApp

from tests.models.upstreams.raw_server import (
    CHAT_END,
    SSE_HEAD,
    Behaviour,
    RawServer,
    Visit,
    chat_answer,
    chat_chunk,
    raw_server,
    upstream_at,
)
from upturn.arbiter import AgentRegistry, DiscountedThompson, Router, RunKey
from upturn.config import AccessConfig, GatewayConfig, UpstreamConfig
from upturn.gateway import Observer, Parts, build_app
from upturn.gateway.access import open_guard
from upturn.gateway.observation import GatewayMetrics
from upturn.gateway.workers import WorkerApp, WorkerLink
from upturn.loop.online import OnlineService, RouteTable
from upturn.models.upstreams import EndpointUpstream
from upturn.pool import Pool
from upturn.records import AgentVersion

MAX_BODY_BYTES = 100_000
CHAT = {"model": "ann", "messages": [{"role": "user", "content": "hi"}]}


async def answers(visit: Visit) -> None:
    """Answers "hello", whole or in two parts."""
    if not json.loads(visit.body).get("stream"):
        await visit.json(chat_answer())
        return
    await visit.send(SSE_HEAD)
    await visit.part(chat_chunk("hel"))
    await visit.part(chat_chunk("lo") + CHAT_END)
    await visit.part(b"")


class WorkerDesk(NamedTuple):
    """An application, the same through each worker, and what is behind it."""

    direct: httpx2.AsyncClient
    """A client without a worker."""
    clients: Sequence[httpx2.AsyncClient]
    """A client of each worker."""
    workers: Sequence[WorkerApp]
    service: OnlineService
    upstream: EndpointUpstream
    server: RawServer
    metrics: GatewayMetrics


def client_of(app: ASGIApp) -> httpx2.AsyncClient:
    """Returns a client of an application."""
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost")


@asynccontextmanager
async def worker_of(app: ASGIApp, on_stop: Callable[[], None] = lambda: None) -> AsyncIterator[WorkerApp]:
    """A worker of the application, connected by sockets as a process would be."""
    ours, theirs = socket.socketpair()
    link, worker = WorkerLink(app), WorkerApp(MAX_BODY_BYTES, on_stop)
    await link.channel.connect(ours)
    await worker.channel.connect(theirs)
    try:
        yield worker
    finally:
        await worker.tries.disconnect()
        worker.channel.close()
        await link.drain()
        link.channel.close()


@asynccontextmanager
async def open_workers(
    pool: Pool, behaviour: Behaviour = answers, count: int = 1, **settings: Any
) -> AsyncIterator[WorkerDesk]:
    """A gateway whose only agent is a server with this behaviour."""
    registry = AgentRegistry()
    registry.add(AgentVersion("ann", "1", "endpoint", model="http://unused"))
    router = Router(registry, DiscountedThompson(), RunKey("test", 0))
    guard = open_guard(AccessConfig(), pool, host="127.0.0.1", tenant="default")
    config, metrics = GatewayConfig(max_body_bytes=MAX_BODY_BYTES), GatewayMetrics()
    async with raw_server(behaviour) as server, upstream_at(server, UpstreamConfig(**settings)) as upstream:
        service = OnlineService(pool, router, RouteTable(config, registry), lambda _: upstream)
        app = build_app(Parts(service, guard, Observer(metrics, None), config))
        async with AsyncExitStack() as stack:
            workers = [await stack.enter_async_context(worker_of(app)) for _ in range(count)]
            direct = await stack.enter_async_context(client_of(app))
            clients = [await stack.enter_async_context(client_of(worker)) for worker in workers]
            yield WorkerDesk(direct, clients, workers, service, upstream, server, metrics)
            await service.log.drain()


async def until(condition: Callable[[], bool]) -> None:
    """Returns when the condition holds; fails after a minute."""
    async with asyncio.timeout(60.0):
        while not condition():
            await asyncio.sleep(0)
