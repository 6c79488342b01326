"""The main process's side of one worker: it answers the worker's requests, and sends calls through it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from time import perf_counter
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message

from upturn.gateway.http import RELAY, Relay
from upturn.gateway.retries import MARK
from upturn.gateway.workers.channel import Channel
from upturn.gateway.workers.messages import (
    Answer,
    Asked,
    Closed,
    Departed,
    Ended,
    Failed,
    Finished,
    FromWorker,
    Open,
    Opened,
    Pass,
    Ready,
    Stop,
)
from upturn.models.upstreams import Attempt, CallOutcome, Chunk, Endpoint, UpstreamCall, Verdict

_log = logging.getLogger("upturn.gateway")


class WorkerLink:
    """One worker. For one event loop."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.channel = Channel(self._on_message, self._on_close)
        """To the worker; connect it first."""
        self.ready = asyncio.Event()
        self._requests: dict[int, _Served] = {}
        self._tries: dict[int, RemoteTry] = {}
        self._endpoints: dict[Endpoint, int] = {}
        self._numbers = count(1)

    def stop(self) -> None:
        """Tells the worker to end when its requests are answered."""
        self.channel.send(Stop())

    async def drain(self) -> None:
        """Returns when no request is served; after the worker has ended."""
        if self._requests:
            await asyncio.wait([served.running for served in self._requests.values()])

    @asynccontextmanager
    async def open(
        self, request: Asked, endpoint: Endpoint, call: UpstreamCall, deadline: float
    ) -> "AsyncIterator[RemoteTry]":
        """Sends a call through the worker; see ``Sender.open``. ``request``: of the worker's client."""
        known = self._endpoints.get(endpoint)
        if known is None:
            self._endpoints[endpoint] = len(self._endpoints)
        tried = RemoteTry(self.channel, request.request, next(self._numbers))
        self._tries[tried.number] = tried
        self.channel.send(
            Open(
                request.request,
                tried.number,
                self._endpoints[endpoint],
                endpoint if known is None else None,
                None if call.body == request.body else call.body,
                call.request,
                call.dialect.name,
                call.headers,
                call.answer_id,
                deadline - perf_counter(),
                any(name == MARK for name, _ in request.scope["headers"]),
            )
        )
        try:
            await tried.opened
            yield tried
        finally:
            del self._tries[tried.number]
            self.channel.send(Closed(tried.number))

    def _on_message(self, message: FromWorker) -> None:
        match message:
            case Asked(number):
                self._requests[number] = _Served(self, message, self._app, self._finish)
            case Departed(number):
                if (served := self._requests.get(number)) is not None:
                    served.departed.set()
            case Opened(number) | Failed(number) | Ended(number):
                if (tried := self._tries.get(number)) is not None:
                    tried.receive(message)
            case Ready():
                self.ready.set()

    def _on_close(self) -> None:
        for served in self._requests.values():
            served.departed.set()

    def _finish(self, served: "_Served") -> None:
        self.channel.send(Finished(served.asked.request))
        del self._requests[served.asked.request]


class _Served:
    """A request of the worker, as the application sees it."""

    def __init__(self, link: WorkerLink, asked: Asked, app: ASGIApp, on_end: "Callable[[_Served], None]") -> None:
        self.asked = asked
        self.departed = asyncio.Event()
        self._channel = link.channel
        self._on_end = on_end
        self._is_read = False
        self._is_started = False
        relay = Relay(_RequestSender(link, asked), asked.started)
        scope = {**asked.scope, "extensions": {RELAY: relay}, "state": {}}
        self.running: asyncio.Future[None] = asyncio.ensure_future(app(scope, self._receive, self._send))
        self.running.add_done_callback(self._report)

    async def _receive(self) -> Message:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self.asked.body, "more_body": False}
        await self.departed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self._is_started = True
        self._channel.send(Answer(self.asked.request, message))

    def _report(self, running: "asyncio.Future[None]") -> None:
        error = None if running.cancelled() else running.exception()
        if error is not None:
            _log.error("a request failed", exc_info=error)
        if error is not None and not self._is_started:
            for message in _SERVER_ERROR:
                self._channel.send(Answer(self.asked.request, message))
        self._on_end(self)


class _RequestSender(NamedTuple):
    """Sends the calls of one request through the worker that has its client."""

    link: WorkerLink
    request: Asked

    def open(self, endpoint: Endpoint, call: UpstreamCall, deadline: float) -> AbstractAsyncContextManager[Attempt]:
        """See ``Sender.open``."""
        return self.link.open(self.request, endpoint, call, deadline)


class RemoteTry:
    """A try whose answer another process passes to the client."""

    def __init__(self, channel: Channel, request: int, number: int) -> None:
        self._channel = channel
        self._request = request
        self.number = number
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.verdict: Verdict = "none"
        self.outcome = CallOutcome()

    def receive(self, message: Opened | Failed | Ended) -> None:
        """Takes over a message of the worker."""
        match message:
            case Failed(_, error):
                if not self.opened.done():
                    self.opened.set_exception(error)
            case Opened(_, ended, verdict):
                self.verdict = verdict
                if ended is not None:
                    self.receive(ended)
                if not self.opened.done():
                    self.opened.set_result(None)
            case Ended(_, outcome, verdict, is_complete):
                self.outcome, self.verdict = outcome, verdict
                if is_complete and not self._ended.done():
                    self._ended.set_result(message)

    async def chunks(self) -> AsyncIterator[Chunk]:
        """The part that ends the answer; the worker holds it back, and passes the others."""
        if not self._ended.done():
            self._channel.send(Pass(self._request, self.number))
        ended = await self._ended
        yield Chunk(ended.content, is_end=True, held=self.number)


_SERVER_ERROR: tuple[Mapping[str, Any], ...] = (
    {"type": "http.response.start", "status": 500, "headers": [(b"content-type", b"text/plain; charset=utf-8")]},
    {"type": "http.response.body", "body": b"Internal Server Error"},
)
