"""Where a version in training is sampled from: this process, workers of a Ray cluster, or an engine at a URL."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.config import RolloutConfig
from upturn.loop.agent_runtime import Fleet
from upturn.loop.rollouts.ray_rollouts import CrewFleet, OpenTrainee
from upturn.loop.rollouts.remote_rollouts import RemoteFleet
from upturn.loop.run import Context
from upturn.models import model_folder
from upturn.records import AgentVersion

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from upturn.agents import RaySettings
    from upturn.models import RemoteEngine

_UNNAMED = "default"
"""What SGLang calls weights that nobody named."""


@contextmanager
def sampling(context: Context, parent: AgentVersion, name: str) -> Iterator[Fleet]:
    """The fleet that attempts are made by in the training step ``name``; the run's own where nothing is configured.

    Raises ClusterError for workers that are not to be had, ModelError for an engine that does not answer.
    """
    config, limits = context.config.rollouts, context.fleet.limits
    base = Path(config.folder) / context.run_id if config.folder else context.run_dir / "handed-over"
    handed = base / name
    match config.place:
        case "process":
            yield context.fleet
        case "ray":
            from upturn.agents import RayWorkerPool

            opened = OpenTrainee(context.config.environment.name, limits, parent)
            with RayWorkerPool(opened, _crew_settings(config)) as crew:
                fleet = CrewFleet(context.kit, limits, crew, handed)
                yield fleet
                if fleet.lost_workers:
                    lost = f"{fleet.lost_attempts} attempts with {len(fleet.lost_workers)} workers"
                    context.progress.note(f"lost and made again: {lost} ({fleet.lost_workers[0]})")
        case "engine":
            yield RemoteFleet(context.kit, limits, _engine(context), handed)


def check_sampler(context: Context) -> None:
    """Looks whether whoever samples elsewhere is there, before anything is examined in vain; changes nothing there.

    Raises ClusterError for Ray that is not installed or an address where nobody listens, ModelError for an engine
    that does not answer.
    """
    match context.config.rollouts.place:
        case "process":
            pass
        case "ray":
            from upturn.agents import check_cluster

            check_cluster(_crew_settings(context.config.rollouts))
        case "engine":
            asyncio.run(_engine(context).check())


def _crew_settings(config: RolloutConfig) -> "RaySettings":
    from upturn.agents import RaySettings

    return RaySettings(workers=config.workers, address=config.address or None)


def _engine(context: Context) -> "RemoteEngine":
    from upturn.models import RemoteEngine, RemoteSettings

    config = context.config.rollouts
    settings = RemoteSettings(
        config.url, config.dialect, max_length=config.max_length, timeout_seconds=config.timeout_seconds
    )
    return RemoteEngine(settings, _UNNAMED, api_key=context.sampler_key)


def follow(fleet: Fleet, model: "PreTrainedModel", parent: AgentVersion) -> None:
    """Whoever samples elsewhere does so with this model's weights from now on."""
    if isinstance(fleet, CrewFleet | RemoteFleet):
        fleet.follow(model, companions=model_folder(parent.model))
