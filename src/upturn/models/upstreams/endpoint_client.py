"""One try of a call at a server behind a URL, and its answer.

Where client and server speak the same dialect, bytes pass through (``answer_stream``); otherwise both sides are
translated. Redirects are not followed: the URL of the configuration is the only one that is called. The key is sent
in a header and nowhere else.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import ceil
from time import perf_counter
from typing import Any

import aiohttp

from upturn.config import UpstreamConfig
from upturn.dialects import Dialect, Json, ModelAnswer, RequestError, dialect_of
from upturn.errors import ModelError
from upturn.models.transport import base_of
from upturn.models.upstreams.answer_stream import LARGEST_EVENT, AnswerStream
from upturn.models.upstreams.concealment import Concealment
from upturn.models.upstreams.request_body import request_body, with_model
from upturn.models.upstreams.token_capture import TokenCapture
from upturn.models.upstreams.upstream import (
    CallOutcome,
    Chunk,
    Endpoint,
    ErrorKind,
    Forwarded,
    UpstreamCall,
    UpstreamError,
    Verdict,
)

_LONGEST_ERROR = 65_536
"""Bytes of an error's body that are read."""
_DRAIN_SECONDS = 1.0
"""Time for a server to end its response after the answer's end, so that the connection is used again."""
_MESSAGES_VERSION = "2023-06-01"
"""Of Anthropic's API, for clients that name none."""


class EndpointClient:
    """Sends calls to one endpoint, each once. For one event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Raises ModelError for a URL that is not http(s)."""
        self._endpoint = endpoint
        self.settings = endpoint.settings
        self.dialect = dialect_of(self.settings.dialect)
        base = base_of(endpoint.url)
        self._base = base if base.endswith("/v1") else f"{base}/v1"
        self._url = f"{self._base}{self.dialect.path}"
        self._name = repr(endpoint.model)
        self.concealment = Concealment(base, endpoint.api_key)
        self._session: aiohttp.ClientSession | None = None
        self._key = _key_headers(self.dialect, endpoint.api_key)
        self._drains: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self, call: UpstreamCall, deadline: float) -> "AsyncIterator[EndpointExchange]":
        """Sends the call; see ``Sender.open``."""
        exchange = await self._sent(call, deadline)
        try:
            yield exchange
        finally:
            self._end(exchange.response, is_answered=exchange.verdict == "answered")

    async def embed(self, body: bytes) -> Forwarded:
        """The answer of the server's ``/embeddings``, passed through; see ``Upstream.embed``."""
        content = with_model(body, self._endpoint.model)
        try:
            async with asyncio.timeout(self.settings.timeouts.whole):
                response = await self._send(f"{self._base}/embeddings", content, {})
                if response.status != 200:
                    raise await self._refusal(response)
                answer = await response.read()
        except TimeoutError as exc:
            seconds = self.settings.timeouts.whole
            raise self.error(f" did not answer within {seconds:g} s", kind="timeout") from exc
        except aiohttp.ClientError as exc:
            raise self.error(" cannot be reached", kind="connect", detail=f": {exc}") from exc
        return Forwarded(answer, _prompt_tokens(answer))

    async def close(self) -> None:
        """Ends all connections."""
        session, self._session = self._session, None
        for drain in self._drains:
            drain.cancel()
        if session is not None:
            await session.close()

    def _end(self, response: aiohttp.ClientResponse, *, is_answered: bool) -> None:
        """Ends a response; the connection is used again if the whole of it comes soon."""
        if not is_answered or response.content.at_eof():
            _close(response)
            return
        drain = asyncio.ensure_future(_drain(response))
        self._drains.add(drain)
        drain.add_done_callback(self._drains.discard)

    async def _sent(self, call: UpstreamCall, deadline: float) -> "EndpointExchange":
        """The exchange with its first part."""
        capture = TokenCapture(self.settings.tokens, self.dialect.name, call)
        wants_usage = self.dialect.name == "chat" and call.request.is_streamed
        extras: Json = {**({"stream_options": {"include_usage": True}} if wants_usage else {}), **capture.fields}
        try:
            body = request_body(call, self.dialect, self._endpoint.model, extras)
        except RequestError as exc:
            raise self.error(f": {exc}", kind="unsendable", status=exc.status) from exc
        timeouts = self.settings.timeouts
        response: aiohttp.ClientResponse | None = None
        started = perf_counter()
        left = max(0.0, deadline - started)
        # nothing of a whole answer comes before all of it is written
        limit = min(timeouts.first_token, left) if call.request.is_streamed else left
        try:
            async with asyncio.timeout(limit):
                response = await self._send(self._url, body, call.headers)
                if response.status != 200:
                    raise await self._refusal(response)
                exchange = EndpointExchange(response, call, self, capture, started=started, deadline=deadline)
                await exchange.begin()
        except aiohttp.ServerTimeoutError as exc:
            text = f" cannot be reached within {timeouts.connect:g} s (agents.upstream.timeouts.connect)"
            raise self.error(text, kind="connect") from exc
        except TimeoutError as exc:
            _close(response)
            name = "whole" if limit == left else "first_token"
            text = f" did not begin its answer within {limit:.3g} s (agents.upstream.timeouts.{name})"
            raise self.error(text, kind="timeout") from exc
        except aiohttp.ClientConnectorError as exc:
            detail = f": {exc.strerror or exc}"
            raise self.error(" cannot be reached", kind="connect", detail=detail) from exc
        except aiohttp.ClientError as exc:
            _close(response)
            raise self.error(f" broke off: {type(exc).__name__}", kind="connect") from exc
        except BaseException:
            _close(response)
            raise
        return exchange

    async def _send(self, url: str, body: bytes, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.settings.timeouts.connect)
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        all_headers = {
            **({"anthropic-version": _MESSAGES_VERSION} if self.dialect.name == "messages" else {}),
            **headers,
            "content-type": "application/json",
            "accept-encoding": "identity",
            **self._key,
        }
        return await self._session.post(url, data=body, headers=all_headers, allow_redirects=False)

    async def _refusal(self, response: aiohttp.ClientResponse) -> UpstreamError:
        content = b""
        while len(content) < _LONGEST_ERROR and (part := await response.content.readany()):
            content += part
        _close(response)
        status = response.status
        hint = (
            "; check the key of the agent (agents.api_key_env or agents.api_key_file)"
            if status in (401, 403)
            else ""
        )
        error = self.error(
            f" answered HTTP {status}: {_error_message(content)}{hint}", kind="status", status=status
        )
        error.retry_after_seconds = retry_after(response.headers.get("retry-after", ""))
        return error

    def error(self, text: str, *, kind: ErrorKind, status: int | None = None, detail: str = "") -> UpstreamError:
        """Returns the error of a call. ``detail``: for the operator only."""
        where, key = f" at {self._base}", self._endpoint.api_key
        message = f"{self._name}{where}{text}{detail}"
        return UpstreamError(
            message.replace(key, "…") if key else message,
            kind=kind,
            status=status,
            shown=self.concealment.text(f"{self._name}{text}"),
        )


