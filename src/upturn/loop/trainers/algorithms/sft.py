"""SFT: supervised training on verified successes in the pool, or on the good episodes of traffic."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from upturn.errors import TrainingError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import run_options, save_candidate
from upturn.loop.trainers.distributed_training import train_on_all_ranks
from upturn.loop.trainers.pool_data import render_demonstrations, training_families
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.traffic import (
    check_traffic,
    find_demonstrations,
    frozen_traffic,
    note_omissions,
    open_traffic,
    read_frozen,
)
from upturn.loop.trainers.training_plan import Plan, epoch_workload, plan_on_rows
from upturn.pool import Selection, take_snapshot
from upturn.records import AgentVersion, Snapshot, Trajectory
from upturn.training import supervised_rows
from upturn.training.algorithms.sft import SftSettings


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run."""
    settings = context.config.section(SftSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    demonstrations = _load(context, worker)
    rows, description = supervised_rows(demonstrations.trajectories), demonstrations.description
    work = epoch_workload(rows, description, epochs=settings.epochs, batch_rows=settings.batch_rows)
    return plan_on_rows(context, worker, "sft", work)


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version."""
    return _train_on(context, parent, name, lambda worker: _load(context, worker))


def train_sft(context: Context, parent: AgentVersion, snapshot: Snapshot, name: str) -> AgentVersion:
    """The parent after supervised training on the snapshot, with loss on agent-written tokens only."""
    return _train_on(context, parent, name, lambda worker: _successes(context, snapshot, worker))


class _Demonstrations(NamedTuple):
    """What a run imitates."""

    trajectories: Sequence[Trajectory]
    """In the worker's tokens."""
    snapshot: str
    """Id of their snapshot."""
    kind: str
    """What they are, for people."""

    @property
    def description(self) -> str:
        """Their number and kind."""
        return f"{len(self.trajectories)} {self.kind}"


def _train_on(
    context: Context, parent: AgentVersion, name: str, load: Callable[[PolicyWorker], _Demonstrations]
) -> AgentVersion:
    from upturn.training.algorithms.sft import run_sft

    settings = context.config.section(SftSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    demonstrations = load(worker)
    rows = supervised_rows(demonstrations.trajectories)
    steps = settings.epochs * -(-len(rows) // settings.batch_rows)
    context.progress.stage(f"Supervised training on {len(rows)} rows of {demonstrations.description}", steps)
    options = run_options(context, worker, name, settings, loss="loss")
    train_on_all_ranks(context.world, worker, run_sft, rows, settings, options)
    return save_candidate(context, worker, parent, name, snapshot=demonstrations.snapshot)


def _load(context: Context, worker: PolicyWorker) -> _Demonstrations:
    """Those that the pool held when the run started; a resumed run trains on the same ones."""
    if context.config.traffic is not None:
        return _good_episodes(context, worker)
    others = context.config.pool.learn_from
    snapshot = context.journal.record_step(
        "snapshot", Snapshot, lambda: take_training_snapshot(context, others=others)
    )
    return _successes(context, snapshot, worker)


def _successes(context: Context, snapshot: Snapshot, worker: PolicyWorker) -> _Demonstrations:
    return _Demonstrations(render_demonstrations(context, snapshot, worker), snapshot.id, "verified successes")


def _good_episodes(context: Context, worker: PolicyWorker) -> _Demonstrations:
    def find() -> Mapping[str, float]:
        traffic = open_traffic(context, worker.version)
        found = find_demonstrations(traffic)
        note_omissions(context, found)
        return {trajectory.id: traffic.rewards[trajectory.id] for trajectory in found.items}

    frozen = frozen_traffic(context, find)
    read = read_frozen(context, worker.version, frozen)
    return _Demonstrations([experience.trajectory for experience in read], frozen.snapshot, "good episodes")


def take_training_snapshot(context: Context, *, others: Sequence[str] = ()) -> Snapshot:
    """Verified successes of this tenant and ``others`` in the trained families, frozen under an id.

    Raises TrainingError when there is none, and SharingError for others that have not opted in.
    """
    settings = context.config.section(SftSettings)
    selection = Selection(
        families=training_families(context),
        splits=("train",),
        verdicts=("success",),
        min_score=settings.min_score,
        limit_per_family=settings.limit_per_family,
    )
    snapshot = take_snapshot(
        context.pool, tenants=[context.tenant, *others], selection=selection, trainer=context.tenant
    )
    if not snapshot.trajectory_ids:
        owners = " or ".join(map(repr, (context.tenant, *others)))
        raise TrainingError(
            f"there is no verified success with a score of sft.min_score = {selection.min_score:g} or more in "
            f"{', '.join(training_families(context))} of the tenant {owners}: let an agent that "
            "solves some of the tasks serve, lower sft.min_score, or name families of imported successes in "
            "pool.imported_families"
        )
    return snapshot


def ready(context: Context) -> None:
    """Raises TrainingError where ``[traffic]`` has nothing to train on."""
    check_traffic(context, "sft")


SFT = Algorithm(SftSettings, plan, train, frozenset({"pool", "traffic"}), ready=ready)
