"""Records to JSON and back, exactly.

The text of a record is ``{"kind": …, "version": 1, "record": {…fields}}``. Reading validates every field, refuses
unknown ones and other versions, and gives back an equal record. Stores that keep the kind in a column of their own
use ``fields_json`` and ``from_fields``.
"""

from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json as parse_json

from upturn.errors import RecordError

RECORD_VERSION = 1
"""Raised when a record's meaning changes; readers refuse what they do not know."""

RecordT = TypeVar("RecordT")


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def fields_json(record: object) -> str:
    """The record's fields as one JSON object, without kind and version."""
    return _adapter(cast(Any, type(record))).dump_json(record).decode()


def from_fields(cls: type[RecordT], text: str | bytes) -> RecordT:
    """The record of class ``cls`` whose fields are ``text``; raises RecordError naming every bad field."""
    try:
        return cast(RecordT, _adapter(cast(Any, cls)).validate_json(text))
    except ValidationError as exc:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in error['loc']) or 'record'}: {error['msg']}"
            for error in exc.errors(include_url=False)
        )
        raise RecordError(f"not a {cls.__name__}: {problems}") from exc


def to_json(record: object) -> str:
    """The record as versioned JSON text on one line."""
    kind = type(record).__name__
    return f'{{"kind":"{kind}","version":{RECORD_VERSION},"record":{fields_json(record)}}}'


def from_json(cls: type[RecordT], text: str | bytes) -> RecordT:
    """The record of class ``cls`` that ``to_json`` wrote; raises RecordError for any other text."""
    try:
        envelope = parse_json(text)
    except ValueError as exc:
        raise RecordError(f"not JSON: {exc}") from exc
    if not isinstance(envelope, dict) or set(envelope) != {"kind", "version", "record"}:
        raise RecordError('a record is {"kind": …, "version": …, "record": …}; got other keys')
    if envelope["kind"] != cls.__name__:
        raise RecordError(f"expected a {cls.__name__}, got kind {envelope['kind']!r}")
    if envelope["version"] != RECORD_VERSION:
        raise RecordError(
            f"record version {envelope['version']!r} is not readable; this Upturn reads {RECORD_VERSION}; "
            "use the Upturn that wrote it"
        )
    return from_fields(cls, _adapter(dict[str, Any]).dump_json(envelope["record"]))
