"""The endpoints for episodes: read, seal."""

from collections.abc import Callable
from math import fsum
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from upturn.gateway.access import Guard
from upturn.gateway.openapi import errors
from upturn.loop.online import OnlineService, StoredEpisode, read_episode


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


def episode_routes(service: OnlineService, guard: Guard, learn: Callable[[], None]) -> APIRouter:
    """Returns the endpoints. ``learn`` is called after an episode was sealed."""
    routes = APIRouter(tags=["episodes"])

    @routes.post("/v1/episodes/{episode:path}/seal", responses=errors(401, 403, 404, 409))
    async def seal(episode: str, request: Request) -> EpisodeEntry:
        """End an episode: its calls become a trajectory, and later calls are refused."""
        sealed = await service.seal(episode, guard.client(request.scope, "call"))
        learn()
        return _episode_entry(sealed)

    @routes.get("/v1/episodes/{episode:path}", responses=errors(401, 403, 404))
    async def episode(episode: str, request: Request) -> EpisodeEntry:
        """Show an episode's calls."""
        client = guard.client(request.scope, "call")
        await service.log.settle()
        return _episode_entry(read_episode(service.pool.engine, episode, client))

    return routes


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