class EndpointExchange:
    """One answer of an endpoint."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        call: UpstreamCall,
        client: EndpointClient,
        capture: TokenCapture,
        *,
        started: float,
        deadline: float,
    ) -> None:
        """``started``, ``deadline``: of the try and of the whole call, by ``perf_counter``."""
        self.response = response
        self._call = call
        self._client = client
        self._settings = client.settings
        self._capture = capture
        self._started = started
        self._deadline = deadline
        self._first: list[Chunk] = []
        self._first_seconds: float | None = None
        self._size = 0
        self._whole = CallOutcome()
        self._is_streamed = call.request.is_streamed
        self._stream = AnswerStream(call, client.dialect, capture, client.concealment.content)

    @property
    def verdict(self) -> Verdict:
        """See ``Attempt``; ``none`` before the answer's end."""
        if not self._is_streamed:
            return "answered"
        if self._stream.transcript.failure:
            return "failed"
        return "answered" if self._stream.is_over else "none"

    async def begin(self) -> None:
        """Reads a stream up to its first token, or a whole answer. Raises UpstreamError for what is no answer."""
        if not self._is_streamed:
            content = await self._read_whole()
            self._first_seconds = perf_counter() - self._started
            self._first = [Chunk(self._translated(content), is_end=True)]
            return
        transcript = self._stream.transcript
        try:
            while not transcript.has_begun:
                content = await self._read()
                for chunk in self._stream.feed(content) if content else [self._stream.end()]:
                    self._first.append(chunk)
                if self._size > LARGEST_EVENT and not transcript.has_begun:
                    raise ModelError(f"{LARGEST_EVENT:,} bytes came before the first token")
        except ModelError as exc:
            self._first.append(self._stream.fail(str(exc)))
        if transcript.failure and not transcript.has_parts:
            raise self._client.error(f": {transcript.failure}", kind="protocol")
        self._first_seconds = perf_counter() - self._started

    async def _read(self) -> bytes:
        """More of the answer; empty = it is over. Raises ModelError for one that is too large."""
        content = await self.response.content.readany()
        self._size += len(content)
        if self._size > self._settings.max_answer_bytes:
            raise ModelError(
                f"the answer has more than {self._settings.max_answer_bytes:,} bytes "
                "(agents.upstream.max_answer_bytes)"
            )
        return content

    async def _read_whole(self) -> bytes:
        try:
            parts = [await self._read()]
            while parts[-1] and not self.response.content.at_eof():
                async with asyncio.timeout(self._settings.timeouts.between_tokens):
                    parts.append(await self._read())
        except ModelError as exc:
            raise self._client.error(f": {exc}", kind="protocol") from exc
        return b"".join(parts)

    def _translated(self, content: bytes) -> bytes:
        """The client's form of a whole answer."""
        dialect = self._client.dialect
        try:
            answer = dialect.read_answer(content)
        except ModelError as exc:
            raise self._client.error(f": {exc}", kind="protocol") from exc
        answer_id = self._call.answer_id or answer.id
        ours = replace(answer, id=answer_id)
        content = self._capture.whole(content)
        captured = self._capture.row(answer)
        self._whole = CallOutcome(ours, "", answer.usage, self._first_seconds, *captured)
        if dialect.name != self._call.dialect.name:
            return _dump(self._call.dialect.write_answer(ours, self._call.request))
        return _renamed(content, answer, answer_id)

    async def chunks(self) -> AsyncIterator[Chunk]:
        """The answer."""
        for chunk in self._first:
            yield chunk
        while self._is_streamed and not self._stream.is_over:
            try:
                left = max(0.0, self._deadline - perf_counter())
                async with asyncio.timeout(min(self._settings.timeouts.between_tokens, left)):
                    content = await self._read()
                if not content:
                    yield self._stream.end()
                    return
                for chunk in self._stream.feed(content):
                    yield chunk
            except (ModelError, aiohttp.ClientError, TimeoutError) as exc:
                yield self._stream.fail(_stream_failure(exc, self._settings))

    @property
    def outcome(self) -> CallOutcome:
        """What has come so far."""
        if not self._is_streamed:
            return self._whole
        transcript = self._stream.transcript
        answer: ModelAnswer | None = transcript.answer()
        if answer is not None and self._call.answer_id:
            answer = replace(answer, id=self._call.answer_id)
        failure = self._client.concealment.text(transcript.failure)
        captured = () if failure or answer is None else self._capture.row(answer)
        return CallOutcome(answer, failure, transcript.usage, self._first_seconds, *captured)


