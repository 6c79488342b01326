"""An upstream behind a URL: any server that speaks one of the three dialects.

Where client and server speak the same dialect, bytes pass through (``answer_stream``); otherwise both sides are
translated. A try that fails before the first part of the answer is repeated, within a budget. Redirects are not
followed: the URL of the configuration is the only one that is called. The key is sent in a header and nowhere else.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import aiohttp

from upturn.config import UpstreamConfig
from upturn.dialects import Dialect, Json, ModelAnswer, dialect_of
from upturn.errors import ModelError
from upturn.models.transport import base_of
from upturn.models.upstreams.answer_stream import AnswerStream
from upturn.models.upstreams.breaker import Breaker, CallLimit, RetryBudget
from upturn.models.upstreams.request_body import request_body, with_model
from upturn.models.upstreams.token_capture import TokenCapture
from upturn.models.upstreams.upstream import (
    BreakerState,
    CallOutcome,
    Chunk,
    Exchange,
    Forwarded,
    UpstreamCall,
    UpstreamError,
)

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FIRST_WAIT_SECONDS = 0.25
_LONGEST_WAIT_SECONDS = 10.0
"""Also the longest Retry-After that is waited for; the client gets a longer one."""
_LONGEST_ERROR = 65_536
"""Bytes of an error's body that are read."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model at one URL."""

    url: str
    """Base URL, such as ``https://api.openai.com/v1``."""
    model: str
    """Its name there."""
    settings: UpstreamConfig = field(default_factory=UpstreamConfig)
    api_key: str = field(default="", repr=False)


