"""Thumbs on single attempts that the pool holds."""

import json
from collections.abc import Sequence
from dataclasses import replace

from upturn.errors import TrainingError
from upturn.loop.evaluation import HeldoutResult, configured_evaluation
from upturn.loop.progress import told
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import keep_version, training_folder
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.pool_data import left_out_words, needed_pool, rendered, trained_selection, with_rows
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.training_plan import Held, Plan, in_epochs, rows_plan
from upturn.pool import take_snapshot_of, trajectory_ratings
from upturn.records import AgentVersion, RatedTrajectory, record
from upturn.training import supervised_rows
from upturn.training.algorithms.kto import KtoSettings
from upturn.training.runs import RunOptions


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take."""
    asked, worker = context.config.section(KtoSettings), PolicyWorker(context.runtime, parent, context.adapter)
    attempts = [each.trajectory for each in rated(context, worker)]
    words, batch = f"{len(attempts)} rated attempts", asked.batch_trajectories
    walk = in_epochs(supervised_rows(attempts), words, epochs=asked.epochs, batch_rows=batch)
    # Once before the first step each attempt and its mismatched one, and the mismatched ones before each step.
    return rows_plan(context, worker, "kto", walk, held=Held(scorings=2 / asked.epochs + 1))


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> AgentVersion:
    """The version that learned from them."""
    from upturn.training.algorithms.kto import run_kto

    asked, worker = context.config.section(KtoSettings), PolicyWorker(context.runtime, parent, context.adapter)
    frozen = frozen_thumbs(context, worker)
    found = rated_in(context, worker, frozen)
    steps = asked.epochs * -(-len(found) // asked.batch_trajectories)
    context.progress.stage(f"Learning from thumbs on {len(found)} attempts (KTO)", steps)
    folder = training_folder(context, name)
    jointly(
        context.world,
        worker,
        run_kto,
        found,
        asked,
        RunOptions(
            context.seed,
            folder,
            evaluate=configured_evaluation(context, worker, name, asked),
            progress=told(context.progress, loss="loss"),
        ),
    )
    return keep_version(context, worker, parent, name, snapshot=frozen.snapshot)


def rated(context: Context, worker: PolicyWorker) -> list[RatedTrajectory]:
    """``rated_in`` what the pool held when the run began, which is frozen: a resumed run learns from the same."""
    return rated_in(context, worker, frozen_thumbs(context, worker))


def rated_in(context: Context, worker: PolicyWorker, frozen: "FrozenThumbs") -> list[RatedTrajectory]:
    """The pool's, by trajectory; those without tokens of the worker's renderer are rendered."""
    is_good = dict.fromkeys(frozen.good, True) | dict.fromkeys(frozen.bad, False)
    return [
        RatedTrajectory(with_rows(each.trajectory, worker.renderer, worker.prompts), is_good[each.trajectory.id])
        for each in context.pool.experiences_of(sorted(is_good), tenant=context.tenant)
    ]


def frozen_thumbs(context: Context, worker: PolicyWorker) -> "FrozenThumbs":
    """What the pool held when the run began, and the snapshot of it.

    Raises ConfigError without a pool to read, TrainingError where it holds none.
    """
    needed_pool(context, "kto")
    return context.journal.record_step("thumbs", FrozenThumbs, lambda: _frozen(context, _found(context, worker)))


@record
class FrozenThumbs:
    """The rated attempts of a run, by id."""

    good: tuple[str, ...]
    bad: tuple[str, ...]
    snapshot: str
    """Id of that of both."""


def _frozen(context: Context, found: Sequence[RatedTrajectory]) -> FrozenThumbs:
    good, bad = (tuple(each.trajectory.id for each in found if each.is_desirable is kind) for kind in (True, False))
    criteria = json.dumps({"thumbs": {"good": sorted(good), "bad": sorted(bad)}})
    snapshot = take_snapshot_of(context.pool, (*good, *bad), tenant=context.tenant, criteria=criteria)
    return FrozenThumbs(good, bad, snapshot.id)


def _found(context: Context, worker: PolicyWorker) -> list[RatedTrajectory]:
    """What the pool holds now."""
    found = trajectory_ratings(context.pool, tenant=context.tenant, selection=trained_selection(context))
    known = {each.trajectory.id: each for each in (*found.rated, *found.tokenless)}
    written = rendered((each.trajectory for each in known.values()), worker)
    left_out = left_out_words(found.left_out, {"unwritable": written.unwritable})
    usable = [replace(known[each.id], trajectory=each) for each in written.attempts]
    if not usable:
        raise TrainingError(
            f"{context.config.pool.path!r} holds no thumbs to learn from of the tenant {context.tenant!r} "
            f"(left out: {left_out or 'nothing'}); "
            'say what was good or bad, one line each as {"trajectory": "<id>", "thumbs": 1}, and take it in with '
            f"`upturn ingest FILE --format feedback --pool {context.config.pool.path} --tenant {context.tenant}`"
        )
    if left_out:
        context.progress.note(f"left out of the thumbs: {left_out}")
    return usable


KTO = Algorithm(KtoSettings, plan, train, frozenset({"pool"}))
