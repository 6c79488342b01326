"""KTO: preference optimisation on thumbs-up/down ratings of single trajectories in the pool, or on good and bad
episodes of traffic."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from upturn.errors import TrainingError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import run_options, save_candidate
from upturn.loop.trainers.distributed_training import train_on_all_ranks
from upturn.loop.trainers.pool_data import (
    describe_omissions,
    describe_refusals,
    render_writable,
    trained_selection,
)
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.traffic import (
    check_traffic,
    find_ratings,
    frozen_traffic,
    note_omissions,
    open_traffic,
    read_frozen,
)
from upturn.loop.trainers.training_plan import Overhead, Plan, epoch_workload, plan_on_rows
from upturn.pool import take_snapshot_of, trajectory_ratings
from upturn.records import AgentVersion, RatedTrajectory, record
from upturn.training import supervised_rows
from upturn.training.algorithms.kto import KtoSettings


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run."""
    settings = context.config.section(KtoSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    ratings = load_ratings(context, worker).ratings
    rows, description = (
        supervised_rows(rating.trajectory for rating in ratings),
        f"{len(ratings)} rated trajectories",
    )
    work = epoch_workload(rows, description, epochs=settings.epochs, batch_rows=settings.batch_trajectories)
    # Scored before the first step: each trajectory and its mismatched one; before each step: the mismatched one.
    return plan_on_rows(context, worker, "kto", work, overhead=Overhead(scorings=2 / settings.epochs + 1))


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version."""
    from upturn.training.algorithms.kto import run_kto

    settings = context.config.section(KtoSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    ratings, snapshot = load_ratings(context, worker)
    steps = settings.epochs * -(-len(ratings) // settings.batch_trajectories)
    context.progress.stage(f"Preference optimisation on {len(ratings)} rated trajectories (KTO)", steps)
    options = run_options(context, worker, name, settings, loss="loss")
    train_on_all_ranks(context.world, worker, run_kto, ratings, settings, options)
    return save_candidate(context, worker, parent, name, snapshot=snapshot)


class LoadedRatings(NamedTuple):
    """The rated trajectories of a run."""

    ratings: list[RatedTrajectory]
    snapshot: str
    """Id of the snapshot of the trajectories."""


def load_ratings(context: Context, worker: PolicyWorker) -> LoadedRatings:
    """The ratings that the pool held when the run started; a resumed run trains on the same ones.

    Trajectories without tokens of the worker's renderer are rendered. Raises TrainingError where the pool holds no
    rating.
    """
    if context.config.traffic is not None:
        return _rated_episodes(context, worker)
    frozen = context.journal.record_step("thumbs", FrozenRatings, lambda: _freeze(context, _find(context, worker)))
    is_good = dict.fromkeys(frozen.good, True) | dict.fromkeys(frozen.bad, False)
    ratings = [
        RatedTrajectory(worker.rendered(stored.trajectory), is_good[stored.trajectory.id])
        for stored in context.pool.experiences_of(sorted(is_good), tenant=context.tenant)
    ]
    return LoadedRatings(ratings, frozen.snapshot)


def _rated_episodes(context: Context, worker: PolicyWorker) -> LoadedRatings:
    def find() -> Mapping[str, float]:
        traffic = open_traffic(context, worker.version)
        found = find_ratings(traffic)
        note_omissions(context, found)
        return {rating.trajectory.id: traffic.rewards[rating.trajectory.id] for rating in found.items}

    frozen, settings = frozen_traffic(context, find), context.config.traffic
    assert settings is not None
    ratings = [
        RatedTrajectory(read.trajectory, frozen.rewards[read.trajectory.id] > settings.good_above)
        for read in read_frozen(context, worker.version, frozen)
    ]
    return LoadedRatings(ratings, frozen.snapshot)


@record
class FrozenRatings:
    """The rated trajectories of a run by id, as its journal has them."""

    good: tuple[str, ...]
    bad: tuple[str, ...]
    snapshot: str


def _freeze(context: Context, ratings: Sequence[RatedTrajectory]) -> FrozenRatings:
    good = tuple(rating.trajectory.id for rating in ratings if rating.is_desirable)
    bad = tuple(rating.trajectory.id for rating in ratings if not rating.is_desirable)
    criteria = json.dumps({"thumbs": {"good": sorted(good), "bad": sorted(bad)}})
    snapshot = take_snapshot_of(context.pool, (*good, *bad), tenant=context.tenant, criteria=criteria)
    return FrozenRatings(good, bad, snapshot.id)


def _find(context: Context, worker: PolicyWorker) -> list[RatedTrajectory]:
    """The ratings in the pool now; notes how many are omitted."""
    source = trajectory_ratings(context.pool, tenant=context.tenant, selection=trained_selection(context))
    stored = {rating.trajectory.id: rating for rating in (*source.rated, *source.tokenless)}
    rendered = render_writable((rating.trajectory for rating in stored.values()), worker)
    ratings = [replace(stored[trajectory.id], trajectory=trajectory) for trajectory in rendered]
    unwritable = {"unwritable": len(stored) - len(ratings)}
    omissions = f"{describe_omissions(source.left_out, unwritable)}{describe_refusals(worker)}"
    if not ratings:
        raise TrainingError(
            f"{context.config.pool.path!r} holds no ratings to train on of the tenant {context.tenant!r} (omitted: "
            f'{omissions or "none"}); write ratings, one line each as {{"trajectory": "<id>", "thumbs": 1}}, and '
            f"ingest them with `upturn ingest FILE --format feedback --pool {context.config.pool.path} --tenant "
            f"{context.tenant}`"
        )
    if omissions:
        context.progress.note(f"omitted ratings: {omissions}")
    return ratings


def ready(context: Context) -> None:
    """Raises TrainingError where ``[traffic]`` has nothing to train on."""
    check_traffic(context, "kto")


KTO = Algorithm(KtoSettings, plan, train, frozenset({"pool", "traffic"}), ready=ready)
