"""Iterations of group-relative training with synchronous or asynchronous rollouts, as in ``run_grpo``."""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.errands import MODEL, ErrandsKit
from benchmarks.implementations.iteration_task import LEARNING_RATE, LIMITS, NullSink, parse_iteration_task
from benchmarks.worker_process import Channel, Settings, serve_steps
from upturn.config import OptimiserSettings
from upturn.loop import AgentRuntime
from upturn.loop.rollouts import PolicyWorker, RolloutSpec
from upturn.records import AgentVersion
from upturn.training import ScoredGroup
from upturn.training.algorithms import PolicyGradient
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.data import AheadCollect
from upturn.training.distributed import restore_weights
from upturn.training.optimisation import Trainer


class _Run:
    """A model in training, and for asynchronous rollouts a second one that samples."""

    def __init__(self, settings: Settings) -> None:
        """``staleness`` 0 = synchronous rollouts on all threads; otherwise each model has half of the threads."""
        self._task = parse_iteration_task(settings)
        staleness: Any = settings["staleness"]  # JSON from our own parent process
        self._staleness: int = staleness
        torch.set_num_threads(max(1, self._task.threads // 2) if staleness else self._task.threads)
        self._worker = _new_worker()
        self._sampler = _new_worker() if staleness else self._worker
        self._spec = RolloutSpec("bench", self._task.seed, self._task.group_size)
        self._settings = GrpoSettings(
            iterations=self._task.iterations, optimiser=OptimiserSettings(learning_rate=LEARNING_RATE)
        )

    def train(self) -> dict[str, float]:
        """Figures of all iterations, with the first rollouts, which overlap with nothing."""
        started = time.perf_counter()
        trainer = Trainer(self._worker.model, self._settings.optimiser)
        waited = written = 0.0
        with self._collector() as collect:
            algorithm = PolicyGradient(collect or self._sample, self._settings, self._task.seed)
            for iteration in range(self._task.iterations):
                requested = time.perf_counter()
                unit = algorithm.unit(iteration)
                waited += time.perf_counter() - requested
                written += unit.metrics["written_tokens"]
                for minibatch in unit.minibatches:
                    trainer.step(minibatch)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "waited_seconds": waited, "written_tokens": written}

    def _collector(self) -> AheadCollect | nullcontext[None]:
        if not self._staleness:
            return nullcontext()
        return AheadCollect(
            self._worker.model, self._sample_with, staleness=self._staleness, iterations=self._task.iterations
        )

    def _sample_with(self, iteration: int, weights: Mapping[str, Tensor]) -> Sequence[ScoredGroup]:
        restore_weights(self._sampler.model, weights)
        return self._sample(iteration)

    def _sample(self, iteration: int, /) -> Sequence[ScoredGroup]:
        tasks = self._task.tasks_of(iteration)
        return self._sampler.sample_groups(tasks, iteration, self._spec, NullSink())


def _new_worker() -> PolicyWorker:
    version = AgentVersion("nano", "base", "local_model", model=MODEL, parameters={"temperature": 1.0})
    return PolicyWorker(AgentRuntime(ErrandsKit(), replace(LIMITS, max_tokens=240)), version)


def serve_runs(channel: Channel, settings: Settings) -> None:
    """Sends all iterations once as a warm-up, and then once per step."""
    run = _Run(settings)
    channel.mark_baseline()
    serve_steps(channel, run.train(), run.train)
