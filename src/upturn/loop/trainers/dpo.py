"""Pairs that the pool holds: two versions' attempts at one task, and what people corrected."""

import json
from collections.abc import Sequence
from dataclasses import replace

from upturn.errors import TrainingError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.progress import told
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers.candidate import keep_version, training_folder
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.pool_data import left_out_words, needed_pool, rendered, trained_selection, with_rows
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.training_plan import Held, Plan, Walk, rows_plan
from upturn.pool import correction_pairs, deployment_pairs, take_snapshot_of
from upturn.records import AgentVersion, PreferencePair, PreferenceSource, Trajectory, pair_problem, record
from upturn.training import supervised_rows
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.runs import RunOptions


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take."""
    asked, worker = context.config.section(DpoSettings), PolicyWorker(context.runtime, parent, context.adapter)
    pairs = stored_pairs(context, worker)
    rows = supervised_rows([side for pair in pairs for side in _sides(pair)])
    steps = asked.epochs * -(-len(pairs) // asked.batch_pairs)
    walk = Walk(
        rows, f"{len(pairs)} pairs", steps, "optimiser step", asked.epochs * len(rows), 2 * asked.batch_pairs
    )
    held = Held(scorings=1 / asked.epochs if asked.reference == "initial" else 0.0)
    return rows_plan(context, worker, "dpo", walk, held=held)


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> AgentVersion:
    """The version that learned from them."""
    from upturn.training.algorithms.dpo import run_dpo

    asked, worker = context.config.section(DpoSettings), PolicyWorker(context.runtime, parent, context.adapter)
    frozen = frozen_pairs(context, worker)
    pairs = pairs_in(context, worker, frozen)
    steps = asked.epochs * -(-len(pairs) // asked.batch_pairs)
    context.progress.stage(f"Learning from {len(pairs)} pairs (DPO)", steps)
    folder = training_folder(context, name)
    jointly(
        context.world,
        worker,
        run_dpo,
        pairs,
        asked,
        RunOptions(context.seed, folder, progress=told(context.progress, loss="loss")),
    )
    return keep_version(context, worker, parent, name, snapshot=frozen.snapshot)


def stored_pairs(context: Context, worker: PolicyWorker) -> list[PreferencePair]:
    """``pairs_in`` what the pool held when the run began, which is frozen: a resumed run learns from the same."""
    return pairs_in(context, worker, frozen_pairs(context, worker))


def pairs_in(context: Context, worker: PolicyWorker, frozen: "FrozenPairs") -> list[PreferencePair]:
    """Of deployments and corrections, by id, so that all runs learn in one order.

    Sides without tokens of the worker's renderer are rendered.
    """
    names = sorted({name for pair in frozen.pairs for name in (pair.chosen, pair.rejected)})
    stored = {
        each.trajectory.id: with_rows(each.trajectory, worker.renderer, worker.prompts)
        for each in context.pool.experiences_of(names, tenant=context.tenant)
    }
    return [
        PreferencePair(pair.id, stored[pair.chosen], stored[pair.rejected], pair.source, pair.margin)
        for pair in frozen.pairs
    ]


def frozen_pairs(context: Context, worker: PolicyWorker) -> "FrozenPairs":
    """What the pool held when the run began, and the snapshot of it.

    Raises ConfigError without a pool to read, TrainingError where it holds no pair, with what was left out and why.
    """
    needed_pool(context, "dpo")
    return context.journal.record_step("pairs", FrozenPairs, lambda: _frozen(context, _found(context, worker)))


@record
class PairEnds:
    """A pair by its attempts' ids."""

    id: str
    chosen: str
    rejected: str
    source: PreferenceSource
    margin: float | None


@record
class FrozenPairs:
    """The pairs of a run."""

    pairs: tuple[PairEnds, ...]
    snapshot: str
    """Id of that of their attempts."""


def _frozen(context: Context, pairs: Sequence[PreferencePair]) -> FrozenPairs:
    names = [side.id for pair in pairs for side in _sides(pair)]
    criteria = json.dumps({"pairs": [pair.id for pair in pairs]})
    snapshot = take_snapshot_of(context.pool, names, tenant=context.tenant, criteria=criteria)
    return FrozenPairs(
        tuple(PairEnds(each.id, each.chosen.id, each.rejected.id, each.source, each.margin) for each in pairs),
        snapshot.id,
    )


def _sides(pair: PreferencePair) -> tuple[Trajectory, Trajectory]:
    return pair.chosen, pair.rejected


def _found(context: Context, worker: PolicyWorker) -> list[PreferencePair]:
    """What the pool holds now."""
    section, chosen = context.config.section(DpoSettings), trained_selection(context)
    found = [correction_pairs(context.pool, tenant=context.tenant, selection=chosen)]
    if section.old:
        found.append(
            deployment_pairs(
                context.pool,
                tenant=context.tenant,
                old=section.old,
                new=section.new,
                min_margin=section.min_margin,
                selection=chosen,
            )
        )
    compared = [pair for each in found for pair in (*each.pairs, *each.tokenless)]
    written = {
        each.id: each for each in rendered((side for pair in compared for side in _sides(pair)), worker).attempts
    }
    writable = [
        replace(pair, chosen=written[pair.chosen.id], rejected=written[pair.rejected.id])
        for pair in compared
        if all(side.id in written for side in _sides(pair))
    ]
    pairs = sorted((pair for pair in writable if pair_problem(pair) is None), key=lambda pair: pair.id)
    counts = {"unwritable": len(compared) - len(writable), "unusable": len(writable) - len(pairs)}
    left_out = left_out_words(*(each.left_out for each in found), counts)
    if not pairs:
        known = ", ".join(sorted(repr(each.id) for each in context.pool.agent_versions()))
        versions = f"{section.old!r} and {section.new!r}" if section.old else "no two versions (dpo.old, dpo.new)"
        raise TrainingError(
            f"{context.config.pool.path!r} holds no pair to learn from: corrections, and attempts of {versions} at "
            f"the same tasks, left out: {left_out or 'nothing'}. It knows the versions {known}. Let two of them do "
            f"the same tasks, or ingest corrections (tenant {context.tenant!r})"
        )
    if left_out:
        context.progress.note(f"left out of the pairs: {left_out}")
    return pairs


DPO = Algorithm(DpoSettings, plan, train, frozenset({"pool"}))
