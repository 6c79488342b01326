"""A deliberately damaged version, which the demo's canary must roll back."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, TypeVar

from upturn.loop.evaluation import HeldoutResult, evaluate_version, evaluation_tasks, heldout_tasks
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers import save_candidate
from upturn.records import AgentVersion, Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TaskT = TypeVar("TaskT")
TARGET_DROP = 0.215
"""Drop of held-out success; with the tolerance well within the 15 to 25 points that the demo's bar allows."""
TOLERANCE = 0.02
"""Largest accepted distance from the target drop."""
MIN_FRESH_DROP = 0.16
"""Smallest accepted drop on tasks as they are served: damage to unseen phrasings only is invisible to a canary."""
FRESH_SEED = 15_013
"""Added to the run's seed for fresh tasks, which no choice and no training uses."""
FRESH_SHARE = 1 / 2
"""Fresh tasks per held-out task: their drop needs a bound only."""
FIRST_SHARE = 1 / 3
"""Share of the held-out tasks that a trial starts with."""
FAR_OFF = 0.12
"""A trial ends early if the drop on its first tasks is this far from the target."""
MAX_TRIALS = 10
"""Per direction; two or three are usual."""
MAX_DIRECTIONS = 4
FIRST_SIZE = 0.6
"""Initial noise in standard deviations of the weights: a little less than nano needs, since a worse model needs
longer rollouts."""
GROWTH = 1.5
"""Maximum growth of the noise while no trial has exceeded the target."""
EDGE = 0.1
"""Minimum distance of a trial from both ends of the remaining interval, as a share of it."""


def damage_version(context: Context, healthy: AgentVersion, result: HeldoutResult, name: str) -> AgentVersion:
    """The healthy version with noise on its last layer that costs about 20 points of held-out success.

    ``result``: the healthy version's. The run's seed fixes the directions of the noise; its size is searched for on
    the held-out tasks, which no training choice depends on. If no trial is within the tolerance, the closest one is
    used; if no direction damages success on fresh tasks enough, the one that damages it most.
    """
    worker = PolicyWorker(context.runtime, healthy)
    trial = replace(healthy, version=f"{name}-trial")
    heldout, seed = heldout_tasks(context), context.seed
    fresh_count = math.ceil(FRESH_SHARE * len(heldout))
    fresh = evaluation_tasks(
        context.kit, context.trained_families, fresh_count, seed=seed + FRESH_SEED, split="train"
    )
    context.progress.stage("Damage a copy of the serving version", MAX_TRIALS)

    def outcomes(tasks: Sequence[Task]) -> list[float]:
        version = worker.serve_as(trial)
        return evaluate_version(
            context.runtime, version, tasks, context.purpose(f"{name}/trial"), pool=None
        ).outcomes()

    def drop(noise: _Noise, size: float) -> float:
        noise.apply(size)
        measured = measure_drop(outcomes, heldout, result.outcomes())
        context.progress.advance(drop=measured)
        return measured

    fresh_success = fmean(outcomes(fresh))
    candidates: dict[int, tuple[_Noise, float]] = {}

    def fresh_drop(direction: int) -> float:
        noise = _Noise(worker.model, seed * MAX_DIRECTIONS + direction)
        size = find_size(partial(drop, noise))
        candidates[direction] = noise, size
        noise.apply(size)
        measured = fresh_success - fmean(outcomes(fresh))
        noise.apply(0.0)
        return measured

    noise, size = candidates[find_direction(fresh_drop)]
    noise.apply(size)
    return save_candidate(context, worker, healthy, name)


class _Noise:
    """Gaussian noise on a model's last layer in one direction, relative to each tensor's standard deviation.

    In the last layer it costs all phrasings about the same; noise in all layers costs unseen phrasings up to 1.4
    times as much as trained ones.
    """

    def __init__(self, model: "PreTrainedModel", seed: int) -> None:
        import torch

        generator = torch.Generator().manual_seed(seed)
        last = f".layers.{model.config.num_hidden_layers - 1}."
        self._parts = [
            (
                tensor,
                tensor.detach().clone(),
                torch.randn(tensor.shape, generator=generator).to(tensor.device) * tensor.std().item(),
            )
            for key, tensor in model.named_parameters()
            if tensor.dim() > 1 and last in key
        ]

    def apply(self, size: float) -> None:
        """Sets the model's weights to the original ones plus ``size`` times the noise."""
        import torch

        with torch.no_grad():
            for tensor, original, noise in self._parts:
                tensor.copy_(original + size * noise)


def measure_drop(
    outcomes: Callable[[Sequence[TaskT]], list[float]], tasks: Sequence[TaskT], healthy: Sequence[float]
) -> float:
    """The drop of success on the tasks, or on the first of them alone if that is ``FAR_OFF`` from the target.

    ``outcomes``: returns 1 or 0 per task; ``healthy``: the same of the healthy version.
    """
    assert len(tasks) == len(healthy)
    first = round(FIRST_SHARE * len(tasks))
    measured = outcomes(tasks[:first])
    drop = fmean(healthy[:first]) - fmean(measured)
    if abs(drop - TARGET_DROP) > FAR_OFF:
        return drop
    return fmean(healthy) - fmean(measured + outcomes(tasks[first:]))


def find_size(measure: Callable[[float], float]) -> float:
    """The size of noise whose drop is nearest to the target.

    Assumes that drops grow with the square of the size (measured exponents are 1.8 to 2.4), so the second trial is
    close. Continues by false position, kept away from both ends of the interval so that it converges.
    """
    target = math.sqrt(TARGET_DROP)
    low, high, size = (0.0, 0.0), (math.inf, math.inf), FIRST_SIZE
    best, smallest_error = size, 1.0
    for _ in range(MAX_TRIALS):
        drop = measure(size)
        if abs(drop - TARGET_DROP) < smallest_error:
            best, smallest_error = size, abs(drop - TARGET_DROP)
        if smallest_error <= TOLERANCE:
            break
        point = size, math.sqrt(max(drop, 0.0))
        low, high = (low, point) if drop > TARGET_DROP else (point, high)
        if math.isinf(high[0]):
            size *= min(GROWTH, target / low[1]) if low[1] else GROWTH
        else:
            share = (target - low[1]) / (high[1] - low[1])
            size = low[0] + min(max(share, EDGE), 1 - EDGE) * (high[0] - low[0])
    return best


def find_direction(measure: Callable[[int], float]) -> int:
    """The first direction with ``MIN_FRESH_DROP`` on fresh tasks, or else the one with the largest drop."""
    drops: list[float] = []
    for direction in range(MAX_DIRECTIONS):
        drops.append(measure(direction))
        if drops[-1] >= MIN_FRESH_DROP:
            break
    return drops.index(max(drops))
