"""A server on loopback for one attempt of a program, with one key: its model calls, and its environment.

It speaks all dialects, also as streams, whatever the model's server speaks (``models.upstreams``), and records the
calls. A call that the program's client marks as a retry, with the body of an earlier one, gets the earlier answer:
it is no second completion. An answer that nobody received is no completion either; its tokens are not trained on.
Not here: routing, tenants, feedback (``upturn.gateway``).
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Self

from aiohttp import ClientConnectionResetError, web

from upturn.agents.agent import AttemptEnd, model_usage
from upturn.agents.context import observation_text
from upturn.agents.program.captured_call import CapturedCall
from upturn.agents.program.destination import Destination
from upturn.agents.program.generator import COMPLETION, Completion
from upturn.agents.program.turns import AttemptTurns
from upturn.dialects import DIALECTS, Dialect, Message, RequestError, TokenUsage, credible_usage, request_object
from upturn.environments import read_action
from upturn.models import FunctionNames
from upturn.models.upstreams import CallOutcome, UpstreamCall, UpstreamError
from upturn.records import Action, JsonValue, ModelUsage, TokenRow

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
_RETRY = "x-stainless-retry-count"


@dataclass
class _Answer:
    """What one call was answered, for its retries."""

    completion: Completion
    status: int = 200
    content_type: str = "application/json"
    chunks: list[bytes] = field(default_factory=list)
    is_whole: asyncio.Event = field(default_factory=asyncio.Event)
    is_received: bool = False


@dataclass
class CaptureServer:
    """An async context: it serves in it. Calls without the key are refused."""

    turns: AttemptTurns
    destination: Callable[[str], Destination]
    """By the name of the model that a call asks for."""
    tools: list[JsonValue] = field(default_factory=list)
    """The environment's, as it shows them."""
    names: FunctionNames = field(default_factory=FunctionNames)
    """Of the environment's tools."""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    root: str = ""
    """Its address."""
    calls: int = 0
    """Model calls so far, retries not counted."""
    undelivered: int = 0
    """Answers of the own model that nobody received."""

    async def __aenter__(self) -> Self:
        self._answers: dict[bytes, _Answer] = {}
        self._all: list[_Answer] = []
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=_CLOSING_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        _host, port = self._runner.addresses[0][:2]
        self.root = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        for answer in self._all:
            if answer.completion.turn is not None and not answer.is_received:
                self.undelivered += 1
                self.turns.discard(answer.completion.turn)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        dialect = next((known for known in DIALECTS.values() if request.path.endswith(known.path)), None)
        shown = dialect or DIALECTS["chat"]
        try:
            match request.method, request.path:
                case "POST", _ if dialect is not None:
                    self._check_key(request)
                    return await self._call(request, dialect)
                case "POST", path if path.endswith("/usage"):
                    self._check_key(request)
                    return await self._report(request)
                case "POST", path if path.endswith("/finish"):
                    self._check_key(request)
                    return await self._finish(request)
                case "POST", "/environment/step":
                    self._check_key(request)
                    return await self._step(request)
                case "GET", "/environment":
                    self._check_key(request)
                    return web.json_response(self._environment() | {"tools": self.tools})
            posts = ", ".join(
                [f"/v1{known.path}" for known in DIALECTS.values()] + ["/v1/usage", "/finish", "/environment/step"]
            )
            message = f"{request.method} {request.path} is not served; POST {posts} and GET /environment are"
            raise RequestError(message, status=404)
        except RequestError as exc:
            return web.json_response(shown.error(exc), status=exc.status)

    def _check_key(self, request: web.BaseRequest) -> None:
        sent = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if not secrets.compare_digest(sent.encode(), self.key.encode()):
            message = "the key is not the one of this attempt; send the key that came with the base URL"
            raise RequestError(message, status=401, code="invalid_api_key")

    async def _call(self, request: web.BaseRequest, dialect: Dialect) -> web.StreamResponse:
        body = await _body(request)
        digest = hashlib.blake2b(request.path.encode() + b"\0" + body, digest_size=16).digest()
        known = self._answers.get(digest)
        if request.headers.get(_RETRY, "0") not in ("", "0") and known is not None:
            await known.is_whole.wait()
            if known.chunks:
                return await self._send_again(request, known)
        call = UpstreamCall(body, dialect.read_request(body), dialect)
        destination = self.destination(call.request.model)
        if destination.is_own:
            self.turns.admit()
        self.calls += 1
        answer = _Answer(Completion(call.request))
        self._answers[digest] = answer
        self._all.append(answer)
        COMPLETION.set(answer.completion)
        try:
            return await self._serve(request, call, destination, answer)
        finally:
            answer.is_whole.set()

    async def _serve(
        self, request: web.BaseRequest, call: UpstreamCall, destination: Destination, answer: _Answer
    ) -> web.StreamResponse:
        try:
            async with destination.upstream.open(call) as exchange:
                answer.content_type = "text/event-stream" if call.request.is_streamed else "application/json"
                response = web.StreamResponse(headers={"content-type": answer.content_type})
                is_open = True
                try:
                    async for chunk in exchange.chunks():
                        if chunk.content:
                            answer.chunks.append(chunk.content)
                            is_open = is_open and await _write(request, response, chunk.content)
                finally:
                    self._record(call, exchange.outcome, destination, answer)
                answer.is_received = is_open and await _end(request, response)
                return response
        except UpstreamError as exc:
            answer.chunks.clear()  # a retry may succeed
            self._record(call, CallOutcome(failure=str(exc)), destination, answer)
            raise exc.as_request_error() from exc

    async def _send_again(self, request: web.BaseRequest, answer: _Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": answer.content_type})
        is_open = True
        for chunk in answer.chunks:
            is_open = is_open and await _write(request, response, chunk)
        answer.is_received = (is_open and await _end(request, response)) or answer.is_received
        return response

    def _record(self, call: UpstreamCall, outcome: CallOutcome, destination: Destination, answer: _Answer) -> None:
        request = call.request
        message = None if outcome.answer is None else Message("assistant", outcome.answer.parts)
        parts = () if message is None else message.parts
        usage = ModelUsage()
        if not destination.is_trained:
            usage = model_usage(outcome.usage, request, parts, is_complete=not outcome.failure)
        captured = CapturedCall(
            request.messages,
            message,
            outcome.usage or TokenUsage(),
            outcome.failure,
            tools=request.tools or None,
            model=request.model,
            is_own=destination.is_own,
            is_trained=destination.is_trained,
        )
        if outcome.tokens is not None and destination.read is not None:
            answer.completion.text = destination.read(_written(outcome.tokens))
        self.turns.record(answer.completion, captured, usage)

    async def _report(self, request: web.BaseRequest) -> web.StreamResponse:
        """Adds what the program used of models that it did not reach through this server."""
        self.turns.add_usage(_reported_usage(await _body(request)))
        return web.json_response(asdict(self.turns.stage.external))

    async def _finish(self, request: web.BaseRequest) -> web.StreamResponse:
        """Ends the attempt with an answer; the program is ended."""
        raw = _object(await _body(request), {"answer"})
        answer = raw.get("answer", "")
        if not isinstance(answer, str):
            raise RequestError(f"answer must be a text, got {answer!r:.100}", field="answer")
        self.turns.answer = answer
        response = web.json_response({"finished": True})
        await response.prepare(request)
        await response.write_eof()
        self.turns.stop(AttemptEnd("finished"))
        return response

    async def _step(self, request: web.BaseRequest) -> web.StreamResponse:
        """Executes an action in the environment: a call by name, or the one in a text; one without is an error."""
        raw = _object(await _body(request), {"name", "arguments", "text"})
        text = raw.get("text")
        if text is None:
            action: Action | None = self._named_action(raw)
        elif len(raw) > 1 or not isinstance(text, str):
            raise RequestError(f"text must be a text, and the only field, got {raw!r:.100}", field="text")
        else:
            action = read_action(text)
        reward = sum(turn.reward for turn in self.turns.stage.turns)
        await self.turns.step(action, text or "")
        gained = sum(turn.reward for turn in self.turns.stage.turns) - reward
        return web.json_response(self._environment() | {"reward": gained})

    def _named_action(self, raw: Mapping[str, JsonValue]) -> Action:
        name, arguments = raw.get("name"), raw.get("arguments", {})
        if isinstance(arguments, str):  # as models write them
            arguments = _object(arguments.encode(), None)
        if not isinstance(name, str) or not name:
            raise RequestError(
                f"name must be the name of one of the environment's tools, got {name!r}", field="name"
            )
        if not isinstance(arguments, dict):
            raise RequestError(f"arguments must be an object, got {arguments!r:.100}", field="arguments")
        target, operation = self.names.read(name)
        return Action(target, operation, arguments)

    def _environment(self) -> dict[str, JsonValue]:
        stage = self.turns.stage
        seen = self.turns.environment_observation
        return {"observation": observation_text(seen), "code": seen.code, "is_over": stage.outcome is not None}


def _written(row: TokenRow) -> tuple[int, ...]:
    return tuple(token for span in row.spans for token in row.token_ids[span.start : span.stop])


async def _write(request: web.BaseRequest, response: web.StreamResponse, content: bytes) -> bool:
    """False = the client has left."""
    try:
        if request.transport is None or request.transport.is_closing():
            return False
        if not response.prepared:
            await response.prepare(request)
        await response.write(content)
    except (ConnectionResetError, ClientConnectionResetError):
        return False
    return True


async def _end(request: web.BaseRequest, response: web.StreamResponse) -> bool:
    try:
        if request.transport is None or request.transport.is_closing():
            return False
        await response.write_eof()
    except (ConnectionResetError, ClientConnectionResetError):
        return False
    return True


async def _body(request: web.BaseRequest) -> bytes:
    parts, size = list[bytes](), 0
    async for part in request.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > _LARGEST_BODY:
            raise RequestError(f"the request has more than {_LARGEST_BODY:,} bytes", status=413)
    return b"".join(parts)


def _object(body: bytes, allowed: set[str] | None) -> dict[str, JsonValue]:
    """The body's object. Raises RequestError for other bodies and fields; ``allowed``: None = any."""
    raw = request_object(body) if body.strip() else {}
    if raw is None:
        raise RequestError(f"the body must be a JSON object, got {body[:100]!r}")
    if allowed is not None and (unknown := sorted(raw.keys() - allowed)):
        raise RequestError(f"{unknown[0]!r} is no field here; {', '.join(sorted(allowed))} are", field=unknown[0])
    return raw


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
