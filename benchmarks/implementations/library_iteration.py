"""The library's implementation of an iteration: ``run_grpo`` with the shipped model in errands."""

import tempfile
import time
from pathlib import Path

import torch

from benchmarks.errands import MODEL, ErrandsKit
from benchmarks.implementations.iteration_task import (
    LEARNING_RATE,
    LIMITS,
    IterationTask,
    NullSink,
    parse_iteration_task,
)
from benchmarks.worker_process import Channel, Settings
from upturn.config import OptimiserSettings
from upturn.loop import AgentRuntime
from upturn.loop.rollouts import PolicyWorker, RolloutSpec
from upturn.records import AgentVersion
from upturn.training import ScoredGroup
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.runs import RunOptions


class _NoMoreStepsError(Exception):
    """Ends the training run."""


def serve_iterations(channel: Channel, settings: Settings) -> None:
    """Sends each iteration: sampling, verification and one optimiser step. Nothing is stored, as with TRL."""
    task = parse_iteration_task(settings)
    torch.set_num_threads(task.threads)
    collector = _TimedCollector(channel, task)
    options = GrpoSettings(
        iterations=task.iterations,
        minibatches=1,
        optimiser=OptimiserSettings(learning_rate=LEARNING_RATE),
        evaluate_every=None,
        keep="final",
        checkpoint_every=task.iterations + 1,
    )
    with tempfile.TemporaryDirectory() as folder:
        try:
            run_grpo(collector.worker.model, collector.collect, options, RunOptions(task.seed, Path(folder)))
        except _NoMoreStepsError:
            return


class _TimedCollector:
    """Samples groups. A call marks the end of the previous iteration, whose figures it sends."""

    def __init__(self, channel: Channel, task: IterationTask) -> None:
        self._channel = channel
        self._task = task
        version = AgentVersion("nano", "base", "local_model", model=MODEL, parameters={"temperature": 1.0})
        self.worker = PolicyWorker(AgentRuntime(ErrandsKit(), LIMITS), version)
        self._spec = RolloutSpec("bench", task.seed, task.group_size)
        self._started = 0.0
        self._figures: dict[str, float] = {}

    def collect(self, iteration: int) -> list[ScoredGroup]:
        """The iteration's groups. Raises _NoMoreStepsError when no further iteration was requested."""
        if iteration:
            self._channel.send({"seconds": time.perf_counter() - self._started, **self._figures})
            if not self._channel.wait_for_step():
                raise _NoMoreStepsError
        else:
            self._channel.mark_baseline()
        self._started = time.perf_counter()
        groups = self.worker.sample_groups(self._task.tasks_of(iteration), iteration, self._spec, NullSink())
        sampling_seconds = time.perf_counter() - self._started
        members = [member for group in groups for member in group.members]
        rewards = [member.turn_rewards[-1] for member in members if member.turn_rewards]
        self._figures = {
            "sampling_seconds": sampling_seconds,
            "reward": sum(rewards) / len(rewards),
            "written_tokens": float(sum(member.trajectory.usage.written_tokens for member in members)),
        }
        return groups
