"""The HTTP application: model calls in three dialects, feedback, episodes, router state, health."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from time import time
from typing import NamedTuple

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from upturn import __version__
from upturn.config import GatewayConfig, RetentionRule
from upturn.dialects import DIALECTS, Dialect, RequestError, body_error, dialect_of, not_json
from upturn.errors import RecordError, StoreError, UpturnError
from upturn.gateway.access import Guard
from upturn.gateway.episode_routes import episode_routes
from upturn.gateway.feedback_routes import feedback_routes
from upturn.gateway.health_routes import health_routes
from upturn.gateway.http import BodyLimit, cancel, code_of, headers_of, unavailable
from upturn.gateway.model_calls import CallParts, ModelCalls
from upturn.gateway.model_routes import model_routes
from upturn.gateway.observation import TRACES_PATH, trace_routes
from upturn.gateway.observed_call import Observer
from upturn.gateway.openapi import EPISODE_PATH, describe_calls
from upturn.gateway.retries import RecentAnswers
from upturn.gateway.router_state import state_routes
from upturn.gateway.task_routes import task_routes
from upturn.loop.online import OnlineService, TaskQueue, seal_rated
from upturn.pool import prune_due
from upturn.pool.calls import delete_contents

_OPEN_PATHS = frozenset(("/health", "/ready", "/openapi.json"))
"""For everybody: monitors, and the description of the rest."""
_log = logging.getLogger("upturn.gateway")


class Parts(NamedTuple):
    """What an application is made of."""

    service: OnlineService
    guard: Guard
    observer: Observer
    settings: GatewayConfig
    tasks: TaskQueue | None = None
    """None = there is no environment."""
    learn: Callable[[], None] = lambda: None
    """Called after feedback was stored."""
    further: Sequence[APIRouter] = ()
    """Further endpoints."""
    background: Callable[[], Awaitable[None]] | None = None
    """Runs beside the calls, until it is cancelled."""
    keep_days: Callable[[], float] | None = None
    """The retention now; None = always that of ``settings``."""
    retention: Sequence[RetentionRule] = ()
    """Bounds of stored trajectories; () = all are kept."""
    on_stop: Callable[[], Awaitable[None]] | None = None
    """Called after the last call."""


def build_app(parts: Parts) -> FastAPI:
    """Returns the application."""
    service, settings = parts.service, parts.settings
    app = _App(
        title="Upturn gateway",
        version=__version__,
        lifespan=partial(_lifespan, parts),
        docs_url=None,  # their pages load scripts from a CDN
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    shared = CallParts(service, parts.guard, parts.observer, RecentAnswers())
    for dialect in DIALECTS.values():
        endpoint, path = ModelCalls(dialect, shared), f"/v1{dialect.path}"
        app.calls[path] = BodyLimit(endpoint, settings.max_body_bytes)
        for prefix in ("", EPISODE_PATH):
            app.router.routes.append(Route(f"{prefix}{path}", endpoint, methods=["POST"]))
    endpoints = list(app.routes)
    for routes in (
        model_routes(service, parts.guard),
        feedback_routes(service, parts.guard, parts.observer, parts.learn, metrics=settings.metrics),
        state_routes(service, parts.guard, metrics=settings.metrics),
        episode_routes(service, parts.guard, parts.learn),
        trace_routes(service, parts.guard, max_body_bytes=settings.max_body_bytes),
        health_routes(service, parts.guard, parts.observer.metrics),
        task_routes(parts.tasks, parts.guard),
        *parts.further,
    ):
        app.include_router(routes)
        endpoints += routes.routes
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes, unpacked=(TRACES_PATH,))
    app.add_middleware(_CallerFirst, guard=parts.guard)
    _add_errors(app, endpoints)
    describe_calls(app, service.routes.names)
    return app


class _App(FastAPI):
    """The application. Model calls go past the framework's layers, which took a sixth of the gateway's time."""

    @cached_property
    def calls(self) -> dict[str, ASGIApp]:
        """The endpoints of model calls, by path without an episode."""
        return {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] == "http" and scope["method"] == "POST":
            path: str = scope["path"]
            if path.startswith("/episodes/"):
                episode, _, rest = path.removeprefix("/episodes/").partition("/")
                path = f"/{rest}" if episode else path
                scope = {**scope, "path_params": {"episode": episode}}
            if (endpoint := self.calls.get(path)) is not None:
                await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


class _CallerFirst:
    """Refuses requests of unknown callers before their body is read; endpoints check what a caller may do."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] == "http" and scope["path"] not in _OPEN_PATHS:
            try:
                self._guard.gate.caller(headers_of(scope))
            except RequestError as exc:
                await _answer(Request(scope), exc)(scope, receive, send)
                return
            except StoreError as exc:
                await _answer(Request(scope), unavailable(exc))(scope, receive, send)
                return
        await self._app(scope, receive, send)


