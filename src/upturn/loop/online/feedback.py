"""Feedback on decisions, episodes and trajectories, accepted once and in any order.

A value is stored before it is acknowledged. The same value again, or the same id, is the same feedback. A second
value of a metric for the same subject is stored and reported as contradicting: the first one has taught the router.
"""

import math
from hashlib import blake2b
from typing import Literal, NamedTuple

from sqlalchemy import Engine, select

from upturn.dialects import RequestError
from upturn.errors import StoreConflictError
from upturn.loop.online.call_log import CallLog
from upturn.loop.online.episode import Client
from upturn.pool import Pool, schema
from upturn.records import Feedback, FeedbackSubject

FeedbackState = Literal["stored", "known", "contradicts"]
LONGEST_METRIC = 100
LONGEST_COMMENT = 10_000
_TABLES = {
    "decision": (schema.decisions, schema.decisions.c.id),
    "episode": (schema.decisions, schema.decisions.c.episode),
    "trajectory": (schema.trajectories, schema.trajectories.c.id),
}


class Opinion(NamedTuple):
    """A feedback value as a client sends it."""

    subject_kind: FeedbackSubject
    subject_id: str
    """For an episode: the client's name of it, or the id in the header ``x-upturn-episode``."""
    metric: str
    value: float
    id: str = ""
    """The client's id of the value; empty = equal values are one."""
    comment: str = ""


class Receipt(NamedTuple):
    """What became of a feedback value."""

    id: str
    state: FeedbackState


async def accept_feedback(pool: Pool, log: CallLog, opinion: Opinion, client: Client) -> Receipt:
    """Returns what became of the value once it is durable.

    Raises RequestError for an unusable value (400), a subject that the tenant does not have (404), and an id that
    is stored with another value (409).
    """
    _check(opinion)
    subject = _find_subject(pool.engine, opinion, client)
    key = (
        (opinion.id,) if opinion.id else (opinion.subject_kind, subject, opinion.metric, repr(float(opinion.value)))
    )
    digest = blake2b("\0".join((client.tenant, *key)).encode(errors="surrogatepass"), digest_size=16).hexdigest()
    feedback = Feedback(
        id=f"feedback:{digest}",
        subject_kind=opinion.subject_kind,
        subject_id=subject,
        metric=opinion.metric,
        value=float(opinion.value),
        tenant=client.tenant,
        comment=opinion.comment,
    )
    earlier = _values(pool.engine, feedback)
    try:
        await log.store((feedback,))
    except StoreConflictError as exc:
        raise RequestError(
            f"feedback {opinion.id!r} is stored with another value; a changed opinion needs a new id",
            status=409,
            code="feedback_conflict",
            field="id",
        ) from exc
    if feedback.id in earlier:
        return Receipt(feedback.id, "known")
    return Receipt(feedback.id, "contradicts" if earlier else "stored")


def _check(opinion: Opinion) -> None:
    if not math.isfinite(opinion.value):
        raise RequestError(f"value must be a finite number, got {opinion.value!r}", field="value")
    if not 1 <= len(opinion.metric) <= LONGEST_METRIC or not opinion.metric.isprintable():
        raise RequestError(
            f"metric must have 1 to {LONGEST_METRIC} printable characters, got {opinion.metric!r:.120}",
            field="metric",
        )
    if len(opinion.comment) > LONGEST_COMMENT:
        raise RequestError(
            f"comment must have at most {LONGEST_COMMENT} characters, got {len(opinion.comment)}", field="comment"
        )


def _find_subject(engine: Engine, opinion: Opinion, client: Client) -> str:
    """Returns the stored id of the subject; raises RequestError (404) if the tenant has none."""
    table, column = _TABLES[opinion.subject_kind]
    ids = [opinion.subject_id]
    if opinion.subject_kind == "episode":
        ids = [client.episode_id(opinion.subject_id), opinion.subject_id]
    with engine.connect() as connection:
        for subject in ids:
            query = select(column).where(column == subject, table.c.tenant == client.tenant).limit(1)
            if connection.execute(query).first() is not None:
                return subject
    raise RequestError(
        f"no {opinion.subject_kind} {opinion.subject_id!r}; use the id of an answer, or its x-upturn headers",
        status=404,
        code=f"unknown_{opinion.subject_kind}",
        field=f"{opinion.subject_kind}_id",
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
