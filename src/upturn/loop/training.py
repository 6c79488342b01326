"""The training steps of a cycle: from the pool's evidence, or from practice, to a new version in a folder.

A training run resumes from its own checkpoint; the version it makes is written once, under a name that its weights
decide.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.agents.rendering import rendered_rows
from upturn.config import RewardConfig
from upturn.errors import TrainingError
from upturn.loop.algorithm import algorithm_settings, continuations
from upturn.loop.context import Context, keep_agent_version
from upturn.loop.exam import ExamResult, exam_tasks, sit
from upturn.loop.fleet import Fleet
from upturn.loop.progress import Progress
from upturn.loop.trainee import Practice, TaskSampler, Trainee
from upturn.models import Renderer
from upturn.models.nano import load_local
from upturn.pool import PoolSink, Selection
from upturn.pool.snapshot import experiences_in, take_snapshot
from upturn.records import AgentVersion, Evaluation, Snapshot, Trajectory
from upturn.report.training import read_training, write_training_report
from upturn.report.training.sentence import ending, keeping
from upturn.rewards import Rubric, soft_overlong
from upturn.training.advantage import ScoredGroup
from upturn.training.assessment import Assessment, Evaluate
from upturn.training.collection import Collect
from upturn.training.curve import CurvePoint
from upturn.training.row import written_count

if TYPE_CHECKING:
    from torch import Tensor

SELECTION_TASKS = 108
"""Tasks on which a training run is watched and its best weights are chosen: training templates in unseen worlds,
so that the held-out tasks stay untouched by any choice."""
SELECTION_SEED = 7_919
"""Added to the run's seed for them."""
CYCLE_SEED_STEP = 10_000
"""Added to the seed of practice for each cycle, so that later cycles practise other tasks."""
FAMILY_CAP = 48
"""Demonstrations of one family in supervised training: the easy families must not crowd out the others."""

Reward = Callable[[Evaluation], float | None]


def take_training_snapshot(context: Context) -> Snapshot:
    """Verified successes of this tenant on the practised families, frozen under an id.

    Raises TrainingError when there is none.
    """
    selection = Selection(
        families=tuple(context.practised),
        splits=("train",),
        verdicts=("success",),
        min_score=context.config.sft.min_score,
        limit_per_family=FAMILY_CAP,
    )
    snapshot = take_snapshot(context.pool, tenants=[context.tenant], selection=selection)
    if not snapshot.trajectory_ids:
        raise TrainingError(
            f"there is no verified success with a score of sft.min_score = {selection.min_score:g} or more in "
            f"{', '.join(context.practised)}: let an agent serve that solves some of the tasks, or set "
            "sft.enabled = false"
        )
    return snapshot


def train_sft(context: Context, parent: AgentVersion, snapshot: Snapshot, name: str) -> AgentVersion:
    """The parent after supervised training on the snapshot, with loss on what agents wrote only."""
    from upturn.training.row import supervised_rows
    from upturn.training.settings import OptimiserSettings, SftSettings
    from upturn.training.sft import run_sft

    config = context.config.sft
    trainee = Trainee(context.fleet, parent)
    demonstrations = demonstrations_in(context, snapshot)
    rows = supervised_rows([with_rows(each, trainee.renderer) for each in demonstrations])
    settings = SftSettings(
        epochs=config.epochs,
        batch_rows=config.batch_rows,
        optimiser=OptimiserSettings(learning_rate=config.learning_rate, warmup_steps=10),
        decay="linear",
        checkpoint_every=20,
    )
    steps = config.epochs * math.ceil(len(rows) / config.batch_rows)
    context.progress.stage(f"Supervised training on {len(rows)} verified successes", steps)
    run_sft(
        trainee.model,
        rows,
        settings,
        seed=context.seed,
        run_dir=training_folder(context, name),
        progress=told(context.progress, loss="loss"),
    )
    write_training_report(training_folder(context, name))
    return keep_version(context, trainee, parent, name, snapshot=snapshot.id)


def demonstrations_in(context: Context, snapshot: Snapshot) -> list[Trajectory]:
    """The snapshot's trajectories by task and agent version, so that all runs of one seed learn in one order.

    Trajectory ids hold the run's id, and with it the time of its start.
    """
    found = [each.trajectory for each in experiences_in(context.pool, snapshot.id, tenant=context.tenant)]
    return sorted(found, key=lambda each: (each.task_id, each.agent_version, each.id))


def train_grpo(
    context: Context, parent: AgentVersion, weights: Mapping[str, float], name: str, *, reward: Reward | None = None
) -> AgentVersion:
    """The parent after practice in the environment; ``weights`` says how much each family is practised.

    ``reward``: what an attempt earns; None = the configured rubric's score. Returns the parent itself where no
    evaluation was within ``cost_limits``: nothing was kept, so there is no new version.
    """
    from upturn.training.grpo import run_grpo
    from upturn.training.weights import blend, weight_tensors

    config = context.config.grpo
    trainee = Trainee(context.fleet, parent)
    seed = context.seed + CYCLE_SEED_STEP * (context.cycle - 1)
    sampler = TaskSampler(context.kit, weights, config.tasks_per_iteration, seed=seed)
    settings = algorithm_settings(context.config)
    practice = Practice(
        f"{context.run_id}/{name}",
        seed,
        config.attempts,
        reward or configured_reward(context),
        overlong_penalty(context.config.rewards),
        continuations(context.config, settings),
        settings.advantage.gamma,
    )
    sink = PoolSink(context.pool)

    def refill(iteration: int, attempt: int) -> list[ScoredGroup]:
        tasks = sampler.further_tasks(iteration, attempt)
        return trainee.practise(tasks, iteration, replace(practice, refill=attempt), sink)

    def practise(who: Trainee, iteration: int) -> list[ScoredGroup]:
        return who.practise(sampler.tasks(iteration), iteration, practice, sink)

    context.progress.stage("Practice with group-relative policy optimisation", config.iterations)
    with collecting(context, trainee, parent, practise) as collect:
        outcome = run_grpo(
            trainee.model,
            collect,
            settings,
            seed=context.seed,
            run_dir=training_folder(context, name),
            refill=None if settings.dynamic_sampling is None else refill,
            evaluate=watcher(context, trainee, name),
            progress=told(context.progress, reward="mean_return"),
        )
    write_training_report(training_folder(context, name))
    if outcome.stopped == "limit" and outcome.best_score is None:
        return parent
    if config.incumbent_share:
        incumbent = context.router.registry.served(parent.agent).incumbent
        blend(trainee.model, weight_tensors(load_local(incumbent.model).model), config.incumbent_share)
    return keep_version(context, trainee, parent, name)


