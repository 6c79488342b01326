"""Supervised training on the verified successes that the pool holds."""

import math

from upturn.errors import TrainingError
from upturn.loop.evaluation import HeldoutResult, configured_evaluation
from upturn.loop.progress import told
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import keep_version, training_folder
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.pool_data import needed_pool, rendered_demonstrations
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.training_plan import Plan, in_epochs, rows_plan
from upturn.pool import Selection, take_snapshot
from upturn.records import AgentVersion, Snapshot
from upturn.training import supervised_rows
from upturn.training.algorithms.sft import SftSettings
from upturn.training.runs import RunOptions

FAMILY_CAP = 48
"""Demonstrations of one family in supervised training: the easy families must not crowd out the others."""


def take_training_snapshot(context: Context) -> Snapshot:
    """Verified successes of this tenant of the trained families, frozen under an id.

    Raises TrainingError when there is none.
    """
    selection = Selection(
        families=tuple(context.trained_families),
        splits=("train",),
        verdicts=("success",),
        min_score=context.config.section(SftSettings).min_score,
        limit_per_family=FAMILY_CAP,
    )
    snapshot = take_snapshot(context.pool, tenants=[context.tenant], selection=selection)
    if not snapshot.trajectory_ids:
        raise TrainingError(
            f"there is no verified success with a score of sft.min_score = {selection.min_score:g} or more in "
            f"{', '.join(context.trained_families)} of the tenant {context.tenant!r}: let an agent serve that "
            f"solves some "
            "of the tasks, or lower sft.min_score"
        )
    return snapshot


def train_sft(context: Context, parent: AgentVersion, snapshot: Snapshot, name: str) -> AgentVersion:
    """The parent after supervised training on the snapshot, with loss on what agents wrote only."""
    from upturn.training import supervised_rows
    from upturn.training.algorithms.sft import run_sft

    settings = context.config.section(SftSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter)
    demonstrations = rendered_demonstrations(context, snapshot, worker)
    rows = supervised_rows(demonstrations)
    steps = settings.epochs * math.ceil(len(rows) / settings.batch_rows)
    context.progress.stage(f"Supervised training on {len(rows)} verified successes", steps)
    jointly(
        context.world,
        worker,
        run_sft,
        rows,
        settings,
        RunOptions(
            context.seed,
            training_folder(context, name),
            evaluate=configured_evaluation(context, worker, name, settings),
            progress=told(context.progress, loss="loss"),
        ),
    )
    return keep_version(context, worker, parent, name, snapshot=snapshot.id)


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take."""
    needed_pool(context, "sft")
    config = context.config.section(SftSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter)
    demonstrations = rendered_demonstrations(context, take_training_snapshot(context), worker)
    rows = supervised_rows(demonstrations)
    words = f"{len(demonstrations)} verified successes"
    walk = in_epochs(rows, words, epochs=config.epochs, batch_rows=config.batch_rows)
    return rows_plan(context, worker, "sft", walk)


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> AgentVersion:
    """The version that learned from them."""
    needed_pool(context, "sft")
    snapshot = context.journal.record_step("snapshot", Snapshot, lambda: take_training_snapshot(context))
    return train_sft(context, parent, snapshot, name)


SFT = Algorithm(SftSettings, plan, train, frozenset({"pool"}))
