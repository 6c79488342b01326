"""Reads of sealed episodes with their rewards, without their tokens.

A read sees what is stored up to a sequence number, so that it can be repeated while the pool grows.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json
from sqlalchemy import Connection, func, select

from upturn.config import TrafficMetrics
from upturn.pool import schema
from upturn.pool.reader import PoolReader
from upturn.pool.selection import latest_evaluation
from upturn.pool.traffic.reward import EpisodeReward, Opinions, episode_reward
from upturn.pool.traffic.same_task import prompt_task_id
from upturn.records import EPISODE_TASK, MODEL_CALL, Origin, episode_task_id

_PAGE = 2_000
"""Rows read at once: a few MB with their turns."""


class Episode(NamedTuple):
    """A sealed episode, without its content."""

    trajectory_id: str
    task_id: str
    """Equal for episodes that begin with the same prompt."""
    family: str
    agent_version: str
    origin: Origin
    temperature: float | None
    """None = unknown, or not the same in all calls."""
    reward: EpisodeReward


def read_episodes(
    pool: PoolReader,
    metrics: TrafficMetrics,
    *,
    tenant: str,
    families: Sequence[str] = (),
    limit: int | None = None,
) -> list[Episode]:
    """Returns the tenant's sealed episodes in the order of their sealing; of more than ``limit`` the latest.

    ``families``: empty = any. The reward is the score of the latest evaluation with a verdict, else by feedback.
    """
    with pool.engine.connect() as connection:  # one transaction: later records are not read
        opinions = _opinions(connection, metrics, tenant)
        rows = list(_episode_rows(connection, tenant, families, limit))
    episodes = []
    for row in reversed(rows):
        prompt = _first_prompt(row.turns)
        episodes.append(
            Episode(
                row.id,
                prompt_task_id(tenant, prompt or ""),
                row.family,
                row.agent_version,
                row.origin,
                row.temperature,
                _reward(row, opinions.get(row.task_id), metrics, is_answered=prompt is not None),
            )
        )
    return episodes


def has_traffic(pool: PoolReader, *, tenant: str) -> bool:
    """Whether the tenant has any model call of a client, or any task that a client submitted."""
    calls, submissions = schema.calls, schema.submissions
    queries = (
        select(calls.c.id).where(calls.c.tenant == tenant).limit(1),
        select(submissions.c.task_id).where(submissions.c.tenant == tenant).limit(1),
    )
    with pool.engine.connect() as connection:
        return any(connection.execute(query).first() is not None for query in queries)


class _Row(NamedTuple):
    id: str
    task_id: str
    family: str
    agent_version: str
    origin: Origin
    outcome: str
    turns: str
    temperature: float | None
    verdict: str | None
    score: float | None


def _episode_rows(
    connection: Connection, tenant: str, families: Sequence[str], limit: int | None
) -> Iterator[_Row]:
    """Yields the latest episodes, the latest first."""
    table, tasks = schema.trajectories, schema.tasks
    latest = latest_evaluation(2**62)
    columns = (table.c.id, table.c.task_id, tasks.c.family, table.c.agent_version, table.c.origin, table.c.outcome)
    query = (
        select(*columns, table.c.turns, table.c.fields, latest.c.verdict, latest.c.score, table.c.sequence)
        .join(tasks, tasks.c.id == table.c.task_id)
        .outerjoin(latest, latest.c.trajectory_id == table.c.id)
        .where(table.c.tenant == tenant, tasks.c.environment == MODEL_CALL, tasks.c.split == "train")
        .order_by(table.c.sequence.desc())
    )
    if families:
        query = query.where(tasks.c.family.in_(families))
    last, count = 2**62, 0
    while limit is None or count < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - count)
        rows = connection.execute(query.where(table.c.sequence < last).limit(size)).all()
        for row in rows:
            temperature = from_json(row.fields).get("temperature")
            yield _Row(*row[:7], temperature, row.verdict, row.score)
        if len(rows) < size:
            return
        last, count = rows[-1].sequence, count + len(rows)


def _first_prompt(turns: str) -> str | None:
    """Returns what the client sent before the first answer; None = nothing was answered."""
    parsed: list[Any] = from_json(turns)  # Any: a JSON border
    return str(parsed[0]["observation"]["text"]) if parsed else None


def _reward(row: _Row, opinions: Opinions | None, metrics: TrafficMetrics, *, is_answered: bool) -> EpisodeReward:
    if not is_answered:
        return EpisodeReward(None, {}, "unanswered")
    if row.outcome in ("model_error", "environment_error"):
        return EpisodeReward(None, {}, "broken")
    if row.verdict not in (None, "missing") and row.score is not None:
        return EpisodeReward(row.score, {"score": row.score})
    return episode_reward(opinions or Opinions(), metrics)


def _opinions(connection: Connection, metrics: TrafficMetrics, tenant: str) -> Mapping[str, Opinions]:
    """Returns the feedback by the task of its episode."""
    names = [metric.name for metric in metrics.joint]
    if metrics.fallback is not None:
        names.append(metrics.fallback.name)
    table, calls = schema.feedback, schema.calls
    columns = (table.c.subject_id, table.c.metric, table.c.value)
    given = select(*columns).where(table.c.tenant == tenant, table.c.metric.in_(names)).order_by(table.c.sequence)
    opinions: defaultdict[str, Opinions] = defaultdict(Opinions)
    for row in connection.execute(given.where(table.c.subject_kind == "episode")):
        opinions[episode_task_id(tenant, row.subject_id)].whole.setdefault(row.metric, []).append(row.value)
    start = f"{EPISODE_TASK}:{tenant}:"
    of_trajectories = given.where(
        table.c.subject_kind == "trajectory", func.substr(table.c.subject_id, 1, len(start)) == start
    )
    for row in connection.execute(of_trajectories):
        task_id = row.subject_id.rpartition("/")[0]
        opinions[task_id].whole.setdefault(row.metric, []).append(row.value)
    of_calls = given.add_columns(calls.c.episode).join(calls, calls.c.id == table.c.subject_id)
    for row in connection.execute(of_calls.where(table.c.subject_kind == "decision", calls.c.tenant == tenant)):
        by_call = opinions[episode_task_id(tenant, row.episode)].calls.setdefault(row.metric, {})
        by_call.setdefault(row.subject_id, []).append(row.value)
    return opinions
