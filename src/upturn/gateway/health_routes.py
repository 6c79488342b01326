"""The endpoints for operators and their tools: health, readiness, metrics."""

import asyncio
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from sqlalchemy import Engine, select

from upturn import __version__
from upturn.dialects import RequestError
from upturn.gateway.access import Guard
from upturn.gateway.observation import CONTENT_TYPE, GatewayMetrics
from upturn.gateway.openapi import errors
from upturn.loop.online import OnlineService

_PAGE: dict[str, Any] = {"content": {"text/plain": {"schema": {"type": "string"}}}}


class Health(BaseModel):
    """State of the server."""

    status: Literal["ok"] = "ok"
    version: str


def health_routes(service: OnlineService, guard: Guard, numbers: GatewayMetrics) -> APIRouter:
    """Returns the endpoints."""
    routes = APIRouter(tags=["health"])

    @routes.head("/ready", include_in_schema=False)
    @routes.get("/ready", responses=errors())
    async def ready() -> Health:
        """Whether calls are served: the pool can be read, and an agent is in service."""
        if not service.router.registry.agents():
            raise RequestError("no agent is in service", status=503, code="no_agent")
        await asyncio.to_thread(check_pool, service.pool.engine)
        return Health(version=__version__)

    @routes.get("/metrics", response_class=Response, responses={200: _PAGE, **errors(401, 403)})
    async def metrics(request: Request) -> Response:
        """Numbers in Prometheus's text form."""
        guard.client(request.scope, "observe")
        return Response(numbers.page(), media_type=CONTENT_TYPE)

    @routes.head("/health", include_in_schema=False)
    @routes.get("/health")
    async def health() -> Health:
        """Whether the process lives."""
        return Health(version=__version__)

    return routes


def check_pool(engine: Engine) -> None:
    """Raises StoreError if the pool cannot be read."""
    with engine.connect() as connection:
        connection.execute(select(1))
