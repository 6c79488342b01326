"""Our side: the library's own trainer, given the rows as every algorithm gives them."""

from typing import Any

import torch
from torch import Tensor

from benchmarks.implementations.update_task import (
    CLIP_HIGH,
    CLIP_LOW,
    LEARNING_RATE,
    NO_LIMIT,
    read_task,
    save_gradient,
)
from benchmarks.machine import device_name, matrix_rate, now, product_rate
from benchmarks.worker_process import Channel, Settings, serve_steps
from benchmarks.workloads import build_model, training_rows
from upturn.config import OptimiserSettings
from upturn.training import Stream, TokenBatch, TokenStatistics
from upturn.training.losses import ClippedPolicy
from upturn.training.optimisation import Trainer


class Watched:
    """The clipped objective, which also keeps how far the log-probs are from those the rows name as reference."""

    def __init__(self) -> None:
        self._policy = ClippedPolicy(CLIP_LOW, CLIP_HIGH)
        self._gaps: list[Tensor] = []

    def losses(self, batch: TokenBatch) -> Tensor:
        """The policy's."""
        if batch.reference_logprobs is not None:
            self._gaps.append((batch.logprobs.detach().float() - batch.reference_logprobs).abs())
        return self._policy.losses(batch)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """The policy's."""
        return self._policy.statistics(batch)

    def take_gaps(self) -> dict[str, float]:
        """Mean and largest |Δ log p| since the last call; at least one step must lie between."""
        gaps, self._gaps = torch.cat(self._gaps), []
        return {"mean_logprob_gap": float(gaps.mean()), "max_logprob_gap": float(gaps.max())}


class _Update:
    """One trainer with one batch."""

    def __init__(self, settings: Settings) -> None:
        """``optimiser`` among the settings: fields of ``OptimiserSettings`` that differ from their defaults."""
        self.task = read_task(settings)
        torch.set_num_threads(self.task.threads)
        model = build_model(self.task.subject, self.task.device)
        workload = self.task.load_workload()
        chosen: Any = settings["optimiser"]
        options = OptimiserSettings(learning_rate=LEARNING_RATE, max_grad_norm=NO_LIMIT, **chosen)
        self.objective = Watched()
        self.trainer = Trainer(model, options)
        rows = training_rows(workload, self.task.load_own_logprobs())
        self.minibatch = [Stream(rows, self.objective, float(workload.written_tokens))]
        self.trainer.optimiser.register_step_pre_hook(self._keep_gradient)

    def step(self) -> dict[str, float]:
        """One more step, timed."""
        started = now(self.task.device)
        made = self.trainer.step(self.minibatch)
        seconds = now(self.task.device) - started
        return {
            "seconds": seconds,
            "loss": made.loss,
            "physical_tokens": made.physical_tokens,
            "fallbacks": made.fallbacks,
            **self.objective.take_gaps(),
        }

    def _keep_gradient(self, *_: object) -> None:
        if self.task.gradient is not None and self.trainer.steps == 0:
            save_gradient(self.trainer.model, self.task.gradient)


def library_side(channel: Channel, settings: Settings) -> None:
    """Answers the first step, whose gradient it writes, and then further ones."""
    update = _Update(settings)
    channel.mark_baseline(update.task.device)
    serve_steps(channel, update.step(), update.step)


def utilisation_side(channel: Channel, settings: Settings) -> None:
    """The same; with each step goes the best rate of large matrix products just before and just after it.

    They are made in float32 on a CPU and in bfloat16 on a GPU, whose name goes with the first step. Their matrices
    (0.2 GB, 0.4 GB on a GPU) are the peak of memory where a step has a smaller one.
    """
    update = _Update(settings)
    device = update.task.device
    channel.mark_baseline(device)
    first = update.step()
    before = _rate(device)

    def step() -> dict[str, float]:
        nonlocal before
        made, after = update.step(), _rate(device)
        best, before = max(before, after), after
        return made | {"matrix_rate": best}

    serve_steps(channel, {**first, "device_name": device_name(device)}, step)


def _rate(device: str) -> float:
    return matrix_rate() if device == "cpu" else product_rate(device)
