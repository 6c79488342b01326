"""RL training: what all algorithms share that train on fresh rollouts.

Tasks are drawn by family, the version in training samples several trajectories of each, these are evaluated and
stored, and model selection chooses the weights that become a version.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from upturn.config import CurriculumSettings, RewardConfig
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.rollouts import (
    PartialRollouts,
    PolicyWorker,
    RolloutSpec,
    TaskSampler,
    curriculum_collect,
    rollout_runtime,
)
from upturn.loop.run import Context, adapter_settings
from upturn.loop.trainers.candidate import run_options, save_candidate, training_folder
from upturn.loop.trainers.distributed_training import rank0_collect, train_on_all_ranks
from upturn.models import load_local
from upturn.pool import PoolSink
from upturn.records import AgentVersion, Evaluation, Task, Trajectory
from upturn.report.training import write_training_report
from upturn.rewards import configured_rubric, configured_score, soft_overlong
from upturn.training import (
    OnlineSettings,
    PartialSettings,
    RewardComponent,
    ScoredGroup,
    TrainingOutcome,
    written_count,
)
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.rft import RftSettings
from upturn.training.data import Collect, Refill

if TYPE_CHECKING:
    from torch import Tensor

CYCLE_SEED_STEP = 10_000
"""Added to the seed of rollouts for each cycle, so that later cycles sample other tasks."""
CONTINUATIONS = 8
"""Default number of continuations from each state: about VinePPO's 9."""

OutcomeReward = Callable[[Evaluation], float | None]


class RlSpec(NamedTuple):
    """A training run on fresh rollouts."""

    title: str
    """For people."""
    settings: OnlineSettings | RftSettings
    rollouts: RolloutSpec
    weights: Mapping[str, float] | None = None
    """How often each family is sampled; None means all trained families equally."""
    staleness: int = 0
    """Maximum age, in iterations, of the weights that sample; 0 means that sampling and updates take turns."""
    curriculum: CurriculumSettings | None = None
    """None means that ``weights`` hold throughout the run."""
    partial: PartialSettings | None = None
    """None means that trajectories are finished in the iteration that starts them."""
    tasks: Callable[[int], Sequence[Task]] | None = None
    """The tasks of an iteration; None means tasks of the run's kit, with families drawn by weight."""
    seed: int | None = None
    """Seed of the updates; None means the context's."""
    snapshot: Callable[[], str] | None = None
    """Id of the stored data that the run trains on as well, called at its end; None means that there is none."""

    def family_shares(self, context: Context) -> Mapping[str, float]:
        """``weights``, or equal ones."""
        return self.weights or dict.fromkeys(context.trained_families, 1.0)


class RolloutSource(NamedTuple):
    """The groups that a run trains on."""

    worker: PolicyWorker
    collect: Collect
    refill: Refill


def train_on_rollouts(
    context: Context,
    parent: AgentVersion,
    name: str,
    *,
    spec: RlSpec,
    run: Callable[..., TrainingOutcome],
    extras: Callable[[RolloutSource], Mapping[str, Any]] = lambda _: {},
) -> AgentVersion:
    """The parent after ``run`` trained it on rollouts; ``extras``: further arguments of ``run``.

    Returns the parent itself where no evaluation was within ``cost_limits``: then no weights were kept.
    """
    from upturn.training.distributed import blend, weight_tensors

    settings = spec.settings
    with rollout_runtime(context, parent, name) as runtime:
        adapter = adapter_settings(context.config, seed=spec.rollouts.seed)
        worker = PolicyWorker(runtime, parent, adapter, settings.optimiser)
        context.progress.stage(spec.title, settings.iterations)
        with _open_source(context, parent, worker, spec=spec) as source:
            options = run_options(context, worker, name, settings, reward="mean_return")
            if spec.seed is not None:
                options = replace(options, seed=spec.seed)
            collect = rank0_collect(source.collect)
            outcome = train_on_all_ranks(context.world, worker, run, collect, settings, options, **extras(source))
    if outcome.stopped == "limit" and outcome.best_score is None:
        write_training_report(training_folder(context, name))
        return parent
    if isinstance(settings, OnlineSettings) and settings.incumbent_share:
        incumbent = context.router.registry.served(parent.agent).incumbent
        worker.merge()
        blend(worker.model, weight_tensors(load_local(incumbent.model).model), settings.incumbent_share)
    return save_candidate(context, worker, parent, name, snapshot=spec.snapshot() if spec.snapshot else None)


