"""World-model training: predicting the environment's answers in trajectories from the pool."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from upturn.config import DEFAULT_CONTEXT_TOKENS
from upturn.errors import TrainingError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.progress import curve_reporter
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import TrainedVersion, configured_tracking, save_candidate, training_folder
from upturn.loop.trainers.distributed_training import rank0_predictor, train_on_all_ranks
from upturn.loop.trainers.pool_data import load_demonstrations
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.training_plan import Plan, Workload, evaluation_count, plan_on_rows, policy_overhead
from upturn.models import RenderedObservations
from upturn.pool import Selection, take_snapshot
from upturn.records import AgentVersion, Result, Snapshot, Trajectory
from upturn.report.training import TrainingReport, read_training, start_text
from upturn.training import TrainingRow, supervised_rows
from upturn.training.algorithms.world_model import WorldModelSettings
from upturn.training.data import Transition, TransitionExclusion, extract_transitions
from upturn.training.runs import RunOptions

PROBE_TRANSITIONS = 48
"""Answers that are predicted to measure the time of a prediction."""
FAMILY_CAP = 96
"""Maximum number of trajectories per family, so that easy families do not crowd out the others."""
HELD_OUT = 8
"""One task in this many is held out."""


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run, with predictions as long as the trajectories and no transition omitted as common."""
    settings = context.config.section(WorldModelSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    trajectories = load_demonstrations(context, take_world_snapshot(context))
    rows = supervised_rows(map(worker.rendered, trajectories))
    transitions = split_transitions(trajectories, worker)
    iterations, batch = settings.iterations, settings.transitions_per_iteration * settings.group_size
    warm_up_rows = 0 if settings.warm_up is None else settings.warm_up.epochs * len(rows)
    work = Workload(
        rows, f"{len(trajectories)} trajectories", iterations, "iteration", iterations * batch + warm_up_rows, batch
    )
    base = plan_on_rows(context, worker, "world-model", work, overhead=policy_overhead(settings, copies=1))
    predictions = iterations * batch + evaluation_count(settings) * len(transitions.held_out)
    if settings.easy is not None:
        predictions += settings.easy.group_size * len(transitions.trained)
    probe = transitions.trained[:PROBE_TRANSITIONS]
    return replace(
        base,
        seconds=base.seconds + predictions * prediction_seconds(worker, probe),
        basis="a probe of the time of a pass over some of the trajectories and of predictions of "
        f"{len(probe)} of their answers on this machine; without held-out evaluations",
    )


def prediction_seconds(worker: PolicyWorker, transitions: Sequence[Transition]) -> float:
    """Mean time of a prediction; nothing is stored."""
    from upturn.training.algorithms.world_model import Predictor

    if not transitions:
        return 0.0  # the run itself reports that there is nothing to predict
    predictor = Predictor(worker.engine, RenderedObservations(worker.renderer))
    started = time.perf_counter()
    predictor.predict(transitions, 1, key="probe", seed=0)
    return (time.perf_counter() - started) / len(transitions)


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> TrainedVersion:
    """The version that predicts answers better, and by how much; RL training can continue from it.

    A warm-up rehearses what the parent wrote in the trajectories. The weights with the highest lift on held-out
    tasks are kept. Raises TrainingError where there is nothing to predict, or nothing to hold out.
    """
    from upturn.training.algorithms.world_model import Predictor, run_world_model

    settings = context.config.section(WorldModelSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    snapshot = context.journal.record_step("snapshot", Snapshot, lambda: take_world_snapshot(context))
    trajectories = load_demonstrations(context, snapshot)
    transitions = split_transitions(trajectories, worker)
    context.progress.stage(f"World model on {len(transitions.trained)} transitions", settings.iterations)
    options = RunOptions(
        context.seed,
        training_folder(context, name),
        evaluate=None if settings.evaluate_every is None else transitions.held_out,
        progress=curve_reporter(context.progress, correct="mean_return"),
        tracking=configured_tracking(context, name),
    )
    train_on_all_ranks(
        context.world,
        worker,
        run_world_model,
        rank0_predictor(Predictor(worker.engine, RenderedObservations(worker.renderer))),
        transitions.trained,
        settings,
        options,
        rehearsal=() if settings.warm_up is None else rehearsal_rows(trajectories, parent),
    )
    version = save_candidate(context, worker, parent, name, snapshot=snapshot.id)
    return with_lift(version, read_training(training_folder(context, name)))


def with_lift(version: AgentVersion, report: TrainingReport) -> TrainedVersion:
    """The version with its lift, and that of the weights before RL training, which is after any warm-up."""
    if report.kept is None:  # without evaluations
        return TrainedVersion(version)
    first, metrics = report.evaluations[0].metrics, report.kept.metrics
    n = round(metrics["score_tasks"] or 0)

    def percent(values: Mapping[str, float | None], metric: str) -> float:
        return 100 * (values[metric] or 0.0)

    line = (
        f"Of {n} held-out answers the version predicts {percent(metrics, 'held_out_right'):.1f} % correctly, and "
        f"always predicting a tool's most common answer {percent(metrics, 'held_out_usual'):.1f} %: the lift is "
        f"{percent(metrics, 'score'):+.1f} points, and was {percent(first, 'score'):+.1f} {start_text(report)}."
    )
    results = (
        Result("lift_first", first["score"] or 0.0, "share", n=n),
        Result("lift", metrics["score"] or 0.0, "share", n=n),
    )
    return TrainedVersion(version, results, ("", line))


def take_world_snapshot(context: Context) -> Snapshot:
    """Trajectories of this tenant in the trained families, whatever their outcome, frozen under an id.

    Raises TrainingError when there is none.
    """
    selection = Selection(families=tuple(context.trained_families), splits=("train",), limit_per_family=FAMILY_CAP)
    snapshot = take_snapshot(context.pool, tenants=[context.tenant], selection=selection)
    if not snapshot.trajectory_ids:
        raise TrainingError(
            f"there is no trajectory of {', '.join(context.trained_families)} of the tenant {context.tenant!r} to "
            "train a world model on; let an agent serve some tasks first"
        )
    return snapshot


class Transitions(NamedTuple):
    """The transitions of trajectories."""

    trained: tuple[Transition, ...]
    held_out: tuple[Transition, ...]
    """Of other tasks, after prompts that no trained transition has."""
    left_out: Mapping[TransitionExclusion, int]
    """By cause."""


def split_transitions(trajectories: Sequence[Trajectory], worker: PolicyWorker) -> Transitions:
    """The transitions of the trajectories, split by task."""
    max_tokens = worker.runtime.limits.max_tokens or DEFAULT_CONTEXT_TOKENS
    rendered = [worker.rendered(trajectory) for trajectory in trajectories]
    transitions, left_out = extract_transitions(
        rendered, RenderedObservations(worker.renderer), max_tokens=max_tokens
    )
    trained = tuple(transition for transition in transitions if not is_held_out(transition.task_id))
    prompts = {transition.prompt_ids for transition in trained}
    held_out = tuple(
        transition
        for transition in transitions
        if is_held_out(transition.task_id) and transition.prompt_ids not in prompts
    )
    return Transitions(trained, held_out, left_out)


def is_held_out(task_id: str) -> bool:
    """Whether a task is for evaluation only."""
    return hashlib.blake2b(task_id.encode(), digest_size=8).digest()[0] % HELD_OUT == 0


def rehearsal_rows(trajectories: Sequence[Trajectory], version: AgentVersion) -> tuple[TrainingRow, ...]:
    """The rows that the version sampled at temperature 1."""
    return supervised_rows(
        trajectory
        for trajectory in trajectories
        if trajectory.agent_version == version.id and trajectory.temperature == 1.0
    )


WORLD_MODEL = Algorithm(WorldModelSettings, plan, train, frozenset({"pool"}))