def limits_told(context: Context, name: str) -> str:
    """How limits on costs ended a training run, and what was kept of it; empty = they did not."""
    found = read_training(training_folder(context, name))
    if found.outcome is None or found.outcome.stopped != "limit":
        return ""
    return f"{ending(found)} {keeping(found)}"


@contextmanager
def collecting(
    context: Context, trainee: Trainee, parent: AgentVersion, practise: Callable[[Trainee, int], list[ScoredGroup]]
) -> Iterator[Collect]:
    """``practise`` with the trainee, or where staleness is configured with another that samples ahead beside it.

    Whoever samples ahead has a model, an engine and agents of its own, and half of the threads meanwhile.
    """
    staleness = context.config.grpo.algorithm.staleness
    if not staleness:
        yield lambda iteration: practise(trainee, iteration)
        return
    import torch

    from upturn.training.asynchronous import AheadCollect
    from upturn.training.trainer import torch_threads
    from upturn.training.weights import put_back

    ahead = Trainee(Fleet(context.kit, context.fleet.limits), parent)

    def sample(iteration: int, weights: Mapping[str, "Tensor"]) -> list[ScoredGroup]:
        torch.set_flush_denormal(True)  # as in the run's own thread; each thread has its own
        put_back(ahead.model, weights)
        return practise(ahead, iteration)

    with (
        torch_threads(max(1, torch.get_num_threads() // 2)),
        AheadCollect(
            trainee.model, sample, staleness=staleness, iterations=context.config.grpo.iterations
        ) as collect,
    ):
        yield collect


def watcher(context: Context, trainee: Trainee, name: str) -> Evaluate:
    """The evaluation that a training run is watched by, and its best weights are chosen by.

    Costs are means over the tasks that were judged for them: what could not be judged is no proof of good conduct.
    """
    tasks = exam_tasks(
        context.kit, context.practised, SELECTION_TASKS, seed=context.seed + SELECTION_SEED, split="train"
    )

    def evaluate(_iterations: int) -> Assessment:
        version = trainee.serve_as(trainee.version)
        found = sit(context.fleet, version, tasks, context.purpose(f"{name}/watch"), pool=None)
        context.progress.figure("unseen worlds", found.rate())
        interval, costs = found.interval(), found.costs()
        return Assessment(
            found.rate(),
            {name: cost.mean for name, cost in costs.items()},
            low=interval.low,
            high=interval.high,
            tasks=len(found.marks),
            measure="success on training templates in unseen worlds",
            missing_costs={name: cost.missing for name, cost in costs.items() if cost.missing},
        )

    return evaluate


def training_folder(context: Context, name: str) -> Path:
    """Where the training run of a step lies, with its report."""
    return context.run_dir / "training" / name


def keep_version(
    context: Context, trainee: Trainee, parent: AgentVersion, name: str, *, snapshot: str | None = None
) -> AgentVersion:
    """The trainee's weights as a folder of the run and a version in the pool."""
    from upturn.models.nano import model_folder
    from upturn.training.version import save_version

    folder = context.run_dir / "versions" / name.replace("/", "-")
    digest = save_version(trainee.model, folder, companions=model_folder(parent.model))
    version = replace(
        parent,
        version=f"{name.replace('/', '-')}-{digest[:8]}",
        model=str(folder),
        weights_hash=digest,
        parent=parent.id,
        snapshot=snapshot or parent.snapshot,
        run=context.run_id,
        tenants=(context.tenant,),
    )
    return keep_agent_version(context.pool, version)


def with_rows(trajectory: Trajectory, renderer: Renderer) -> Trajectory:
    """The trajectory with token rows: its own if a model sampled it, else rendered from what the agent did."""
    return trajectory if trajectory.rows else replace(trajectory, rows=rendered_rows(trajectory, renderer))


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


def practice_weights(before: ExamResult) -> dict[str, float]:
    """How much to practise each family: by what it still fails, but no family never."""
    return {
        family: max(0.4, 1.0 - before.rate(family=family))
        for family in dict.fromkeys(mark.family for mark in before.marks)
    }


def told(progress: Progress, **metrics: str) -> Callable[[CurvePoint], None]:
    """Passes a training run's course on: units done, those before an interruption too, and figures from metrics."""
    done = 0

    def tell(point: CurvePoint) -> None:
        nonlocal done
        found = {figure: point.metrics.get(metric) for figure, metric in metrics.items()}
        figures = {figure: value for figure, value in found.items() if value is not None}
        progress.advance(point.units - done, **figures)
        done = point.units

    return tell
