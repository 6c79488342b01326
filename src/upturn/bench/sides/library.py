"""Our side: the library's own trainer, given the rows as every algorithm gives them."""

import time

import torch
from torch import Tensor

from upturn.bench.side import Channel, Settings, serve_steps
from upturn.bench.sides.task import CLIP_HIGH, CLIP_LOW, LEARNING_RATE, NO_LIMIT, read_task, save_gradient
from upturn.bench.subject import build_model
from upturn.bench.workload import training_rows
from upturn.training.loss import ClippedPolicy, TokenBatch, TokenStatistics
from upturn.training.settings import OptimiserSettings
from upturn.training.stream import Stream
from upturn.training.trainer import StepMetrics, Trainer


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


def library_side(channel: Channel, settings: Settings) -> None:
    """Answers the first step, whose gradient it writes, and then times further ones.

    ``optimiser`` among the settings: fields of ``OptimiserSettings`` that differ from their defaults.
    """
    task = read_task(settings)
    torch.set_num_threads(task.threads)
    model = build_model(task.subject)
    workload = task.load_workload()
    rows = training_rows(workload, task.load_own_logprobs())
    chosen = settings["optimiser"]
    assert isinstance(chosen, dict)
    options = OptimiserSettings(learning_rate=LEARNING_RATE, max_grad_norm=NO_LIMIT, **chosen)  # type: ignore[arg-type]  # JSON
    objective = Watched()
    trainer = Trainer(model, options)
    if (path := task.gradient) is not None:

        def keep(*_: object) -> None:
            if trainer.steps == 0:
                save_gradient(model, path)

        trainer.optimiser.register_step_pre_hook(keep)

    def step() -> StepMetrics:
        return trainer.step([Stream(rows, objective, float(workload.written_tokens))])

    def timed() -> dict[str, float]:
        started = time.perf_counter()
        made = step()
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "loss": made.loss, **objective.take_gaps()}

    channel.mark_baseline()
    first = step()
    found = {
        "loss": first.loss,
        "logical_tokens": first.logical_tokens,
        "computed_tokens": first.computed_tokens,
        **objective.take_gaps(),
    }
    serve_steps(channel, found, timed)
