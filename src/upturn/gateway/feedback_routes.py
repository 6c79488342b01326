"""The endpoint for feedback."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, WithJsonSchema

from upturn.config import MetricConfig
from upturn.dialects import RequestError
from upturn.gateway.access import Guard
from upturn.gateway.http import headers_of
from upturn.gateway.observed_call import Observer
from upturn.gateway.openapi import Wire, errors
from upturn.loop.online import OnlineService, Opinion, accept_feedback
from upturn.records import FeedbackSubject

_SUBJECTS = ("decision_id", "episode_id", "trajectory_id")


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


def feedback_routes(
    service: OnlineService,
    guard: Guard,
    observer: Observer,
    learn: Callable[[], None],
    *,
    metrics: Sequence[MetricConfig],
) -> APIRouter:
    """Returns the endpoint. ``learn`` is called after feedback was stored. ``metrics``: the configured ones."""
    routes = APIRouter()

    @routes.post("/v1/feedback", tags=["feedback"], responses=errors(400, 401, 403, 404, 409, 413))
    async def feedback(body: FeedbackBody, request: Request) -> FeedbackReceipt:
        """Give a decision, an episode or a trajectory a value; it is stored when this returns."""
        client = guard.client(request.scope, "feedback")
        try:
            opinion = _opinion(body)
            opinion = opinion._replace(comment=service.border.stored_text(opinion.comment, tenant=client.tenant))
            receipt = await accept_feedback(
                service.pool, service.log, opinion, client, metrics=metrics, is_answering=service.is_answering
            )
        except RequestError:
            observer.metrics.feedback("refused")
            raise
        observer.metrics.feedback("repeated" if receipt.state == "known" else "stored")
        observer.feedback(
            headers_of(request.scope),
            metric=receipt.metric,
            value=opinion.value,
            response_id=opinion.subject_id if opinion.subject_kind == "decision" else "",
        )
        learn()
        return FeedbackReceipt(**receipt._asdict())

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
