"""The contract of a dialect, its errors, and the base of its wire models."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from upturn.dialects.conversation import ModelAnswer, ModelRequest, StreamEvent, StreamFailure, ToolDefinition
from upturn.errors import UpturnError
from upturn.records import JsonValue

Json = dict[str, JsonValue]
StopText = Annotated[str, Field(min_length=1)]
"""A text that ends an answer before it."""
WireT = TypeVar("WireT", bound="Wire")
BROKEN_OFF = StreamFailure("the upstream ended its stream before the answer was complete")
_LONGEST_MESSAGE = 4_000
_ALTERNATIVE = re.compile(r"(constrained-)?str|int|float|bool|(list|dict|literal)\[.*|_?[A-Z]\w*|function-.*")
"""Names of a union's alternatives in the place of a pydantic error; fields are in lower case."""


class RequestError(UpturnError, ValueError):
    """A client's request cannot be served; the client gets it in the shape of its dialect."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        code: str = "invalid_request",
        field: str = "",
        retry_after_seconds: int | None = None,
    ) -> None:
        """``code``: for programs, such as ``unknown_model``. ``field``: the one that is wrong; empty = none.
        ``retry_after_seconds``: after which the same request may succeed; None = unknown, or never."""
        half = _LONGEST_MESSAGE // 2  # what a client sends may be long, and stands between the problem and the cure
        super().__init__(message if len(message) <= 2 * half else f"{message[:half]} … {message[-half:]}")
        self.retry_after_seconds = retry_after_seconds
        self.status = status
        self.code = code
        self.field = field


class Wire(BaseModel):
    """Part of a request or an answer; unknown fields are kept and ignored."""

    model_config = ConfigDict(extra="allow")


class EventReader(Protocol):
    """Reads one upstream's stream. Single use."""

    def feed(self, content: bytes, /) -> Iterator[StreamEvent]:
        """The events that these bytes complete; bytes may be cut anywhere.

        Raises ModelError for what is not an event of the dialect.
        """

    def end(self) -> Iterator[StreamEvent]:
        """Call it at the end of the stream: a failure where the answer is not complete."""


class EventWriter(Protocol):
    """Writes one client's stream. Single use."""

    def write(self, event: StreamEvent, /) -> bytes:
        """The event as bytes; empty = the dialect has none for it."""


class Dialect(Protocol):
    """One wire form of model calls, for clients and upstreams. Pure."""

    @property
    def name(self) -> str:
        """Its name in the registry."""

    @property
    def path(self) -> str:
        """Of its endpoint, below ``/v1``."""

    def request_schema(self) -> Json:
        """JSON Schema of a request, with ``$defs``. ``read_request`` refuses some that it allows."""

    def read_request(self, body: bytes, /) -> ModelRequest:
        """Raises RequestError for what is not a request of the dialect, or asks for what nobody here can do."""

    def write_request(self, request: ModelRequest, /) -> Json:
        """Raises RequestError where the dialect cannot say what the request asks for."""

    def read_answer(self, body: bytes, /) -> ModelAnswer:
        """Raises ModelError for what is not an answer of the dialect."""

    def write_answer(self, answer: ModelAnswer, request: ModelRequest, /) -> Json:
        """The answer as the client of ``request`` expects it."""

    def reader(self) -> EventReader:
        """For the stream of one upstream."""

    def writer(self, request: ModelRequest, /) -> EventWriter:
        """For the stream of one client."""

    def error(self, error: RequestError, /) -> Json:
        """The body of an error."""


def parse(kind: type[WireT], body: bytes) -> WireT:
    """The request in a body; raises RequestError with the first problem, its field and the value.

    Types are strict, as servers of models have them: no numbers in strings, no 0 for false.
    """
    try:
        return kind.model_validate_json(body, strict=True)
    except ValidationError as exc:
        raise body_error(exc.errors(include_url=False)) from exc


def body_error(problems: Sequence[Mapping[str, Any]]) -> RequestError:
    """The error for a body that does not fit, by pydantic's problems: the first one, its field and the value."""
    first = max(
        problems, key=lambda problem: len(problem["loc"])
    )  # of a union's alternatives, the one that fits best
    field = ".".join(str(part) for part in first["loc"] if not _ALTERNATIVE.fullmatch(str(part)))
    where = field or "the body"
    match first["type"]:
        case "json_invalid":
            return not_json(first["msg"].removeprefix("Invalid JSON: "))
        case "missing":
            return RequestError(f"{where} is missing", field=field)
        case "extra_forbidden":
            return RequestError(f"{where} is no field of this request; /openapi.json lists them", field=field)
        case "model_attributes_type":  # pydantic's text is about Python's types
            return RequestError(f"{where}: Input should be an object, got {first['input']!r:.200}", field=field)
    return RequestError(f"{where}: {first['msg']}, got {first['input']!r:.200}", field=field)


def not_json(reason: str) -> RequestError:
    """The error for a body that cannot be read."""
    return RequestError(f"the body is not JSON: {reason}", code="invalid_json")


def refuse(values: Mapping[str, Any], remedy: str) -> None:
    """Raises RequestError for the first of these fields that is set to more than None, False or nothing."""
    for name, value in values.items():
        if value:
            raise RequestError(f"{name} is not supported: {remedy}", code="unsupported", field=name)


def arguments_schema(tool: ToolDefinition) -> Json:
    """JSON Schema of the tool's arguments; a tool that declares none takes none."""
    return dict(tool.parameters) or {"type": "object", "properties": {}}


def json_object(text: str) -> Json | None:
    """The object in JSON text; None = there is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def request_object(body: bytes) -> Json | None:
    """The object in a request's body; None = there is none, and ``read_request`` says what is wrong.

    Raises RequestError for a key that occurs twice in one object: servers differ in which of both they read, and
    one of them could see what was not checked.
    """
    try:
        value = _REQUESTS.decode(body.decode("utf-8", "replace"))
    except RequestError:
        raise
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _without_duplicates(pairs: list[tuple[str, JsonValue]]) -> Json:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RequestError(f"the key {twice[:40]!r} occurs twice in one object; send it once", code="invalid_json")
    return value


_REQUESTS = json.JSONDecoder(object_pairs_hook=_without_duplicates)
