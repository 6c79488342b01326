"""A pool's episodes as a run sees them: with rewards, and in the tokens of the trained model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from upturn.config import Config, TrafficConfig, traffic_metrics
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers.traffic.tokens import has_tokens_of
from upturn.models import Renderer
from upturn.pool import Experience, PoolReader
from upturn.pool.traffic import Episode, as_prompt_task, read_episodes


class Traffic(NamedTuple):
    """The episodes of one tenant, and how their contents are read."""

    pool: PoolReader
    path: str
    """Of the pool, for messages."""
    tenant: str
    settings: TrafficConfig
    episodes: Sequence[Episode]
    """In the order of their sealing."""
    renderer: Renderer
    """Of the trained model."""

    @property
    def rewards(self) -> Mapping[str, float]:
        """The rewards that are known, by the id of the trajectory."""
        return {
            episode.trajectory_id: episode.reward.value
            for episode in self.episodes
            if episode.reward.value is not None
        }

    def writable(self, trajectory_ids: Iterable[str]) -> list[Experience]:
        """The data points of these episodes; see ``writable_episodes``."""
        return writable_episodes(self.pool, trajectory_ids, tenant=self.tenant, renderer=self.renderer)


def writable_episodes(
    pool: PoolReader, trajectory_ids: Iterable[str], *, tenant: str, renderer: Renderer
) -> list[Experience]:
    """The data points of these episodes in the renderer's tokens, with the task of their prompt.

    Those that are not in its tokens are left out.
    """
    return [
        as_prompt_task(experience)
        for experience in pool.experiences_of(list(trajectory_ids), tenant=tenant)
        if has_tokens_of(experience.trajectory, renderer)
    ]


def traffic_of(pool: PoolReader, config: Config, renderer: Renderer) -> Traffic:
    """The traffic that the configuration selects; ``[traffic]`` is the default one where it is missing."""
    settings = config.traffic or TrafficConfig()
    episodes = read_episodes(
        pool,
        traffic_metrics(settings, config.gateway.metrics),
        tenant=config.pool.tenant,
        families=settings.families,
        limit=settings.limit,
    )
    return Traffic(pool, config.pool.path or str(pool.path), config.pool.tenant, settings, episodes, renderer)


def open_traffic(context: Context, worker: PolicyWorker) -> Traffic:
    """The traffic of a run, for the worker's model."""
    return traffic_of(context.pool, context.config, worker.renderer)
