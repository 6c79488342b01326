"""Where a version in training is sampled from: this process, workers of a Ray cluster, or an engine at a URL."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.config import RolloutConfig
from upturn.loop.agent_runtime import AgentRuntime
from upturn.loop.rollouts.ray_rollouts import OpenPolicyWorker, RayRuntime
from upturn.loop.rollouts.remote_rollouts import RemoteRuntime
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
def sampling(context: Context, parent: AgentVersion, name: str) -> Iterator[AgentRuntime]:
    """The runtime that attempts are made by in the training step ``name``; the run's own where nothing is
    configured.

    Raises ClusterError for workers that are not to be had, ModelError for an engine that does not answer.
    """
    config, limits = context.config.rollouts, context.runtime.limits
    base = Path(config.folder) / context.run_id if config.folder else context.run_dir / "handed-over"
    handed = base / name
    match config.place:
        case "process":
            yield context.runtime
        case "ray":
            from upturn.agents import RayWorkerPool

            opened = OpenPolicyWorker(context.config.environment.name, limits, parent)
            with RayWorkerPool(opened, _crew_settings(config)) as crew:
                runtime = RayRuntime(context.kit, limits, crew, handed)
                yield runtime
                if runtime.lost_workers:
                    lost = f"{runtime.lost_attempts} attempts with {len(runtime.lost_workers)} workers"
                    context.progress.note(f"lost and made again: {lost} ({runtime.lost_workers[0]})")
        case "engine":
            yield RemoteRuntime(context.kit, limits, _engine(context), handed)


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


def follow(runtime: AgentRuntime, model: "PreTrainedModel", parent: AgentVersion) -> None:
    """Whoever samples elsewhere does so with this model's weights from now on."""
    if isinstance(runtime, RayRuntime | RemoteRuntime):
        runtime.follow(model, companions=model_folder(parent.model))
