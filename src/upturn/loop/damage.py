"""A candidate that is worse on purpose: the canary must find out, so the demo gives it something to find."""

from collections.abc import Callable
from dataclasses import replace

from upturn.loop.context import Context
from upturn.loop.exam import ExamResult, exam_tasks, sit
from upturn.loop.trainee import Trainee
from upturn.loop.training import keep_version
from upturn.records import AgentVersion

TARGET_DROP = 0.205
TOLERANCE = 0.02
"""The drop is measured on the held-out tasks and must come this close to the target."""
MAX_TRIALS = 10
DAMAGED = "self_attn"
"""The weights that get noise: without attention a model miscopies any phrasing, so that fresh tasks suffer about as
much as the held-out ones. Noise on all weights cost held-out phrasings up to twice as much as practised ones."""


def damaged_version(context: Context, healthy: AgentVersion, marks: ExamResult, name: str) -> AgentVersion:
    """The healthy version with noise on its attention, as much as costs about 20 points of held-out success.

    The direction of the noise is fixed by the run's seed; its size is found by bisection on the held-out tasks,
    which no training choice depends on. If no trial comes close enough, the closest one is kept.
    """
    import torch

    trainee = Trainee(context.fleet, healthy)
    generator = torch.Generator().manual_seed(context.seed)
    original = {key: tensor.detach().clone() for key, tensor in trainee.model.named_parameters()}
    noise = {
        key: torch.randn(tensor.shape, generator=generator) * tensor.std()
        for key, tensor in original.items()
        if tensor.dim() > 1 and DAMAGED in key
    }

    def set_noise(size: float) -> None:
        with torch.no_grad():
            for key, tensor in trainee.model.named_parameters():
                tensor.copy_(original[key] + size * noise[key] if key in noise else original[key])

    tasks = exam_tasks(
        context.kit, context.practised, context.config.tasks.heldout_count, seed=context.seed, split="heldout"
    )
    trial = replace(healthy, version=f"{name}-trial")
    context.progress.stage("Damage a copy of the new version", MAX_TRIALS)

    def drop(size: float) -> float:
        set_noise(size)
        version = trainee.serve_as(trial)
        found = sit(context.fleet, version, tasks, context.purpose(f"{name}/trial"), pool=None)
        context.progress.advance(drop=marks.rate() - found.rate())
        return marks.rate() - found.rate()

    set_noise(size_for(drop))
    return keep_version(context, trainee, healthy, name)


def size_for(drop: Callable[[float], float]) -> float:
    """The size of noise whose drop is nearest to the target: doubled until it costs too much, then bisected."""
    low, high, size = 0.0, 0.0, 0.25
    best, nearest = size, 1.0
    for _ in range(MAX_TRIALS):
        found = drop(size)
        if abs(found - TARGET_DROP) < nearest:
            best, nearest = size, abs(found - TARGET_DROP)
        if nearest <= TOLERANCE:
            break
        if found > TARGET_DROP:
            high = size
        else:
            low = size
        size = (low + high) / 2 if high else 2 * size
    return best
