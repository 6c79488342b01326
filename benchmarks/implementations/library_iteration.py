"""Our side of an iteration: the shipped model practises in errands and is updated, as ``run_grpo`` does it."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.errands import MODEL, ErrandsKit
from benchmarks.implementations.iteration_task import LEARNING_RATE, LIMITS, PracticeTask, read_practice
from benchmarks.worker_process import Channel, Settings
from upturn.config import OptimiserSettings
from upturn.loop import AgentRuntime
from upturn.loop.rollouts import PolicyWorker, RolloutPlan
from upturn.records import AgentVersion, Evaluation, Task, Trajectory
from upturn.training import ScoredGroup
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.runs import RunOptions


class _OverError(Exception):
    """Nobody asks for more iterations."""


def practice_side(channel: Channel, settings: Settings) -> None:
    """Answers each iteration: sampling, judging and one optimiser step. Nothing is stored, as on TRL's side."""
    task = read_practice(settings)
    torch.set_num_threads(task.threads)
    collector = _Collector(channel, task)
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
        except _OverError:
            return


class Nowhere:
    """A sink that keeps nothing."""

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        """Forgets them."""


class _Collector:
    """Samples groups; as each call says that the iteration before is over, it also keeps the time."""

    def __init__(self, channel: Channel, task: PracticeTask) -> None:
        self._channel = channel
        self._task = task
        version = AgentVersion("nano", "base", "local_model", model=MODEL, parameters={"temperature": 1.0})
        self.worker = PolicyWorker(AgentRuntime(ErrandsKit(), LIMITS), version)
        self._practice = RolloutPlan("bench", task.seed, task.attempts)
        self._started = 0.0
        self._seen: dict[str, float] = {}

    def collect(self, iteration: int) -> list[ScoredGroup]:
        """The iteration's groups. Raises _OverError when it is one that nobody asked for."""
        if iteration:
            self._channel.answer({"seconds": time.perf_counter() - self._started, **self._seen})
            if not self._channel.is_asked():
                raise _OverError
        else:
            self._channel.mark_baseline()
        self._started = time.perf_counter()
        groups = self.worker.sample_groups(self._task.tasks_of(iteration), iteration, self._practice, Nowhere())
        sampled = time.perf_counter() - self._started
        members = [member for group in groups for member in group.members]
        rewards = [member.turn_rewards[-1] for member in members if member.turn_rewards]
        self._seen = {
            "sampling_seconds": sampled,
            "reward": sum(rewards) / len(rewards),
            "written_tokens": float(sum(member.trajectory.usage.written_tokens for member in members)),
        }
        return groups
