"""A candidate that is worse on purpose: the canary must find out, so the demo gives it something to find."""

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
"""Of held-out success; with the tolerance well within 15 to 25 points, which the demo is held to."""
TOLERANCE = 0.02
"""The drop that is found must come this close to the target."""
FRESH_DROP = 0.16
"""Tasks as they are served must suffer at least so much, or another direction of noise is tried: what hurts unseen
wordings only is no damage that a canary could be expected to notice."""
FRESH_SEED = 15_013
"""Added to the run's seed for fresh tasks, on which nothing was chosen or trained."""
FRESH_SHARE = 1 / 2
"""How many of them are tried, to each held-out task: what is asked of them is a bound, not a figure."""
FIRST_LOOK = 1 / 3
"""The share of the held-out tasks that a trial begins with."""
FAR_OFF = 0.12
"""A first look whose drop is so far from the target ends its trial: the rest would not bring it back."""
MAX_TRIALS = 10
"""Of a direction; two or three are usual."""
MAX_DIRECTIONS = 4
FIRST_SIZE = 0.6
"""Noise, in standard deviations of the weights, that the search begins with: somewhat less than nano needs, since
the worse a model is, the longer are its attempts."""
GROWTH = 1.5
"""The most that a size is raised by, as long as none was too much."""
EDGE = 0.1
"""No size is tried nearer than this share of what is left to either end of it."""


def damaged_version(context: Context, healthy: AgentVersion, marks: HeldoutResult, name: str) -> AgentVersion:
    """The healthy version with noise on its last layer, as much as costs about 20 points of held-out success.

    The directions of the noise are fixed by the run's seed; its size is searched for on the held-out tasks,
    which no training choice depends on. If no trial comes close enough, the closest one is kept; if no direction
    hurts fresh tasks enough, the one that hurts them most.
    """
    worker = PolicyWorker(context.runtime, healthy)
    trial = replace(healthy, version=f"{name}-trial")
    heldout, seed = heldout_tasks(context), context.seed
    fresh_count = math.ceil(FRESH_SHARE * len(heldout))
    fresh = evaluation_tasks(
        context.kit, context.trained_families, fresh_count, seed=seed + FRESH_SEED, split="train"
    )
    context.progress.stage("Damage a copy of the version that serves", MAX_TRIALS)

    def outcomes(tasks: Sequence[Task]) -> list[float]:
        version = worker.serve_as(trial)
        return evaluate_version(
            context.runtime, version, tasks, context.purpose(f"{name}/trial"), pool=None
        ).outcomes()

    def drop(noise: _Noise, size: float) -> float:
        noise.put(size)
        found = drop_of(outcomes, heldout, marks.outcomes())
        context.progress.advance(drop=found)
        return found

    expected = fmean(outcomes(fresh))
    found: dict[int, tuple[_Noise, float]] = {}

    def fresh_drop(direction: int) -> float:
        noise = _Noise(worker.model, seed * MAX_DIRECTIONS + direction)
        size = size_for(partial(drop, noise))
        found[direction] = noise, size
        noise.put(size)
        lost = expected - fmean(outcomes(fresh))
        noise.put(0.0)
        return lost

    noise, size = found[direction_for(fresh_drop)]
    noise.put(size)
    return save_candidate(context, worker, healthy, name)


class _Noise:
    """Gaussian noise on a model's last layer in one direction, relative to each tensor's spread.

    There it costs any wording about as much; noise everywhere costs unseen wordings up to 1.4 times as much as
    those that were practised.
    """

    def __init__(self, model: "PreTrainedModel", seed: int) -> None:
        import torch

        generator = torch.Generator().manual_seed(seed)
        last = f".layers.{model.config.num_hidden_layers - 1}."
        self._parts = [
            (tensor, tensor.detach().clone(), torch.randn(tensor.shape, generator=generator) * tensor.std().item())
            for key, tensor in model.named_parameters()
            if tensor.dim() > 1 and last in key
        ]

    def put(self, size: float) -> None:
        """Sets the model's weights to the original ones plus ``size`` times the noise."""
        import torch

        with torch.no_grad():
            for tensor, original, noise in self._parts:
                tensor.copy_(original + size * noise)


def drop_of(
    attempt: Callable[[Sequence[TaskT]], list[float]], tasks: Sequence[TaskT], healthy: Sequence[float]
) -> float:
    """How much of the success on the tasks is lost; of the first of them alone, where that is ``FAR_OFF``.

    ``attempt``: what each comes to now, 1 or 0; ``healthy``: what each came to before.
    """
    assert len(tasks) == len(healthy)
    first = round(FIRST_LOOK * len(tasks))
    found = attempt(tasks[:first])
    lost = fmean(healthy[:first]) - fmean(found)
    if abs(lost - TARGET_DROP) > FAR_OFF:
        return lost
    found += attempt(tasks[first:])
    return fmean(healthy) - fmean(found)


def size_for(drop: Callable[[float], float]) -> float:
    """The size of noise whose drop is nearest to the target, as if drops grew with the square of sizes.

    They do about (1.8 to 2.4), so the second size is near; false position goes on from there, never into the outer
    tenths of what is left, so that it cannot creep.
    """
    wanted = math.sqrt(TARGET_DROP)
    low, high, size = (0.0, 0.0), (math.inf, math.inf), FIRST_SIZE
    best, nearest = size, 1.0
    for _ in range(MAX_TRIALS):
        found = drop(size)
        if abs(found - TARGET_DROP) < nearest:
            best, nearest = size, abs(found - TARGET_DROP)
        if nearest <= TOLERANCE:
            break
        reached = size, math.sqrt(max(found, 0.0))
        low, high = (low, reached) if found > TARGET_DROP else (reached, high)
        if math.isinf(high[0]):
            size *= min(GROWTH, wanted / low[1]) if low[1] else GROWTH
        else:
            share = (wanted - low[1]) / (high[1] - low[1])
            size = low[0] + min(max(share, EDGE), 1 - EDGE) * (high[0] - low[0])
    return best


def direction_for(fresh_drop: Callable[[int], float]) -> int:
    """The first direction of noise that costs fresh tasks enough; where none does, the one that costs them most."""
    found: list[float] = []
    for direction in range(MAX_DIRECTIONS):
        found.append(fresh_drop(direction))
        if found[-1] >= FRESH_DROP:
            break
    return found.index(max(found))
