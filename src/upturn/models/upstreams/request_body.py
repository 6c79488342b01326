"""The body of a request for an upstream: the client's bytes with small edits, or the request written anew."""

import json
import re
from dataclasses import replace

from upturn.dialects import Dialect, Json, ModelRequest, Reasoning
from upturn.models.upstreams.upstream import UpstreamCall
from upturn.records import JsonValue

_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")
"""A letter that needs no escape: a key written so could be a second ``model``."""
_MODEL = re.compile(rb'"model"\s*:\s*"(?:[^"\\]|\\.)*"')


def request_body(call: UpstreamCall, dialect: Dialect, model: str, extras: Json) -> bytes:
    """Returns the body of the call for an upstream of ``dialect`` with this model name.

    ``extras`` are further fields; those that the client has set keep the client's value, but objects are joined.
    Anthropic refuses thoughts without its signature, which another model wrote: such a request is written anew,
    without them. Raises RequestError where the upstream's dialect cannot say what the request asks for.
    """
    is_foreign = dialect.name == "messages" and _has_unsigned_thought(call.request)
    if call.body and call.dialect.name == dialect.name and not is_foreign:
        return _edited(call.body, model, extras)
    written = dialect.write_request(replace(call.request, model=model))
    return _dump({**extras, **written})


def _has_unsigned_thought(request: ModelRequest) -> bool:
    parts = (part for message in request.messages for part in message.parts)
    return any(isinstance(part, Reasoning) and not part.signature for part in parts)


def with_model(body: bytes, model: str) -> bytes:
    """Returns the client's body with another model."""
    return _edited(body, model, {})


def _edited(body: bytes, model: str, extras: Json) -> bytes:
    """The client's body with another model and the extras, serialised anew only where that is ambiguous."""
    names = _MODEL.findall(body)
    is_plain = len(names) == 1 and b"\\u" not in names[0] and not _ESCAPED_LETTER.search(body)
    if not is_plain or any(isinstance(value, dict) and _key(name) in body for name, value in extras.items()):
        return _dump({**_joined(json.loads(body), extras), "model": model})
    edited = _MODEL.sub(lambda _: b'"model":' + _dump(model), body)
    missing = {name: value for name, value in extras.items() if _key(name) not in body}
    if not missing:
        return edited
    start = edited.index(b"{") + 1
    return edited[:start] + _dump(missing)[1:-1] + b"," + edited[start:]


def _joined(body: Json, extras: Json) -> Json:
    """The body with the extras; in an object of both, the extras win."""
    joined = {**extras, **body}
    for name, value in extras.items():
        if isinstance(value, dict):
            inner = body.get(name)
            joined[name] = {**(inner if isinstance(inner, dict) else {}), **value}
    return joined


def _key(name: str) -> bytes:
    return f'"{name}"'.encode()


def _dump(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
