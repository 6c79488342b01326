"""The OpenAPI document: bodies, errors, and the endpoints of model calls, whose bodies the dialects define.

The framework writes the rest. It documents 422 for bodies that do not fit, where this gateway answers 400.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

from upturn.dialects import DIALECTS, Dialect, Json
from upturn.gateway.episode_name import LONGEST_NAME

EPISODE_PATH = "/episodes/{episode}"
"""Before ``/v1`` in a base URL, it names the episode of all calls."""
ERRORS = {
    400: "The request is unusable.",
    401: "The key is missing or wrong.",
    403: "The key has no permission for this.",
    404: "Something in the request is unknown.",
    409: "It contradicts what is stored, or the episode is sealed.",
    413: "The body is too large.",
    415: "The body is compressed.",
    429: "There are too many calls; see Retry-After.",
    502: "The agent's server failed.",
    503: "No agent or no store is available; see Retry-After.",
    504: "The agent's server was too slow.",
}
"""What a status means, of those that the gateway answers with."""
_SCHEMAS = "#/components/schemas/"
_TITLES = {
    "chat": "Answer a chat completion (OpenAI's form).",
    "responses": "Answer a response (OpenAI's Responses form).",
    "messages": "Answer a message (Anthropic's form).",
}


class Wire(BaseModel):
    """A body of ours; unknown fields are errors, and types are strict: no numbers in strings, no false for 0."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class ErrorDetail(BaseModel):
    """What was wrong."""

    type: str
    message: str
    param: str | None = None
    """The field that is wrong; None = none. Not in Anthropic's form."""
    code: str | None = None
    """For programs. Not in Anthropic's form."""


class ErrorBody(BaseModel):
    """An error; Anthropic's form has ``"type": "error"`` beside it."""

    error: ErrorDetail


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the documentation of an endpoint's errors: these, 503, and 415 where a body may be too large."""
    further = (415, 503) if 413 in statuses else (503,)
    return {status: {"model": ErrorBody, "description": ERRORS[status]} for status in (*statuses, *further)}


def describe_calls(app: FastAPI, names: Callable[[], Sequence[str]]) -> None:
    """Makes the application's document describe the model calls, and no status that it does not answer with.

    ``names``: of models; the first one is the example in the document.
    """
    write = app.openapi

    def document() -> dict[str, Any]:
        app.openapi_schema = None  # names may have changed
        return _with_calls(_tidied(write()), names())

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way


def _tidied(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the framework's document without status 422, with the docstrings of endpoints as their summaries."""
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["summary"] = operation.pop("description").replace("``", "`")
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    return schema


def _with_calls(schema: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    calls: dict[str, Any] = {}
    for dialect in DIALECTS.values():
        body, definitions = _body(dialect)
        body["properties"]["model"] |= {
            "description": "A route, an agent or an agent version.",
            "examples": names[:1],
        }
        schema["components"]["schemas"] |= definitions
        for prefix in ("", EPISODE_PATH):
            calls[f"{prefix}/v1{dialect.path}"] = {"post": _operation(dialect.name, prefix, body)}
        if dialect.name == "messages":
            counted = body | {"required": [name for name in body["required"] if name != "max_tokens"]}
            schema["paths"]["/v1/messages/count_tokens"]["post"]["requestBody"] = _content(counted)
    schema["paths"] = {**calls, **schema["paths"]}
    return schema


def _content(body: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": body}}}


def _body(dialect: Dialect) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the schema of a dialect's requests, and the schemas that it refers to."""
    schema: dict[str, Any] = dialect.request_schema()
    definitions = schema.pop("$defs", {})
    named = {f"{dialect.name}{name}": _renamed(value, dialect.name) for name, value in definitions.items()}
    return _renamed(schema, dialect.name), named


def _renamed(value: Any, dialect: str) -> Any:
    """Returns a schema whose references point to the schemas of the document."""
    if isinstance(value, dict):
        return {key: _renamed(inner, dialect) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, dialect) for inner in value]
    if isinstance(value, str) and value.startswith("#/$defs/"):
        return f"{_SCHEMAS}{dialect}{value.removeprefix('#/$defs/')}"
    return value


def _operation(name: str, prefix: str, body: dict[str, Any]) -> Json:
    answer: Json = {
        "description": "The answer, or a stream of server-sent events.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/event-stream": {},
        },
    }
    error: Json = {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{ErrorBody.__name__}"}}}
    responses: Json = {str(status): {"description": text, "content": error} for status, text in ERRORS.items()}
    operation: Json = {
        "tags": ["calls"],
        "operationId": f"{name}{'_in_episode' if prefix else ''}",
        "summary": _TITLES[name],
        "requestBody": _content(body),
        "responses": {"200": answer, **responses},
    }
    if prefix:
        schema: Json = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
        operation["parameters"] = [{"name": "episode", "in": "path", "required": True, "schema": schema}]
    return operation
