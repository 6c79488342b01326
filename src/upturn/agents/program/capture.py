"""A server on loopback through which a program's model calls pass: one policy, one key, for one attempt.

It speaks all dialects, also as streams, whatever the model's server speaks (``models.upstreams``), and records the
calls. Not here: routing, tenants, feedback (``upturn.gateway``).
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from types import TracebackType
from typing import Self

from aiohttp import web

from upturn.agents.agent import model_usage
from upturn.dialects import (
    DIALECTS,
    Dialect,
    Message,
    RequestError,
    TokenUsage,
    credible_usage,
    request_object,
)
from upturn.environments import MAX_ACTION_LENGTH
from upturn.models.upstreams import CallOutcome, Upstream, UpstreamCall, UpstreamError
from upturn.records import ModelUsage, fields_json, record

_USAGE_PATH = "/usage"
_USAGE_FIELDS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cached_input_tokens": "cached_input",
    "cache_write_tokens": "cache_write",
    "cache_write_1h_tokens": "cache_write_1h",
}
"""What a program may report, and its name in ``TokenUsage``."""
_LARGEST_BODY = 64 * 2**20
_CLOSING_SECONDS = 0.5
"""For calls that a program leaves behind."""


@record
class CapturedCall:
    """One call of the program."""

    messages: tuple[Message, ...]
    """What it sent after the first ``repeated`` messages."""
    answer: Message | None
    """What it got, also before a failure; None = nothing."""
    usage: TokenUsage
    failure: str = ""
    """Empty = the answer is complete."""
    repeated: int = 0
    """How many messages at its beginning are those of the call before."""
    is_cut: bool = False
    """True = the turn's calls are too long to record, so messages and answer are left out."""


@record
class CapturedCalls:
    """The calls of one turn, in the order in which they ended."""

    calls: tuple[CapturedCall, ...]


def stored_calls(calls: Sequence[CapturedCall]) -> str:
    """``Turn.message`` of a turn with these calls: messages that the call before sent, too, are not repeated, and
    contents are left out where they would be too long."""
    stored, before = list[CapturedCall](), tuple[Message, ...]()
    for call in calls:
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, call.messages, strict=False)))
        stored.append(replace(call, messages=call.messages[same:], repeated=same))
        before = call.messages
    text = fields_json(CapturedCalls(tuple(stored))) if stored else ""
    if len(text) <= MAX_ACTION_LENGTH:
        return text
    return fields_json(CapturedCalls(tuple(replace(call, messages=(), answer=None, is_cut=True) for call in calls)))


@dataclass
class CaptureServer:
    """An async context: it serves in it. Calls without the key are refused."""

    make_upstream: Callable[[], Upstream]
    """Its calls go there."""
    calls: list[CapturedCall] = field(default_factory=list)
    """In the order in which they ended."""
    usage: ModelUsage = field(default_factory=ModelUsage)
    """Of all calls, and what the program reports of others."""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    url: str = ""
    """The base URL, with ``/v1``."""

    async def __aenter__(self) -> Self:
        self._upstream = self.make_upstream()
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=_CLOSING_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        _host, port = self._runner.addresses[0][:2]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._upstream.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith(_USAGE_PATH) and request.method == "POST":
            return await self._report(request)
        dialect = next((known for known in DIALECTS.values() if request.path.endswith(known.path)), None)
        if dialect is None or request.method != "POST":
            known = ", ".join(f"/v1{dialect.path}" for dialect in DIALECTS.values())
            paths = f"POST {known}, /v1{_USAGE_PATH}"
            error = RequestError(f"{request.method} {request.path} is not served; {paths} are", status=404)
            return web.json_response(DIALECTS["chat"].error(error), status=404)
        try:
            self._check_key(request)
            return await self._serve(request, dialect)
        except RequestError as exc:
            return web.json_response(dialect.error(exc), status=exc.status)

    def _check_key(self, request: web.BaseRequest) -> None:
        sent = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if not secrets.compare_digest(sent.encode(), self.key.encode()):
            message = "the key is not the one of this attempt; send the key that came with the base URL"
            raise RequestError(message, status=401, code="invalid_api_key")

    async def _serve(self, request: web.BaseRequest, dialect: Dialect) -> web.StreamResponse:
        body = await _body(request)
        call = UpstreamCall(body, dialect.read_request(body), dialect)
        try:
            async with self._upstream.open(call) as exchange:
                kind = "text/event-stream" if call.request.is_streamed else "application/json"
                response = web.StreamResponse(headers={"content-type": kind})
                await response.prepare(request)
                try:
                    async for chunk in exchange.chunks():
                        if chunk.content:
                            await response.write(chunk.content)
                finally:
                    self._record(call, exchange.outcome)
                await response.write_eof()
                return response
        except UpstreamError as exc:
            self._record(call, CallOutcome(failure=str(exc)))
            raise exc.as_request_error() from exc

    def _record(self, call: UpstreamCall, outcome: CallOutcome) -> None:
        answer = None if outcome.answer is None else Message("assistant", outcome.answer.parts)
        usage = outcome.usage or TokenUsage()
        self.calls.append(CapturedCall(call.request.messages, answer, usage, outcome.failure))
        parts = () if answer is None else answer.parts
        used = model_usage(outcome.usage, call.request, parts, is_complete=not outcome.failure)
        self.usage = self.usage.plus(used)

    async def _report(self, request: web.BaseRequest) -> web.StreamResponse:
        """Adds what the program used of models that it did not reach through this server."""
        try:
            self._check_key(request)
            self.usage = self.usage.plus(_reported_usage(await _body(request)))
        except RequestError as exc:
            return web.json_response(DIALECTS["chat"].error(exc), status=exc.status)
        return web.json_response(asdict(self.usage))


async def _body(request: web.BaseRequest) -> bytes:
    parts, size = list[bytes](), 0
    async for part in request.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > _LARGEST_BODY:
            raise RequestError(f"the request has more than {_LARGEST_BODY:,} bytes", status=413)
    return b"".join(parts)


def _reported_usage(body: bytes) -> ModelUsage:
    """Raises RequestError for what is no usage."""
    raw = request_object(body)
    allowed = ", ".join(_USAGE_FIELDS)
    if raw is None or not raw.keys() <= _USAGE_FIELDS.keys():
        unknown = "" if raw is None else f", got {', '.join(map(repr, sorted(raw.keys() - _USAGE_FIELDS.keys())))}"
        raise RequestError(f"the body must be a JSON object with numbers of tokens: {allowed}{unknown}")
    counts: dict[str, int] = {}
    for name, value in raw.items():
        if type(value) is not int:
            raise RequestError(f"{name} must be a whole number, got {value!r:.100}", field=name)
        counts[_USAGE_FIELDS[name]] = value
    reported = TokenUsage(**counts)
    if credible_usage(reported) != reported:
        raise RequestError(
            "the numbers must be from 0 to 10^12, those of the cache within input_tokens, those of an hour within "
            f"cache_write_tokens, got {raw!r:.300}"
        )
    return ModelUsage(
        reported.input, reported.output, reported.cached_input, reported.cache_write, reported.cache_write_1h
    )
