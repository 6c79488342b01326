"""Learning what the environment answers, from attempts that the pool holds."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from upturn.errors import TrainingError
from upturn.loop.agent_runtime import DEFAULT_CONTEXT_TOKENS
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.progress import told
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import Learned, keep_version, training_folder
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.pool_data import demonstrations_in, needed_pool, with_rows
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.training_plan import Plan, Walk, evaluations, held_by, rows_plan
from upturn.models import RenderedObservations
from upturn.pool import Selection, take_snapshot
from upturn.records import AgentVersion, Result, Snapshot, Trajectory
from upturn.report.training import TrainingReport, read_training, start_text
from upturn.training import TrainingRow, supervised_rows
from upturn.training.algorithms.world_model import WorldModelSettings
from upturn.training.data import LeftOut, Transition, transitions_of
from upturn.training.runs import RunOptions

FEW_TRANSITIONS = 48
"""Answers that are predicted to measure how long it takes."""


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take, with predictions as long as the pool's attempts, and no transition left out as common."""
    needed_pool(context, "world-model")
    asked, worker = (
        context.config.section(WorldModelSettings),
        PolicyWorker(context.runtime, parent, context.adapter),
    )
    attempts = demonstrations_in(context, take_world_snapshot(context))
    rows = supervised_rows([with_rows(each, worker.renderer, worker.prompts) for each in attempts])
    world = observed(attempts, worker)
    easy = 0 if asked.easy is None else asked.easy.group_size * len(world.trained)
    looks = evaluations(asked) * len(world.held_out)
    batch = asked.transitions_per_iteration * asked.group_size
    warm_up = 0 if asked.warm_up is None else asked.warm_up.epochs * len(rows)
    rounds = asked.iterations
    walk = Walk(rows, f"{len(attempts)} attempts", rounds, "iteration", rounds * batch + warm_up, batch)
    found = rows_plan(context, worker, "world-model", walk, held=held_by(asked, copies=1))
    probed = world.trained[:FEW_TRANSITIONS]
    return replace(
        found,
        seconds=found.seconds + (rounds * batch + easy + looks) * _seconds(worker, probed),
        basis="a probe of how long a pass over some of the attempts and predictions of "
        f"{len(probed)} of their answers take here; without held-out evaluations",
    )


def _seconds(worker: PolicyWorker, transitions: Sequence[Transition]) -> float:
    """For one prediction; nothing of it is kept."""
    from upturn.training.algorithms.world_model import Predictor

    if not transitions:
        return 0.0  # there is nothing to predict, which the run says
    predictor = Predictor(worker.engine, RenderedObservations(worker.renderer))
    started = time.perf_counter()
    predictor.predict(transitions, 1, key="probe", seed=0)
    return (time.perf_counter() - started) / len(transitions)


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> Learned:
    """The version that knows the world better, and by how much; practice goes on from it."""
    needed_pool(context, "world-model")
    snapshot = context.journal.record_step("snapshot", Snapshot, lambda: take_world_snapshot(context))
    version = train_world_model(
        context, parent, snapshot, name, settings=context.config.section(WorldModelSettings)
    )
    return learned(version, read_training(training_folder(context, name)))


def learned(version: AgentVersion, report: TrainingReport) -> Learned:
    """The version with its lift, and that of the weights that practice began with: those after any warm-up."""
    kept = report.kept
    if kept is None:  # what is evaluated is kept by it
        return Learned(version)
    first, metrics = report.evaluations[0].metrics, kept.metrics
    n = round(metrics["score_tasks"] or 0)
    lifts = [
        Result(name, each["score"] or 0.0, "share", n=n)
        for name, each in (("lift_first", first), ("lift", metrics))
    ]
    line = (
        f"Of {n} held-out answers the version predicts {_points(metrics, 'held_out_right'):.1f} % right, and "
        f"always naming a tool's most common answer {_points(metrics, 'held_out_usual'):.1f} %: the lift is "
        f"{_points(metrics, 'score'):+.1f} points, and was {_points(first, 'score'):+.1f} {start_text(report)}."
    )
    return Learned(version, tuple(lifts), ("", line))


