"""OTLP's protobuf form of traces, as the objects of its JSON form.

Only the fields that imports use are read (opentelemetry-proto 1.x, ``trace.proto`` and ``common.proto``); all
others are skipped by their wire type, so later fields do no harm. Raises ValueError for bytes that are no such
message.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_DEEPEST = 32
"""Levels of nested attribute values."""


class _Field(NamedTuple):
    number: int
    value: int | bytes
    """Bytes for the wire types 1, 2 and 5."""


def read_request(content: bytes) -> dict[str, Any]:
    """Returns an ``ExportTraceServiceRequest`` in the JSON form."""
    return {"resourceSpans": [_resource_spans(part) for part in _parts(content, 1)]}


def _resource_spans(content: bytes) -> dict[str, Any]:
    scopes = [{"spans": [_span(span) for span in _parts(part, 2)]} for part in _parts(content, 2)]
    return {"scopeSpans": scopes}


def _span(content: bytes) -> dict[str, Any]:
    span: dict[str, Any] = {"attributes": [], "events": []}
    readers: dict[int, Callable[[Any], tuple[str, Any]]] = {
        1: lambda value: ("traceId", value.hex()),
        2: lambda value: ("spanId", value.hex()),
        5: lambda value: ("name", value.decode()),
        7: lambda value: ("startTimeUnixNano", _fixed64(value)),
        15: lambda value: ("status", _status(value)),
    }
    for number, value in _fields(content):
        if number == 9:
            span["attributes"].append(_key_value(_bytes(value), 0))
        elif number == 11:
            span["events"].append(_event(_bytes(value)))
        elif number in readers:
            name, read = readers[number](_bytes(value))
            span[name] = read
    return span


def _status(content: bytes) -> dict[str, Any]:
    status: dict[str, Any] = {}
    for number, value in _fields(content):
        if number == 2:
            status["message"] = _bytes(value).decode()
        elif number == 3:
            status["code"] = value
    return status


def _event(content: bytes) -> dict[str, Any]:
    event: dict[str, Any] = {"attributes": []}
    for number, value in _fields(content):
        if number == 2:
            event["name"] = _bytes(value).decode()
        elif number == 3:
            event["attributes"].append(_key_value(_bytes(value), 0))
    return event


def _key_value(content: bytes, depth: int) -> dict[str, Any]:
    pair: dict[str, Any] = {"key": "", "value": {}}
    for number, value in _fields(content):
        if number == 1:
            pair["key"] = _bytes(value).decode()
        elif number == 2:
            pair["value"] = _any_value(_bytes(value), depth + 1)
    return pair


def _any_value(content: bytes, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise ValueError(f"attribute values are nested more than {_DEEPEST} levels")
    for number, value in _fields(content):
        match number:
            case 1:
                return {"stringValue": _bytes(value).decode()}
            case 2:
                return {"boolValue": bool(value)}
            case 3 if isinstance(value, int):
                return {"intValue": value - 2**64 if value >= 2**63 else value}
            case 4:
                return {"doubleValue": struct.unpack("<d", _bytes(value))[0]}
            case 5:
                return {
                    "arrayValue": {"values": [_any_value(part, depth + 1) for part in _parts(_bytes(value), 1)]}
                }
            case 6:
                return {
                    "kvlistValue": {"values": [_key_value(part, depth + 1) for part in _parts(_bytes(value), 1)]}
                }
            case 7:
                return {"bytesValue": _bytes(value).hex()}
    return {}


def _parts(content: bytes, wanted: int) -> Iterator[bytes]:
    """Yields the messages in a repeated field."""
    for number, value in _fields(content):
        if number == wanted:
            yield _bytes(value)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a field has another type than in OTLP")
    return value


def _fixed64(content: bytes) -> int:
    return int.from_bytes(content, "little")


def _fields(content: bytes) -> Iterator[_Field]:
    position = 0
    while position < len(content):
        key, position = _varint(content, position)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, position = _varint(content, position)
            yield _Field(number, value)
            continue
        if kind == 2:
            length, position = _varint(content, position)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"byte {position} begins a field of the unknown wire type {kind}")
        end = position + length
        if end > len(content) or not number:
            raise ValueError(f"field {number} at byte {position} has {length} bytes, which are not there")
        yield _Field(number, content[position:end])
        position = end


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(content) and shift < 70:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), position
        shift += 7
    raise ValueError(f"the number at byte {position} does not end")
