"""The endpoints of a tenant's evidence: reports of programs, statistics, quality gates and batches.

They read and write what belongs to the tenant of the key. Answers are anonymised, except batches with raw contents,
which administrators get, as a recorded act. Few answers are computed at a time, so that calls do not wait for them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from time import time
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field

from upturn.dialects import RequestError
from upturn.errors import StoreConflictError, UnknownNameError
from upturn.gateway.access import Caller
from upturn.gateway.evidence.bodies import BatchBody, DecisionBody, EvaluationBody, ExecutionBody, moment
from upturn.gateway.openapi import Wire, errors
from upturn.gateway.operations import Operators
from upturn.loop.online import OnlineService
from upturn.pool import Batch, Collector, Pool, Selection, freeze_batch, get_batch
from upturn.pool.access import record_act
from upturn.pool.answers import (
    Answer,
    batch_answer,
    logged_answer,
    point_lines,
    quality_answer,
    read_logged,
    statistics_answer,
)
from upturn.pool.quality import validate_quality
from upturn.records import AdminAct

ResultT = TypeVar("ResultT")
MOST_VALIDATED = 20_000
"""Trajectories whose quality is checked over HTTP; each is read, which takes a millisecond."""
LINES = "application/x-ndjson"
_AT_ONCE = 2
_LINES_AT_ONCE = 50
Moment = Annotated[str | None, Query(max_length=40)]
Families = Annotated[list[Annotated[str, Field(max_length=200)]] | None, Query(max_length=100)]


class Evidence:
    """The evidence of the tenants of one server."""

    def __init__(self, service: OnlineService, operators: Operators, learn: Callable[[], None]) -> None:
        """``learn`` is called after a record was stored that may teach the router."""
        self._service, self._operators, self._learn = service, operators, learn
        self._places = asyncio.Semaphore(_AT_ONCE)

    def caller(self, request: Request, *, is_write: bool = False) -> Caller:
        """Returns who asks; raises RequestError (401, 403)."""
        return self._operators.caller(request, "operate" if is_write else "observe")

    async def read(self, work: Callable[[Pool], ResultT]) -> ResultT:
        """Returns the result of a read that may take long."""
        await self._service.log.settle()
        async with self._places:
            return await self._operators.read(work)

    async def log(self, body: Wire, caller: Caller) -> dict[str, Any]:
        """Stores what a program reports; returns once it is durable."""
        tenant = caller.tenant
        collector = Collector(self._service.pool, tenant=tenant, border=self._service.border)
        content = body.model_dump(exclude_none=True)
        try:
            logged = await asyncio.to_thread(read_logged, content, collector, tenant=tenant)
        except UnknownNameError as exc:
            raise RequestError(str(exc), status=404, code="unknown_record") from exc
        except StoreConflictError as exc:
            raise RequestError(str(exc), status=409, code="conflict") from exc
        self._learn()
        return logged_answer(logged, tenant=tenant).body

    async def draw(self, body: BatchBody, request: Request) -> Response:
        """Returns a batch: what it consists of, or its points line by line."""
        caller, has_lines = self.caller(request, is_write=body.freeze), _wants_lines(request)
        if body.contents != "none" and not has_lines:
            raise RequestError(
                f"contents = {body.contents!r} are in the lines; send the header accept: {LINES}", field="contents"
            )
        criteria = body.criteria
        if body.contents == "raw":
            await self._record_raw(body, request)
        drawn = await self.read(
            lambda pool: get_batch(pool, criteria, tenant=caller.tenant, seed=body.seed, bound=body.bound)
        )
        snapshot = ""
        if body.freeze and drawn.points:
            snapshot = (await self._operators.read(lambda pool: freeze_batch(pool, drawn))).id
        if not has_lines:
            return JSONResponse(batch_answer(drawn, snapshot=snapshot).body)
        headers = {"x-upturn-points": str(len(drawn.points)), "x-upturn-bound": str(drawn.draw.bound)}
        headers |= {"x-upturn-snapshot": snapshot} if snapshot else {}
        return StreamingResponse(self._lines(drawn, body), headers=headers, media_type=LINES)

    async def _record_raw(self, body: BatchBody, request: Request) -> None:
        """Records the act of reading raw contents, before anything is read; raises RequestError."""
        caller = self._operators.caller(request, "administer")
        if not body.why.strip():
            raise RequestError("raw contents need their reason", field="why")
        key = f"key {caller.id}" if caller.id else "a caller on this machine"
        who = f"{body.who.strip()} ({key})" if body.who.strip() else key
        act = AdminAct(who, "pool batch raw", caller.tenant, time(), caller.tenant, body.why)
        await asyncio.to_thread(record_act, self._service.pool.location, act)

    async def _lines(self, drawn: Batch, body: BatchBody) -> AsyncIterator[str]:
        lines = point_lines(self._service.pool, drawn, body.contents)
        while text := await self.read(lambda _: _next_lines(lines)):
            yield text


def pool_routes(evidence: Evidence) -> APIRouter:
    """Returns the endpoints."""
    routes = APIRouter(tags=["pool"])

    @routes.post("/v1/pool/decisions", responses=errors(400, 401, 403, 404, 409, 413))
    async def decisions(body: DecisionBody, request: Request) -> dict[str, Any]:
        """Report a routing decision of a router elsewhere; it is stored when this returns."""
        return await evidence.log(body, evidence.caller(request, is_write=True))

    @routes.post("/v1/pool/executions", responses=errors(400, 401, 403, 404, 409, 413))
    async def executions(body: ExecutionBody, request: Request) -> dict[str, Any]:
        """Report what an agent did elsewhere; it is stored when this returns."""
        return await evidence.log(body, evidence.caller(request, is_write=True))

    @routes.post("/v1/pool/evaluations", responses=errors(400, 401, 403, 404, 409, 413))
    async def evaluations(body: EvaluationBody, request: Request) -> dict[str, Any]:
        """Report the evaluation of a stored trajectory; it is stored when this returns."""
        return await evidence.log(body, evidence.caller(request, is_write=True))

    @routes.get("/v1/pool/statistics", responses=errors(400, 401, 403))
    async def statistics(
        request: Request,
        *,
        since: Moment = None,
        before: Moment = None,
        family: Families = None,
        tag: Families = None,
    ) -> dict[str, Any]:
        """Show statistics of the tenant's trajectories, as `upturn pool stats` does."""
        tenant = evidence.caller(request).tenant
        selection = _selection(since, before, family, tag)
        return (await evidence.read(lambda pool: statistics_answer(pool, tenant=tenant, selection=selection))).body

    @routes.get("/v1/pool/quality", responses=errors(400, 401, 403))
    async def quality(
        request: Request,
        *,
        since: Moment = None,
        before: Moment = None,
        family: Families = None,
        tag: Families = None,
    ) -> dict[str, Any]:
        """Show how many data points pass the quality gates, as `upturn pool validate --gates` does."""
        tenant = evidence.caller(request).tenant
        selection = _selection(since, before, family, tag)
        return (await evidence.read(lambda pool: _quality(pool, tenant, selection))).body

    @routes.post("/v1/pool/batch", responses=errors(400, 401, 403, 413), response_model=None)
    async def batch(body: BatchBody, request: Request) -> Response:
        """Draw data points by criteria, as `upturn pool batch` does; as JSON lines, its points."""
        return await evidence.draw(body, request)

    return routes


def _quality(pool: Pool, tenant: str, selection: Selection) -> Answer:
    count = len(list(pool.selected(selection, tenant=tenant)))
    if count > MOST_VALIDATED:
        raise RequestError(
            f"{count} trajectories are too many to check over HTTP, which does {MOST_VALIDATED}; narrow them by "
            "since, before or family, or use `upturn pool validate`",
            code="too_many_points",
        )
    return quality_answer(validate_quality(pool, tenant=tenant, selection=selection), tenant=tenant)


def _selection(since: str | None, before: str | None, family: list[str] | None, tag: list[str] | None) -> Selection:
    return Selection(
        families=tuple(family or ()),
        tags=tuple(tag or ()),
        since=moment("since", since),
        before=moment("before", before),
    )


def _wants_lines(request: Request) -> bool:
    return LINES in request.headers.get("accept", "")


def _next_lines(lines: Iterator[str]) -> str:
    """Returns the next lines; empty = there are none."""
    return "".join(line for line, _ in zip(lines, range(_LINES_AT_ONCE), strict=False))
