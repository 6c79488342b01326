"""Which ways of learning a pool's traffic supports, and why not the others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from upturn.config import Config
from upturn.environments import resolve_kit
from upturn.errors import TrainingError, UnknownNameError
from upturn.loop.run import Context, version_of
from upturn.loop.trainers.traffic.replay import find_tasks
from upturn.loop.trainers.traffic.traffic import Traffic, traffic_of
from upturn.loop.trainers.traffic.ways import Found, find_demonstrations, find_pairs, find_ratings, find_sampled
from upturn.pool import PoolReader
from upturn.pool.traffic import has_traffic
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.offline import OfflineSettings


class Way(NamedTuple):
    """One way of learning."""

    name: str
    """Of the algorithm, as in ``upturn train``."""
    number: int
    """What it can train on; 0 = it cannot."""
    unit: str
    refusal: str
    """Why it cannot train, and what to do, in the words of the trainer; empty = it can."""
    omissions: str
    """How many episodes are left out, and why; empty = none."""


_TASKS = "tasks to sample again"
_TASKS_TRIED = 1_000
"""Largest number that is counted: each is begun once."""
_NO_AGENT = "the configuration trains no agent: add one of kind local_model, or omit loop.train = []"
_FINDERS: Mapping[str, tuple[str, Callable[[Traffic, Config], Found[Any]]]] = {
    "sft": ("good episodes", lambda traffic, _: find_demonstrations(traffic)),
    "kto": ("rated episodes", lambda traffic, _: find_ratings(traffic)),
    "dpo": ("pairs of episodes", lambda traffic, config: find_pairs(traffic, config.section(DpoSettings))),
    "offline": ("sampled episodes", lambda traffic, config: find_sampled(traffic, config.section(OfflineSettings))),
}


def survey_pool(pool: PoolReader, config: Config) -> Sequence[Way]:
    """The ways of learning from the traffic of the configured tenant, for the agent that would be trained.

    Empty = there is no traffic. Raises ModelError where the agent's model is missing.
    """
    if not has_traffic(pool, tenant=config.pool.tenant):
        return []
    agent = config.improved_agent
    if agent is None:
        units = {name: unit for name, (unit, _) in _FINDERS.items()} | {"grpo": _TASKS}
        return [Way(name, 0, unit, _NO_AGENT, "") for name, unit in units.items()]
    ways = survey_traffic(traffic_of(pool, config, version_of(agent)), config)
    return [*ways, _replay(pool, config)]


def survey_traffic(traffic: Traffic, config: Config) -> Sequence[Way]:
    """The ways of learning from the traffic."""
    ways = []
    for name, (unit, find) in _FINDERS.items():
        found = find(traffic, config)
        count = 0 if found.refusal else len(found.items)
        ways.append(Way(name, count, unit, found.refusal, found.omissions))
    return ways


def _replay(pool: PoolReader, config: Config) -> Way:
    """On-policy training on stored tasks of the configured environment."""
    try:
        kit = resolve_kit(config.environment.name)
    except UnknownNameError as exc:
        return Way("grpo", 0, _TASKS, str(exc), "")
    found = find_tasks(pool, kit, tenant=config.pool.tenant, limit=_TASKS_TRIED)
    return Way("grpo", 0 if found.refusal else len(found.tasks), _TASKS, found.refusal, "")


def check_traffic(context: Context, algorithm: str) -> None:
    """Raises TrainingError, before any evaluation, where the run's traffic has nothing for the algorithm."""
    agent = context.config.improved_agent
    if context.config.traffic is not None and agent is not None:
        _, find = _FINDERS[algorithm]
        found = find(traffic_of(context.pool, context.config, version_of(agent)), context.config)
        if found.refusal:
            raise TrainingError(found.refusal)
