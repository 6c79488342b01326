"""DPO: preference optimisation on pairs in the pool: two versions on the same tasks, and people's corrections, or
episodes of traffic with the same prompt."""

import json
from collections.abc import Callable, Iterator, Sequence
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
from upturn.loop.trainers.traffic import check_traffic, find_pairs, note_omissions, open_traffic, read_sides
from upturn.loop.trainers.training_plan import Overhead, Plan, Workload, plan_on_rows
from upturn.pool import correction_pairs, deployment_pairs, take_snapshot_of
from upturn.records import AgentVersion, PreferencePair, PreferenceSource, Trajectory, pair_problem, record
from upturn.training import StoredPairSettings, supervised_rows
from upturn.training.algorithms.dpo import DpoSettings


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run."""
    settings = context.config.section(DpoSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    pairs = load_pairs(context, worker).pairs
    rows = supervised_rows(side for pair in pairs for side in (pair.chosen, pair.rejected))
    work = Workload(
        rows,
        f"{len(pairs)} pairs",
        settings.epochs * -(-len(pairs) // settings.batch_pairs),
        "optimiser step",
        settings.epochs * len(rows),
        2 * settings.batch_pairs,
    )
    overhead = Overhead(scorings=1 / settings.epochs if settings.reference == "initial" else 0.0)
    return plan_on_rows(context, worker, "dpo", work, overhead=overhead)


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version."""
    from upturn.training.algorithms.dpo import run_dpo

    settings = context.config.section(DpoSettings)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    pairs, snapshot = load_pairs(context, worker)
    steps = settings.epochs * -(-len(pairs) // settings.batch_pairs)
    context.progress.stage(f"Preference optimisation on {len(pairs)} pairs (DPO)", steps)
    options = run_options(context, worker, name, settings, loss="loss")
    train_on_all_ranks(context.world, worker, run_dpo, pairs, settings, options)
    return save_candidate(context, worker, parent, name, snapshot=snapshot)


class LoadedPairs(NamedTuple):
    """The pairs of a run."""

    pairs: list[PreferencePair]
    """By id, so that all runs have one order."""
    snapshot: str
    """Id of the snapshot of their trajectories."""


def load_pairs(
    context: Context,
    worker: PolicyWorker,
    settings: StoredPairSettings | None = None,
    further: Callable[[], Sequence[PreferencePair]] = tuple,
) -> LoadedPairs:
    """The pairs that the pool held when the run started; a resumed run trains on the same ones.

    Sides without tokens of the worker's renderer are rendered. ``settings``: None means those of ``[dpo]``.
    ``further``: finds other pairs, with tokens of the worker's renderer; those of the same sides are left out.
    Raises TrainingError where the pool holds no pair.
    """
    chosen = context.config.section(DpoSettings) if settings is None else settings

    def find() -> FrozenPairs:
        if context.config.traffic is not None:
            found_pairs = find_pairs(open_traffic(context, worker.version), chosen)
            note_omissions(context, found_pairs)
            return _freeze(context, sorted(found_pairs.items, key=lambda pair: pair.id))
        found = _find(context, worker, chosen)
        by_sides = {(pair.chosen.id, pair.rejected.id): pair for pair in (*further(), *found.pairs)}
        pairs = sorted(by_sides.values(), key=lambda pair: pair.id)
        if not pairs:
            raise _no_pairs(context, chosen, found.omissions)
        if found.omissions:
            context.progress.note(f"omitted pairs: {found.omissions}")
        return _freeze(context, pairs)

    frozen = context.journal.record_step("pairs", FrozenPairs, find)
    ids = sorted({side for pair in frozen.pairs for side in (pair.chosen, pair.rejected)})
    sides = {trajectory.id: trajectory for trajectory in _sides(context, worker, ids)}
    pairs = [
        PreferencePair(pair.id, sides[pair.chosen], sides[pair.rejected], pair.source, pair.margin)
        for pair in frozen.pairs
    ]
    return LoadedPairs(pairs, frozen.snapshot)


def _sides(context: Context, worker: PolicyWorker, ids: Sequence[str]) -> Iterator[Trajectory]:
    """The trajectories with these ids in the worker's tokens."""
    if context.config.traffic is not None:
        for read in read_sides(context, worker.version, ids):
            yield read.trajectory
        return
    for stored in context.pool.experiences_of(ids, tenant=context.tenant):
        yield worker.rendered(stored.trajectory)


@record
class FrozenPair:
    """A pair by the ids of its trajectories."""

    id: str
    chosen: str
    rejected: str
    source: PreferenceSource
    margin: float | None


@record
class FrozenPairs:
    """The pairs of a run, as its journal has them."""

    pairs: tuple[FrozenPair, ...]
    snapshot: str


def _freeze(context: Context, pairs: Sequence[PreferencePair]) -> FrozenPairs:
    ids = [side.id for pair in pairs for side in (pair.chosen, pair.rejected)]
    criteria = json.dumps({"pairs": [pair.id for pair in pairs]})
    snapshot = take_snapshot_of(context.pool, ids, tenant=context.tenant, criteria=criteria)
    frozen = (FrozenPair(pair.id, pair.chosen.id, pair.rejected.id, pair.source, pair.margin) for pair in pairs)
    return FrozenPairs(tuple(frozen), snapshot.id)


class _Found(NamedTuple):
    pairs: list[PreferencePair]
    omissions: str
    """Which comparisons are no pairs, and why; empty if none."""


def _find(context: Context, worker: PolicyWorker, settings: StoredPairSettings) -> _Found:
    """Corrections and pairs of two versions in the pool now."""
    selection = trained_selection(context)
    sources = [correction_pairs(context.pool, tenant=context.tenant, selection=selection)]
    if settings.old:
        sources.append(
            deployment_pairs(
                context.pool,
                tenant=context.tenant,
                old=settings.old,
                new=settings.new,
                min_margin=settings.min_margin,
                selection=selection,
            )
        )
    stored = [pair for source in sources for pair in (*source.pairs, *source.tokenless)]
    rendered = render_writable((side for pair in stored for side in (pair.chosen, pair.rejected)), worker)
    sides = {trajectory.id: trajectory for trajectory in rendered}
    writable = [
        replace(pair, chosen=sides[pair.chosen.id], rejected=sides[pair.rejected.id])
        for pair in stored
        if pair.chosen.id in sides and pair.rejected.id in sides
    ]
    pairs = [pair for pair in writable if pair_problem(pair) is None]
    counts = {"unwritable": len(stored) - len(writable), "unusable": len(writable) - len(pairs)}
    omissions = describe_omissions(*(source.left_out for source in sources), counts)
    return _Found(pairs, f"{omissions}{describe_refusals(worker)}")


def _no_pairs(context: Context, settings: StoredPairSettings, omissions: str) -> TrainingError:
    known = ", ".join(sorted(repr(version.id) for version in context.pool.agent_versions()))
    versions = f"{settings.old!r} and {settings.new!r}" if settings.old else "no two versions (old, new)"
    return TrainingError(
        f"{context.config.pool.path!r} holds no pair to train on: corrections, and trajectories of {versions} "
        f"on the same tasks; omitted: {omissions or 'none'}. Its versions are {known}. Let two of them do the "
        f"same tasks, or ingest corrections (tenant {context.tenant!r})"
    )


def ready(context: Context) -> None:
    """Raises TrainingError where ``[traffic]`` has nothing to train on."""
    check_traffic(context, "dpo")


DPO = Algorithm(DpoSettings, plan, train, frozenset({"pool", "traffic"}), ready=ready)
