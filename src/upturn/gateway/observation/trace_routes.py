"""The endpoint for traces in OpenTelemetry's form (OTLP over HTTP): JSON or protobuf, plain or gzip."""

import asyncio
import json
import zlib

from fastapi import APIRouter, Request, Response

from upturn.dialects import RequestError
from upturn.errors import IngestError
from upturn.gateway.access import Guard
from upturn.gateway.openapi import errors
from upturn.loop.online import OnlineService
from upturn.pool import Received, receive_traces

TRACES_PATH = "/v1/traces"

_PROTOBUF = "application/x-protobuf"
_JSON = "application/json"
_LONGEST_REASON = 1000


def trace_routes(service: OnlineService, guard: Guard, *, max_body_bytes: int) -> APIRouter:
    """Returns the endpoint. ``max_body_bytes``: of a request, unpacked."""
    routes = APIRouter()

    @routes.post(
        TRACES_PATH,
        tags=["feedback"],
        response_class=Response,
        responses=errors(400, 401, 403, 413, 415, 503),
        openapi_extra={"requestBody": {"content": {_JSON: {"schema": {"type": "object"}}, _PROTOBUF: {}}}},
    )
    async def traces(request: Request) -> Response:
        """Store the model calls of OpenTelemetry traces as trajectories; they are stored when this returns."""
        client = guard.client(request.scope, "feedback")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (_JSON, _PROTOBUF):
            raise RequestError(
                f"content-type is {kind!r:.100}; send {_PROTOBUF} or {_JSON}", status=415, code="unsupported_type"
            )
        content = _unpacked(await request.body(), request.headers.get("content-encoding", ""), max_body_bytes)
        try:
            received = await asyncio.to_thread(
                receive_traces,
                service.pool,
                content,
                tenant=client.tenant,
                is_json=kind == _JSON,
                replacer=service.border.replacer(client.tenant),
            )
        except IngestError as exc:
            raise RequestError(str(exc)) from exc
        return _answer(received, is_json=kind == _JSON)

    return routes


def _unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    """Returns the body; raises RequestError for one that is damaged or too large."""
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise RequestError(
            f"content-encoding is {encoding!r:.100}; send gzip or none", status=415, code="unsupported_encoding"
        )
    unpacking = zlib.decompressobj(wbits=31)
    try:
        content = unpacking.decompress(body, limit + 1)
    except zlib.error as exc:
        raise RequestError(f"the body is no gzip: {exc}") from exc
    if len(content) > limit:
        raise RequestError(
            f"the body has more than {limit:,} bytes unpacked (gateway.max_body_bytes)",
            status=413,
            code="body_too_large",
        )
    if not unpacking.eof:
        raise RequestError("the gzip body ends early")
    return content


def _answer(received: Received, *, is_json: bool) -> Response:
    """Returns an ``ExportTraceServiceResponse``: empty, or with what was rejected."""
    count, reason = len(received.rejected), "; ".join(received.rejected)[:_LONGEST_REASON]
    if is_json:
        partial = {"partialSuccess": {"rejectedSpans": str(count), "errorMessage": reason}} if count else {}
        return Response(json.dumps(partial), media_type=_JSON)
    if not count:
        return Response(b"", media_type=_PROTOBUF)
    text = reason.encode()
    partial_success = b"\x08" + _varint(count) + b"\x12" + _varint(len(text)) + text
    return Response(b"\x0a" + _varint(len(partial_success)) + partial_success, media_type=_PROTOBUF)


def _varint(number: int) -> bytes:
    """Returns a number as protobuf writes it."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
