"""A pool's episodes as a run sees them: with rewards, and in the tokens of the trained model."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from upturn.agents import template_options
from upturn.config import Config, TrafficConfig, traffic_metrics
from upturn.loop.run import Context
from upturn.loop.trainers.traffic.rendering import render_episode
from upturn.loop.trainers.traffic.tokens import has_tokens_of
from upturn.models import Renderer, load_renderer
from upturn.models.upstreams import Script, script_for
from upturn.pool import Experience, PoolReader
from upturn.pool.calls import calls_of_episode, idle_episodes
from upturn.pool.traffic import Episode, as_prompt_task, read_episodes
from upturn.records import AgentVersion


class ModelText(NamedTuple):
    """How a model reads and writes conversations."""

    renderer: Renderer
    script: Script


def model_text_of(version: AgentVersion) -> ModelText:
    """Of a version's model, without its weights. Raises ModelError where there is no such model."""
    renderer = load_renderer(version.model, options=template_options(version))
    return ModelText(renderer, script_for(renderer, version.prompt))


class Contents(NamedTuple):
    """Episodes in a model's tokens."""

    experiences: Sequence[Experience]
    """With the task of their prompt."""
    lost: Mapping[str, int]
    """Number of others by cause: in other tokens (``foreign``), or not rendered (``deleted``, ``unwritable``)."""


class Traffic(NamedTuple):
    """The episodes of one tenant, and how their contents are read."""

    pool: PoolReader
    path: str
    """Of the pool, for messages."""
    tenant: str
    settings: TrafficConfig
    episodes: Sequence[Episode]
    """In the order of their sealing."""
    unsealed: int
    """Number of further episodes with feedback, of any family, which are not sealed."""
    model_text: ModelText
    """Of the trained model."""

    @property
    def rewards(self) -> Mapping[str, float]:
        """The rewards that are known, by the id of the trajectory."""
        return {
            episode.trajectory_id: episode.reward.value
            for episode in self.episodes
            if episode.reward.value is not None
        }

    def contents(self, trajectory_ids: Iterable[str], *, is_rendered: bool = True) -> Contents:
        """The episodes' contents; see ``read_contents``."""
        return read_contents(
            self.pool, trajectory_ids, tenant=self.tenant, model_text=self.model_text, is_rendered=is_rendered
        )


def read_contents(
    pool: PoolReader, trajectory_ids: Iterable[str], *, tenant: str, model_text: ModelText, is_rendered: bool = True
) -> Contents:
    """The episodes with these ids in the model's tokens: their own, or rendered by its template.

    ``is_rendered``: False = only those in their own.
    """
    experiences, lost = list[Experience](), Counter[str]()
    for stored in pool.experiences_of(list(trajectory_ids), tenant=tenant):
        if has_tokens_of(stored.trajectory, model_text.renderer):
            experiences.append(as_prompt_task(stored))
        elif not is_rendered:
            lost["foreign"] += 1
        else:
            calls = calls_of_episode(pool.engine, stored.task.episode or "", tenant=tenant)
            rendered = render_episode(stored.trajectory, calls, model_text.script)
            if isinstance(rendered, str):
                lost[rendered] += 1
            else:
                experiences.append(as_prompt_task(stored._replace(trajectory=rendered)))
    return Contents(experiences, lost)


def traffic_of(pool: PoolReader, config: Config, version: AgentVersion) -> Traffic:
    """The traffic that the configuration selects, for the training of a version.

    ``[traffic]`` is the default one where it is missing. Raises ModelError where the version's model is missing.
    """
    settings = config.traffic or TrafficConfig()
    episodes = read_episodes(
        pool,
        traffic_metrics(settings, config.gateway.metrics),
        tenant=config.pool.tenant,
        families=settings.families,
        limit=settings.limit,
    )
    path = config.pool.path or str(pool.location)
    tenant = config.pool.tenant
    unsealed = idle_episodes(pool.engine, tenant=tenant, before=math.inf, is_rated=True)
    return Traffic(pool, path, tenant, settings, episodes, len(unsealed), model_text_of(version))


def open_traffic(context: Context, version: AgentVersion) -> Traffic:
    """The traffic of a run, for the training of a version."""
    return traffic_of(context.pool, context.config, version)
