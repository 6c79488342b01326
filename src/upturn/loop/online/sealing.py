"""Reading an episode, and sealing it: its calls become a trajectory, and later calls are refused."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import Engine, select

from upturn.dialects import RequestError
from upturn.loop.online.call_log import CallLog
from upturn.loop.online.call_task import GENERAL
from upturn.loop.online.episode import Client
from upturn.loop.online.trajectory import EpisodeRecords, RecordedCall, episode_records
from upturn.pool import ALL_TENANTS, Pool, Scope, schema
from upturn.pool.access import Border
from upturn.pool.calls import StoredCall, calls_of_episode, episode_decision, idle_episodes
from upturn.records import episode_task_id


class StoredEpisode(NamedTuple):
    """An episode with its calls."""

    id: str
    calls: list[StoredCall]
    """In the order of their storage."""
    trajectory_id: str | None
    """None = not sealed."""


def read_episode(engine: Engine, name: str, client: Client) -> StoredEpisode:
    """Returns the client's episode; raises RequestError (404) if it has none with this name or id."""
    for episode in dict.fromkeys((client.episode_id(name), name)):
        calls = [
            stored
            for stored in calls_of_episode(engine, episode, tenant=client.tenant)
            if stored.call.key == client.key
        ]
        if calls:
            return StoredEpisode(episode, calls, sealed_trajectory(engine, episode, client.tenant))
    raise RequestError(f"no episode {name!r}; its first call makes one", status=404, code="unknown_episode")


def sealed_trajectory(engine: Engine, episode: str, tenant: str) -> str | None:
    """Returns the id of a sealed episode's trajectory; None = it is not sealed."""
    table = schema.trajectories
    query = select(table.c.id).where(table.c.task_id == episode_task_id(tenant, episode), table.c.tenant == tenant)
    with engine.connect() as connection:
        return connection.execute(query.limit(1)).scalar()


class Sealed(NamedTuple):
    """What came of sealing idle episodes."""

    sealed: int
    deleted: int
    """Episodes that cannot be sealed, because contents of their calls are deleted."""


def seal_idle(pool: Pool, *, tenant: Scope, before: float) -> Sealed:
    """Seals the episodes whose latest call was stored before a time, in a pool that no gateway serves from."""
    sealed = deleted = 0
    border = Border(pool)
    for idle in idle_episodes(pool.engine, tenant=tenant, before=before):
        episode = StoredEpisode(idle.episode, calls_of_episode(pool.engine, idle.episode, tenant=idle.tenant), None)
        try:
            pool.append(*_records(pool.engine, episode, idle.tenant, border))
        except RequestError:
            deleted += 1
        else:
            sealed += 1
    return Sealed(sealed, deleted)


async def seal_rated(pool: Pool, seal: Callable[[str, Client], Awaitable[StoredEpisode]], *, before: float) -> int:
    """Seals the episodes with feedback whose latest call was stored before a time; returns how many.

    ``seal``: of the service that serves them.
    """
    rated = await asyncio.to_thread(idle_episodes, pool.engine, tenant=ALL_TENANTS, before=before, is_rated=True)
    count = 0
    for idle in rated:
        with suppress(RequestError):  # its contents are deleted, or it is being answered again
            await seal(idle.episode, Client(idle.tenant, idle.key))
            count += 1
    return count


async def seal(pool: Pool, log: CallLog, name: str, client: Client, *, border: Border) -> StoredEpisode:
    """Returns the sealed episode once its trajectory is durable; sealing it again changes nothing.

    No call of it may begin meanwhile. Raises RequestError for an unknown episode (404), and for one whose contents
    are deleted (409).
    """
    await log.settle()  # calls that are being stored belong to it
    episode = read_episode(pool.engine, name, client)
    if episode.trajectory_id is not None:
        return episode
    records = _records(pool.engine, episode, client.tenant, border)
    await log.store_now(records)
    return episode._replace(trajectory_id=records.trajectory.id)


def _records(engine: Engine, episode: StoredEpisode, tenant: str, border: Border) -> EpisodeRecords:
    """What an episode is sealed as; raises RequestError (409) if contents of its calls are deleted."""
    calls = [RecordedCall(stored.call, stored.content) for stored in episode.calls if stored.content is not None]
    if len(calls) < len(episode.calls):
        raise RequestError(
            f"the contents of episode {episode.id!r} are deleted (gateway.keep_days); seal episodes earlier",
            status=409,
            code="contents_deleted",
        )
    decision = episode_decision(engine, episode.id, tenant=tenant)
    records = episode_records(calls, family=GENERAL if decision is None else decision.family)
    return EpisodeRecords(  # calls may be older than the policy
        border.stored(records.task, tenant=tenant), border.stored(records.trajectory, tenant=tenant)
    )
