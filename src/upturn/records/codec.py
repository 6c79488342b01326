"""Lossless conversion of records to JSON and back.

The text of a record is ``{"kind": …, "version": 1, "record": {…fields}}``. Reading validates every field, rejects
unknown fields and other versions, and returns an equal record. Old decisions without an ``agent`` get it when they
are read. Stores that keep the kind elsewhere use ``fields_json`` and ``from_fields``.
"""

from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import CoreConfig, ErrorDetails, PydanticSerializationError, SchemaSerializer, SchemaValidator
from pydantic_core import from_json as parse_json
from pydantic_core import to_json as render_json

from upturn.errors import RecordError
from upturn.records.decision import Decision, add_agent

RECORD_VERSION = 1
"""Incremented when a record's meaning changes; readers reject other versions."""

REPLACEMENT = "\ufffd"
"""The serializer writes it, without a warning, for names that are not Unicode text."""

RecordT = TypeVar("RecordT")


class _Codec(NamedTuple):
    reader: SchemaValidator
    writer: SchemaSerializer


@cache
def _codec(cls: Any) -> _Codec:
    # The records' configuration does not apply inside JsonValue: there a NaN would be read, and written as null.
    schema = TypeAdapter(cls).core_schema
    return _Codec(
        SchemaValidator(schema, CoreConfig(allow_inf_nan=False, strict=True)),
        SchemaSerializer(schema, CoreConfig(ser_json_inf_nan="constants")),
    )


def fields_json(record: object) -> str:
    """Returns the record's fields as one JSON object, without kind and version.

    Raises RecordError for values that cannot be read back: values of a wrong type, NaN, infinity, and text that is
    not Unicode. Only ``from_fields`` detects None in a field that does not allow it, and integers of more than
    4,300 digits.
    """
    name = type(record).__name__
    try:
        text = _codec(cast(Any, type(record))).writer.to_json(record, warnings="error").decode()
    except PydanticSerializationError as exc:
        raise RecordError(f"this {name} cannot be written as JSON: {serialization_problem(exc)}") from exc
    if is_suspect(text):  # rare, so the common case costs only the scan
        read_back = from_fields(type(record), text)  # raises for a number; inside a string it is allowed
        if REPLACEMENT in text and read_back != record:
            raise RecordError(f"this {name} cannot be written as JSON: a name in it is not Unicode text")
    return text


def is_suspect(text: str) -> bool:
    """Whether the JSON may contain values that cannot be read back or differ from the record's."""
    return "NaN" in text or "Infinity" in text or REPLACEMENT in text


def serialization_problem(exc: PydanticSerializationError) -> str:
    """Returns pydantic's reason as one line."""
    return " ".join(str(exc).removeprefix("Pydantic serializer warnings:").split())


def from_fields(cls: type[RecordT], text: str | bytes) -> RecordT:
    """Returns the record of class ``cls`` with these fields; raises RecordError naming every invalid field."""
    try:
        return cast(RecordT, _codec(cast(Any, cls)).reader.validate_json(text))
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
        # A NaN fails every branch of JsonValue; one error for it is enough.
        errors = [error for error in errors if error["type"] == "finite_number"] or errors
        raise RecordError(f"not a {cls.__name__}: {'; '.join(map(_problem, errors))}") from exc


def _problem(error: ErrorDetails) -> str:
    """Returns the field and its error; for a Literal also the value, since the message lists the allowed ones."""
    value = f", got {error['input']!r:.100}" if error["type"] == "literal_error" else ""
    return f"{'.'.join(str(part) for part in error['loc']) or 'record'}: {error['msg']}{value}"


def to_json(record: object) -> str:
    """Returns the record as versioned JSON on one line."""
    kind = type(record).__name__
    return f'{{"kind":"{kind}","version":{RECORD_VERSION},"record":{fields_json(record)}}}'


def from_json(cls: type[RecordT], text: str | bytes) -> RecordT:
    """Returns the record of class ``cls`` that ``to_json`` wrote; raises RecordError for any other text."""
    try:
        envelope = parse_json(text, allow_inf_nan=False)
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
    fields = envelope["record"]
    if cls is Decision and isinstance(fields, dict):
        fields = add_agent(fields)
    return from_fields(cls, render_json(fields))
