"""Practice in the environment: what every way of learning from fresh attempts shares.

Tasks are drawn by family, the version in training attempts each several times, the attempts are judged and kept,
and a watch (see ``watch``) chooses the weights that become a version.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from upturn.config import CurriculumSettings, RewardConfig
from upturn.loop.agent_runtime import AgentRuntime
from upturn.loop.evaluation import HeldoutResult, configured_evaluation
from upturn.loop.progress import told
from upturn.loop.rollouts import PolicyWorker, RolloutPlan, TaskSampler, curriculum_collect, follow, sampling
from upturn.loop.run import Context, adapter_settings
from upturn.loop.trainers.candidate import keep_version, training_folder
from upturn.loop.trainers.distributed_training import jointly
from upturn.models import load_local
from upturn.pool import PoolSink
from upturn.records import AgentVersion, Evaluation, Task, Trajectory
from upturn.report.training import write_training_report
from upturn.rewards import Rubric, soft_overlong
from upturn.training import Evaluate, OnlineSettings, ScoredGroup, TrainingOutcome, written_count
from upturn.training.data import Collect, Refill
from upturn.training.runs import CurvePoint, RunOptions

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

CYCLE_SEED_STEP = 10_000
"""Added to the seed of practice for each cycle, so that later cycles sample other tasks."""

Reward = Callable[[Evaluation], float | None]


class RolloutSource(NamedTuple):
    """What an algorithm samples and is evaluated with."""

    worker: PolicyWorker
    collect: Collect
    refill: Refill
    evaluate: Evaluate | None
    folder: "Path"
    progress: Callable[[CurvePoint], None]


class Course(NamedTuple):
    """How practice goes."""

    title: str
    """For people."""
    section: OnlineSettings
    weights: Mapping[str, float]
    """How often each family is sampled."""
    practice: RolloutPlan
    staleness: int = 0
    """Rounds that the weights may be old which attempts are sampled with; 0 = sampling and updating take turns."""
    curriculum: CurriculumSettings | None = None
    """None = families are sampled by ``weights`` to the end."""
    tasks: Callable[[int], Sequence[Task]] | None = None
    """The tasks of an iteration; None = the run's kit has them, families drawn by weight."""
    is_watched: bool = True
    """Whether evaluations on fresh tasks choose the weights; False: the last ones are kept."""
    snapshot: Callable[[], str] | None = None
    """The id of what was learned from beside practice, asked for at the end; None = nothing was."""


def train_on_rollouts(
    context: Context,
    parent: AgentVersion,
    name: str,
    *,
    course: Course,
    learn: Callable[[RolloutSource], TrainingOutcome],
) -> AgentVersion:
    """The parent after ``learn`` has trained it on what the course collects.

    Returns the parent itself where no evaluation was within ``cost_limits``: nothing was kept, so there is no new
    version.
    """
    from upturn.training.distributed import blend, weight_tensors

    section, folder = course.section, training_folder(context, name)
    with sampling(context, parent, name) as runtime:
        adapter = adapter_settings(context.config, seed=course.practice.seed)
        worker = PolicyWorker(context.runtime if course.staleness else runtime, parent, adapter)
        context.progress.stage(course.title, section.iterations)
        with _collecting(context, parent, worker, course=course, runtime=runtime) as (collect, refill):
            outcome = learn(
                RolloutSource(
                    worker,
                    collect,
                    refill,
                    configured_evaluation(context, worker, name, section),
                    folder,
                    told(context.progress, reward="mean_return"),
                )
            )
    if outcome.stopped == "limit" and outcome.best_score is None:
        write_training_report(folder)
        return parent
    if section.incumbent_share:
        incumbent = context.router.registry.served(parent.agent).incumbent
        worker.merge()
        blend(worker.model, weight_tensors(load_local(incumbent.model).model), section.incumbent_share)
    snapshot = None if course.snapshot is None else course.snapshot()
    return keep_version(context, worker, parent, name, snapshot=snapshot)