@contextmanager
def _open_source(
    context: Context, parent: AgentVersion, worker: PolicyWorker, *, spec: RlSpec
) -> Iterator[RolloutSource]:
    """Groups that the worker samples, or with staleness a second worker while the first one is trained.

    The second worker has its own model, engine and agents, and half of the threads.
    """
    rollouts, count, sink = spec.rollouts, spec.settings.tasks_per_iteration, PoolSink(context.pool)
    shares = spec.family_shares(context)
    sampler = TaskSampler(context.kit, shares, count, seed=rollouts.seed)
    tasks = spec.tasks or sampler.tasks

    def refill(iteration: int, number: int, /) -> list[ScoredGroup]:
        further = sampler.further_tasks(iteration, number)
        return worker.sample_groups(further, iteration, replace(rollouts, refill=number), sink)

    if spec.partial is not None:
        yield RolloutSource(
            worker, PartialRollouts(worker, sampler, rollouts, sink, tasks=count, settings=spec.partial), refill
        )
        return
    if not spec.staleness:
        if spec.curriculum is None:
            yield RolloutSource(
                worker, lambda iteration: worker.sample_groups(tasks(iteration), iteration, rollouts, sink), refill
            )
        else:
            guided = curriculum_collect(
                worker, shares, count, settings=spec.curriculum, rollouts=rollouts, sink=sink
            )
            yield RolloutSource(worker, guided, guided.refill)
        return
    import torch

    from upturn.training.data import AheadCollect
    from upturn.training.distributed import restore_weights
    from upturn.training.optimisation import torch_threads

    ahead = PolicyWorker(worker.runtime.sibling(), parent, worker.adapter, spec.settings.optimiser)

    def sample(iteration: int, weights: Mapping[str, "Tensor"]) -> list[ScoredGroup]:
        torch.set_flush_denormal(True)  # a setting of the thread
        restore_weights(ahead.model, weights)
        return ahead.sample_groups(tasks(iteration), iteration, rollouts, sink)

    with (
        torch_threads(max(1, torch.get_num_threads() // 2)),
        AheadCollect(
            worker.model, sample, staleness=spec.staleness, iterations=spec.settings.iterations
        ) as collect,
    ):
        yield RolloutSource(worker, collect, refill)


def rollout_spec(
    context: Context,
    name: str,
    group_size: int,
    *,
    reward: OutcomeReward | None = None,
    advantage: AdvantageSettings | None = None,
    source: OnlineSettings | None = None,
) -> RolloutSpec:
    """Rollouts of the training step ``name``; states are measured where ``advantage`` needs their values.

    ``source``: the settings with temperature and options; None means the model's own distribution. ``reward``: None
    means the score of the configured rubric. The configured penalty on length is added to it.
    """
    outcome_reward, penalty = reward or configured_reward(context), overlong_penalty(context.config.rewards)
    has_components = advantage is not None and advantage.estimator == "components" and reward is None

    def total_reward(trajectory: Trajectory, evaluation: Evaluation) -> float | None:
        value = outcome_reward(evaluation)
        return value if value is None or penalty is None else value + penalty(trajectory)

    rollouts = RolloutSpec(
        f"{context.run_id}/{name}",
        context.seed + CYCLE_SEED_STEP * (context.position.cycle - 1),
        group_size,
        total_reward,
        components=partial(reward_components, context.config.rewards) if has_components else None,
    )
    if source is not None:
        options = source.sampling if source.sampling.changed else None
        rollouts = replace(rollouts, temperature=source.temperature, sampling=options)
    if advantage is None:
        return rollouts
    return replace(rollouts, continuations=continuation_count(advantage), gamma=advantage.gamma)


def continuation_count(advantage: AdvantageSettings) -> int:
    """Continuations from each state; 0 where the estimator needs no state values."""
    return (advantage.continuations or CONTINUATIONS) if advantage.measures else 0


def configured_reward(context: Context) -> OutcomeReward:
    """``configured_score`` of the run's ``[rewards]``."""
    return partial(configured_score, context.config.rewards)


def reward_components(
    config: RewardConfig, trajectory: Trajectory, evaluation: Evaluation
) -> tuple[RewardComponent, ...]:
    """The parts whose weighted sum is the return of a trajectory: the terms of the configured rubric, the penalty
    on length where it is configured, and the environment's rewards for single turns as one.

    Where a component is missing, the return is the sum of the others with their weights scaled up.
    """
    terms = configured_rubric(config).terms(evaluation.rewards)
    total = sum(term.weight for term in terms if term.weight > 0)
    components = [RewardComponent(term.name, term.value, term.weight / total) for term in terms]
    penalty = overlong_penalty(config)
    if penalty is not None:
        components.append(RewardComponent("overlong", penalty(trajectory), 1.0))
    components.append(RewardComponent("turns", math.fsum(turn.reward for turn in trajectory.turns), 1.0))
    return tuple(components)


def overlong_penalty(config: RewardConfig) -> Callable[[Trajectory], float] | None:
    """Added to the reward of trajectories with too many written tokens, 0 or less; None if not configured."""
    limit, buffer = config.overlong_tokens, config.overlong_buffer
    if limit is None or buffer is None:
        return None
    return lambda trajectory: soft_overlong(written_count(trajectory), limit=limit, buffer=buffer)


def family_weights(before: HeldoutResult) -> dict[str, float]:
    """Sampling weight of each family: its failure rate before training, but at least 0.4."""
    return {
        family: max(0.4, 1.0 - before.rate(family=family))
        for family in dict.fromkeys(mark.family for mark in before.marks)
    }
