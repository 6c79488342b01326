"""Who acts over HTTP, what an act does, and its record."""

import asyncio
from collections.abc import Callable
from time import time
from typing import Annotated, TypeVar

from fastapi import Request
from pydantic import Field

from upturn.deployment import Override
from upturn.dialects import RequestError
from upturn.errors import ReleaseError, StoreConflictError, UnknownNameError
from upturn.gateway.access import Caller, Guard, Permission
from upturn.gateway.http import headers_of
from upturn.gateway.openapi import Wire
from upturn.pool import Pool
from upturn.pool.access import record_act
from upturn.records import AdminAct

ResultT = TypeVar("ResultT")


class ActBody(Wire):
    """Why an operator acts."""

    why: Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"\S")]
    who: Annotated[str, Field(max_length=200)] = ""
    """Name of the operator. The id of the API key is recorded too."""

    def override(self, caller: Caller) -> Override:
        """Returns who acts, and why."""
        key = f"key {caller.id}" if caller.id else "a caller on this machine"
        return Override(f"{self.who.strip()} ({key})" if self.who.strip() else key, self.why)


class Operators:
    """The acts of operators on one server."""

    def __init__(self, pool: Pool, guard: Guard, on_change: Callable[[], None]) -> None:
        """``on_change`` makes the server serve by what the pool says now."""
        self.pool = pool
        self._guard = guard
        self._on_change = on_change

    def caller(self, request: Request, permission: Permission) -> Caller:
        """Returns who makes a request; raises RequestError (401, 403)."""
        return self._guard.permit(headers_of(request.scope), permission).caller

    async def read(self, work: Callable[[Pool], ResultT]) -> ResultT:
        """Returns the result of a read; raises RequestError as ``act`` does."""
        try:
            return await asyncio.to_thread(work, self.pool)
        except UnknownNameError as exc:
            raise RequestError(str(exc), status=404, code="unknown_name") from exc
        except (ReleaseError, StoreConflictError) as exc:
            raise RequestError(str(exc), status=409, code="conflict") from exc

    async def act(self, what: str, override: Override, work: Callable[[Pool], ResultT], subject: str) -> ResultT:
        """Returns the result of a change, once it is durable, recorded, and in effect.

        Raises RequestError: 404 for unknown names, 409 for a change that is not possible now.
        """
        result = await self.read(work)
        await self.record(what, override, subject)
        self._on_change()
        return result

    async def record(self, what: str, override: Override, subject: str) -> None:
        """Records an act; returns once it is durable."""
        act = AdminAct(override.who, what, subject, time(), "", override.why)
        await asyncio.to_thread(record_act, self.pool.location, act)