def learning(
    context: Context, run: Callable[..., TrainingOutcome], settings: object
) -> Callable[[RolloutSource], TrainingOutcome]:
    """``run`` on sampled groups, for algorithms that need nothing else."""

    def learn(own: RolloutSource) -> TrainingOutcome:
        return jointly(
            context.world,
            own.worker,
            run,
            own.collect,
            settings,
            RunOptions(context.seed, own.folder, evaluate=own.evaluate, progress=own.progress),
        )

    return learn


def rollout_plan(context: Context, name: str, attempts: int, *, reward: Reward | None = None) -> RolloutPlan:
    """How groups are made for the training step ``name``; ``reward``: None = the configured rubric's score."""
    return RolloutPlan(
        f"{context.run_id}/{name}",
        context.seed + CYCLE_SEED_STEP * (context.position.cycle - 1),
        attempts,
        reward or configured_reward(context),
        overlong_penalty(context.config.rewards),
    )


class _Source(NamedTuple):
    collect: Collect
    refill: Refill


@contextmanager
def _collecting(
    context: Context, parent: AgentVersion, worker: PolicyWorker, *, course: Course, runtime: AgentRuntime
) -> Iterator[_Source]:
    """Groups by the worker, or where staleness is configured by another that samples ahead beside it.

    Whoever samples ahead has a model, an engine and agents of its own, and half of the threads meanwhile.
    """
    section, practice = course.section, course.practice
    count, sink = section.tasks_per_iteration, PoolSink(context.pool)
    sampler = TaskSampler(context.kit, course.weights, count, seed=practice.seed)
    drawn = course.tasks or sampler.tasks

    def refill(iteration: int, attempt: int, /) -> list[ScoredGroup]:
        tasks = sampler.further_tasks(iteration, attempt)
        return worker.sample_groups(tasks, iteration, replace(practice, refill=attempt), sink)

    if not course.staleness:
        follow(runtime, worker.model, parent)
        if course.curriculum is None:
            yield _Source(lambda each: worker.sample_groups(drawn(each), each, practice, sink), refill)
        else:
            guided = curriculum_collect(
                worker, course.weights, count, settings=course.curriculum, practice=practice, sink=sink
            )
            yield _Source(guided, guided.refill)
        return
    import torch

    from upturn.training.data import AheadCollect
    from upturn.training.distributed import restore_weights
    from upturn.training.optimisation import torch_threads

    ahead = PolicyWorker(
        AgentRuntime(context.kit, runtime.limits) if runtime is context.runtime else runtime, parent, worker.adapter
    )
    follow(runtime, ahead.model, parent)

    def sample(iteration: int, weights: Mapping[str, "Tensor"]) -> list[ScoredGroup]:
        torch.set_flush_denormal(True)  # as in the run's own thread; each thread has its own
        restore_weights(ahead.model, weights)
        return ahead.sample_groups(drawn(iteration), iteration, practice, sink)

    with (
        torch_threads(max(1, torch.get_num_threads() // 2)),
        AheadCollect(worker.model, sample, staleness=course.staleness, iterations=section.iterations) as collect,
    ):
        yield _Source(collect, refill)


def configured_reward(context: Context) -> Reward:
    """The score of the configured rubric over an evaluation's components; None where one is missing."""
    rubric = Rubric("configured", context.config.rewards.weights)
    return lambda evaluation: rubric.score(evaluation.rewards)


def overlong_penalty(config: RewardConfig) -> Callable[[Trajectory], float] | None:
    """What practice takes off an attempt's reward for what it wrote too much; None = nothing is configured."""
    limit, buffer = config.overlong_tokens, config.overlong_buffer
    if limit is None or buffer is None:
        return None
    return lambda trajectory: soft_overlong(written_count(trajectory), limit=limit, buffer=buffer)


def family_weights(before: HeldoutResult) -> dict[str, float]:
    """How often to sample each family: by what it still fails, and at least 0.4 times as often as what always
    fails."""
    return {
        family: max(0.4, 1.0 - before.rate(family=family))
        for family in dict.fromkeys(mark.family for mark in before.marks)
    }