@asynccontextmanager
async def _lifespan(parts: Parts, _app: FastAPI) -> AsyncIterator[None]:
    retention = asyncio.ensure_future(_apply_retention(parts))
    background = None if parts.background is None else asyncio.ensure_future(parts.background())
    if parts.tasks is not None:
        parts.tasks.start()
    yield
    if background is not None:
        await cancel(background)
    if parts.tasks is not None:
        await parts.tasks.stop()
    await cancel(retention)
    await parts.service.log.drain()
    if parts.on_stop is not None:
        await parts.on_stop()


async def _apply_retention(parts: Parts) -> None:
    """Deletes what was said in calls once it is older than ``keep_days``, and trajectories beyond their bounds; now
    and every hour.

    Episodes with feedback are sealed when they had no call for half of ``keep_days``: they remain as trajectories.
    """
    while True:
        days = parts.settings.keep_days if parts.keep_days is None else parts.keep_days()
        kept, now, pool = days * 86_400.0, time(), parts.service.pool
        try:
            await seal_rated(pool, parts.service.seal, before=now - kept / 2)
            await asyncio.to_thread(delete_contents, pool, now - kept)
            pruned = await asyncio.to_thread(prune_due, pool, parts.retention, who="gateway", now=now)
            parts.observer.metrics.show_pool(pruned)
            if pruned.deleted:
                _log.info("%d trajectories beyond pool.retention were deleted", pruned.deleted)
        except UpturnError:
            _log.exception("what is beyond its bounds could not be deleted; the next try is in an hour")
        await asyncio.sleep(3_600.0)


def _add_errors(app: FastAPI, endpoints: Sequence[BaseRoute]) -> None:
    """Makes every error an object in the form of the caller's dialect."""

    @app.exception_handler(RequestError)
    async def request_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        return _answer(request, error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        problems = [{**problem, "loc": problem["loc"][1:]} for problem in error.errors()]  # without "body"
        if problems[0]["type"] == "json_invalid":
            return _answer(request, not_json(f"{problems[0]['ctx']['error']} at character {problems[0]['loc'][0]}"))
        return _answer(request, body_error(problems))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 400 and error.__cause__ is not None:  # the framework could not read the body
            return _answer(request, not_json(str(error.__cause__)))
        path, allowed, message = (
            request.url.path,
            ", ".join(sorted(_methods(endpoints, request.scope))),
            error.detail,
        )
        if error.status_code == 404:
            message = f"there is no {path}; {_cure(path)}"
        if error.status_code == 405:
            message = f"{path} does not take {request.method}; it takes {allowed}"
        answer = _answer(request, RequestError(message, status=error.status_code, code=code_of(error.status_code)))
        answer.headers.update(error.headers or {})
        if error.status_code == 405:
            answer.headers["allow"] = allowed
        return answer

    @app.exception_handler(RecordError)
    async def record_error(request: Request, error: Exception) -> Response:
        return _answer(request, RequestError(str(error)))

    @app.exception_handler(StoreError)
    async def store_error(request: Request, error: Exception) -> Response:
        return _answer(request, unavailable(error))

    @app.exception_handler(UpturnError)
    async def upturn_error(request: Request, error: Exception) -> Response:
        return _answer(request, RequestError(str(error), status=503, code="unavailable"))


def _methods(endpoints: Sequence[BaseRoute], scope: Scope) -> set[str]:
    """Returns the methods of all endpoints at the request's path; the framework names those of the first only."""
    routes = [route for route in endpoints if isinstance(route, Route)]
    first = next((route for route in routes if route.matches(scope)[0] is not Match.NONE), None)
    return {method for route in routes if first and route.path == first.path for method in route.methods or ()}


def _cure(path: str) -> str:
    """Returns what to do about a path that does not exist."""
    for dialect in DIALECTS.values():
        if path.endswith(dialect.path):  # /chat/completions, /v1/v1/messages
            end = "without" if dialect.name == "messages" else "with"
            return f"model calls go to /v1{dialect.path}: give the client a base URL {end} /v1 at its end"
    return "/openapi.json lists what there is"


def _answer(request: Request, error: RequestError) -> Response:
    """Returns the error in the form of the caller's dialect; text that is not Unicode gets replacements."""
    body = json.dumps(_dialect(request).error(error), ensure_ascii=False).encode("utf-8", "replace")
    headers = {} if error.retry_after_seconds is None else {"retry-after": str(error.retry_after_seconds)}
    return Response(body, error.status, headers, media_type="application/json")


def _dialect(request: Request) -> Dialect:
    is_anthropic = "anthropic-version" in request.headers or "/v1/messages" in request.url.path
    return dialect_of("messages" if is_anthropic else "chat")
