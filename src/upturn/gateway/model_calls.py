"""The endpoints of model calls, one for each dialect, as ASGI applications.

Order of checks: caller, body size, model name, tools that the provider would run, fields, rates and budgets, a
place in service, agents. Every error has the shape of the caller's dialect. If the client leaves, the upstream's
call is cancelled, also before the first token.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from upturn.dialects import Dialect, ModelRequest, RequestError, estimated_tokens, request_object
from upturn.errors import RecordError, StoreError, UpturnError
from upturn.gateway.access import Guard, Permitted, screen
from upturn.gateway.episode_name import episode_name, family_name, sub_agent_name, tag_names
from upturn.gateway.http import (
    JSON_TYPE,
    RELAY,
    STREAM_TYPE,
    Relay,
    code_of,
    headers_of,
    read_body,
    send_body,
    send_held,
    send_json,
    send_start,
    unavailable,
    while_connected,
)
from upturn.gateway.observed_call import Observer
from upturn.gateway.retries import Answered, RecentAnswers
from upturn.loop.online import Arrival, Client, OnlineService

FORWARDED = ("anthropic-version", "anthropic-beta", "openai-beta", "traceparent", "tracestate", "user-agent")
"""Headers that the upstream gets unchanged."""
_log = logging.getLogger("upturn.gateway")


@dataclass(frozen=True, slots=True)
class CallParts:
    """What the endpoints of all dialects share."""

    service: OnlineService
    guard: Guard
    observer: Observer
    recent: RecentAnswers


class ModelCalls:
    """Answers the model calls of one dialect."""

    def __init__(self, dialect: Dialect, parts: CallParts) -> None:
        self._dialect = dialect
        self._service = parts.service
        self._guard = parts.guard
        self._observer = parts.observer
        self._recent = parts.recent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        relay: Relay | None = scope.get("extensions", {}).get(RELAY)
        started = perf_counter() if relay is None else relay.started
        answer = _Answer(send, self._dialect)
        try:
            headers = headers_of(scope)
            permitted = self._guard.permit(headers, "call")
            body = await read_body(receive)
            arrival = self._arrival(scope, headers, body, permitted.client, started=started)
            if relay is not None:
                arrival = replace(arrival, sender=relay.sender)
            serving = self._serve(arrival, permitted, headers, answer)
            await while_connected(receive, serving, is_over=lambda: answer.is_complete)
        except RequestError as exc:
            self._observer.refused(exc)
            await answer.fail(exc)
        except HTTPException as exc:  # the body is too large, or compressed
            error = RequestError(exc.detail, status=exc.status_code, code=code_of(exc.status_code))
            self._observer.refused(error)
            await answer.fail(error)
        except ConnectionError:
            return
        except RecordError as exc:  # what cannot be stored, such as NaN in a tool's schema
            self._observer.refused(error := RequestError(str(exc)))
            await answer.fail(error)
        except StoreError as exc:
            await answer.fail(unavailable(exc))
        except UpturnError as exc:
            _log.exception("a call failed")
            await answer.fail(RequestError(str(exc), status=503, code="unavailable"))

    def _arrival(
        self, scope: Scope, headers: Mapping[str, str], body: bytes, client: Client, *, started: float
    ) -> Arrival:
        sent, request, changes = self._screened(body)
        return Arrival(
            self._dialect,
            sent,
            request,
            client,
            {name: headers[name] for name in FORWARDED if name in headers},
            episode_name(scope, headers, request.metadata),
            sub_agent_name(headers),
            family_name(headers, request.metadata),
            tag_names(headers, request.metadata),
            {name: headers[name] for name in self._service.texts.families.headers if name in headers},
            changes,
            started,
        )

    def _screened(self, body: bytes) -> tuple[bytes, ModelRequest, tuple[str, ...]]:
        """Returns the body to send, the request in it, and what was taken out; raises RequestError.

        Dialects refuse tools that the provider runs; where a route allows them, they pass in the body only.
        """
        raw = request_object(body)
        if raw is None or not isinstance(model := raw.get("model"), str):
            return body, self._dialect.read_request(body), ()
        policy = self._service.routes.resolve(model).provider_tools
        screened = screen(raw, policy)
        if not screened.findings:
            return body, self._dialect.read_request(body), ()
        stripped = json.dumps(screen(raw, "strip").body).encode()
        request = self._dialect.read_request(stripped)
        return (body, request, ()) if policy == "allow" else (stripped, request, screened.findings)

    async def _serve(
        self, arrival: Arrival, permitted: Permitted, headers: Mapping[str, str], answer: "_Answer"
    ) -> None:
        retry = self._recent.key(arrival.client, self._dialect.name, arrival.body, headers)
        if (earlier := await self._recent.earlier(retry, headers)) is not None:
            await answer.replay(earlier)
            return
        tokens = estimated_tokens(arrival.request)
        with self._recent.recording(retry) as recording, self._observer.call(arrival, headers) as observed:
            async with (
                self._guard.place(permitted.caller, tokens=tokens) as usage,
                self._service.serve(observed.arrival, usage) as call,
            ):
                observed.started(call)
                kept = recording.start(call.headers, is_streamed=arrival.request.is_streamed)
                await answer.start(call.headers, is_streamed=arrival.request.is_streamed)
                async for chunk in call.chunks():
                    kept.add(chunk.content)
                    if chunk.held is None:
                        await answer.send(chunk.content)
                    else:
                        answer.held = chunk.held
                await answer.end()
                recording.finish()


class _Answer:
    """The answer to one request: whole or streamed."""

    def __init__(self, send: Send, dialect: Dialect) -> None:
        self._send = send
        self._dialect = dialect
        self._is_started = False
        self._is_streamed = False
        self.is_complete = False
        """Whether all of it is sent."""
        self._headers: Mapping[str, str] = {}
        self._whole: list[bytes] = []
        self.held: int | None = None
        """The part that ends the answer, where a relay has it; see ``Chunk.held``."""

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
        if self.held is not None:
            if not self._is_streamed:
                self._is_started = True
                await send_start(self._send, 200, self._headers, JSON_TYPE, held=self.held)
            await send_held(self._send, self.held)
        elif self._is_streamed:
            await send_body(self._send, b"", is_last=True)
        else:
            content = b"".join(self._whole)
            self._is_started = True
            headers = {**self._headers, "content-length": str(len(content))}
            await send_start(self._send, 200, headers, JSON_TYPE)
            await send_body(self._send, content, is_last=True)
        self.is_complete = True

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
