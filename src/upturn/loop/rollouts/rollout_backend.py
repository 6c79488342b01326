"""The runtime that samples rollouts for training: this process, workers of a Ray cluster, or an engine at a URL."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.config import RolloutConfig
from upturn.loop.agent_runtime import AgentRuntime
from upturn.loop.rollouts.ray_rollouts import PolicyWorkerFactory, RayRuntime
from upturn.loop.rollouts.remote_rollouts import RemoteRuntime
from upturn.loop.run import Context
from upturn.models import model_folder
from upturn.records import AgentVersion

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from upturn.agents import RaySettings
    from upturn.models import RemoteEngine

_UNNAMED = "default"
"""SGLang's name for weights without a name."""


@contextmanager
def rollout_runtime(context: Context, parent: AgentVersion, name: str) -> Iterator[AgentRuntime]:
    """The runtime for the training step ``name``, by ``[rollouts]``; by default the run's own.

    Raises ClusterError when workers are not available, ModelError for an engine that does not answer.
    """
    config, limits = context.config.rollouts, context.runtime.limits
    base = Path(config.folder) / context.run_id if config.folder else context.run_dir / "handed-over"
    folder = base / name
    match config.place:
        case "process":
            yield context.runtime
        case "ray":
            from upturn.agents import RayWorkerPool

            factory = PolicyWorkerFactory(
                context.config.environment.name,
                limits,
                parent,
                device="cpu" if context.config.run.device == "cpu" else "auto",  # other machines, other cards
            )
            with RayWorkerPool(factory, _ray_settings(config)) as workers:
                runtime = RayRuntime(context.kit, limits, workers, folder)
                runtime.device = context.runtime.device
                yield runtime
                if runtime.lost_workers:
                    context.progress.note(
                        f"repeated {runtime.lost_rollouts} rollouts that were lost with "
                        f"{len(runtime.lost_workers)} workers ({runtime.lost_workers[0]})"
                    )
        case "engine":
            remote = RemoteRuntime(context.kit, limits, _engine(context), folder)
            remote.device = context.runtime.device
            yield remote


def check_sampler(context: Context) -> None:
    """Checks that the configured sampler is available, before any evaluation; changes nothing there.

    Raises ClusterError when Ray is not installed or nothing listens at its address, ModelError for an engine that
    does not answer.
    """
    config = context.config.rollouts
    if config.place == "ray":
        from upturn.agents import check_cluster

        check_cluster(_ray_settings(config))
    elif config.place == "engine":
        asyncio.run(_engine(context).check())


def follow(runtime: AgentRuntime, model: "PreTrainedModel", parent: AgentVersion) -> None:
    """Makes a runtime that samples elsewhere use this model's weights from now on."""
    if isinstance(runtime, RayRuntime | RemoteRuntime):
        runtime.follow(model, companions=model_folder(parent.model))


def _ray_settings(config: RolloutConfig) -> "RaySettings":
    from upturn.agents import RaySettings

    return RaySettings(
        workers=config.workers, address=config.address or None, gpus_per_worker=config.gpus_per_worker
    )


def _engine(context: Context) -> "RemoteEngine":
    from upturn.models import RemoteEngine, RemoteSettings

    config = context.config.rollouts
    settings = RemoteSettings(
        config.url, config.dialect, max_length=config.max_length, timeout_seconds=config.timeout_seconds
    )
    return RemoteEngine(settings, _UNNAMED, api_key=context.sampler_key)
