"""Rollouts that follow a curriculum: families are its pools, with the levels of the kit."""

from collections.abc import Mapping
from dataclasses import replace

from upturn.config import CurriculumSettings
from upturn.loop.rollouts.policy_worker import PolicyWorker, RolloutPlan, TaskSampler
from upturn.records import TrajectorySink
from upturn.training import ScoredGroup
from upturn.training.data import Curriculum, CurriculumCollect, SampleRequest


def curriculum_collect(
    worker: PolicyWorker,
    weights: Mapping[str, float],
    count: int,
    *,
    settings: CurriculumSettings,
    practice: RolloutPlan,
    sink: TrajectorySink,
) -> CurriculumCollect:
    """Groups of attempts at ``count`` tasks in an iteration; its ``refill`` is that of dynamic sampling.

    ``weights``: of each family that is practised, as long as nothing is known of it from practice; without effect
    with policy 'uniform', where only the families count. Raises TrainingError where the settings do not fit them.
    """
    kit = worker.runtime.kit
    sampler = TaskSampler(kit, weights, count, seed=practice.seed)
    curriculum = Curriculum(
        {family: kit.families[family] for family in weights},
        settings,
        seed=practice.seed,
        weights=None if settings.policy == "uniform" else weights,
    )

    def sample_groups(request: SampleRequest) -> list[ScoredGroup]:
        tasks = sampler.numbered_tasks(request.portions)
        return worker.sample_groups(tasks, request.iteration, replace(practice, refill=request.round_index), sink)

    return CurriculumCollect(curriculum, sample_groups, count)
