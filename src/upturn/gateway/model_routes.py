"""The endpoints about models besides calls: their names, embeddings, counts of tokens."""

import json
from time import perf_counter
from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from upturn.dialects import Message, ModelRequest, Text, dialect_of, estimated_tokens
from upturn.gateway.access import Guard
from upturn.gateway.episode_name import family_name
from upturn.gateway.http import headers_of
from upturn.gateway.openapi import ERRORS, errors
from upturn.loop.online import Arrival, Client, OnlineService


class ModelEntry(BaseModel):
    """A name for ``model``."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "upturn"


class ModelList(BaseModel):
    """Names for ``model``: routes, agents and agent versions."""

    object: Literal["list"] = "list"
    data: list[ModelEntry]


class EmbeddingsBody(BaseModel):
    """A request for embeddings; fields that are not listed are passed on."""

    model_config = ConfigDict(extra="allow", strict=True)
    model: Annotated[str, Field(min_length=1)]
    input: str | list[str] | list[int] | list[list[int]]


class TokenCount(BaseModel):
    """An estimate."""

    input_tokens: int


def model_routes(service: OnlineService, guard: Guard) -> APIRouter:
    """Returns the endpoints."""
    routes = APIRouter()

    def client_of(request: Request) -> Client:
        return guard.client(request.scope, "call")

    @routes.get("/v1/models", tags=["models"], responses=errors(401, 403))
    async def models(request: Request) -> ModelList:
        """List the names that ``model`` may have."""
        client_of(request)
        return ModelList(data=[ModelEntry(id=name) for name in service.routes.names()])

    @routes.get("/v1/models/{model:path}", tags=["models"], responses=errors(401, 403, 404))
    async def model(model: str, request: Request) -> ModelEntry:
        """Show a name that ``model`` may have."""
        client_of(request)
        service.routes.resolve(model)
        return ModelEntry(id=model)

    @routes.post("/v1/messages/count_tokens", tags=["calls"], responses=errors(400, 401, 403, 413))
    async def count_tokens(request: Request, response: Response) -> TokenCount:
        """Estimate the tokens of an Anthropic message, at four bytes a token."""
        client_of(request)
        body = await request.body()
        parsed = dialect_of("messages").read_request(with_max_tokens(body))
        response.headers["x-upturn-estimate"] = "true"
        return TokenCount(input_tokens=estimated_tokens(parsed))

    @routes.post("/v1/embeddings", tags=["calls"], responses=errors(*ERRORS))
    async def embeddings(body: EmbeddingsBody, request: Request) -> Response:
        """Answer a request for embeddings (OpenAI's form) by an agent of kind endpoint."""
        texts = [body.input] if isinstance(body.input, str) else [str(part) for part in body.input]
        asked = ModelRequest(body.model, (Message("user", tuple(Text(text) for text in texts)),))
        headers = headers_of(request.scope)
        permitted = guard.permit(headers, "call")
        arrival = Arrival(
            dialect_of("chat"),
            await request.body(),
            asked,
            permitted.client,
            {},
            family=family_name(headers, {}) or "embeddings",
            started=perf_counter(),
        )
        async with guard.place(permitted.caller, tokens=estimated_tokens(asked)) as usage:
            content, answered = await service.embed(arrival, usage)
        return Response(content, media_type="application/json", headers=dict(answered))

    return routes


def with_max_tokens(body: bytes) -> bytes:
    """Returns the body with the limit that a request needs and a count does not; invalid JSON as it is."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return body
    return json.dumps({"max_tokens": 1, **parsed}).encode() if isinstance(parsed, dict) else body
