"""The runtime that samples a trained agent: the run's own, or workers of a Ray cluster.

With an engine at a URL, the run's own runtime samples there (``engine_runtime``).
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from upturn.agents import precision
from upturn.config import RolloutConfig
from upturn.loop.agent_runtime import AgentRuntime
from upturn.loop.engine_runtime import EngineRuntime
from upturn.loop.rollouts.ray_rollouts import PolicyWorkerFactory, RayRuntime
from upturn.loop.run import Context, transfer_folder
from upturn.records import AgentVersion

if TYPE_CHECKING:
    from upturn.agents import RaySettings


@contextmanager
def rollout_runtime(context: Context, version: AgentVersion, name: str) -> Iterator[AgentRuntime]:
    """The runtime that samples ``version`` in the step ``name``, by ``[rollouts]``; by default the run's own.

    Other agents than the trained one, and weights of another data type than workers have, are sampled by the run's
    own runtime. Raises ClusterError when workers are not available.
    """
    config = context.config.rollouts
    if config.place != "ray" or not context.is_trained_agent(version) or precision(version) != "float32":
        yield context.runtime
        return
    from upturn.agents import RayWorkerPool

    limits = context.runtime.limits
    factory = PolicyWorkerFactory(
        context.config.environment.name,
        limits,
        version,
        device="cpu" if context.config.run.device == "cpu" else "auto",  # other machines, other cards
    )
    folder = transfer_folder(context.config, context.run_dir) / name
    with RayWorkerPool(factory, _ray_settings(config)) as workers:
        runtime = RayRuntime(context.kit, limits, workers, folder)
        runtime.device = context.runtime.device
        try:
            yield runtime
        finally:
            runtime.close()
        if runtime.lost_workers:
            context.progress.note(
                f"repeated {runtime.lost_rollouts} rollouts that were lost with "
                f"{len(runtime.lost_workers)} workers ({runtime.lost_workers[0]})"
            )


def check_sampler(context: Context) -> None:
    """Checks that the configured sampler is available, before any evaluation; changes nothing there.

    Raises ClusterError when Ray is not installed or nothing listens at its address, ModelError for an engine that
    does not answer.
    """
    if context.config.rollouts.place == "ray":
        from upturn.agents import check_cluster

        check_cluster(_ray_settings(context.config.rollouts))
    elif isinstance(context.runtime, EngineRuntime):
        asyncio.run(context.runtime.host.remote.check())


def sampling_here(context: Context) -> Context:
    """The context with a runtime that samples in this process, for estimates where the sampler is not available."""
    return replace(
        context, runtime=AgentRuntime(context.kit, context.runtime.limits, recall=context.runtime.recall)
    )


def _ray_settings(config: RolloutConfig) -> "RaySettings":
    from upturn.agents import RaySettings

    return RaySettings(
        workers=config.workers, address=config.address or None, gpus_per_worker=config.gpus_per_worker
    )
