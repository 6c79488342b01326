"""Feedback on decisions, episodes and trajectories, accepted once and in any order.

A value is stored before it is acknowledged. The same value again, or the same id, is the same feedback. A second
value of a metric for the same subject is stored and reported as contradicting: the first one has taught the router.
Order of checks: metric, value, comment, subject, its level.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

from sqlalchemy import Engine, select

from upturn.config import MetricConfig, declared_metrics
from upturn.dialects import RequestError
from upturn.errors import StoreConflictError
from upturn.loop.online.call_log import CallLog
from upturn.loop.online.episode import Client
from upturn.pool import Pool, schema
from upturn.records import Feedback, FeedbackSubject

FeedbackState = Literal["stored", "known", "contradicts"]
LONGEST_COMMENT = 10_000
_TABLES = {
    "decision": (schema.decisions, schema.decisions.c.id),
    "episode": (schema.calls, schema.calls.c.episode),
    "trajectory": (schema.trajectories, schema.trajectories.c.id),
}
_WHERE = {
    "decision": "use the id of an answer, or its header x-upturn-decision",
    "episode": "use your name of it, or the header x-upturn-episode of an answer",
    "trajectory": "the answers of GET /v1/episodes/{id} and GET /v1/tasks/{id} have ids of trajectories",
}
_ABOUT = {
    "call": "a model call: name its decision_id",
    "task": "a task: name its trajectory_id, or its decision_id",
    "episode": "an episode: name its episode_id, or the decision_id of one of its calls",
}


class Opinion(NamedTuple):
    """A feedback value as a client sends it."""

    subject_kind: FeedbackSubject
    subject_id: str
    """For an episode: the client's name of it, or the id in the header ``x-upturn-episode``."""
    metric: str
    """Empty = the primary metric."""
    value: float
    id: str = ""
    """The client's id of the value; empty = equal values are one."""
    comment: str = ""


class Receipt(NamedTuple):
    """What became of a feedback value."""

    id: str
    metric: str
    state: FeedbackState


class _Subject(NamedTuple):
    """What a value is stored for."""

    kind: FeedbackSubject
    id: str


async def accept_feedback(
    pool: Pool,
    log: CallLog,
    opinion: Opinion,
    client: Client,
    *,
    metrics: Sequence[MetricConfig] = (),
    is_answering: Callable[[str, str], bool] = lambda _tenant, _decision: False,
) -> Receipt:
    """Returns what became of the value once it is durable.

    ``opinion``: as it is stored. ``metrics``: the configured ones. ``is_answering``: whether a tenant's decision is
    of a call that is not stored yet. Raises RequestError for an unknown metric, a value outside of its range and a
    subject of another level (400), a subject that the tenant does not have (404), one whose answer has not ended,
    and an id that is stored with another value (409).
    """
    metric = _metric(opinion.metric, declared_metrics(metrics))
    _check(opinion, metric)
    await log.settle()  # the value may be for a call that has just ended
    subject = _find_subject(pool.engine, opinion, client)
    if subject is None:
        is_early = opinion.subject_kind == "decision" and is_answering(client.tenant, opinion.subject_id)
        raise _too_early(opinion) if is_early else _unknown(opinion)
    subject = _at_level(pool.engine, subject, metric)
    key = (opinion.id,) if opinion.id else (*subject, metric.name, repr(float(opinion.value)))
    digest = blake2b("\0".join((client.tenant, *key)).encode(errors="surrogatepass"), digest_size=16).hexdigest()
    feedback = Feedback(
        id=f"feedback:{digest}",
        subject_kind=subject.kind,
        subject_id=subject.id,
        metric=metric.name,
        value=float(opinion.value),
        tenant=client.tenant,
        comment=opinion.comment,
    )
    earlier = _values(pool.engine, feedback)
    try:
        await log.store_now((feedback,))
    except StoreConflictError as exc:
        raise RequestError(
            f"feedback {opinion.id!r} is stored with another value; a changed opinion needs a new id",
            status=409,
            code="feedback_conflict",
            field="id",
        ) from exc
    if feedback.id in earlier:
        return Receipt(feedback.id, metric.name, "known")
    return Receipt(feedback.id, metric.name, "contradicts" if earlier else "stored")


