"""Starts workers, replaces those that end, and stops them."""

import asyncio
import logging
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from time import monotonic

from starlette.types import ASGIApp
from uvicorn.lifespan.on import LifespanOn

from upturn.errors import ClusterError
from upturn.gateway.workers.link import WorkerLink
from upturn.gateway.workers.process import STOP_SECONDS, server_config

_START_SECONDS = 60.0
_SHORT_LIFE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 30.0
_MODULE = "upturn.gateway.workers.worker"
_log = logging.getLogger("upturn.gateway")


class Supervisor:
    """Serves an application with workers. Single use."""

    def __init__(self, app: ASGIApp, listening: Sequence[Sequence[socket.socket]], max_body_bytes: int) -> None:
        """``listening``: the sockets of each worker, which are closed at the end."""
        self._app = app
        self._listening = listening
        self._stopping = asyncio.Event()
        self._workers = [_Worker(app, one, max_body_bytes, self._stopping) for one in listening]

    async def serve(self, on_start: Callable[[], None]) -> None:
        """Serves until SIGINT or SIGTERM; a second signal does not wait for calls in service.

        ``on_start`` is called once all workers serve. Raises ClusterError if one does not start.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        async with _lifespan(self._app):
            try:
                await asyncio.gather(*(worker.start() for worker in self._workers))
                on_start()
                await asyncio.gather(*(worker.keep() for worker in self._workers))
            finally:
                for worker in self._workers:
                    await worker.kill()

    def _stop(self) -> None:
        for worker in self._workers:
            worker.stop(at_once=self._stopping.is_set())
        self._stopping.set()
        for one in chain.from_iterable(self._listening):
            one.close()  # new connections are refused from now on, and do not wait


class _Worker:
    """One worker, and those that take its place."""

    def __init__(
        self, app: ASGIApp, listening: Sequence[socket.socket], max_body_bytes: int, stopping: asyncio.Event
    ) -> None:
        self._app = app
        self._listening = listening
        self._max_body_bytes = max_body_bytes
        self._stopping = stopping
        self._link = WorkerLink(app)
        self._process: Process | None = None

    async def start(self) -> None:
        """Starts a process; raises ClusterError if it does not serve."""
        ours, theirs = socket.socketpair()
        self._link = WorkerLink(self._app)
        descriptors = [one.fileno() for one in (theirs, *self._listening)]
        arguments = [str(self._max_body_bytes), *map(str, descriptors)]
        with theirs:
            # a session of its own: Ctrl-C goes to this process, which stops the worker in order
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", _MODULE, *arguments, pass_fds=descriptors, start_new_session=True
            )
        await self._link.channel.connect(ours)
        ready, ended = (
            asyncio.ensure_future(waiting) for waiting in (self._link.ready.wait(), self._process.wait())
        )
        await asyncio.wait([ready, ended], timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (ready, ended):
            waiting.cancel()
        if not self._link.ready.is_set() and not self._stopping.is_set():
            code = self._process.returncode
            await self.kill()
            what = "did not start within 60 s" if code is None else f"ended with code {code} before it served"
            raise ClusterError(f"a worker {what}; its messages are above. Try gateway.workers = 1")

    async def keep(self) -> None:
        """Starts another process whenever this one ends; returns once all have ended by order."""
        pause = 0.0
        while True:
            started = monotonic()
            await self._ended()
            await self._link.drain()
            if self._stopping.is_set():
                return
            pause = (
                0.0 if monotonic() - started > _SHORT_LIFE_SECONDS else min(_LONGEST_PAUSE_SECONDS, 2 * pause + 1)
            )
            _log.error("a worker has ended; the next one starts in %g s", pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            if self._stopping.is_set():
                return
            try:
                await self.start()
            except ClusterError as exc:
                _log.error("%s", exc)

    def stop(self, *, at_once: bool) -> None:
        """Tells the process to end when its requests are answered, or ends it."""
        if at_once and self._process is not None and self._process.returncode is None:
            self._process.kill()
        self._link.stop()

    async def kill(self) -> None:
        """Ends the process."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._link.channel.close()

    async def _ended(self) -> None:
        """Returns when the process has ended; one that does not stop in time is killed."""
        assert self._process is not None, "start comes first"
        ended = asyncio.ensure_future(self._process.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not ended.done():
            await asyncio.wait([ended], timeout=STOP_SECONDS + 5.0)
        await self.kill()


@asynccontextmanager
async def _lifespan(app: ASGIApp) -> AsyncIterator[None]:
    lifespan = LifespanOn(server_config(app))
    await lifespan.startup()
    if lifespan.should_exit:
        raise ClusterError("the gateway did not start; the message above says why")
    try:
        yield
    finally:
        await lifespan.shutdown()
