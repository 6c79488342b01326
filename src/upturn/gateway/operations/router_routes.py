"""The endpoints that stop the router from learning, and let it learn again."""

from collections.abc import Callable
from time import time

from fastapi import APIRouter, Request
from pydantic import BaseModel

from upturn.config import Config
from upturn.dialects import RequestError
from upturn.gateway.openapi import errors
from upturn.gateway.operations.operator import ActBody, Operators
from upturn.pool import Pool
from upturn.pool.access import freeze, unfreeze


class FreezeState(BaseModel):
    """Whether the router learns."""

    is_frozen: bool


def router_routes(operators: Operators, config: Callable[[], Config], learn: Callable[[], None]) -> APIRouter:
    """Returns the endpoints; ``learn`` makes the router learn what is stored."""
    routes = APIRouter(tags=["router"])

    @routes.post("/v1/router/freeze", responses=errors(400, 401, 403, 409, 413))
    async def stop(body: ActBody, request: Request) -> FreezeState:
        """Stop the router from learning: its probabilities stay as they are, and evidence is only stored."""
        override = body.override(operators.caller(request, "operate"))
        await operators.read(lambda pool: _stop(pool, override.who, override.why))
        learn()  # what was stored before the act
        return FreezeState(is_frozen=True)

    @routes.post("/v1/router/unfreeze", responses=errors(400, 401, 403, 409, 413))
    async def start(body: ActBody, request: Request) -> FreezeState:
        """Let the router learn again, first what was stored meanwhile."""
        override = body.override(operators.caller(request, "operate"))
        if config().routing.frozen:
            raise RequestError(
                "routing.frozen = true in the configuration; set it to false and reload",
                status=409,
                code="conflict",
            )
        await operators.read(lambda pool: unfreeze(pool.location, who=override.who, why=override.why, when=time()))
        learn()
        return FreezeState(is_frozen=False)

    return routes


def _stop(pool: Pool, who: str, why: str) -> None:
    freeze(pool.location, who=who, why=why, when=time())
