"""A pool's episodes as a run sees them: with rewards, and in the tokens of the trained model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from upturn.config import Config, TrafficConfig, traffic_metrics
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
    renderer: Renderer | None
    """Of the trained model; None = all recorded tokens count as those of its tokenizer."""

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
    pool: PoolReader, trajectory_ids: Iterable[str], *, tenant: str, renderer: Renderer | None
) -> list[Experience]:
    """The data points of these episodes in the renderer's tokens, with the task of their prompt.

    Those that are not in its tokens are left out; None = those without tokens.
    """
    return [
        as_prompt_task(experience)
        for experience in pool.experiences_of(list(trajectory_ids), tenant=tenant)
        if (renderer is None and experience.trajectory.rows)
        or (renderer is not None and has_tokens_of(experience.trajectory, renderer))
    ]


def traffic_of(pool: PoolReader, config: Config, renderer: Renderer | None) -> Traffic:
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


def open_traffic(context: Context, renderer: Renderer) -> Traffic:
    """The traffic of a run, for the model of this renderer."""
    return traffic_of(context.pool, context.config, renderer)
