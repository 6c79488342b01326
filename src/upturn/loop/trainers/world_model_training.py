"""Learning what the environment answers, before practising in it: a step of its own, from attempts that are stored.

Attempts of every agent count, successes or not: the world answers all of them alike. Which tasks are held out is
decided by their ids, so that it is the same in every run.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from upturn.errors import TrainingError
from upturn.loop.agent_runtime import CONTEXT
from upturn.loop.progress import told
from upturn.loop.rollouts import Trainee
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import keep_version, training_folder
from upturn.loop.trainers.cycle_training import demonstrations_in, with_rows
from upturn.loop.trainers.distributed_training import jointly
from upturn.models import RenderedObservations
from upturn.pool import Selection, take_snapshot
from upturn.records import AgentVersion, Snapshot, Trajectory
from upturn.report.training import write_training_report
from upturn.training import TrainingRow, supervised_rows
from upturn.training.algorithms.world_model import WorldModelSettings
from upturn.training.data import LeftOut, Transition, transitions_of

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
    """Attempts of this tenant at the practised families, however they ended, frozen under an id.

    Raises TrainingError when there is none.
    """
    selection = Selection(families=tuple(context.practised), splits=("train",), limit_per_family=FAMILY_CAP)
    snapshot = take_snapshot(context.pool, tenants=[context.tenant], selection=selection)
    if not snapshot.trajectory_ids:
        raise TrainingError(
            f"there is no attempt at {', '.join(context.practised)} of the tenant {context.tenant!r} to learn the "
            "world from; let an agent serve "
            "some tasks first, or leave the world model out"
        )
    return snapshot


def observed(trajectories: Sequence[Trajectory], trainee: Trainee) -> Observed:
    """The transitions of the attempts, on both sides of the split."""
    longest = trainee.fleet.limits.max_tokens or CONTEXT
    observations = RenderedObservations(trainee.renderer)
    written = [with_rows(each, trainee.renderer, trainee.prompts) for each in trajectories]
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

    trainee = Trainee(context.fleet, parent, context.adapter)
    attempts = demonstrations_in(context, snapshot)
    world = observed(attempts, trainee)
    folder = training_folder(context, name)
    title = f"World model on {len(world.trained)} transitions"
    context.progress.stage(title, settings.practice.iterations)
    jointly(
        context.world,
        trainee,
        run_world_model,
        Predictor(trainee.engine, RenderedObservations(trainee.renderer)),
        world.trained,
        settings,
        seed=context.seed,
        run_dir=folder,
        evaluate=None if settings.practice.evaluate_every is None else world.held_out,
        rehearsal=() if settings.warm_up is None else own_rows(attempts, parent),
        progress=told(context.progress, right="mean_return"),
    )
    write_training_report(folder)
    return keep_version(context, trainee, parent, name, snapshot=snapshot.id)