class EndpointUpstream:
    """Sends calls to an endpoint. For one event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Raises ModelError for a URL that is not http(s)."""
        self._endpoint = endpoint
        self.settings = settings = endpoint.settings
        self.dialect = dialect_of(settings.dialect)
        base = base_of(endpoint.url)
        self._base = base if base.endswith("/v1") else f"{base}/v1"
        self._url = f"{self._base}{self.dialect.path}"
        self._name = f"{endpoint.model!r} at {base}"
        self.breaker = Breaker(self._name, settings.breaker_failures, settings.breaker_seconds)
        self._budget = RetryBudget(settings.retry_share)
        self.limit = CallLimit(self._name, settings.max_concurrent, settings.max_waiting)
        self._session: aiohttp.ClientSession | None = None
        self._key = _key_headers(self.dialect, endpoint.api_key)

    @asynccontextmanager
    async def open(self, call: UpstreamCall) -> AsyncIterator[Exchange]:
        """Sends the call; see ``Upstream.open``."""
        async with self.limit.place():
            exchange = await self._answered(call)
            try:
                yield exchange
            finally:
                exchange.close()

    @property
    def breaker_state(self) -> BreakerState:
        """State of its circuit breaker."""
        return self.breaker.state

    async def embed(self, body: bytes) -> Forwarded:
        """The answer of the server's ``/embeddings``, passed through; see ``Upstream.embed``."""
        self.breaker.admit()
        timeouts = self.settings.timeouts
        content = with_model(body, self._endpoint.model)
        async with self.limit.place():
            try:
                async with asyncio.timeout(timeouts.whole):
                    response = await self._send(f"{self._base}/embeddings", content, {})
                    if response.status != 200:
                        raise await self._refusal(response)
                    answer = await response.read()
            except TimeoutError as exc:
                self.breaker.fail()
                raise UpstreamError(
                    f"{self._name} did not answer within {timeouts.whole:g} s", kind="timeout"
                ) from exc
            except aiohttp.ClientError as exc:
                self.breaker.fail()
                raise UpstreamError(f"{self._name} cannot be reached: {exc}", kind="connect") from exc
        self.breaker.succeed()
        return Forwarded(answer, _prompt_tokens(answer))

    async def close(self) -> None:
        """Ends all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _answered(self, call: UpstreamCall) -> "_EndpointExchange":
        """The exchange with its first part; tries again after failures that may pass."""
        capture = TokenCapture(self.settings.tokens, self.dialect.name, call)
        wants_usage = self.dialect.name == "chat" and call.request.is_streamed
        extras: Json = {**({"stream_options": {"include_usage": True}} if wants_usage else {}), **capture.fields}
        body = request_body(call, self.dialect, self._endpoint.model, extras)
        self._budget.count_call()
        tries = 0
        while True:
            self.breaker.admit()
            try:
                exchange = await self._try(call, body, capture)
            except UpstreamError as exc:
                self._judge(exc)
                wait = _wait(exc, tries)
                may_pass = exc.status in _RETRIED or (exc.status is None and exc.kind != "protocol")
                if not may_pass or tries >= self.settings.retries or wait is None or not self._budget.take():
                    raise
                tries += 1
                await asyncio.sleep(wait)
            except BaseException:
                self.breaker.release()
                raise
            else:
                self.breaker.succeed()
                return exchange

    def _judge(self, error: UpstreamError) -> None:
        """Counts a failure for the breaker; a refused request or a rate limit is none."""
        if error.is_fault_of_request or error.status == 429:
            self.breaker.succeed()
        else:
            self.breaker.fail()

    async def _try(self, call: UpstreamCall, body: bytes, capture: TokenCapture) -> "_EndpointExchange":
        """Raises UpstreamError for a failure before the first part of the answer."""
        timeouts = self.settings.timeouts
        response: aiohttp.ClientResponse | None = None
        try:
            async with asyncio.timeout(min(timeouts.first_token, timeouts.whole)):
                response = await self._send(self._url, body, call.headers)
                if response.status != 200:
                    raise await self._refusal(response)
                exchange = _EndpointExchange(response, call, self, capture)
                await exchange.begin()
        except TimeoutError as exc:
            _close(response)
            raise UpstreamError(
                f"{self._name} did not begin its answer within {timeouts.first_token:g} s "
                "(agents.upstream.timeouts.first_token)",
                kind="timeout",
            ) from exc
        except aiohttp.ClientConnectorError as exc:
            raise UpstreamError(f"{self._name} cannot be reached: {exc.strerror or exc}", kind="connect") from exc
        except aiohttp.ClientError as exc:
            _close(response)
            raise UpstreamError(f"{self._name} broke off: {type(exc).__name__}: {exc}", kind="connect") from exc
        except BaseException:
            _close(response)
            raise
        return exchange

    async def _send(self, url: str, body: bytes, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.settings.timeouts.connect)
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=True, cookie_jar=aiohttp.DummyCookieJar()
            )
        all_headers = {**headers, "content-type": "application/json", **self._key}
        return await self._session.post(url, data=body, headers=all_headers, allow_redirects=False)

    async def _refusal(self, response: aiohttp.ClientResponse) -> UpstreamError:
        content = await response.content.read(_LONGEST_ERROR)
        retry_after = response.headers.get("retry-after", "")
        response.close()
        status = response.status
        said = _error_message(content)
        hint = "; check the key of the agent (agents.api_key_env)" if status in (401, 403) else ""
        return UpstreamError(
            f"{self._name} answered HTTP {status}: {said}{hint}",
            kind="status",
            status=status,
            retry_after_seconds=int(retry_after) if retry_after.isdecimal() else None,
        )


class _EndpointExchange:
    """One answer of an endpoint."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        call: UpstreamCall,
        upstream: EndpointUpstream,
        capture: TokenCapture,
    ) -> None:
        self._response = response
        self._call = call
        self._dialect = upstream.dialect
        self._settings = upstream.settings
        self._capture = capture
        self._started = perf_counter()
        self._first: bytes = b""
        self._first_seconds: float | None = None
        self._whole = CallOutcome()
        self._is_streamed = call.request.is_streamed
        self._stream = AnswerStream(call, upstream.dialect, strips_usage=not call.request.has_stream_usage)

    async def begin(self) -> None:
        """Reads the first part of a stream, or a whole answer. Raises UpstreamError for what is not an answer."""
        if self._is_streamed:
            self._first = await self._response.content.readany()
            if not self._first:
                raise UpstreamError(f"{self._response.url} ended its stream before it began", kind="protocol")
        else:
            self._first = await self._read_whole()
        self._first_seconds = perf_counter() - self._started
        if not self._is_streamed:
            self._first = self._translated(self._first)

    async def _read_whole(self) -> bytes:
        parts, size = [], 0
        async for part in self._response.content.iter_any():
            size += len(part)
            if size > self._settings.max_answer_bytes:
                raise _too_large(self._settings)
            parts.append(part)
        return b"".join(parts)

    def _translated(self, content: bytes) -> bytes:
        """The client's form of a whole answer."""
        try:
            answer = self._dialect.read_answer(content)
        except ModelError as exc:
            raise UpstreamError(f"{self._response.url}: {exc}", kind="protocol") from exc
        answer_id = self._call.answer_id or answer.id
        ours = replace(answer, id=answer_id)
        tokens, problem = self._capture.of_answer(content, answer)
        self._whole = CallOutcome(ours, "", answer.usage, self._first_seconds, tokens, problem)
        if self._dialect.name != self._call.dialect.name:
            return _dump(self._call.dialect.write_answer(ours, self._call.request))
        return self._capture.stripped(_renamed(content, answer, answer_id))

    async def chunks(self) -> AsyncIterator[Chunk]:
        """The answer."""
        if not self._is_streamed:
            yield Chunk(self._first, is_end=True)
            return
        try:
            async for content in self._parts():
                for chunk in self._stream.feed(self._capture.seen(content)):
                    yield chunk
                if self._stream.is_over:
                    return
        except (ModelError, aiohttp.ClientError, TimeoutError) as exc:
            yield self._stream.fail(_stream_failure(exc, self._settings))
        else:
            yield self._stream.end()

    async def _parts(self) -> AsyncIterator[bytes]:
        timeouts, size = self._settings.timeouts, len(self._first)
        yield self._first
        while True:
            left = self._started + timeouts.whole - perf_counter()
            async with asyncio.timeout(max(0.0, min(timeouts.between_tokens, left))):
                content = await self._response.content.readany()
            if not content:
                return
            size += len(content)
            if size > self._settings.max_answer_bytes:
                raise _too_large(self._settings)
            yield content

    @property
    def outcome(self) -> CallOutcome:
        """What has come so far."""
        if not self._is_streamed:
            return self._whole
        transcript = self._stream.transcript
        answer: ModelAnswer | None = transcript.answer()
        if answer is not None and self._call.answer_id:
            answer = replace(answer, id=self._call.answer_id)
        failure = transcript.failure
        tokens, problem = (None, "") if failure or answer is None else self._capture.of_stream(answer)
        return CallOutcome(answer, failure, transcript.usage, self._first_seconds, tokens, problem)

    def close(self) -> None:
        """Ends the call, unless its answer was read to the end: then the connection is used again."""
        _close(self._response)


def _close(response: aiohttp.ClientResponse | None) -> None:
    if response is None:
        return
    if response.content.at_eof():
        response.release()
    else:
        response.close()


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


def _wait(error: UpstreamError, tries: int) -> float | None:
    """Seconds before the next try; None = the server wants to be left alone for longer than we wait."""
    if error.retry_after_seconds is not None:
        return None if error.retry_after_seconds > _LONGEST_WAIT_SECONDS else float(error.retry_after_seconds)
    return min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0**tries)


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


def _too_large(settings: UpstreamConfig) -> UpstreamError:
    return UpstreamError(
        f"the answer has more than {settings.max_answer_bytes:,} bytes (agents.upstream.max_answer_bytes)",
        kind="protocol",
    )


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
