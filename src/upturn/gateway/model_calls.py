"""The endpoints of model calls, one for each dialect, as ASGI applications.

Order of checks: body size, caller, JSON and fields, model name, agents. Every error has the shape of the caller's
dialect. If the client leaves, the upstream's call is cancelled, also before the first token.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from time import perf_counter

from starlette.types import Receive, Scope, Send

from upturn.dialects import Dialect, RequestError
from upturn.errors import UpturnError
from upturn.gateway.access import Access
from upturn.gateway.episode_name import episode_name, sub_agent_name
from upturn.gateway.http import (
    JSON_TYPE,
    STREAM_TYPE,
    cancel,
    headers_of,
    read_body,
    send_body,
    send_json,
    send_start,
    until_departure,
)
from upturn.gateway.retries import Answered, RecentAnswers
from upturn.loop.online import Arrival, LiveCall, OnlineService

FORWARDED = ("anthropic-version", "anthropic-beta", "openai-beta", "traceparent", "tracestate", "user-agent")
"""Headers that the upstream gets unchanged."""
_log = logging.getLogger("upturn.gateway")


class ModelCalls:
    """Answers the model calls of one dialect."""

    def __init__(
        self,
        dialect: Dialect,
        service: OnlineService,
        access: Access,
        recent: RecentAnswers,
        *,
        max_body_bytes: int,
        observe: Callable[[LiveCall, float], None] = lambda _call, _seconds: None,
    ) -> None:
        """``observe`` is called after a call with the seconds that it spent here, the upstream's excluded."""
        self._dialect = dialect
        self._service = service
        self._access = access
        self._recent = recent
        self._max_body_bytes = max_body_bytes
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        started = perf_counter()
        answer = _Answer(send, self._dialect)
        try:
            headers = headers_of(scope)
            body = await read_body(receive, headers, self._max_body_bytes)
            client = self._access.client(headers, scope)
            request = self._dialect.read_request(body)
            episode = episode_name(scope, headers, request.metadata)
            arrival = Arrival(
                self._dialect,
                body,
                request,
                client,
                {name: headers[name] for name in FORWARDED if name in headers},
                episode,
                sub_agent_name(headers),
                headers.get("x-upturn-family", "") or str(request.metadata.get("family", "")),
                started=started,
            )
            serving = asyncio.ensure_future(self._serve(arrival, headers, answer))
            leaving = asyncio.ensure_future(until_departure(receive))
            try:
                await asyncio.wait([serving, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                if not serving.done():
                    await cancel(serving)
            if not serving.cancelled():
                serving.result()
        except RequestError as exc:
            await answer.fail(exc)
        except ConnectionError:
            return
        except UpturnError as exc:
            _log.exception("a call failed")
            await answer.fail(RequestError(str(exc), status=503, code="unavailable"))

    async def _serve(self, arrival: Arrival, headers: Mapping[str, str], answer: "_Answer") -> None:
        retry = self._recent.key(arrival.client, self._dialect.name, arrival.body, headers)
        if (earlier := await self._recent.earlier(retry, headers)) is not None:
            await answer.replay(earlier)
            return
        with self._recent.recording(retry) as recording:
            async with self._service.serve(arrival) as call:
                kept = recording.start(call.headers, is_streamed=arrival.request.is_streamed)
                await answer.start(call.headers, is_streamed=arrival.request.is_streamed)
                async for content in call.chunks():
                    kept.add(content)
                    await answer.send(content)
                await answer.end()
                recording.finish()
                self._observe(call, perf_counter() - arrival.started)


class _Answer:
    """The answer to one request: whole or streamed."""

    def __init__(self, send: Send, dialect: Dialect) -> None:
        self._send = send
        self._dialect = dialect
        self._is_started = False
        self._is_streamed = False
        self._headers: Mapping[str, str] = {}
        self._whole: list[bytes] = []

    async def start(self, headers: Mapping[str, str], *, is_streamed: bool) -> None:
        """A stream's head is sent at once, that of a whole answer with its content."""
        self._headers, self._is_streamed = headers, is_streamed
        if is_streamed:
            self._is_started = True
            await send_start(self._send, 200, {**headers, "cache-control": "no-cache"}, STREAM_TYPE)

    async def send(self, content: bytes) -> None:
        """Sends a part of a stream; keeps a part of a whole answer."""
        if self._is_streamed:
            await send_body(self._send, content, is_last=False)
        else:
            self._whole.append(content)

    async def end(self) -> None:
        """Ends the answer."""
        if self._is_streamed:
            await send_body(self._send, b"", is_last=True)
            return
        content = b"".join(self._whole)
        self._is_started = True
        headers = {**self._headers, "content-length": str(len(content))}
        await send_start(self._send, 200, headers, JSON_TYPE)
        await send_body(self._send, content, is_last=True)

    async def replay(self, earlier: Answered) -> None:
        """Sends an earlier answer again."""
        await self.start({**earlier.headers, "x-upturn-replayed": "true"}, is_streamed=earlier.is_streamed)
        await self.send(earlier.content)
        await self.end()

    async def fail(self, error: RequestError) -> None:
        """Sends an error; after the head of a stream was sent, it only ends the stream."""
        if self._is_started:
            await self.end()
            return
        headers = {} if error.retry_after_seconds is None else {"retry-after": str(error.retry_after_seconds)}
        await send_json(self._send, error.status, self._dialect.error(error), headers)