def _close(response: aiohttp.ClientResponse | None) -> None:
    if response is None:
        return
    if response.content.at_eof():
        response.release()
    else:
        response.close()


async def _drain(response: aiohttp.ClientResponse) -> None:
    with suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            await response.content.readany()
    _close(response)


def _key_headers(dialect: Dialect, api_key: str) -> Mapping[str, str]:
    if not api_key:
        return {}
    if dialect.name == "messages":
        return {"x-api-key": api_key}
    return {"authorization": f"Bearer {api_key}"}


def _prompt_tokens(content: bytes) -> int:
    """The reported tokens of the prompt; 0 = not reported."""
    try:
        return int(json.loads(content)["usage"]["prompt_tokens"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0


def retry_after(header: str) -> int | None:
    """Seconds, rounded up, in a ``Retry-After`` header, which holds seconds or a date; None = neither."""
    try:
        return max(0, ceil(float(header)))
    except (ValueError, OverflowError):
        pass
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0, ceil((aware - datetime.now(UTC)).total_seconds()))


def _error_message(content: bytes) -> str:
    """The message in an error's body, else the start of the body."""
    try:
        body: Any = json.loads(content)
        error = body["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:1000]
    except (ValueError, KeyError, TypeError, RecursionError):
        return repr(content[:300])


def _renamed(content: bytes, answer: ModelAnswer, answer_id: str) -> bytes:
    theirs, ours = answer.id.encode(), answer_id.encode()
    if not theirs:
        return content
    return content.replace(b'"id":"' + theirs + b'"', b'"id":"' + ours + b'"', 1).replace(
        b'"id": "' + theirs + b'"', b'"id": "' + ours + b'"', 1
    )


def _dump(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _stream_failure(error: Exception, settings: UpstreamConfig) -> str:
    if isinstance(error, TimeoutError):
        timeouts = settings.timeouts
        return (
            f"the upstream sent nothing for {timeouts.between_tokens:g} s, or its answer took more than "
            f"{timeouts.whole:g} s (agents.upstream.timeouts)"
        )
    if isinstance(error, aiohttp.ClientError):
        return f"the upstream broke off: {type(error).__name__}"
    return str(error)