def _metric(name: str, metrics: Sequence[MetricConfig]) -> MetricConfig:
    """Returns the metric with this name, without a name the primary one; raises RequestError for another name."""
    if not name:
        return metrics[0]
    for metric in metrics:
        if metric.name == name:
            return metric
    known = ", ".join(metric.name for metric in metrics)
    raise RequestError(
        f"unknown metric {name!r:.120}; declared: {known}. Declare further ones in [[gateway.metrics]]",
        code="unknown_metric",
        field="metric",
    )


def _check(opinion: Opinion, metric: MetricConfig) -> None:
    if metric.reward(opinion.value) is None:  # also of NaN
        raise RequestError(
            f"a value of {metric.name!r} must be from {metric.low:g} to {metric.high:g}, got {opinion.value!r}",
            code="value_out_of_range",
            field="value",
        )
    if len(opinion.comment) > LONGEST_COMMENT:
        raise RequestError(
            f"comment must have at most {LONGEST_COMMENT} characters, got {len(opinion.comment)}", field="comment"
        )


def _find_subject(engine: Engine, opinion: Opinion, client: Client) -> _Subject | None:
    """Returns the stored subject; None = the tenant has none."""
    table, column = _TABLES[opinion.subject_kind]
    ids = [opinion.subject_id]
    if opinion.subject_kind == "episode":
        ids = [client.episode_id(opinion.subject_id), opinion.subject_id]
    with engine.connect() as connection:
        for subject in ids:
            query = select(column).where(column == subject, table.c.tenant == client.tenant).limit(1)
            if connection.execute(query).first() is not None:
                return _Subject(opinion.subject_kind, subject)
    return None


def _too_early(opinion: Opinion) -> RequestError:
    return RequestError(
        f"the answer of decision {opinion.subject_id!r} has not ended; give its value when it has",
        status=409,
        code="answer_not_ended",
        field="decision_id",
        retry_after_seconds=1,
    )


def _unknown(opinion: Opinion) -> RequestError:
    return RequestError(
        f"no {opinion.subject_kind} {opinion.subject_id!r}; {_WHERE[opinion.subject_kind]}",
        status=404,
        code=f"unknown_{opinion.subject_kind}",
        field=f"{opinion.subject_kind}_id",
    )


def _at_level(engine: Engine, subject: _Subject, metric: MetricConfig) -> _Subject:
    """Returns the subject that the metric is about; raises RequestError for feedback on something else."""
    if metric.level is None or subject.kind == metric.level:
        return subject
    is_call, episode = False, None
    if subject.kind == "decision":
        decision, call = schema.decisions, schema.calls
        query = select(decision.c.episode, call.c.id).outerjoin(call, call.c.id == decision.c.id)
        with engine.connect() as connection:
            episode, call_id = connection.execute(query.where(decision.c.id == subject.id)).one()
        is_call = call_id is not None
    match metric.level:
        case "call" if is_call:
            return subject
        case "task" if subject.kind == "trajectory" or (subject.kind == "decision" and not is_call):
            return subject
        case "episode" if episode is not None:
            return _Subject("episode", episode)
    raise RequestError(
        f"{metric.name!r} is about {_ABOUT[metric.level]}; {subject.kind} {subject.id!r} is something else",
        code="wrong_level",
        field=f"{subject.kind}_id",
    )


def _values(engine: Engine, feedback: Feedback) -> set[str]:
    """Returns the ids of the stored feedback of the same metric on the same subject."""
    table = schema.feedback
    query = select(table.c.id).where(
        table.c.tenant == feedback.tenant,
        table.c.subject_kind == feedback.subject_kind,
        table.c.subject_id == feedback.subject_id,
        table.c.metric == feedback.metric,
    )
    with engine.connect() as connection:
        return set(connection.execute(query).scalars())
