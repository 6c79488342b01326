"""Rollouts on tasks that a curriculum chooses: its pools are the kit's families, with their levels."""

from collections.abc import Mapping
from dataclasses import replace

from upturn.config import CurriculumSettings
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutSpec, TaskSampler
from upturn.records import TrajectorySink
from upturn.training import ScoredGroup
from upturn.training.data import Curriculum, CurriculumCollect, SampleRequest


def curriculum_collect(
    worker: PolicyWorker,
    weights: Mapping[str, float],
    count: int,
    *,
    settings: CurriculumSettings,
    rollouts: RolloutSpec,
    sink: TrajectorySink,
) -> CurriculumCollect:
    """Collects groups of ``count`` tasks per iteration; its ``refill`` serves dynamic sampling.

    ``weights``: of each trained family until it has rollouts; with policy 'uniform' only the families count. Raises
    TrainingError where the settings do not fit the families.
    """
    kit = worker.runtime.kit
    sampler = TaskSampler(kit, weights, count, seed=rollouts.seed)
    curriculum = Curriculum(
        {family: kit.families[family] for family in weights},
        settings,
        seed=rollouts.seed,
        weights=None if settings.policy == "uniform" else weights,
    )

    def sample_groups(request: SampleRequest) -> list[ScoredGroup]:
        tasks = sampler.numbered_tasks(request.portions)
        return worker.sample_groups(tasks, request.iteration, replace(rollouts, refill=request.round_index), sink)

    return CurriculumCollect(curriculum, sample_groups, count)