def _points(metrics: Mapping[str, float | None], name: str) -> float:
    return 100 * (metrics[name] or 0.0)


FAMILY_CAP = 96
"""Attempts of one family: the easy families must not crowd out the others."""
HELD_OUT = 8
"""One task in so many is held out."""


class Observed(NamedTuple):
    """What stored attempts say of the world."""

    trained: tuple[Transition, ...]
    held_out: tuple[Transition, ...]
    """Of other tasks, and after tokens that none of the trained ones continues."""
    left_out: Mapping[LeftOut, int]
    """By cause."""


def take_world_snapshot(context: Context) -> Snapshot:
    """Attempts of this tenant of the trained families, however they ended, frozen under an id.

    Raises TrainingError when there is none.
    """
    selection = Selection(families=tuple(context.trained_families), splits=("train",), limit_per_family=FAMILY_CAP)
    snapshot = take_snapshot(context.pool, tenants=[context.tenant], selection=selection)
    if not snapshot.trajectory_ids:
        raise TrainingError(
            f"there is no attempt at {', '.join(context.trained_families)} of the tenant {context.tenant!r} to "
            f"learn the "
            "world from; let an agent serve "
            "some tasks first, or leave the world model out"
        )
    return snapshot


def observed(trajectories: Sequence[Trajectory], worker: PolicyWorker) -> Observed:
    """The transitions of the attempts, on both sides of the split."""
    longest = worker.runtime.limits.max_tokens or DEFAULT_CONTEXT_TOKENS
    observations = RenderedObservations(worker.renderer)
    written = [with_rows(each, worker.renderer, worker.prompts) for each in trajectories]
    found, left_out = transitions_of(written, observations, max_tokens=longest)
    trained = tuple(each for each in found if not is_held_out(each.task_id))
    known = {each.prompt_ids for each in trained}
    others = tuple(each for each in found if is_held_out(each.task_id) and each.prompt_ids not in known)
    return Observed(trained, others, left_out)


def is_held_out(task_id: str) -> bool:
    """Whether a task is for evaluation only."""
    return hashlib.blake2b(task_id.encode(), digest_size=8).digest()[0] % HELD_OUT == 0


def own_rows(attempts: Sequence[Trajectory], version: AgentVersion) -> tuple[TrainingRow, ...]:
    """What the version itself wrote in them, as it is likely to write it: to be rehearsed."""
    own = [each for each in attempts if each.agent_version == version.id and each.temperature == 1.0]
    return supervised_rows(own)


def train_world_model(
    context: Context, parent: AgentVersion, snapshot: Snapshot, name: str, *, settings: WorldModelSettings
) -> AgentVersion:
    """The parent after learning to predict what the snapshot's attempts were answered; practice goes on from it.

    A warm-up rehearses what the parent itself wrote in them. The weights are those with the highest lift on
    held-out tasks. Raises TrainingError where the snapshot leaves nothing to predict, or nothing to hold out.
    """
    from upturn.training.algorithms.world_model import Predictor, run_world_model

    worker = PolicyWorker(context.runtime, parent, context.adapter)
    attempts = demonstrations_in(context, snapshot)
    world = observed(attempts, worker)
    folder = training_folder(context, name)
    title = f"World model on {len(world.trained)} transitions"
    context.progress.stage(title, settings.iterations)
    jointly(
        context.world,
        worker,
        run_world_model,
        Predictor(worker.engine, RenderedObservations(worker.renderer)),
        world.trained,
        settings,
        RunOptions(
            context.seed,
            folder,
            evaluate=None if settings.evaluate_every is None else world.held_out,
            progress=told(context.progress, right="mean_return"),
        ),
        rehearsal=() if settings.warm_up is None else own_rows(attempts, parent),
    )
    return keep_version(context, worker, parent, name, snapshot=snapshot.id)


WORLD_MODEL = Algorithm(WorldModelSettings, plan, train, frozenset({"pool"}))
