"""The endpoints for what was decided and done: feedback, episodes, the router's state."""

from collections.abc import Callable, Sequence
from math import fsum
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, WithJsonSchema

from upturn.config import MetricConfig
from upturn.dialects import RequestError
from upturn.gateway.access import Guard, Permission
from upturn.gateway.http import headers_of
from upturn.gateway.observed_call import Observer
from upturn.gateway.openapi import errors
from upturn.gateway.router_state import RouterState, Shown, router_state
from upturn.loop.online import (
    Client,
    OnlineService,
    Opinion,
    StoredEpisode,
    accept_feedback,
    read_episode,
)
from upturn.records import FeedbackSubject

_SUBJECTS = ("decision_id", "episode_id", "trajectory_id")


class Wire(BaseModel):
    """A body; unknown fields are errors, and types are strict: no numbers in strings, no false for 0."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _exactly_one(schema: dict[str, Any]) -> None:
    """Adds to a schema that exactly one of the subjects is named."""
    named: dict[str, Any] = {"type": "string", "minLength": 1}
    schema["oneOf"] = [{"required": [name], "properties": {name: named}} for name in _SUBJECTS]


class FeedbackBody(Wire):
    """One value for a decision, an episode or a trajectory."""

    model_config = ConfigDict(json_schema_extra=_exactly_one)

    metric: Annotated[str, Field(max_length=100)] = ""
    """A name in ``[[gateway.metrics]]``. Empty = the primary metric, by default ``success``."""
    value: Annotated[
        float,
        Strict(),
        BeforeValidator(lambda value: float(value) if isinstance(value, bool) else value),
        WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "boolean"}]}),
    ]
    """A number in the metric's range; true = 1, false = 0."""
    decision_id: str | None = None
    """The id of an answer."""
    episode_id: str | None = None
    trajectory_id: str | None = None
    id: Annotated[str, Field(max_length=200)] = ""
    """Your id of this value, for retries. Without it, equal values are one."""
    comment: Annotated[str, Field(max_length=10_000)] = ""


class FeedbackReceipt(BaseModel):
    """What became of the value."""

    id: str
    metric: str
    state: Literal["stored", "known", "contradicts"]
    """``known``: it was stored before. ``contradicts``: it is stored, but an earlier value taught the router."""


class CallEntry(BaseModel):
    """One call of an episode."""

    id: str
    agent_version: str
    status: str
    finish: str
    input_tokens: int
    """Of the prompt, cached ones included."""
    cached_input_tokens: int
    cache_write_tokens: int
    """Of ``input_tokens``: written to the provider's cache."""
    cache_write_1h_tokens: int
    """Of ``cache_write_tokens``: kept for an hour."""
    output_tokens: int
    cost_usd: float | None
    """None = the model has no price, or the call failed before an answer began."""
    is_usage_estimated: bool
    """True = the server did not report all tokens."""
    hedge: Literal["", "first", "second", "none"]
    """Which attempt answered, where the call was sent a second time; empty = it was sent once."""
    hedged_input_tokens: int
    """Tokens that the other attempt read, as estimated; in ``cost_usd`` only."""
    seconds: float
    extends: str | None
    fork_cause: str


class EpisodeEntry(BaseModel):
    """An episode with its calls."""

    id: str
    calls: list[CallEntry]
    input_tokens: int
    """Of all calls."""
    cached_input_tokens: int
    output_tokens: int
    cost_usd: float | None
    """Sum of the known costs; None = no call has one."""
    is_sealed: bool
    trajectory_id: str | None
    """None = not sealed."""


def resource_routes(
    service: OnlineService,
    guard: Guard,
    observer: Observer,
    learn: Callable[[], None],
    *,
    metrics: Sequence[MetricConfig],
) -> APIRouter:
    """Returns the endpoints. ``learn`` is called after feedback was stored. ``metrics``: the configured ones."""
    routes = APIRouter()

    def client_of(request: Request, permission: Permission) -> Client:
        return guard.client(request.scope, permission)

    @routes.post("/v1/feedback", tags=["feedback"], responses=errors(400, 401, 403, 404, 409, 413))
    async def feedback(body: FeedbackBody, request: Request) -> FeedbackReceipt:
        """Give a decision, an episode or a trajectory a value; it is stored when this returns."""
        client, opinion = client_of(request, "feedback"), _opinion(body)
        receipt = await accept_feedback(
            service.pool, service.log, opinion, client, metrics=metrics, is_answering=service.is_answering
        )
        observer.metrics.feedback("repeated" if receipt.state == "known" else "stored")
        observer.feedback(
            headers_of(request.scope),
            metric=receipt.metric,
            value=opinion.value,
            response_id=opinion.subject_id if opinion.subject_kind == "decision" else "",
        )
        learn()
        return FeedbackReceipt(**receipt._asdict())

    @routes.get("/v1/router/state", tags=["router"], responses=errors(401, 403, 404))
    async def state(request: Request, family: str | None = None, route: str = "") -> RouterState:
        """Explain the router: agents, counts, posteriors, probabilities, and why."""
        tenant = client_of(request, "observe").tenant
        await service.log.settle()
        return await router_state(service, tenant, Shown(family, route), metrics=metrics)

    @routes.post("/v1/episodes/{episode:path}/seal", tags=["episodes"], responses=errors(401, 403, 404, 409))
    async def seal(episode: str, request: Request) -> EpisodeEntry:
        """End an episode: its calls become a trajectory, and later calls are refused."""
        sealed = await service.seal(episode, client_of(request, "call"))
        learn()
        return _episode_entry(sealed)

    @routes.get("/v1/episodes/{episode:path}", tags=["episodes"], responses=errors(401, 403, 404))
    async def episode(episode: str, request: Request) -> EpisodeEntry:
        """Show an episode's calls."""
        client = client_of(request, "call")
        await service.log.settle()
        return _episode_entry(read_episode(service.pool.engine, episode, client))

    return routes


def _opinion(body: FeedbackBody) -> Opinion:
    """Returns the body's value; raises RequestError unless it names exactly one subject."""
    subjects: dict[FeedbackSubject, str | None] = {
        "decision": body.decision_id,
        "episode": body.episode_id,
        "trajectory": body.trajectory_id,
    }
    chosen = [(kind, subject) for kind, subject in subjects.items() if subject]
    if len(chosen) != 1:
        raise RequestError(
            f"exactly one of decision_id, episode_id and trajectory_id names the subject, got {len(chosen)}",
            field="decision_id",
        )
    kind, subject = chosen[0]
    return Opinion(kind, str(subject), body.metric, float(body.value), body.id, body.comment)


def _episode_entry(stored: StoredEpisode) -> EpisodeEntry:
    calls = [
        CallEntry(**{name: getattr(member.call, name) for name in CallEntry.model_fields})
        for member in stored.calls
    ]
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    return EpisodeEntry(
        id=stored.id,
        calls=calls,
        input_tokens=sum(call.input_tokens for call in calls),
        cached_input_tokens=sum(call.cached_input_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        cost_usd=fsum(costs) if costs else None,
        is_sealed=stored.trajectory_id is not None,
        trajectory_id=stored.trajectory_id,
    )
